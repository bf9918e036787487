"""An id is one of a stream: repetitions, versions, and documents that share an id only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pytest

from feeds.documents import Document
from xscl.documents.document_ids import Hashes, hashes_of
from xscl.documents.retention import SERVICE
from xscl.engine.facade import Engine

PAIRS = "orders//order->n FOLLOWED BY{n = m, 30 d} invoices//invoice->m"
EITHER = "S//a->x FOLLOWED BY{x = y, 30 d} T//a->y"


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    path = tmp_path / "state.sqlite" if request.param == "file" else None
    with Engine(path) as engine:
        yield engine


def order(id: str, number: str, time: int = 1) -> Document:
    return Document("orders", id, time, f"<order>{number}</order>".encode())


def invoice(id: str, number: str, time: int = 2) -> Document:
    return Document("invoices", id, time, f"<invoice>{number}</invoice>".encode())


def listed(engine: Engine) -> list[tuple[object, ...]]:
    """The documents: name, version, streams; the database has them all then."""
    query = "SELECT id, version, streams FROM state.document ORDER BY doc"
    with engine.transactions.lock:
        rows = engine.transactions.store.fetch(query)
    return [(id, version, *streams) for id, version, streams in rows]


@pytest.mark.parametrize("cuts", [[2], [1, 1]], ids=["one push", "two pushes"])
@pytest.mark.parametrize("updates", [False, True])
def test_documents_of_two_streams_with_one_id_are_joined(
    engine: Engine, cuts: Sequence[int], updates: bool
) -> None:
    engine.subscribe("pairs", PAIRS, updates=updates)
    coming = iter([order("17", "17"), invoice("17", "17")])
    found = [match for cut in cuts for match in engine.push([next(coming) for _ in range(cut)])]
    assert [match.documents for match in found] == [("17", "17")]
    assert [match.names for match in found] == [("orders/17", "invoices/17")]
    assert listed(engine) == [("orders/17", 1, "orders"), ("invoices/17", 1, "invoices")]


def test_a_document_is_sent_again_to_the_stream_it_was_meant_for(engine: Engine) -> None:
    engine.subscribe("orders", "orders//order->n")
    lost = Document("odrers", "17", 1, b"<order>17</order>")
    assert engine.push([lost]).accepted == 1
    found = engine.push([order("17", "17")])
    assert [match.names for match in found] == [("orders/17",)]
    again = engine.push([lost, order("17", "17")])
    assert (again.accepted, again.unchanged) == (0, 2)


def test_versions_are_counted_for_each_stream(engine: Engine) -> None:
    engine.subscribe("pairs", PAIRS)
    engine.subscribe("all", PAIRS, updates=True)
    given = [order("17", "a"), invoice("17", "b"), order("17", "b"), invoice("17", "a")]
    found = [match for one in given for match in engine.push([one])]
    assert listed(engine) == [
        ("orders/17", 1, "orders"),
        ("invoices/17", 1, "invoices"),
        ("orders/17@2", 2, "orders"),
        ("invoices/17@2", 2, "invoices"),
    ]
    assert {match.subscription for match in found} == {"all"}
    assert [match.documents for match in found] == [("17@2", "17"), ("17", "17@2")]


def test_documents_that_share_a_stream_are_versions_and_never_meet(engine: Engine) -> None:
    engine.subscribe("all", EITHER, updates=True)
    given = [
        Document(streams, "d", time, b"<a>1</a><!--%d-->" % time)
        for time, streams in enumerate([("S",), ("S", "T"), ("T",), ("T", "U")])
    ]
    assert not [match for one in given for match in engine.push([one])]
    assert [row[:2] for row in listed(engine)] == [("d", 1), ("d@2", 2), ("T/d@3", 3), ("T/d@4", 4)]


def test_ids_whose_hashes_collide_are_different(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def colliding(ids: Collection[str]) -> Hashes:
        return hashes_of(["17"] * len(ids))

    monkeypatch.setattr("xscl.documents.document_log.hashes_of", colliding)
    engine.push([order("17", "a"), order("18", "a")])
    again = engine.push([order("18", "a"), order("19", "a"), order("17", "b")])
    assert (again.accepted, again.unchanged) == (2, 1)
    names = ["orders/17", "orders/18", "orders/19", "orders/17@2"]
    assert [row[0] for row in listed(engine)] == names


SHARED = [  # the third has the id as a name that is like that of the last
    Document("S", "a", 1, b"<a>1</a>"),
    Document("T", "a", 2, b"<a>1</a>"),
    Document("S", "a@3", 3, b"<a>1</a>"),
    Document("T", "a", 4, b"<a>1</a><!--2-->"),
    Document(("S", "T"), "a", 5, b"<a>1</a><!--3-->"),
]


@pytest.mark.parametrize("streams", ["ST", "SS", "TT"])
def test_a_past_has_the_ids_and_the_bases_of_the_documents(engine: Engine, streams: str) -> None:
    """Backfills and trials keep ids and bases, also if other documents with an id are not read."""
    query = f"{streams[0]}//a->x FOLLOWED BY{{x = y, 30 d}} {streams[1]}//a->y"
    engine.retain(SERVICE)
    engine.subscribe("live", query, updates=True)
    for one in SHARED:
        engine.push(one)
    assert [row[0] for row in listed(engine)] == ["a", "T/a", "a@3@1", "T/a@2", "a@3"]
    live = {one.names for one in engine.matches("live")}
    assert live
    engine.subscribe("late", query, updates=True, since="1 d")
    assert {one.names for one in engine.matches("late")} == live
    assert {one.names for one in engine.try_query("live")} == live
