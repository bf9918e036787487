"""Documents as they are taken in: all at once or one by one, as columns or not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import pytest

from feeds.documents import Document, DocumentColumns
from tests.examples import usually
from xscl.documents.consumed_offsets import Beat
from xscl.documents.document_log import DocumentLog
from xscl.engine.facade import Engine
from xscl.shredding.arrivals import RemoteBindings, compute_bindings, texts_of
from xscl.shredding.automaton.nfa import Automaton
from xscl.store.store import Store
from xscl.time_format import LATEST

GIVEN = [
    Document("S", "a", 5, b"<x/>"),
    Document("S", "a", 5, b"<x/>"),  # the same again
    Document("S", "a", 6, b"<y/>"),  # a version, `a@2`
    Document(("S", "T"), "a@2", 3, b"<x/>"),  # a name that is taken
    Document("", "b", 1, b"<x/>"),
    Document("S", "b", 9, b"<x"),
    Document("S", "b", 7, b"<x/>"),
    Document("T", "c", 1 << 61, b"<x/>"),
    Document("S", "d", 8, b"<z>1</z>", history=True, origin="o"),
    Document("S", "b", 7, b"<y/>"),
    Document("T", "e", 2, b"<x/>"),
    Document("S", "b", 9, b"<x"),  # refused already
]
BEATS = {0: 1, 6: 20, 12: 30}


def _accept(store: Store, cuts: Sequence[int], shares: Sequence[int]) -> object:
    """Take the documents in, cut into batches, and with `shares` into portions shredded before."""
    documents = DocumentLog(store)
    with store.transaction():
        for begin, end in zip([0, *cuts], [*cuts, len(GIVEN)], strict=True):
            batch = GIVEN[begin:end]
            last = end == len(GIVEN)
            beats = [Beat(at - begin, BEATS[at]) for at in BEATS if begin <= at < end + last]
            given = DocumentColumns.of(batch) if shares else batch
            documents.accept(given, elsewhere=_shredded(batch, shares), beats=beats)
            documents.finish()
    taken = store.fetch("SELECT * FROM state.document ORDER BY doc")
    rejected = store.fetch("SELECT * FROM state.rejected ORDER BY clock, id")
    return taken, rejected, documents.clock, documents.next


def _shredded(documents: Sequence[Document], shares: Sequence[int]) -> RemoteBindings | None:
    """Return the witnesses of documents that were shredded in shares; None without shares."""
    portions = []
    begin = 0
    for share in [*shares, len(documents)]:
        some = documents[begin : begin + share]
        portions.append((compute_bindings(Automaton(), texts_of(some)), len(some)))
        begin += len(some)
    return RemoteBindings.united(portions) if shares else None


@pytest.fixture(scope="module")
def one_by_one() -> object:
    with closing(Store(None)) as store:
        return _accept(store, range(1, len(GIVEN)), ())


@pytest.mark.parametrize("cuts", [(), (2, 7, 9)])
@pytest.mark.parametrize("shares", [(), (0,), (2, 3, 1, 2)])
def test_how_documents_are_handed_over_changes_nothing(
    store: Store, one_by_one: object, cuts: Sequence[int], shares: Sequence[int]
) -> None:
    assert _accept(store, cuts, shares) == one_by_one


def test_documents_have_names_versions_and_clocks(store: Store) -> None:
    _accept(store, (), (0,))
    taken = store.fetch("SELECT id, version, clock, rank, base FROM state.document ORDER BY doc")
    rejected = store.fetch("SELECT id, reason, clock FROM state.rejected ORDER BY clock, id")
    assert taken == [
        ("a", 1, 1, 64, 1),
        ("a@2", 2, 5, 128, 1),
        ("a@2@1", 1, 6, 192, 3),
        ("b", 1, 20, 256, 4),
        ("d", 1, 20, 320, 5),
        ("b@2", 2, 20, 384, 4),
        ("T/e", 1, 20, 448, 7),
    ]
    assert rejected == [("b", "no_stream", 6), ("b", "xml_syntax", 6), ("c", "timestamp", 20)]


@pytest.mark.parametrize("together", [False, True], ids=["documents", "columns"])
@pytest.mark.parametrize(
    "time",
    usually([LATEST + 1, -LATEST - 1, 1 << 61, (1 << 62) - 1, 1 << 62], -LATEST - 1, 1 << 62),
)
def test_an_absurd_time_is_rejected_and_makes_nothing_late(time: int, together: bool) -> None:
    with Engine() as engine:
        engine.subscribe("pairs", "S//a->x FOLLOWED BY{x = y, 10} S//b->y")
        given = [
            Document("S", "a", 1, b"<a>1</a>"),
            Document("S", "far", time, b"<a>1</a>"),
            Document("S", "b", 2, b"<b>1</b>"),
        ]
        found = engine.push(DocumentColumns.of(given) if together else given)
        assert [match.documents for match in found] == [("a", "b")]
        assert engine.sql("FROM late").num_rows == 0
        (row,) = engine.sql("SELECT id, reason, message FROM rejected").to_pylist()
        assert (row["id"], row["reason"]) == ("far", "timestamp")
        assert row["message"].endswith("it is beyond the year 9999")
        for name, allowed in (("last", LATEST), ("first", -LATEST)):
            engine.push([Document("S", name, allowed, b"<a/>")])
        assert engine.sql("FROM rejected").num_rows == 1
