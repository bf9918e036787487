"""The meanings of the columns of relations: each column has one, and none is left over."""

from __future__ import annotations

from xscl import Engine
from xscl.store.queries.relations import MEANINGS, RELATION_OF_RELATIONS, RELATIONS, meaning


def test_each_column_of_each_relation_has_a_meaning() -> None:
    with Engine() as engine:
        engine.subscribe("q", "S//a[./x->x] FOLLOWED BY{x = y, 1 d} S//b[./y->y]")
        names = [one.name for one in RELATIONS if one.what]
        columns = {
            (name, column)
            for name in (*names, "R_T_1", "R_out_1")
            for column in engine.sql(f"FROM {name} LIMIT 0").schema.names
        }
    described = RELATION_OF_RELATIONS.name
    columns |= {(described, column) for column in ("relation", "column", "type", "what")}
    assert all(meaning(*column) for column in columns)
    used = {f"{name}.{column}" for name, column in columns} & MEANINGS.keys()
    used |= {column for name, column in columns if f"{name}.{column}" not in used}
    assert MEANINGS.keys() <= used
    assert meaning("R_T_1", "var12") == meaning("R_bin", "var1")
    assert meaning("documents", "nothing") == ""
