"""The meanings of the columns of relations: each column has one, and none is left over."""

from __future__ import annotations

from xscl import Engine
from xscl.inspection.column_descriptions import COLUMNS, meaning
from xscl.store.queries.relations import PUBLIC


def test_each_column_of_each_relation_has_a_meaning() -> None:
    used = {name for name in COLUMNS if name.startswith("relations.")}  # of the service alone
    with Engine() as engine:
        engine.subscribe("q", "S//a[./x->x] FOLLOWED BY{x = y, 1 d} S//b[./y->y]")
        for relation in (*PUBLIC, "R_T_1", "R_out_1"):
            for column in engine.sql(f"FROM {relation} LIMIT 0").schema.names:
                assert meaning(relation, column), (relation, column)
                used |= {f"{relation}.{column}", column}
    assert set(COLUMNS) <= used
    assert meaning("R_T_1", "var12") == meaning("R_bin", "var1")
    assert meaning("documents", "nothing") == ""
