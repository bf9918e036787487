"""The automaton on its way to other processes, and bindings on their way back."""
