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
import pyarrow as pa

from templates.relations import INFINITE

HEAVY = 10_000  # joins of one value in one batch from which on they are made selectively


def both(one: int, other: int) -> int:
    """Return one number for two: of documents, or of pairs of variables (see R_vj)."""
    return (one << 31) | other


@dataclass(frozen=True, slots=True)
class Side:
    """Where the rows of one side come from: bindings, times, and whether only those before."""

    bindings: str
    times: str
    old: bool = False

    def rows(self, bindings: str, first_of_batch: int) -> str:
        """Return the query of some of the side's bindings, with their times."""
        before = f" WHERE b.doc < {first_of_batch}" if self.old else ""
        return (
            "SELECT b.doc, b.pair, b.node1, b.node2, b.key, d.start, d.ts, d.clock, d.rank, d.base"
            f" FROM {bindings} b JOIN {self.times} d ON d.doc = b.doc{before}"
        )


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

    left: Side
    right: Side
    views: Views


_BATCH = Side("batch_binding", "batch_times")
FORWARD = Pass(
    Side("state.binding", "state.times"), _BATCH, Views("L1", "R1", "vj1", "several1", "LB1", "RB1")
)
BACKWARD = Pass(
    _BATCH,
    Side("state.binding", "state.times", old=True),
    Views("L2", "R2", "vj2", "several2", "LB2", "RB2"),
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no registered join exceeds: its window, how long it keeps, and its direction."""

    window: int = INFINITE
    keep: int = INFINITE
    forward_only: bool = False


@dataclass(frozen=True, slots=True)
class Needs:
    """What the templates of a push read beside R_vj.

    `alone` are the pairs of variables (pair1, pair2) that may satisfy a query
    by one value join; `selective` asks to leave out what cannot be part of a
    match, which pays where R_vj would be large.
    """

    several: bool
    others: bool
    alone: pa.Table
    selective: bool


def materialise(
    connection: duckdb.DuckDBPyConnection,
    half: Pass,
    first_of_batch: int,
    bounds: Bounds,
    needs: Needs,
) -> int:
    """Make the views of one pass, as temporary tables; return the number of value joins."""
    views = half.views
    left, right = (
        side.rows(f"(SELECT * FROM {side.bindings} SEMI JOIN common USING (key))", first_of_batch)
        for side in (half.left, half.right)
    )
    if needs.selective:
        _create(connection, views.left, left)
        _create(connection, views.right, right)
        joins = _selective_joins(connection, views, bounds, needs.alone)
    else:
        joins = _join(f"({left})", f"({right})", bounds)
    made = _create(connection, views.joins, joins)
    if needs.several:
        _create(connection, views.several, _several(views))
    if needs.others:
        sides = ((views.left_other, half.left, "doc1"), (views.right_other, half.right, "doc2"))
        for name, side, doc in sides:
            wanted = f"doc IN (SELECT {doc} FROM {views.joins})"
            bindings = f"(SELECT * FROM {side.bindings} WHERE {wanted})"
            _create(connection, name, side.rows(bindings, first_of_batch))
    return made


def clear(connection: duckdb.DuckDBPyConnection, half: Pass) -> None:
    """Make the value joins of a pass empty."""
    nothing = half.left.rows(f"(SELECT * FROM {half.left.bindings} WHERE false)", 0)
    _create(connection, half.views.joins, _join(f"({nothing})", f"({nothing})", Bounds()))


def _create(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> int:
    """Make a view and return the number of its rows."""
    made = connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}").fetchall()
    return int(made[0][0])


def _selective_joins(
    connection: duckdb.DuckDBPyConnection, views: Views, bounds: Bounds, alone: pa.Table
) -> str:
    """Return the query of R_vj without what cannot be part of a match.

    A value that very many documents share (the address of a channel) joins all
    of them with one another, and hardly a query asks for that alone.  Joins of
    such *heavy* values are made only for pairs of documents that share a light
    value too or of which one has several heavy ones, and for those pairs of
    variables that some query joins alone.
    """
    heavy = connection.execute(
        f"SELECT key FROM (SELECT key, count(*) AS n FROM {views.left} GROUP BY key)"
        f" JOIN (SELECT key, count(*) AS m FROM {views.right} GROUP BY key) USING (key)"
        f" WHERE n * m > {HEAVY}"
    ).fetchall()
    if not heavy:
        return _join(views.left, views.right, bounds)
    listed = ", ".join(str(key) for (key,) in heavy)
    connection.register("alone", alone)
    crowded = (
        f"SELECT doc FROM {{}} WHERE key IN ({listed}) GROUP BY doc HAVING min(node2) < max(node2)"
    )
    light = _join(views.left, views.right, bounds, f"l.key NOT IN ({listed})")
    allowed = (
        "(l.doc, r.doc) IN (SELECT doc1, doc2 FROM light)"
        f" OR l.doc IN ({crowded.format(views.left)}) OR r.doc IN ({crowded.format(views.right)})"
        " OR (l.pair, r.pair) IN (SELECT pair1, pair2 FROM alone)"
    )
    rest = _join(views.left, views.right, bounds, f"l.key IN ({listed}) AND ({allowed})")
    return f"WITH light AS MATERIALIZED ({light}) SELECT * FROM light UNION ALL ({rest})"


def _join(left: str, right: str, bounds: Bounds, wanted: str = "true") -> str:
    """Return the join of R_L and R_R: equal values of different documents, in the widest window.

    `docs` and `pairs` are both documents and both pairs of variables as one
    number each, which is what queries join by (see `both`).  `gap` is the time
    from the left one's end to the right one's end, `lead` to its beginning; `age` is the
    clock when the newcomer of the two came, minus the earlier arrival's time.
    Of two that arrived together the larger age counts.
    """
    order = "r.start > l.ts AND" if bounds.forward_only else ""
    return (
        "SELECT * FROM (SELECT l.doc AS doc1, r.doc AS doc2, l.key, l.pair AS pair1,"
        " l.node1 AS above1, l.node2 AS node1, r.pair AS pair2, r.node1 AS above2,"
        " (l.doc << 31) | r.doc AS docs, (l.pair::BIGINT << 31) | r.pair AS pairs,"
        " r.node2 AS node2, r.ts - l.ts AS gap, r.start - l.ts AS lead,"
        " CASE WHEN l.rank < r.rank THEN r.clock - l.ts WHEN l.rank > r.rank THEN l.clock - r.ts"
        " ELSE greatest(r.clock - l.ts, l.clock - r.ts) END AS age"
        f" FROM {left} l JOIN {right} r ON l.key = r.key"
        f" WHERE {order} l.base <> r.base AND ({wanted}))"
        f" WHERE abs(gap) <= {bounds.window} AND age <= {bounds.keep}"
    )


def _several(views: Views) -> str:
    """Return the rows of R_vj of documents that have joins between at least two pairs of nodes."""
    return (
        f"SELECT * FROM {views.joins} SEMI JOIN (SELECT doc1, doc2 FROM {views.joins}"
        " GROUP BY doc1, doc2 HAVING min(node1) < max(node1) OR min(node2) < max(node2))"
        " USING (doc1, doc2)"
    )
