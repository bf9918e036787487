"""Small batches in memory: they differ from DuckDB in nothing, and make no more rows than it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import xscl
from templates import columns
from templates import evaluators as queries
from templates.columns import Column, Index
from templates.processor import SMALL_BATCH
from tests.joining import in_database
from xscl.errors import EvaluationFailed


def document(stream: str, number: int, xml: str) -> xscl.Document:
    return xscl.Document(stream, f"d{number}", number, xml.encode())


@pytest.mark.parametrize("same", [30, 200])
def test_intermediate_rows_are_bound_by_the_nodes(
    engine: xscl.Engine, same: int, monkeypatch: pytest.MonkeyPatch
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
    engine.subscribe_many(
        (f"q{n}", f"{left} FOLLOWED BY{{y=y1 AND h=h1, {100 + n}}} {right}") for n in range(5)
    )
    engine.push(document("S", 1, f"<a>{item * same}</a>"))
    found = engine.push(document("T", 2, f"<a>{item}</a>"))
    assert len(found) == 5 * same
    assert max(made) <= 5 * same


def test_a_document_with_very_many_bindings_stops_no_push(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST", 1_000)  # which all pairs of its bindings exceed
    body = "".join(f"<b>{n}</b><c>{n}</c>" for n in range(40))
    with xscl.Engine() as engine:
        engine.subscribe("q", "S//a[./b->x][./c->y] NEXT{x = z AND y = w} S//d[./e->z][./f->w]")
        engine.push([document("S", 1, f"<a>{body}</a>")])
        found = engine.push([document("S", 2, "<d><e>5</e><f>7</f></d>"), document("S", 3, "<g/>")])
        assert [match.documents for match in found] == [("d1", "d2")]


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
        return sorted(found), engine.state.processor.result_rows


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


SHAPES = (
    PAIRS[0],
    PAIRS[1].replace("JOIN", "FOLLOWED BY"),
    "S//i[./k->k][./u->u][./w->w] FOLLOWED BY{k = k2 AND u = u2 AND w = w2, INF}"
    " S//i[./k->k2][./u->u2][./w->w2]",
)


def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that every plan made from now on is appended to."""
    made: list[str] = []
    plan = queries._PlannedQueries._plan

    def counted(*arguments: Any) -> Any:
        made.append(arguments[-1])
        return plan(*arguments)

    monkeypatch.setattr(queries._PlannedQueries, "_plan", counted)
    return made


@pytest.mark.parametrize("most", [3, 2])
def test_plans_are_kept_up_to_the_limit(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full cache answers what it has; a cycle over more shapes than it holds misses each time."""
    monkeypatch.setattr(queries, "MOST_PLANNED", most)
    made = planned(monkeypatch)
    with xscl.Engine() as engine, in_database():
        engine.subscribe_many((f"q{n}", query) for n, query in enumerate(SHAPES))
        text = "<i><k>1</k><u>1</u><w>1</w></i>"
        engine.push([document("S", n, text) for n in range(3)])
        assert len(made) == len(SHAPES)
        found = engine.push([document("S", n, text) for n in range(3, 6)])
    assert (len(made) == len(SHAPES)) == (most >= len(SHAPES))
    assert len(set(made)) == most
    assert len(found) == len(SHAPES) * (3 + 4 + 5)


def test_too_little_memory_for_the_joins_fails_the_push_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    batch = [document("S", n, "<i><k>1</k></i>") for n in range(100)]
    with xscl.Engine() as engine, in_database():
        engine.subscribe("q", PAIRS[0])
        with monkeypatch.context() as little:
            little.setitem(queries._SETTINGS, "memory_limit", "1KiB")
            with pytest.raises(
                EvaluationFailed, match=r"joins of a batch.*Out of Memory"
            ) as failed:
                engine.push(batch)
        assert failed.value.hint
        assert len(engine.push(batch)) == 100 * 99 // 2
    assert not list(tmp_path.iterdir())
