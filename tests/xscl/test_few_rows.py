"""What joining in memory must not do: differ from the database, or make more rows than it."""

from __future__ import annotations

from typing import Any

import pytest

import xscl
from templates import columns
from templates.columns import Column, Index
from tests.joining import in_database

LEFT = "S//a->x[./g->g][./c->z[./e->y][./f->h]]"
RIGHT = "T//a->x1[./g->g1][./c->z1[./e->y1][./f->h1]]"


def document(stream: str, number: int, xml: str) -> xscl.Document:
    return xscl.Document(stream, f"d{number}", number, xml.encode())


@pytest.mark.parametrize("everything", [False, True])
def test_a_node_whose_value_was_not_kept_differs_from_nothing(everything: bool) -> None:
    text = "<a><g>1</g><c><e>2</e><f>3</f>{}</c></a>"
    with xscl.Engine() as engine, in_database(everything):
        equal = "g=g1 AND y=y1 AND h=h1"
        engine.subscribe("equal", f"{LEFT} FOLLOWED BY{{{equal}, 100}} {RIGHT}")
        engine.push(document("S", 1, text.format("p")))
        engine.subscribe("other", f"{LEFT} FOLLOWED BY{{{equal} AND z!=z1, 100}} {RIGHT}")
        found = engine.push(document("T", 2, text.format("q")))
        assert [match.subscription for match in found] == ["equal"]
        assert engine.sql("SELECT qid FROM state.result").num_rows == 1


@pytest.mark.parametrize("same", [30, 200])
def test_intermediate_rows_are_bound_by_the_nodes(
    same: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    rows = Index.rows

    def counted(index: Index, wanted: Column) -> Any:
        found = rows(index, wanted)
        made.append(len(found[0]))
        return found

    monkeypatch.setattr(columns.Index, "rows", counted)
    item = "<c><e>v</e><f>w</f></c>"
    left, right = "S//a/c->z[./e->y][./f->h]", "T//a/c->z1[./e->y1][./f->h1]"
    with xscl.Engine() as engine:
        engine.subscribe_many(
            (f"q{n}", f"{left} FOLLOWED BY{{y=y1 AND h=h1, {100 + n}}} {right}") for n in range(5)
        )
        engine.push(document("S", 1, f"<a>{item * same}</a>"))
        found = engine.push(document("T", 2, f"<a>{item}</a>"))
    assert len(found) == 5 * same
    assert max(made) == 5 * same
