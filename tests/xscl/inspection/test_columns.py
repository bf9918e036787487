"""The meanings of the columns of relations: each column has one, and none is left over."""

from __future__ import annotations

from xscl import Engine
from xscl.store.queries.relations import RELATIONS, meaning


def test_each_column_of_each_relation_has_a_meaning() -> None:
    with Engine() as engine:
        engine.subscribe("q", "S//a[./x->x] FOLLOWED BY{x = y, 1 d} S//b[./y->y]")
        for one in RELATIONS:
            if one.what:
                names = engine.sql(f"FROM {one.name} LIMIT 0").schema.names
                assert names == list(one.columns), one.name
                assert all(meaning(one.name, column) for column in names)
        for name in ("R_T_1", "R_out_1"):
            for column in engine.sql(f"FROM {name} LIMIT 0").schema.names:
                assert meaning(name, column), (name, column)
    assert meaning("R_T_1", "var12") == meaning("R_bin", "var1")
    assert meaning("documents", "nothing") == ""
