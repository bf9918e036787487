"""Views of queries and the plan: automata, AIR, placement, explain."""
