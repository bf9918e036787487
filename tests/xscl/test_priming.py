"""A subscription with `since` is as if it had been registered then."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from feeds.documents import Document
from tests.examples import examples
from xscl.engine import Engine
from xscl.errors import NameTaken, QueryError, XsclError

KEEPER = "S//e->e"
"""A filter: its results keep all documents."""
SHARING = "S//e->a[./k->x] FOLLOWED BY{x = y, 1 d} S//e->b[./k->y]"
QUERIES = (
    "S//e[./k->x][./v > 1]",
    "S//e->a[./k->x] FOLLOWED BY{x = y, 4 ms} S//e->b[./k->y]",
    "S//e->a[./k->x] JOIN{x = y} S//e->b[./v->y]",
    "S//e->a[./k->x][./v->v] JOIN{x = y AND number(v) < number(w), 5 ms} S//e->b[./k->y][./v->w]",
    "S//e->a[./k->x][./v->v] JOIN{x = y OR v = w, 5 ms} S//e->b[./k->y][./v->w]",
    "SELECT DISTINCT <r>{x}</r> FROM S//e->a[.//v->x] JOIN{x = y, 9 ms} S//e->b[.//v->y]",
)


@st.composite
def histories(draw: st.DrawFn) -> list[Document]:
    """Draw documents, some of them new versions of others, and simultaneous; none comes twice."""
    documents, now, seen = [], 0, set[tuple[str, bytes]]()
    for _ in range(draw(st.integers(2, 9))):
        now += draw(st.integers(0, 2))
        key = draw(st.sampled_from("12"))
        values = "".join(
            f"<v>{draw(st.integers(1, 2))}</v>" for _ in range(draw(st.integers(0, 2)))
        )
        name = f"d{draw(st.integers(0, 6))}"
        xml = f"<e><k>{key}</k>{values}</e>".encode()
        if (name, xml) not in seen:
            documents.append(Document("S", name, now * 1_000, xml))
        seen.add((name, xml))
    return documents


def delivered(engine: Engine, name: str) -> set[tuple[object, ...]]:
    found = [match for match in engine.matches() if match.subscription == name]
    assert len({match.id for match in found}) == len(found)
    return {(match.id, match.t0, match.t1, match.xml()) for match in found}


@examples(8)
@given(
    histories(),
    st.sampled_from(QUERIES),
    st.integers(0, 9),
    st.integers(0, 9),
    st.booleans(),
    st.sampled_from([None, SHARING, "the same"]),
)
def test_it_is_as_if_it_had_been_there(
    documents: list[Document], query: str, first: int, late: int, updates: bool, other: str | None
) -> None:
    first, late = sorted((min(first, len(documents)), min(late, len(documents))))
    with Engine() as early, Engine() as engine:
        for one in (early, engine):
            one.subscribe("keeper", KEEPER, updates=True)
        early.push(documents[:first])
        early.subscribe("q", query, updates=updates)
        early.push(documents[first:])
        engine.push(documents[:late])
        if other is not None:
            engine.subscribe("other", query if other == "the same" else other)
        clock = max((document.timestamp for document in documents[:late]), default=0)
        begin = documents[first].timestamp if first < late else clock + 1
        # documents of the same time are told apart by nothing: begin with the first of them
        while first and first < late and documents[first - 1].timestamp == begin:
            first -= 1
        with Engine() as again:
            again.subscribe("keeper", KEEPER, updates=True)
            again.push(documents[:first])
            again.subscribe("q", query, updates=updates)
            again.push(documents[first:])
            expected = delivered(again, "q")
        if first < late:
            engine.subscribe("q", query, updates=updates, since=clock - begin)
        else:
            engine.subscribe("q", query, updates=updates)
        engine.push(documents[late:])
        event(f"{'matches' if expected else 'nothing'}, {other}")
        assert delivered(engine, "q") == expected
        if other is not None:
            engine.unsubscribe("other")
        engine.unsubscribe("q")
        assert engine.sql("SELECT count(*) AS n FROM state.binding").to_pylist() == [{"n": 0}]


def item(number: int, time: int, key: str) -> Document:
    return Document("S", f"d{number}", time * 1_000, f"<e><k>{key}</k></e>".encode())


def test_it_joins_later_documents_with_earlier_ones(tmp_path: Path) -> None:
    path = tmp_path / "state.duckdb"
    with Engine(path) as engine:
        engine.subscribe("keeper", KEEPER)
        engine.push([item(1, 1, "a"), item(2, 5, "a")])
        engine.subscribe("q", SHARING, since="4 ms")
        assert [m.documents for m in engine.matches() if m.subscription == "q"] == [("d1", "d2")]
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


@pytest.mark.parametrize("cases", [("lower", "upper"), ("upper", "lower")])
def test_derived_nodes_of_one_number_keep_their_values(cases: tuple[str, str]) -> None:
    """What a document's derived nodes are numbered by is what was asked for at that moment."""
    first, second = cases
    with Engine() as engine:
        engine.subscribe(first, DERIVED % first)
        engine.push(item(1, 1, "Xy"))
        engine.subscribe(second, DERIVED % second, since="1 d")
        counts = "SELECT count(DISTINCT node2), count(DISTINCT key) FROM state.binding"
        assert engine._store.fetch(counts) == [(2, 3)], "two derived nodes have one number"
        for number, key in enumerate(("xy", "XY"), 2):
            engine.push(item(number, number, key))
        found = sorted((m.subscription, *m.documents) for m in engine.matches())
    assert found == [("lower", "d1", "d2"), ("upper", "d1", "d3"), ("upper", "d2", "d3")]


def test_there_is_nothing_before_the_first_document() -> None:
    with Engine() as engine:
        engine.subscribe("q", SHARING, since="7 d")
        assert engine.matches() == []
        engine.push([item(1, 1, "a"), item(2, 2, "a")])
        assert [m.documents for m in engine.matches()] == [("d1", "d2")]


@pytest.mark.parametrize(
    ("query", "since", "error", "message"),
    [
        (SHARING, "7 y", QueryError, "not a unit of time"),
        (SHARING, -1, XsclError, "no time back"),
        ("S//e->a[./k->x] NEXT{x = y} S//e->b[./k->y]", "7 d", XsclError, "joins of two blocks"),
        (f"SELECT <e/> FROM {SHARING} PUBLISH T", "7 d", XsclError, "combined with PUBLISH"),
    ],
)
def test_what_is_refused(
    query: str, since: str | int, error: type[XsclError], message: str
) -> None:
    with Engine() as engine:
        with pytest.raises(error, match=message):
            engine.subscribe("q", query, since=since)
        assert engine.subscriptions == ()
        engine.subscribe("q", KEEPER)
        with pytest.raises(NameTaken):
            engine.subscribe("q", KEEPER, since="1 d")
        engine.stream("R", attributes={"k": str})
        with pytest.raises(XsclError, match="what events were"):
            engine.subscribe("r", "SELECT * FROM R", language="cel", since="1 d")
