"""Materialised views: R_L, R_R and R_vj (Hong 2009, section 6.5).

Only values that occur in two documents can join.  `common` holds their keys;
R_L and R_R are the bindings of either side with such a value.  R_vj joins the
two on the value, once for all templates: a row is a value join that holds
between two documents, with the bindings of both nodes and of the nodes above
them, and with how the documents lie in time.

Differs from section 6.5: there R_vj has the nodes only and each template's
query joins R_L and R_R again.  Sharing that join leaves a template's query one
relation for each value join instead of two, which is most of its cost.  R_L
and R_R are steps of making R_vj here, and no tables of their own.

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


@dataclass(frozen=True, slots=True)
class Side:
    """Where the rows of one side come from: bindings, times, and whether only those before."""

    bindings: str
    times: str
    old: bool = False

    def rows(self, first_of_batch: int, wanted: str) -> str:
        """Return the query of the side's bindings that satisfy a condition, with their times."""
        before = f" AND b.doc < {first_of_batch}" if self.old else ""
        return (
            "SELECT b.doc, b.pair, b.node1, b.node2, b.key, d.ts, d.clock, d.rank, d.base"
            f" FROM {self.bindings} b JOIN {self.times} d ON d.doc = b.doc WHERE {wanted}{before}"
        )


@dataclass(frozen=True, slots=True)
class Views:
    """The names of one pass's views."""

    joins: str
    several: str
    left_other: str
    right_other: str


@dataclass(frozen=True, slots=True)
class Pass:
    """One half of a batch's join: where either side comes from, and its views."""

    left: Side
    right: Side
    views: Views


_BATCH = Side("batch_binding", "batch_times")
FORWARD = Pass(Side("state.binding", "state.times"), _BATCH, Views("vj1", "several1", "LB1", "RB1"))
BACKWARD = Pass(
    _BATCH, Side("state.binding", "state.times", old=True), Views("vj2", "several2", "LB2", "RB2")
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no registered join exceeds: its window, how long it keeps, and its direction."""

    window: int = INFINITE
    keep: int = INFINITE
    forward_only: bool = False


@dataclass(frozen=True, slots=True)
class Needs:
    """Which views the templates of a push read beside R_vj."""

    several: bool
    others: bool


def materialise(
    connection: duckdb.DuckDBPyConnection,
    half: Pass,
    first_of_batch: int,
    bounds: Bounds,
    needs: Needs,
) -> None:
    """Compute the views of one pass as temporary tables."""
    views = half.views
    common = "b.key IN (SELECT key FROM common)"
    left, right = (side.rows(first_of_batch, common) for side in (half.left, half.right))
    _create(connection, views.joins, _value_joins(left, right, bounds))
    if needs.several:
        _create(connection, views.several, _several(views))
    if needs.others:
        sides = ((views.left_other, half.left, "doc1"), (views.right_other, half.right, "doc2"))
        for name, side, doc in sides:
            wanted = f"b.doc IN (SELECT {doc} FROM {views.joins})"
            _create(connection, name, side.rows(first_of_batch, wanted))


def clear(connection: duckdb.DuckDBPyConnection, half: Pass) -> None:
    """Make the value joins of a pass empty."""
    left, right = (side.rows(0, "false") for side in (half.left, half.right))
    _create(connection, half.views.joins, _value_joins(left, right, Bounds()))


def _create(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")


def _value_joins(left: str, right: str, bounds: Bounds) -> str:
    """Return R_vj: equal values of different documents, within the widest window.

    `gap` is the right document's time minus the left one's; `age` is the
    clock when the newcomer of the two came, minus the earlier arrival's time.
    Of two that arrived together the larger age counts.
    """
    order = "r.ts > l.ts AND" if bounds.forward_only else ""
    return (
        f"WITH R_L AS ({left}), R_R AS ({right})"
        " SELECT * FROM (SELECT l.doc AS doc1, r.doc AS doc2, l.key, l.pair AS pair1,"
        " l.node1 AS above1, l.node2 AS node1, r.pair AS pair2, r.node1 AS above2,"
        " r.node2 AS node2, r.ts - l.ts AS gap,"
        " CASE WHEN l.rank < r.rank THEN r.clock - l.ts WHEN l.rank > r.rank THEN l.clock - r.ts"
        " ELSE greatest(r.clock - l.ts, l.clock - r.ts) END AS age"
        " FROM R_L l JOIN R_R r ON l.key = r.key"
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
