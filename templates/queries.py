"""The SQL of templates, each query made once and when it is first needed.

What makes it (`templates.conjunctive`) takes a tenth of a start to load, and most batches are
joined in memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from templates.joingraph import JoinGraph
from templates.views import Views


class Base(NamedTuple):
    """The names of the stored relations of one side: R_bin, R_doc and R_docTS."""

    bindings: str
    nodes: str
    times: str


@lru_cache(maxsize=4096)
def over_views(graph: JoinGraph, r_t: str, views: Views, *, apart: bool) -> str:
    """Return the query of a template with two sides over R_vj (Algorithm 4)."""
    from templates.conjunctive import query_over_views

    return query_over_views(graph, r_t, views, apart=apart)


@lru_cache(maxsize=4096)
def over_base(graph: JoinGraph, r_t: str, left: Base, right: Base) -> str:
    """Return the query of a template with two sides over R_bin and R_doc (Algorithm 1)."""
    from templates.conjunctive import query_over_base

    return query_over_base(graph, r_t, left, right)


@lru_cache(maxsize=4096)
def over_batch(graph: JoinGraph, r_t: str) -> str:
    """Return the query of a template with one side over the bindings of a batch."""
    from templates.conjunctive import filter_query

    return filter_query(graph, r_t, "batch_binding")
