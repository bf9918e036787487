"""Edges of operators over time: what is absent, what comes again, what is too much."""

from __future__ import annotations

import pytest

from feeds.documents import Document
from xscl.engine.facade import Engine
from xscl.errors import QueryError, TooComplex


def doc(name: str, time: int, xml: str, stream: str = "S") -> Document:
    return Document(stream, name, time, xml.encode())


def found(query: str, documents: list[Document], updates: bool = False) -> list[tuple[str, ...]]:
    with Engine() as engine:
        engine.subscribe("q", query, updates=updates)
        for document in documents:
            engine.push(document)
        engine.flush()
        return [match.documents for match in engine.matches()]


def test_the_aggregates_of_a_fold_that_did_not_come_are_absent(engine: Engine) -> None:
    query = (
        "SELECT <o n='{n}'/> FROM S//a->x FOLLOWED BY{x = y, 10}"
        " (S//b->y FOLD{$2.z = $1.y, $2.z = $1.y, $.n + 1 AS n} S//b->z) ELSE PUBLISH P"
    )
    engine.subscribe("q", query)
    engine.subscribe("reader", "P//o->o")
    for time, xml in ((1, "<a>k</a>"), (2, "<b>k</b>"), (3, "<b>k</b>"), (99, "<a>l</a>")):
        engine.push(doc(f"d{time}", time, xml))
    engine.flush()
    outputs = [(m.t1, m.xml()) for m in engine.matches("q")]
    assert outputs == [(3, b'<o n="1"/>'), (109, b'<o n=""/>')]


def test_a_constant_is_compared_where_nothing_came() -> None:
    query = "(S//a->x FOLLOWED BY{y = 'x', 10} S//b->y ELSE) JOIN{z = 'q', 100} S//c->z"
    assert found(query, [doc("a", 1, "<a/>"), doc("c", 50, "<c>q</c>")]) == [("a", "c")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("S//a->x NEXT{x = y} S//a->y", []),
        ("S//a->x FOLD{x = $2.y, $.y = $2.y} S//a->y", []),
        ("S//a->x NOT FOLLOWED BY{x = y, 9} S//a->y", [("1",), ("1@2",), ("1@3",)]),
    ],
)
def test_a_document_does_not_meet_its_own_versions(
    query: str, expected: list[tuple[str, ...]]
) -> None:
    versions = [doc("1", time, f"<a>k<!--{time}--></a>") for time in (1, 2, 3)]
    query = query.replace("S//a->x FOLD", "S//a->y_1 FOLD").replace("x = $2.y", "y_1 = $2.y")
    assert found(query, versions, updates=True) == expected


def test_what_is_too_much_is_refused_with_its_place(engine: Engine) -> None:
    chain = "S//a->x " + " ".join(f"NEXT{{x = y{i}}} S//a->y{i}" for i in range(70))
    sums = f"S//a->x JOIN{{x = y AND x < {'+'.join(['1'] * 400)}}} S//a->y"
    for query in (chain, sums):
        with pytest.raises(TooComplex, match="nested too deeply"):
            engine.subscribe("q", query)
    with pytest.raises(QueryError, match=r"column 30: this window is too long"):
        engine.subscribe("q", "S//a->x NOT FOLLOWED BY{x=y, 4611686018427387904} S//a->y")
    assert engine.subscriptions == ()
