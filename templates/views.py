"""Materialised views: R_L, R_R and R_vj (Hong 2009, section 6.5).

Only values that occur in two documents can join.  `common` holds their keys;
R_L and R_R are the bindings of either side with such a value.  R_vj joins the
two on the value, once for all templates: a row is a value join that holds
between two documents, with the bindings of both nodes and of the nodes above
them, and with how the documents lie in time.

`templates.inmemory` has the same for few rows, without the database.

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

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.relations import INFINITE

Numbers = TypeVar("Numbers", int, npt.NDArray[np.int64])

HEAVY = 10_000  # joins of one value in one batch from which on they are made selectively

JOINS = pa.schema(
    [
        ("doc1", pa.int64()),
        ("doc2", pa.int64()),
        ("key", pa.uint64()),
        ("pair1", pa.int32()),
        ("above1", pa.int32()),
        ("node1", pa.int32()),
        ("pair2", pa.int32()),
        ("above2", pa.int32()),
        ("docs", pa.int64()),
        ("pairs", pa.int64()),
        ("node2", pa.int32()),
        ("gap", pa.int64()),
        ("lead", pa.int64()),
        ("age", pa.int64()),
    ]
)
"""R_vj.

`docs` and `pairs` are both documents and both pairs of variables as one number
each, which is what queries join by (see `both`).  `gap` is the time from the
left one's end to the right one's end, `lead` to its beginning; `age` is the
clock when the newcomer of the two came, minus the earlier arrival's time.  Of
two that arrived together the larger age counts.
"""


def both(one: Numbers, other: Numbers) -> Numbers:
    """Return one number for two: of documents, or of pairs of variables (see R_vj)."""
    return (one << 31) | other


@dataclass(frozen=True, slots=True)
class Side:
    """Where the rows of one side come from, and whether only those before the batch count.

    Of the batch `side` has the bindings with a value that can join.
    """

    bindings: str
    side: str | None = None
    old: bool = False

    def joinable(self, first_of_batch: int) -> str:
        """Return the query of the bindings with a value that can join."""
        if self.side is not None:
            return f"SELECT * FROM {self.side}"
        before = f" WHERE doc < {first_of_batch}" if self.old else ""
        return f"SELECT * FROM {self.bindings} SEMI JOIN common USING (key){before}"

    def of_documents(self, documents: str, first_of_batch: int) -> str:
        """Return the query of all bindings of some documents."""
        before = f" AND doc < {first_of_batch}" if self.old else ""
        return f"SELECT * FROM {self.bindings} WHERE doc IN ({documents}){before}"


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


_BATCH = Side("batch_binding", "batch_side")
FORWARD = Pass(Side("state.binding"), _BATCH, Views("L1", "R1", "vj1", "several1", "LB1", "RB1"))
BACKWARD = Pass(
    _BATCH, Side("state.binding", old=True), Views("L2", "R2", "vj2", "several2", "LB2", "RB2")
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no registered join exceeds: its window, how long it keeps, and its direction."""

    window: int = INFINITE
    keep: int = INFINITE
    forward_only: bool = False


def value_joins(
    connection: duckdb.DuckDBPyConnection,
    half: Pass,
    first_of_batch: int,
    bounds: Bounds,
    selective: bool,
) -> pa.Table:
    """Return R_vj of one pass, as a table of `JOINS`.

    `selective` asks to leave out what cannot be part of a match, which pays where R_vj would be
    large; for that, `alone` has the pairs of variables (pair1, pair2) that may satisfy a query
    by one value join.
    """
    left, right = half.left.joinable(first_of_batch), half.right.joinable(first_of_batch)
    if not selective:
        joins = _join(f"({left}) l JOIN ({right}) r ON r.key = l.key", bounds)
        return connection.sql(joins).to_arrow_table()
    _create(connection, half.views.left, left)
    _create(connection, half.views.right, right)
    joins = _selective_joins(connection, half.views, bounds)
    with written_order(connection):
        return connection.sql(joins).to_arrow_table()


@contextmanager
def written_order(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Join in the order in which queries are written.

    In a template's query each step can only take rows away, so no other order is needed, and
    looking for one costs more than half of a query of six joins.
    """
    connection.execute("SET disabled_optimizers = 'join_order'")
    try:
        yield
    finally:
        with suppress(duckdb.Error):  # in a transaction that has failed; the next one resets it
            connection.execute("RESET disabled_optimizers")


def make_several(connection: duckdb.DuckDBPyConnection, views: Views) -> None:
    """Make the rows of R_vj of documents that have joins between at least two pairs of nodes."""
    joins = views.joins
    _create(
        connection,
        views.several,
        f"SELECT * FROM {joins} SEMI JOIN (SELECT doc1, doc2 FROM {joins}"
        " GROUP BY doc1, doc2 HAVING min(node1) < max(node1) OR min(node2) < max(node2))"
        " USING (doc1, doc2)",
    )


def make_others(
    connection: duckdb.DuckDBPyConnection, half: Pass, first_of_batch: int
) -> tuple[set[int], set[int]]:
    """Make R_LB and R_RB; return the pairs of variables in them."""
    views = half.views
    found = []
    sides = ((views.left_other, half.left, "doc1"), (views.right_other, half.right, "doc2"))
    for name, side, doc in sides:
        documents = f"SELECT {doc} FROM {views.joins}"
        _create(connection, name, side.of_documents(documents, first_of_batch))
        rows = connection.execute(f"SELECT DISTINCT pair FROM {name}").fetchall()
        found.append({pair for (pair,) in rows})
    return found[0], found[1]


def _create(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")


def _selective_joins(connection: duckdb.DuckDBPyConnection, views: Views, bounds: Bounds) -> str:
    """Return the query of R_vj without what cannot be part of a match, in its written order.

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
        return _join(f"{views.left} l JOIN {views.right} r ON r.key = l.key", bounds)
    listed = ", ".join(str(key) for (key,) in heavy)
    for name, side in (("heavy1", views.left), ("heavy2", views.right)):
        _create(connection, name, f"SELECT * FROM {side} WHERE key IN ({listed})")
    light = _join(
        f"{views.left} l JOIN {views.right} r ON r.key = l.key",
        bounds,
        f"l.key NOT IN ({listed})",
    )
    for name in ("heavy1", "heavy2"):
        crowded = f"SELECT doc FROM {name} GROUP BY doc HAVING min(node2) < max(node2)"
        for part, wanted in (("crowded", "IN"), ("single", "NOT IN")):
            rows = f"SELECT * FROM {name} WHERE doc {wanted} ({crowded})"
            _create(connection, f"{part}_{name}", rows)
    crowds = (
        "crowded_heavy1 l JOIN heavy2 r ON r.key = l.key",
        "crowded_heavy2 r JOIN single_heavy1 l ON l.key = r.key",
    )
    others = (
        "(SELECT DISTINCT doc1, doc2 FROM light) p JOIN single_heavy1 l ON l.doc = p.doc1"
        " JOIN single_heavy2 r ON r.doc = p.doc2 AND r.key = l.key",
        "alone a JOIN single_heavy1 l ON l.pair = a.pair1"
        " JOIN single_heavy2 r ON r.pair = a.pair2 AND r.key = l.key",
    )
    rest = " UNION ".join(_join(part, bounds) for part in others)
    parts = ["SELECT * FROM light", *(_join(part, bounds) for part in crowds), f"({rest})"]
    return f"WITH light AS MATERIALIZED ({light}) " + " UNION ALL ".join(parts)


def _join(sides: str, bounds: Bounds, wanted: str = "true") -> str:
    """Return R_vj of bindings l and r: of different documents, within the widest window."""
    order = "r.start > l.ts AND" if bounds.forward_only else ""
    return (
        "SELECT * FROM (SELECT l.doc AS doc1, r.doc AS doc2, l.key, l.pair AS pair1,"
        " l.node1 AS above1, l.node2 AS node1, r.pair AS pair2, r.node1 AS above2,"
        " (l.doc << 31) | r.doc AS docs, (l.pair::BIGINT << 31) | r.pair AS pairs,"
        " r.node2 AS node2, r.ts - l.ts AS gap, r.start - l.ts AS lead,"
        " CASE WHEN l.rank < r.rank THEN r.clock - l.ts WHEN l.rank > r.rank THEN l.clock - r.ts"
        " ELSE greatest(r.clock - l.ts, l.clock - r.ts) END AS age"
        f" FROM {sides} WHERE {order} l.base <> r.base AND ({wanted}))"
        f" WHERE abs(gap) <= {bounds.window} AND age <= {bounds.keep}"
    )
