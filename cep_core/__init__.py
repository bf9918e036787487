"""Patterns over time: the operators that relate events by order and distance.

What the operators of all languages mean at the edges of time is stated once,
in `cep_core.edges`.  The package stands alone: it knows nothing of XML,
DuckDB or Spark.
"""

from cep_core.edges import EDGE_RULES, EdgeRule

__all__ = ["EDGE_RULES", "EdgeRule"]
