"""A subscription with `since` is as if it had been registered then."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.documents import Document
from tests.examples import examples, usually
from tests.joining import by_algorithm_1
from xscl.engine.facade import Engine
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


@dataclass(frozen=True, slots=True)
class Case:
    """A query that is registered when `late` documents came, as if after the `first`."""

    documents: list[Document]
    query: str
    first: int
    late: int
    updates: bool
    other: str | None

    @property
    def clock(self) -> int:
        return max((document.timestamp for document in self.documents[: self.late]), default=0)

    @property
    def since(self) -> int | None:
        """The time span before registration that the query reads; None: only later documents."""
        if self.first == self.late:
            return None
        return self.clock - self.documents[self.first].timestamp

    def expected(self) -> set[tuple[object, ...]]:
        """Return the matches of a query that was registered in the past."""
        with Engine() as engine:
            engine.subscribe("keeper", KEEPER, updates=True)
            engine.push(self.documents[: self.first])
            engine.subscribe("q", self.query, updates=self.updates)
            engine.push(self.documents[self.first :])
            return delivered(engine, "q")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    documents = draw(histories())
    places = st.integers(0, len(documents))
    first, late = sorted((draw(places), draw(places)))
    # documents of the same time are told apart by nothing: begin with the first of them
    while 0 < first < late and documents[first - 1].timestamp == documents[first].timestamp:
        first -= 1
    other = draw(st.sampled_from([None, SHARING, "the same"]))
    return Case(documents, draw(st.sampled_from(QUERIES)), first, late, draw(st.booleans()), other)


@pytest.mark.hypothesis
def test_it_is_as_if_it_had_been_there() -> None:
    """A third of the cases are drawn again until they have matches."""

    def property_holds(case: Case) -> None:
        with Engine() as engine:
            engine.subscribe("keeper", KEEPER, updates=True)
            engine.push(case.documents[: case.late])
            if case.other is not None:
                engine.subscribe("other", case.query if case.other == "the same" else case.other)
            engine.subscribe("q", case.query, updates=case.updates, since=case.since)
            engine.push(case.documents[case.late :])
            assert delivered(engine, "q") == case.expected()
            if case.other is not None:
                engine.unsubscribe("other")
            engine.unsubscribe("q")
            assert engine.sql("SELECT count(*) AS n FROM state.binding").to_pylist() == [{"n": 0}]

    examples(3)(given(cases())(property_holds))()
    examples(2)(given(cases().filter(lambda case: bool(case.expected())))(property_holds))()


def item(number: int, time: int, key: str) -> Document:
    return Document("S", f"d{number}", time * 1_000, f"<e><k>{key}</k></e>".encode())


def test_it_joins_later_documents_with_earlier_ones(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
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
    query: str, since: str | int, error: type[XsclError], message: str
) -> None:
    with Engine() as engine:
        with pytest.raises(error, match=message):
            engine.subscribe("q", query, since=since)
        assert engine.subscriptions == ()
        engine.subscribe("q", KEEPER)
        with pytest.raises(NameTaken):
            engine.subscribe("q", KEEPER, since="1 d")
