"""Stage 1: tree patterns, one shared automaton, and the witnesses of documents."""
