"""Stage 2: the joins of all subscriptions, one conjunctive query for each template.

Join graph -> minor -> template -> conjunctive query, evaluated in NumPy or DuckDB (Hong 2009,
chapter 6).  The package knows nothing of XML: it takes `Witnesses` and returns
which documents and nodes satisfy which registered joins.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""

from templates.model.join_graph import Edge, JoinGraph, Node, minor
from templates.model.relations import Witnesses
from templates.processor import Processor
from templates.registry import Registry

__all__ = ["Edge", "JoinGraph", "Node", "Processor", "Registry", "Witnesses", "minor"]
