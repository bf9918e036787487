"""Identities, placement, copies of publishers and the files of a cluster, by example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import xscl
from feeds.documents import DocumentColumns
from tests.xscl.cluster.histories import cluster, delivered
from xscl.cluster.cell_host import LocalCells
from xscl.cluster.controls import (
    CopyPublisher,
    DeclareStream,
    Edit,
    Flush,
    Register,
    Remove,
)
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.placement import Choose, Placement
from xscl.cluster.sealed_log import SealedLog, SequencedDocuments
from xscl.cluster.shared_directory import ClusterError, SharedDirectory, StaleDriver
from xscl.documents.document_log import DocumentIdentity
from xscl.documents.results import Subscription
from xscl.documents.retention import SERVICE
from xscl.engine.state import Role
from xscl.store.consumed_offsets import DIRECT, BatchKey

SAME = "S//a->x FOLLOWED BY{x=y, 100} S//a->y"
NUMBERS = count(1)


def document(
    name: str, time: int, text: str = "hi", stream: str | tuple[str, ...] = "S"
) -> xscl.Document:
    return xscl.Document(stream, name, time, f"<a>{text}</a>".encode())


def push(driver: ClusterDriver, *documents: xscl.Document) -> None:
    number = next(NUMBERS)
    driver.consume(documents, BatchKey(DIRECT, number, number))


def in_cell(cells: dict[str, int]) -> Choose:
    return lambda subscription: cells[subscription.name]


def documents_of(driver: ClusterDriver, name: str) -> list[object]:
    return [row[1] for row in delivered(driver.engine).get(name, [])]


# -- Identities ------------------------------------------------------------------------------


def test_an_engine_takes_the_identities_that_a_sequencer_gave() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("new", "S//a->x")
        engine.subscribe("all", "S//a->x", updates=True)
        given = [DocumentIdentity("d", 1, 5), DocumentIdentity("e@7", 3, 8)]
        documents = [document("d", 1), document("e", 2)]
        found = engine.host.ingest.push(documents, identities=given)
        assert [(one.subscription, one.documents) for one in found] == [
            ("new", ("d",)),
            ("all", ("d",)),
            ("all", ("e@7",)),
        ]


def test_versions_count_documents_that_the_cell_does_not_have() -> None:
    """The first version is on streams that no subscription of the cell reads."""
    with cluster(2) as driver:
        driver.engine.subscribe("r", "R//a->x", updates=True)
        driver.engine.subscribe("first", "R//a->x")
        push(driver, document("d", 1, "one", ("S", "T")))
        push(driver, document("d", 2, "two", ("T", "R")), document("d", 3, "two", "R"))
        assert documents_of(driver, "r") == [["d@2"]]
        assert documents_of(driver, "first") == []


def test_documents_of_two_streams_with_one_id_are_joined() -> None:
    with cluster(2) as driver:
        driver.engine.subscribe("pairs", "S//a->x FOLLOWED BY{x = y, 9} R//a->y")
        driver.engine.subscribe("r", "R//a->x")
        for number in (1, 2):  # the second time they are all repetitions
            push(driver, document("d", number, "one", "S"), document("d", 2, "one", "R"))
        assert documents_of(driver, "pairs") == [["d", "d@2"]]
        assert documents_of(driver, "r") == [["d@2"]]


def test_documents_have_the_bases_of_a_single_engine() -> None:
    """The cell lacks the first version, whose base the last one has."""
    given = [("1", ("S",)), ("1", ("R",)), ("2", ("S", "R")), ("3", ("R",))]
    query = "R//a[./@n->x] FOLLOWED BY{x = y, 9} R//a[./@n->y]"
    documents = [
        xscl.Document(streams, "d", time, f"<a n='1'>{text}</a>".encode())
        for time, (text, streams) in enumerate(given)
    ]
    with xscl.Engine() as engine, cluster(2) as driver:
        for one in (engine, driver.engine):
            one.subscribe("q", query, updates=True)
        for document in documents:
            engine.push(document)
            push(driver, document)
        expected = [list(match.documents) for match in engine.matches("q")]
        assert documents_of(driver, "q") == expected != []


def test_the_clock_passes_with_documents_that_the_cell_does_not_have() -> None:
    """A late document is late by the clock of all streams."""
    with cluster(1) as driver:
        driver.engine.subscribe("next", "S//a->x NEXT{x=y} S//a->y")
        push(driver, document("d1", 1), document("r", 50, "no", "R"), document("d2", 10))
        driver.flush()
        with xscl.Engine() as engine:
            engine.subscribe("next", "S//a->x NEXT{x=y} S//a->y")
            engine.push([document("d1", 1), document("r", 50, "no", "R"), document("d2", 10)])
            engine.flush()
            expected = [list(one.documents) for one in engine.matches("next")]
        assert documents_of(driver, "next") == expected


def test_matches_are_evicted_at_the_age_of_one_engine() -> None:
    """Before the cells have said which documents they need, too."""
    hour = 3_600_000_000
    kept = dict[str, list[int]]()
    retention = replace(SERVICE, matches=2 * hour)

    def fill(engine: xscl.Engine, consume: Callable[[xscl.Document, BatchKey], object]) -> None:
        engine.retain(retention)
        engine.subscribe("all", "S//a->x")
        counts = kept.setdefault(str(engine.host.transactions.settings.role), [])
        for number in range(1, 9):
            key = BatchKey(DIRECT, number, number, (), number * hour)
            consume(document(f"d{number}", number * hour), key)
            counts.append(len(engine.matches()))

    with xscl.Engine() as engine:
        fill(engine, lambda one, key: engine.host.ingest.push([one], source=key))
    with cluster(2, lambda _: 0) as driver:
        fill(driver.engine, lambda one, key: driver.consume([one], key))
    (one, several) = kept.values()
    assert several == one
    assert max(one) < 8


def test_the_driver_counts_documents_and_matches() -> None:
    """A batch that comes again is no document, and several commits are several pushes."""
    with cluster(2, lambda _: 0) as driver:
        driver.engine.subscribe("pairs", SAME)
        for key in (BatchKey(DIRECT, 1, 1), BatchKey(DIRECT, 1, 1), BatchKey(DIRECT, 2, 2)):
            driver.consume([document(f"d{key.segment}", key.segment)], key)
        pace = driver.engine.host.ingest.pace
        assert (pace.documents, pace.matches) == (2, 1)
        assert pace.rates().documents_1m > 0


def test_malformed_documents_are_recorded_by_the_driver() -> None:
    with cluster(2) as driver:
        driver.engine.subscribe("s", "S//a->x")
        push(driver, xscl.Document("S", "bad", 1, b"<a>"), document("d", 2))
        assert documents_of(driver, "s") == [["d"]]
        assert driver.engine.sql("SELECT id FROM rejected")["id"].to_pylist() == ["bad"]


# -- Published streams -----------------------------------------------------------------------


def test_a_publisher_is_copied_with_its_state_when_a_reader_is_elsewhere() -> None:
    """Its cell is made anew from the log; the reader sees pairs that came after it."""
    cells = {"publisher": 0, "reader": 1}
    published = "SELECT <p>{x}</p> FROM " + SAME + " PUBLISH P"
    with cluster(2, in_cell(cells)) as driver, xscl.Engine() as engine:
        driver.engine.subscribe("publisher", published)
        engine.subscribe("publisher", published)
        batches = [[document("d1", 1)], [document("d2", 2)], [document("d3", 3)]]
        for number, batch in enumerate(batches):
            push(driver, *batch)
            engine.push(batch)
            if number == 0:
                driver.engine.subscribe("reader", "P//p->x")
                engine.subscribe("reader", "P//p->x")
        expected = [one.id for one in engine.matches("reader")]
        assert len(expected) == 1
        assert [row[0] for row in delivered(driver.engine)["reader"]] == expected
        assert len(delivered(driver.engine)["publisher"]) == 3, "the copy is silent"


# -- Placement -------------------------------------------------------------------------------


def subscription(name: str, query: str) -> Subscription:
    return Subscription(1, name, query, 1, 1, (), 0)


def test_subscriptions_with_a_common_constant_lie_together() -> None:
    place = Placement(range(4))
    for number in range(400):
        channel = number % 20
        query = f'S//item[channel="c{channel}"]->x FOLLOWED BY{{x=y, {number}}} S//item->y'
        place(subscription(f"s{number}", query))
    again = [
        place(subscription("n", f'S//item[channel="c{c}"]->x FOLLOWED BY{{x=y, 7}} S//item->y'))
        for c in range(20)
        for _ in range(3)
    ]
    together = [len(set(again[at : at + 3])) for at in range(0, 60, 3)]
    assert sum(one == 1 for one in together) >= 15


def test_no_cell_is_much_fuller_than_the_others() -> None:
    place = Placement(range(4))
    sizes = Counter(place(subscription(f"s{n}", 'S//a[b="x"]->x')) for n in range(1_000))
    assert max(sizes.values()) <= 1.25 * 250 + 10


# -- Files -----------------------------------------------------------------------------------


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    shared = SharedDirectory(tmp_path / "shared")
    shared.create()
    log = SealedLog(shared)
    controls = (
        DeclareStream("S", 5, True, {"n": "int"}),
        Register("a", SAME, "xscl", True, 4, 1, (0, 2)),
        CopyPublisher("p", 2, 1),
        Edit("a", SAME, "xscl", False, True, 9),
        Remove("b"),
        Flush(),
    )
    log.write(1, controls)
    documents = DocumentColumns.of(
        [xscl.Document(("S", "R"), "d", 4, b"<a/>", True, "from"), document("e", 2)]
    )
    identities = [DocumentIdentity("d", 1, 3), DocumentIdentity("e@2", 2, 4)]
    log.write(2, SequencedDocuments(documents, identities, np.array([1, 4, 4]), None, 5))
    assert log.read(1) == controls
    found = log.read(2)
    assert isinstance(found, SequencedDocuments)
    assert found.documents == documents
    assert (found.identities, found.clocks.tolist(), found.arrived) == (identities, [1, 4, 4], None)
    on_r = found.on(frozenset("R"))
    assert (on_r.documents.ids, on_r.clocks.tolist()) == (["d"], [1, 4])


def test_a_lost_or_damaged_entry_is_an_error(tmp_path: Path) -> None:
    shared = SharedDirectory(tmp_path)
    shared.create()
    log = SealedLog(shared)
    with pytest.raises(ClusterError, match="entry 1 of the log is missing"):
        log.read(1)
    log.write(1, SequencedDocuments(DocumentColumns.of(()), [], np.array([3]), 7, 1))
    path = tmp_path / "sealed" / f"{1:020d}.arrow"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ClusterError, match="entry 1 of the log is damaged"):
        log.read(1)


def test_a_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    with pytest.raises(ClusterError, match="others can write"):
        SharedDirectory(tmp_path).create()


def test_a_cluster_keeps_its_number_of_cells(tmp_path: Path) -> None:
    shared, cells = SharedDirectory(tmp_path / "shared"), LocalCells(in_memory=True)
    with xscl.Engine(role=Role.DRIVER) as engine:
        ClusterDriver(engine, shared, 2, cells)
        with pytest.raises(ClusterError, match="began with 2 cells, not 3"):
            ClusterDriver(engine, shared, 3, cells)


def test_a_driver_with_an_older_store_is_refused(tmp_path: Path) -> None:
    shared, cells = SharedDirectory(tmp_path / "shared"), LocalCells(in_memory=True)
    with xscl.Engine(role=Role.DRIVER) as engine, xscl.Engine(role=Role.DRIVER) as older:
        for _ in range(2):
            ClusterDriver(engine, shared, 2, cells)
        with pytest.raises(StaleDriver):
            ClusterDriver(older, shared, 2, cells)


def test_registrations_of_one_engine_without_documents_become_a_cluster(tmp_path: Path) -> None:
    queries = {
        "pairs": (SAME, "xscl"),
        "next": ("S//a->x NEXT{x=y} S//a->y", "xscl"),
        "rises": ("SELECT * FROM T NEXT{$1.v < $2.v} T", "cel"),
    }

    def deliver(consume: Callable[[xscl.Document, BatchKey], object]) -> None:
        for number in range(1, 5):
            consume(document(f"d{number}", number, str(number % 2)), BatchKey(DIRECT, number))
            xml = f"<t><v>{number}</v></t>".encode()
            consume(xscl.Document("T", f"t{number}", number, xml), BatchKey("T", number))

    path = tmp_path / "store.duckdb"
    for found in (path, tmp_path / "single.duckdb"):
        with xscl.Engine(found) as engine:
            engine.stream("T", attributes={"v": float})
            for name, (query, language) in queries.items():
                engine.subscribe(name, query, language=language)
    with xscl.Engine(tmp_path / "single.duckdb") as engine:
        deliver(lambda one, key: engine.host.ingest.push([one], source=key))
        expected = delivered(engine)
    with xscl.Engine(path, role=Role.DRIVER) as engine:
        driver = ClusterDriver(engine, SharedDirectory(tmp_path / "shared"), 2, LocalCells())
        deliver(lambda one, key: driver.consume([one], key))
        assert delivered(engine) == expected
    assert all(expected[name] for name in queries)


def test_an_engine_that_evaluates_is_no_driver(tmp_path: Path) -> None:
    shared, cells = SharedDirectory(tmp_path / "shared"), LocalCells(in_memory=True)
    with xscl.Engine() as engine, pytest.raises(ClusterError, match="does not evaluate"):
        ClusterDriver(engine, shared, 2, cells)


def test_a_place_that_is_not_the_shared_directory_is_an_error(tmp_path: Path) -> None:
    """As on a machine where it is not mounted."""
    with pytest.raises(ClusterError, match="is not the shared directory of a driver"):
        SharedDirectory(tmp_path).expect_epoch(1)
