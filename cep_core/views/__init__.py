"""Views of queries and the plan: AIR (automata as XML), explain."""
