"""Random documents, queries and histories, as trees of `tests.oracle`.

patterns    documents with namespaces and attributes, and rich patterns of these
predicates  small documents, blocks of queries over them, and predicates between blocks
language    every operator and function, and histories
"""
