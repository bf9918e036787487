"""The materialised views that templates' queries read (Hong 2009, section 6.5).

R_vj joins the bindings of either side on their value, once for all templates
(`templates.state.value_joins` makes it).

Differs from section 6.5: there R_vj has the nodes only and each template's
query joins R_L and R_R again.  Sharing that join leaves a template's query one
relation for each value join instead of two, which is most of its cost.

A batch is joined in two passes.  In the first the right side is the batch and
the left side the whole state, the batch included; in the second the left side is
the batch and the right side the state before it.  For input in order of
time only JOIN has results in the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from templates.columns.columns import Column, Columns, chosen, numbered, steps

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
each, which is what queries join by (`columns.pack`).  `gap` is the time from the
left one's end to the right one's end, `lead` to its beginning; `age` is the
clock when the newcomer of the two came, minus the earlier arrival's time.  Of
two that arrived together the larger age counts.
"""

FORWARD, BACKWARD = "vj1", "vj2"
"""The names of R_vj of the first and of the second pass, to be read after a push."""


@dataclass(frozen=True, eq=False)
class Views:
    """The views of one part of a batch: R_vj, and all bindings of the documents that it joins.

    `bindings` is None where no template reads it: all its nodes have an equality.
    """

    joins: Columns
    bindings: Columns | None = None

    @cached_property
    def several(self) -> Columns:
        """R_vj of the documents that have joins between at least two pairs of nodes.

        A template with several joins reads no others, unless one of its rows of R_T may bind two
        of its variables to the same node.
        """
        joins = self.joins
        order = np.argsort(joins["docs"], kind="stable")
        starts = steps(joins["docs"][order])
        if not len(starts):
            return joins
        differ = np.zeros(len(starts), dtype=np.bool_)
        for nodes in (joins["node1"][order], joins["node2"][order]):
            differ |= np.minimum.reduceat(nodes, starts) < np.maximum.reduceat(nodes, starts)
        rows = order[differ[numbered(starts, len(order))]]
        return chosen(joins, np.sort(rows))

    def of(self, docs: Column) -> Views:
        """Return the views of some pairs of documents."""
        return Views(chosen(self.joins, np.isin(self.joins["docs"], docs)), self.bindings)
