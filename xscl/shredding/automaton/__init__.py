"""The automaton of all tree patterns: states, places and lineage by structure."""
