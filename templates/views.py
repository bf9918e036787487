"""Materialised views: R_L, R_R and R_vj (Hong 2009, section 6.5).

Only values that occur in two documents can join.  `common` holds their keys;
R_L and R_R are the bindings of either side with such a value.  R_vj joins the
two on the value, once for all templates: a row is a value join that holds
between two documents, with the bindings of both nodes and of the nodes above
them, and with how the documents lie in time.

Differs from section 6.5: there R_vj has the nodes only and each template's
query joins R_L and R_R again.  Sharing that join leaves a template's query one
relation for each value join instead of two, which is most of its cost.

A template with several joins looks only at documents that have at least two
value joins with each other (`several`), unless one of its queries may bind two
of its variables to the same node.  Bindings of nodes without an equality
(inner nodes, nodes compared by `!=`) are in R_LB and R_RB, for the documents
of R_vj.

A batch is joined in two passes.  In the first the right side is the batch and
the left side everything, the batch included; in the second the left side is
the batch and the right side what was there before.  For input in order of
time only JOIN has results in the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from templates.relations import INFINITE

SIDE = "b.doc, b.pair, b.node1, b.node2, b.key, d.ts, d.clock, d.rank, d.base"
KEPT = ("state.binding", "state.times")
BATCH = ("batch_binding", "batch_times")


@dataclass(frozen=True, slots=True)
class Views:
    """The names of one pass's views."""

    left: str
    right: str
    joins: str
    several: str
    left_other: str
    right_other: str


@dataclass(frozen=True, slots=True)
class Pass:
    """One half of a batch's join: where either side comes from, and its views."""

    left: tuple[str, str]
    right: tuple[str, str]
    old_right: bool
    views: Views


FORWARD = Pass(KEPT, BATCH, False, Views("L1", "R1", "vj1", "several1", "LB1", "RB1"))
BACKWARD = Pass(BATCH, KEPT, True, Views("L2", "R2", "vj2", "several2", "LB2", "RB2"))


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no registered join exceeds: its window, how long it keeps, and its direction."""

    window: int = INFINITE
    keep: int = INFINITE
    forward_only: bool = False


def materialise(
    connection: duckdb.DuckDBPyConnection,
    half: Pass,
    first_of_batch: int,
    bounds: Bounds,
    others: bool,
) -> None:
    """Compute the views of one pass as temporary tables; R_LB and R_RB hold rows if `others`."""
    views = half.views
    sides = ((views.left, half.left, False), (views.right, half.right, half.old_right))
    for name, (binding, times), old in sides:
        before = f" WHERE b.doc < {first_of_batch}" if old else ""
        _create(
            connection,
            name,
            f"SELECT {SIDE} FROM {binding} b JOIN common USING (key)"
            f" JOIN {times} d ON d.doc = b.doc{before}",
        )
    _create(connection, views.joins, _value_joins(views, bounds))
    _create(connection, views.several, _several(views))
    for name, (binding, times), doc in (
        (views.left_other, half.left, "doc1"),
        (views.right_other, half.right, "doc2"),
    ):
        wanted = f"b.doc IN (SELECT {doc} FROM {views.joins})" if others else "false"
        _create(
            connection,
            name,
            f"SELECT {SIDE} FROM {binding} b JOIN {times} d ON d.doc = b.doc WHERE {wanted}",
        )


def clear(connection: duckdb.DuckDBPyConnection, half: Pass) -> None:
    """Make the views of a pass empty."""
    views = half.views
    nothing = f"SELECT {SIDE} FROM state.binding b JOIN state.times d USING (doc) WHERE false"
    for name in (views.left, views.right, views.left_other, views.right_other):
        _create(connection, name, nothing)
    _create(connection, views.joins, _value_joins(views, Bounds()))
    _create(connection, views.several, _several(views))


def _create(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")


def _value_joins(views: Views, bounds: Bounds) -> str:
    """Return R_vj: equal values of different documents, within the widest window.

    `gap` is the right document's time minus the left one's; `age` is the
    clock when the newcomer of the two came, minus the earlier arrival's time.
    Of two that arrived together the older and larger age counts.
    """
    order = "r.ts > l.ts AND" if bounds.forward_only else ""
    return (
        "SELECT * FROM (SELECT l.doc AS doc1, r.doc AS doc2, l.key, l.pair AS pair1,"
        " l.node1 AS above1, l.node2 AS node1, r.pair AS pair2, r.node1 AS above2,"
        " r.node2 AS node2, r.ts - l.ts AS gap,"
        " CASE WHEN l.rank < r.rank THEN r.clock - l.ts WHEN l.rank > r.rank THEN l.clock - r.ts"
        " ELSE greatest(r.clock - l.ts, l.clock - r.ts) END AS age"
        f" FROM {views.left} l JOIN {views.right} r ON l.key = r.key"
        f" WHERE {order} l.base <> r.base)"
        f" WHERE abs(gap) <= {bounds.window} AND age <= {bounds.keep}"
    )


def _several(views: Views) -> str:
    """Return the rows of R_vj of documents that have joins between at least two pairs of nodes."""
    return (
        f"SELECT * FROM {views.joins} SEMI JOIN (SELECT doc1, doc2 FROM {views.joins}"
        " GROUP BY doc1, doc2 HAVING min(node1) < max(node1) OR min(node2) < max(node2))"
        " USING (doc1, doc2)"
    )
