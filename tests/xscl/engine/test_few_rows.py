"""Small batches in memory: they differ from DuckDB in nothing, and make no more rows than it."""

from __future__ import annotations

from typing import Any

import pytest

import xscl
from templates.columns import columns
from templates.columns.columns import Column, Index
from templates.processor import SMALL_BATCH
from templates.sql import queries
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

    def counted(index: Index, wanted: Column, **bound: Any) -> Any:
        found = rows(index, wanted, **bound)
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
    assert max(made) <= 5 * same


def test_a_document_with_very_many_bindings_stops_no_push(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "MOST", 1_000)  # which all pairs of its bindings exceed
    body = "".join(f"<b>{n}</b><c>{n}</c>" for n in range(40))
    with xscl.Engine() as engine:
        engine.subscribe("q", "S//a[./b->x][./c->y] NEXT{x = z AND y = w} S//d[./e->z][./f->w]")
        engine.push([document("S", 1, f"<a>{body}</a>")])
        found = engine.push([document("S", 2, "<d><e>5</e><f>7</f></d>"), document("S", 3, "<g/>")])
        assert [match.documents for match in found] == [("d1", "d2")]


def test_documents_that_share_much_stop_no_push() -> None:
    shared = "<ch>one</ch>" + "".join(f"<k>{n}</k>" for n in range(10))
    channel = "S//i[./ch->c][./k->k] {}{{c = c2 AND k = k2, {}}} S//i[./ch->c2][./k->k2]"
    with xscl.Engine() as engine:
        engine.subscribe("near", channel.format("JOIN", 1))
        engine.subscribe("far", "S//i[./u->u] FOLLOWED BY{u = v, INF} S//i[./u->v]")
        for half in range(2):
            documents = [
                document("S", 100_000 * half + 100 * n, f"<i>{shared}<u>{n}</u></i>")
                for n in range(200)
            ]
            found = engine.push(documents)
        assert len(found) == 200


PAIRS = (
    "S//i[./k->k] FOLLOWED BY{k = k2, INF} S//i[./k->k2]",
    "S//i[./k->k][./u->u] JOIN{k = k2 AND u = u2, INF} S//i[./k->k2][./u->u2]",
    "S//i[./k->k]",
)


def pushed(*batches: int) -> tuple[list[str], dict[str, int]]:
    """Return the ids of matches of batches of some sizes, and the rows of each evaluator."""
    with xscl.Engine() as engine:
        engine.subscribe_many((f"q{n}", query) for n, query in enumerate(PAIRS))
        found, number = [], 0
        for size in batches:
            batch = [
                document("S", n, f"<i><k>{n // 2}</k><u>{n // 4}</u></i>")
                for n in range(number, number + size)
            ]
            number += size
            found += [match.id for match in engine.push(batch)]
        return sorted(found), engine.host.queries.result_rows


@pytest.mark.parametrize("most", [1, queries.MOST_PLANNED])
def test_batches_above_the_threshold_are_evaluated_by_duckdb(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MOST_PLANNED", most)
    large = SMALL_BATCH + 1
    ids, rows = pushed(large, large)
    assert rows == {"duckdb": len(ids), "smallbatch": 0}
    by_one, rows = pushed(*[SMALL_BATCH] * 2, 2)
    assert rows == {"duckdb": 0, "smallbatch": len(by_one)}
    assert by_one == ids
