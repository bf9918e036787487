"""The materialised views that templates' queries read (Hong 2009, section 6.5).

R_vj joins the bindings of either side on their value, once for all templates
(`templates.valuejoins` makes it).

Differs from section 6.5: there R_vj has the nodes only and each template's
query joins R_L and R_R again.  Sharing that join leaves a template's query one
relation for each value join instead of two, which is most of its cost.

A template with several joins looks only at documents that have at least two
value joins with each other (`several`), unless one of its queries may bind two
of its variables to the same node.  Bindings of nodes without an equality
(inner nodes, nodes compared by `!=`) are in `others`, for the documents of R_vj.

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

Number = TypeVar("Number", int, npt.NDArray[np.int64])

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


def both(one: Number, other: Number) -> Number:
    """Return one number for two: of documents, or of pairs of variables (see R_vj)."""
    return (one << 31) | other


@dataclass(frozen=True, slots=True)
class Views:
    """The names of one pass's views."""

    joins: str
    several: str
    others: str


FORWARD = Views("vj1", "several1", "others1")
BACKWARD = Views("vj2", "several2", "others2")


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
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {views.several} AS SELECT * FROM {joins}"
        f" SEMI JOIN (SELECT docs FROM {joins} GROUP BY docs"
        " HAVING min(node1) < max(node1) OR min(node2) < max(node2)) USING (docs)"
    )
