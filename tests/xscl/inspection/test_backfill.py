"""A subscription with `since` is as if it had been registered then."""

from __future__ import annotations

from pathlib import Path

import pytest

from feeds.documents import Document
from tests.examples import usually
from tests.joining import by_algorithm_1
from xscl.engine.facade import Engine
from xscl.errors import NameTaken, QueryError, XsclError

KEEPER = "S//e->e"
"""A filter: its results keep all documents."""
SHARING = "S//e->a[./k->x] FOLLOWED BY{x = y, 1 d} S//e->b[./k->y]"


def item(number: int, time: int, key: str) -> Document:
    return Document("S", f"d{number}", time * 1_000, f"<e><k>{key}</k></e>".encode())


def test_it_joins_later_documents_with_earlier_ones(path: Path) -> None:
    with Engine(path) as engine:
        engine.subscribe("keeper", KEEPER)
        engine.push([item(1, 1, "a"), item(2, 5, "a")])
        engine.subscribe("q", SHARING, since="4 ms")
        assert [m.documents for m in engine.matches("q")] == [("d1", "d2")]
        engine.subscribe("near", SHARING, since="3 ms")
    with Engine(path) as engine:
        found = [(m.subscription, *m.documents) for m in engine.push(item(3, 6, "a"))]
        assert sorted(found) == [
            ("keeper", "d3"),
            ("near", "d2", "d3"),
            ("q", "d1", "d3"),
            ("q", "d2", "d3"),
        ]


DERIVED = "S//e->a[./k->x] FOLLOWED BY{%s-case(x) = y, 1 d} S//e->b[./k->y]"


@pytest.mark.parametrize("views", usually([True, False], True))
@pytest.mark.parametrize("cases", [("lower", "upper"), ("upper", "lower")])
def test_derived_nodes_of_the_past_have_numbers_of_their_own(
    cases: tuple[str, str], views: bool
) -> None:
    """Derived nodes of a document are numbered in the order of demand."""
    first, second = cases
    with by_algorithm_1(not views), Engine() as engine:
        engine.subscribe(first, DERIVED % first)
        engine.push(item(1, 1, "Xy"))
        for _ in range(2):
            engine.subscribe(second, DERIVED % second, since="1 d")
            values = engine.sql("SELECT node, strVal FROM R_doc WHERE strVal IS NOT NULL")
            values_of = dict(zip(*values.to_pydict().values(), strict=True))
            assert sorted(values_of.values()) == ["XY", "Xy", "xy"], values_of
            engine.subscribe("same", DERIVED % second, since="1 d")
            engine.unsubscribe(second)
            engine.unsubscribe("same")
        engine.subscribe(second, DERIVED % second, since="1 d")
        for number, key in enumerate(("xy", "XY"), 2):
            engine.push(item(number, number, key))
        found = sorted((m.subscription, *m.documents) for m in engine.matches())
    assert found == [("lower", "d1", "d2"), ("upper", "d1", "d3"), ("upper", "d2", "d3")]


@pytest.mark.parametrize(
    ("query", "since", "error", "message"),
    [(SHARING, "7 y", QueryError, "not a unit of time"), (SHARING, -1, XsclError, "no time back")],
)
def test_what_is_refused(
    engine: Engine, query: str, since: str | int, error: type[XsclError], message: str
) -> None:
    with pytest.raises(error, match=message):
        engine.subscribe("q", query, since=since)
    assert engine.subscriptions == ()
    engine.subscribe("q", KEEPER)
    with pytest.raises(NameTaken):
        engine.subscribe("q", KEEPER, since="1 d")
