"""The oracle: the matches of any history, from the definitions of XSCL alone, by brute force.

trees       documents as trees of numbered nodes
steps       tree patterns as frozen values
patterns    tree patterns evaluated over nodes
queries     queries and histories as frozen values
formulas    truth values of predicates
composites  the rows of an expression
evaluation  the matches of a history
output      output documents, and the nodes of variables

It shares no code with the engine: the engine reads the text of a query, the oracle its tree.
"""
