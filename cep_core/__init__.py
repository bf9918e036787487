"""Patterns over time: an event algebra, its languages, and one plan that all queries share.

    import cep_core
    core = cep_core.Engine(ticks_per_second=1_000_000)

The theory is chapters 3 to 5 of Mingsheng Hong's dissertation, *Expressive and Scalable Event
Stream Processing* (2009).  `cep_core.algebra.edges` states what the operators of all languages
mean at the ends of their windows.  The package stands alone: it imports neither DuckDB, Spark nor
lxml.

Public are the names of this package, `cep_core.algebra`, and `cep_core.plan`, the interface for
m-ops, m-rules and builders of other packages.  Everything else is internal.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""

from cep_core.algebra.edges import EDGE_RULES, EdgeRule
from cep_core.algebra.expressions import Function
from cep_core.dataflow.options import Options
from cep_core.engine import Engine
from cep_core.errors import (
    AlgebraError,
    CepError,
    NameTaken,
    QueryError,
    StreamInUse,
    UnknownStream,
)
from cep_core.events import Event, Late, Match, Rejected, Schema, is_calendar
from cep_core.languages import LANGUAGES, refuse_bare_windows
from cep_core.languages.definitions import Definition, definitions
from cep_core.plan.rules import ALL_RULES, Rule
from cep_core.runtime.queries import RegisteredQuery as Query
from cep_core.state.snapshot import AttributeType
from cep_core.state.state_log import Entry, StateLog

__all__ = [
    "ALL_RULES",
    "EDGE_RULES",
    "LANGUAGES",
    "AlgebraError",
    "AttributeType",
    "CepError",
    "Definition",
    "EdgeRule",
    "Engine",
    "Entry",
    "Event",
    "Function",
    "Late",
    "Match",
    "NameTaken",
    "Options",
    "Query",
    "QueryError",
    "Rejected",
    "Rule",
    "Schema",
    "StateLog",
    "StreamInUse",
    "UnknownStream",
    "definitions",
    "is_calendar",
    "refuse_bare_windows",
]
