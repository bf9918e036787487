"""Views of queries and the plan: automata, AIR, explain."""
