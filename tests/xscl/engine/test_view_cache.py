"""The join state within a budget of bytes: the same matches, and no more in memory than allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from templates.state import value_joins
from templates.state.join_state import ViewCache

QUERY = "S//i[./ch->c][./u->u] FOLLOWED BY{c = c2 AND u = u2, INF} S//i[./ch->c2][./u->u2]"
BUDGET = 8_000


@pytest.fixture(autouse=True)
def only_what_drives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no joins of the channel, which all documents share."""
    monkeypatch.setattr(value_joins, "FEW", 0)


def document(number: int, value: int) -> xscl.Document:
    text = f"<i><ch>one</ch><u>{value}</u></i>"
    return xscl.Document("S", f"d{number}", number, text.encode())


def cache(engine: xscl.Engine) -> ViewCache:
    return engine.state.processor.memory


def batch(first: int, count: int) -> list[xscl.Document]:
    return [document(number, number) for number in range(first, first + count)]


def test_what_was_dropped_is_met(tmp_path: Path) -> None:
    with xscl.Engine(tmp_path / "s.sqlite", kept_memory=BUDGET) as engine:
        engine.subscribe("q", QUERY)
        for first in range(0, 400, 100):
            assert not list(engine.push(batch(first, 100)))
        assert not cache(engine).whole
        found = engine.push([document(400, 3), document(401, 399)])
        assert sorted(match.documents for match in found) == [("d3", "d400"), ("d399", "d401")]
        assert cache(engine).fetches == 1
        assert not cache(engine).whole
    with xscl.Engine(tmp_path / "s.sqlite", kept_memory=BUDGET) as engine:
        found = engine.push([document(402, 5)])
        assert [match.documents for match in found] == [("d5", "d402")]
        kept = cache(engine)
        assert 0 < kept.nbytes - kept._dropped.nbytes <= BUDGET
        assert not kept.whole


def test_what_was_met_last_stays() -> None:
    with xscl.Engine(kept_memory=BUDGET) as engine:
        engine.subscribe("q", QUERY)
        engine.push([document(0, 0), document(1, 1)])
        for first in range(100, 300, 20):
            assert len(engine.push([document(first + 50_000, 0)])) >= 1
            engine.push(batch(first, 10))
        kept = cache(engine)
        assert not kept.whole
        before = kept.fetches
        engine.push([document(90_000, 0)])
        assert kept.fetches == before
        engine.push([document(90_001, 1)])
        assert kept.fetches == before + 1


def test_what_is_in_memory_stays_when_a_query_leaves() -> None:
    """Only what was dropped is counted again; a pair that nobody needs is gone from both."""
    with xscl.Engine(kept_memory=BUDGET) as engine:
        engine.subscribe("q", QUERY)
        engine.subscribe("left", QUERY.replace("./u->", ".//u->"))
        for first in range(0, 400, 100):
            engine.push(batch(first, 100))
        engine.push([document(400, 3)])
        kept = cache(engine)
        assert not kept.whole
        here = kept._documents["doc"].tolist()
        assert here
        engine.unsubscribe("left")
        assert cache(engine) is kept
        assert kept._documents["doc"].tolist() == here
        (row,) = engine.sql(
            "SELECT count(DISTINCT (doc, node1, node2)) AS links FROM state.binding"
            " WHERE key IS NOT NULL"
        ).to_pylist()
        links = row["links"]
        in_memory = int(kept._links["valued"].sum())
        assert 0 < in_memory < links
        assert kept._dropped._counts.sum() == links - in_memory
        found = engine.push([document(401, 5), document(402, 3)])
        assert [m.documents for m in found] == [("d5", "d401"), ("d3", "d402"), ("d400", "d402")]


def counted(engine: xscl.Engine) -> tuple[int, int]:
    """Return the numbers of links and rows in the database."""
    found = engine.sql(
        "SELECT count(DISTINCT (doc, node1, node2, key)) AS links, count(*) AS n FROM state.binding"
    )
    return found["links"][0].as_py(), found["n"][0].as_py()
