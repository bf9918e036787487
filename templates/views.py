"""Materialised views: R_vj, R_L and R_R (Hong 2009, section 6.5).

Only values that occur in two documents can join.  `common` holds their keys;
R_L and R_R are the bindings of either side with such a value, each row with
the times of its document, so that a template's query needs nothing else.
Bindings of nodes without an equality (inner nodes, nodes that are compared by
`!=`) are kept in R_LB and R_RB for the documents of R_L and R_R.

A batch is joined in two passes.  In the first the right side is the batch and
the left side everything, the batch included; in the second the left side is
the batch and the right side what was there before.  For input in order of
time only JOIN has results in the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from templates.conjunctive import Sources

COLUMNS = "b.doc, b.pair, b.node1, b.node2, b.key, d.ts, d.clock, d.rank, d.base"
KEPT = ("state.binding", "state.times")
BATCH = ("batch_binding", "batch_times")


@dataclass(frozen=True, slots=True)
class Pass:
    """One half of a batch's join: where either side comes from, and what they are called."""

    left: tuple[str, str]
    right: tuple[str, str]
    old_right: bool
    views: tuple[Sources, Sources]
    bases: tuple[Sources, Sources]


_KEPT_BASE = Sources("state.binding", "state.binding", "state.node", "state.times")
_BATCH_BASE = Sources("batch_binding", "batch_binding", "batch_node", "batch_times")
_OLD_BASE = Sources("old_binding", "old_binding", "state.node", "state.times")

FORWARD = Pass(
    KEPT, BATCH, False, (Sources("L1", "LB1"), Sources("R1", "RB1")), (_KEPT_BASE, _BATCH_BASE)
)
BACKWARD = Pass(
    BATCH, KEPT, True, (Sources("L2", "LB2"), Sources("R2", "RB2")), (_BATCH_BASE, _OLD_BASE)
)


def materialise(
    connection: duckdb.DuckDBPyConnection, half: Pass, first_of_batch: int, structural: bool
) -> None:
    """Compute R_L and R_R of one pass as temporary tables; R_LB and R_RB if `structural`."""
    sides = ((half.views[0], half.left, False), (half.views[1], half.right, half.old_right))
    for source, (binding, times), old in sides:
        before = f" WHERE b.doc < {first_of_batch}" if old else ""
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {source.valued} AS SELECT {COLUMNS}"
            f" FROM {binding} b JOIN common USING (key) JOIN {times} d ON d.doc = b.doc{before}"
        )
        documents = f"b.doc IN (SELECT doc FROM {source.valued})" if structural else "false"
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {source.structural} AS SELECT {COLUMNS}"
            f" FROM {binding} b JOIN {times} d ON d.doc = b.doc WHERE {documents}"
        )


def clear(connection: duckdb.DuckDBPyConnection) -> None:
    """Empty the views of both passes, before the first push and where nothing can join."""
    for half in (FORWARD, BACKWARD):
        for source in half.views:
            for name in (source.valued, source.structural):
                connection.execute(
                    f"CREATE OR REPLACE TEMP TABLE {name} AS"
                    f" SELECT {COLUMNS} FROM state.binding b JOIN state.times d USING (doc)"
                    " WHERE false"
                )
