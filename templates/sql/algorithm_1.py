"""Algorithm 1 of Hong 2009: templates' queries over R_bin and R_doc, without materialised views.

The benchmark of Figures 6.14 and 6.15 compares it with Algorithm 4, and tests take it as an oracle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import duckdb

from templates.columns.columns import Columns
from templates.registry.members import Members
from templates.registry.registry import r_t
from templates.sql.queries import Base, over_base


def joined_over_base(
    connection: duckdb.DuckDBPyConnection, templates: Iterable[Members], first: int, back: bool
) -> Iterator[tuple[Members, Columns]]:
    """Yield R_out of the templates with two sides, for one pass of a batch (line 2).

    `first` is the first document of the batch; `back`: the batch is the left side.
    """
    connection.execute(
        "CREATE OR REPLACE TEMP VIEW old_binding AS"
        f" SELECT * FROM state.binding WHERE doc < {first};" + _VIEWS
    )
    sides = (_BATCH, _OLD) if back else (_KEPT, _BATCH)
    for members in templates:
        if members.two_sided:
            query = over_base(members.template.graph, r_t(members.template.number), *sides)
            yield members, connection.execute(query).fetchnumpy()


_KEPT = Base("state.binding", "base_node", "state.times")
_OLD = Base("old_binding", "base_node", "state.times")
_BATCH = Base("batch_binding", "batch_node", "batch_times")

_VIEWS = """
CREATE OR REPLACE TEMP VIEW base_node AS
    SELECT DISTINCT doc, node2 AS node, key FROM state.binding WHERE key IS NOT NULL;
CREATE OR REPLACE TEMP VIEW batch_node AS
    SELECT DISTINCT doc, node2 AS node, key FROM batch_binding WHERE key IS NOT NULL;
"""
"""R_doc of compared nodes."""
