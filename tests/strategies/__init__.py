"""Random documents, queries and histories, as trees of `tests.oracle`.

joins     two blocks with rich patterns: names, axes, namespaces, conditions
language  every operator and function, over small documents
"""
