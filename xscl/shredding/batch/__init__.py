"""A batch of documents through the automaton, grouped by structure."""
