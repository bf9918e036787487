"""Subscriptions that begin in the past, on cells: the matches are those of a single engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples, until, usually
from tests.oracle.queries import Case, Event, Push, Subscribe
from tests.strategies import joins
from tests.strategies import language as drawn
from tests.xscl.cluster.histories import by_cells, by_single_engine, cluster, delivered
from tests.xscl.cluster.test_cells_properties import CELLS, DEALS, Deal
from tests.xscl.engine.player import CUTS
from xscl.cluster.cell_host import LocalCells
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.shared_directory import CellsFailed, ClusterError
from xscl.documents.retention import SERVICE
from xscl.engine.backfills import _Run
from xscl.store.consumed_offsets import DIRECT, BatchKey
from xscl.store.store import Store

KINDS = {
    "histories": joins.histories(),
    "chains": drawn.chains(),
    "residuals": drawn.residuals(),
    "functions": drawn.functions(),
    "ordered": drawn.ordered(),
}
PAIRS = "S//a->x FOLLOWED BY{x=y, 1 h} S//a->y"
ALL = 10**9
"""Ticks before the clock: all documents."""


def later(case: Case, places: Sequence[int]) -> Case:
    """Return a history whose subscriptions come later, as drawn, and stay."""
    events: list[Event] = [one for one in case.events if isinstance(one, Push)]
    known = [one for one in case.events if isinstance(one, Subscribe)]
    first = {one.subscription.name: one for one in reversed(known)}
    for place, one in zip(places, first.values(), strict=False):
        events.insert(place, one)
    return Case(tuple(events), case.lateness)


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "histories", "chains"))
def test_matches_with_a_past_are_those_of_a_single_engine(kind: str) -> None:
    matched: list[str] = []

    @examples(5)
    @given(KINDS[kind], CUTS, DEALS, st.lists(st.integers(0, 8), min_size=4, max_size=4))
    def property_holds(case: Case, cuts: list[bool], deal: list[int], places: list[int]) -> None:
        case = later(case, places)
        expected = by_single_engine(case, cuts, since=ALL)
        assert by_cells(case, cuts, CELLS, Deal(deal), since=ALL) == expected
        matched.extend(expected)

    property_holds()
    until(lambda: bool(matched), property_holds)
    assert matched


PUBLISHED = {"published": drawn.published(), "published in time": drawn.published(waiting=True)}


def read_later(case: Case, place: int) -> Case:
    """Return a history whose last reader comes later, by so many events."""
    events = list(case.events)
    *_, last = (at for at, one in enumerate(events) if isinstance(one, Subscribe))
    reader = events.pop(last)
    events.insert(last + place, reader)
    return Case(tuple(events), case.lateness)


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(PUBLISHED, *PUBLISHED))
def test_the_past_of_a_published_stream_is_that_of_a_single_engine(kind: str) -> None:
    matched: list[str] = []

    @examples(10)
    @given(PUBLISHED[kind], CUTS, DEALS, st.integers(2, 8))
    def property_holds(case: Case, cuts: list[bool], deal: list[int], place: int) -> None:
        case = read_later(case, place)
        expected = by_single_engine(case, cuts, since=ALL)
        assert by_cells(case, cuts, CELLS, Deal(deal), since=ALL) == expected
        matched.extend(name for name in expected if name == case.subscriptions[-1].name)

    property_holds()
    until(lambda: bool(matched), property_holds)
    assert matched


# -- One after the other ---------------------------------------------------------------------


def consume(driver: ClusterDriver, number: int, stream: str = "S") -> None:
    document = xscl.Document(stream, f"d{number}", number, b"<a>hi</a>")
    driver.consume([document], BatchKey(DIRECT, number, number))


def matched(driver: ClusterDriver, name: str) -> list[tuple[str, ...]]:
    return [one.documents for one in driver.engine.matches(name)]


def test_a_cell_without_documents_knows_the_time() -> None:
    """Else it would find again what was complete before the time of its first document."""
    with cluster(2, lambda one: int(one.name != "others")) as driver:
        driver.engine.subscribe("others", "R//a->x")
        consume(driver, 1)
        for number in range(2, 5):
            consume(driver, 10 * number, "R")
        driver.engine.subscribe("absent", "S//a->x NOT FOLLOWED BY{x=y, 9} S//a->y", since=ALL)
        assert matched(driver, "absent") == [("d1",)]
        consume(driver, 60)
        driver.flush()
        assert matched(driver, "absent") == [("d1",), ("d60",)]


def test_a_cell_that_was_lost_reads_the_past_again() -> None:
    with cluster(2) as driver:
        consume(driver, 1)
        driver.engine.subscribe("pairs", PAIRS, since=ALL)
        consume(driver, 2)
        cells = driver._runner
        assert isinstance(cells, LocalCells)
        cells.close()
        consume(driver, 3)
        assert matched(driver, "pairs") == [("d1", "d2"), ("d1", "d3"), ("d2", "d3")]


def test_a_copy_of_a_publisher_reads_its_past() -> None:
    """The copy is in the cell of a reader that came later."""
    published = "SELECT <p>{x}</p> FROM S//a->x FOLLOWED BY{x=y, 1 h} S//a->y PUBLISH P"
    with cluster(2, lambda one: int(one.name == "reader")) as driver:
        consume(driver, 1)
        driver.engine.subscribe("publisher", published, since=ALL)
        driver.engine.subscribe("reader", "P//p->x")
        consume(driver, 2)
        consume(driver, 3)
        assert matched(driver, "publisher") == [("d1", "d2"), ("d1", "d3"), ("d2", "d3")]
        assert len(matched(driver, "reader")) == 1  # of documents that came after it


def test_a_query_of_events_begins_in_the_past() -> None:
    query = "EVENT SEQ(S a, S b) WHERE a.k = b.k WITHIN 1 hours"
    documents = [xscl.Document("S", f"d{n}", n, b"<a><k>hi</k></a>") for n in (1, 2, 3)]
    with cluster(2) as driver, xscl.Engine() as engine:
        engine.retain(SERVICE)  # as a driver does
        engine.stream("S", attributes={"k": str})
        driver.engine.stream("S", attributes={"k": str})
        engine.push(documents[:2])
        driver.consume(documents[:2], BatchKey(DIRECT, 1, 1))
        engine.subscribe("pairs", query, language="sase", history=True)
        driver.engine.subscribe("pairs", query, language="sase", history=True)
        engine.push(documents[2:])
        driver.consume(documents[2:], BatchKey(DIRECT, 2, 2))
        engine.flush()
        driver.flush()
        expected = delivered(engine)
        assert len(expected["pairs"]) == 3
        assert delivered(driver.engine) == expected


PUBLISHER = f"SELECT <p>{{x}}</p> FROM {PAIRS} PUBLISH P"
READER = "P//p->x JOIN{x=y, 1 h} S//a->y"


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_past_of_a_published_stream_is_joined_with_what_comes(is_gone: bool) -> None:
    """The cell has made the published documents itself, or its publisher is gone."""
    documents = [xscl.Document("S", f"d{n}", n, b"<a>hi</a>") for n in (1, 2, 3)]
    with cluster(2, lambda one: int(one.name == "reader")) as driver, xscl.Engine() as engine:
        engine.retain(SERVICE)  # as a driver does
        for one in (engine, driver.engine):
            one.subscribe("publisher", PUBLISHER)
        engine.push(documents[:2])
        driver.consume(documents[:2], BatchKey(DIRECT, 1, 1))
        for one in (engine, driver.engine):
            if is_gone:
                one.unsubscribe("publisher")
            one.subscribe("reader", READER, since=ALL)
        cells = driver._runner
        assert isinstance(cells, LocalCells)
        cells.close()
        engine.push(documents[2:])
        driver.consume(documents[2:], BatchKey(DIRECT, 2, 2))
        expected = delivered(engine)
        assert len(expected["reader"]) == (3 if is_gone else 9)
        assert delivered(driver.engine) == expected


def test_a_query_of_events_reads_the_past_of_another_one() -> None:
    texts = "SELECT k FROM FILTER{v > 1}(S) PUBLISH P", "SELECT * FROM P NEXT{$1.k = $2.k} P"
    rows = [
        xscl.Document("S", f"d{n}", n, f"<a><k>hi</k><v>{n}</v></a>".encode()) for n in range(6)
    ]
    with cluster(2, lambda one: int(one.name == "reader")) as driver, xscl.Engine() as engine:
        engine.retain(SERVICE)  # as a driver does
        for one in (engine, driver.engine):
            one.stream("S", attributes={"k": str, "v": int})
            one.subscribe("publisher", texts[0], language="cel")
        engine.push(rows[:4])
        driver.consume(rows[:4], BatchKey(DIRECT, 1, 1))
        for one in (engine, driver.engine):
            one.subscribe("reader", texts[1], language="cel", history=True)
        engine.push(rows[4:])
        driver.consume(rows[4:], BatchKey(DIRECT, 2, 2))
        engine.flush()
        driver.flush()
        expected = delivered(engine)
        assert len(expected["reader"]) == 3
        assert delivered(driver.engine) == expected


def test_a_history_of_a_published_stream_begins_after_a_whole_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a batch it would have its documents, and later what is published with them."""

    def fail(cells: LocalCells, shared: Path, tasks: object) -> object:
        raise CellsFailed("a task of a cell failed")

    with cluster(2) as driver:
        driver.engine.subscribe("publisher", PUBLISHER)
        consume(driver, 1)
        with monkeypatch.context() as patched:
            patched.setattr(LocalCells, "run", fail)
            with pytest.raises(CellsFailed):
                consume(driver, 2)
        catalog = driver.engine.host.catalog
        with pytest.raises(ClusterError, match="a change comes after these"):
            catalog.subscribe_from("reader", "P//p->x", since=ALL)
        driver.commit()
        catalog.subscribe_from("reader", "P//p->x", since=ALL)
        consume(driver, 3)
        reader = driver.engine.subscription("reader")
        assert reader is not None
        catalog.backfills.complete(reader.number)
        flags = [one.backfilled for one in driver.engine.matches("reader")]
        assert flags == [True, False, False]


def test_a_history_ends_when_the_cells_have_evaluated_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Meanwhile it would not know what others with the same join have found."""

    def fail(cells: LocalCells, shared: Path, tasks: object) -> object:
        raise CellsFailed("a task of a cell failed")

    with cluster(2) as driver:
        consume(driver, 1)
        driver.engine.subscribe("earlier", PAIRS)
        consume(driver, 2)
        with monkeypatch.context() as patched:
            patched.setattr(LocalCells, "run", fail)
            with pytest.raises(CellsFailed):
                consume(driver, 3)
        register = threading.Thread(
            target=driver.engine.subscribe, args=("pairs", PAIRS), kwargs={"since": ALL}
        )
        register.start()
        register.join(0.5)
        assert register.is_alive()
        driver.commit()
        register.join()
        assert matched(driver, "earlier") == [("d2", "d3")]
        assert sorted(matched(driver, "pairs")) == [("d1", "d2"), ("d1", "d3"), ("d2", "d3")]


def test_a_history_that_meets_a_failed_change_is_registered_in_its_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The state that is loaded again counts its changes from zero, up to the same number."""
    arrived_before = _Run._arrived_before

    with cluster(2) as driver:
        consume(driver, 1)
        transactions = driver.engine.host.transactions
        number = driver.engine.host.catalog.subscribe_from("pairs", PAIRS, since=ALL)
        assert number is not None
        consume(driver, 2)

        def interrupted(run: _Run, store: Store) -> int:
            found = arrived_before(run, store)
            with pytest.raises(ZeroDivisionError), transactions.change():
                raise ZeroDivisionError
            return found

        with monkeypatch.context() as patched:
            patched.setattr(_Run, "_arrived_before", interrupted)
            driver.engine.host.catalog.backfills.complete(number)
        consume(driver, 3)
        assert sorted(matched(driver, "pairs")) == [("d1", "d2"), ("d1", "d3"), ("d2", "d3")]
