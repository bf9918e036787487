"""The consumer: every document once, in order, whatever fails between spool and store."""

import errno
import os
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from feeds.documents import Document, DocumentColumns
from feeds.errors import SpoolError
from feeds.spool import Spool
from tests.xscl.service.conftest import eventually, ok, serving
from tests.xscl.service.test_metrics import figures
from xscl.documents.consumed_offsets import BatchKey
from xscl.engine.executors import RESULTS, ExecutorResults
from xscl.engine.ingest import Ingest, PushResult
from xscl.ingestion import pipeline
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer, ExecutorsAway
from xscl.ingestion.watches import ConsumerStall, ConsumerWatch


@dataclass
class Store(Ingest):
    """Consumed documents and offsets, like those of an engine, that can be made to fail."""

    documents: list[Document] = field(default_factory=list)
    ledger: list[tuple[str, int]] = field(default_factory=list)
    refused: list[tuple[str, int]] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    evaluated: list[ExecutorResults | None] = field(default_factory=list)
    fail_before: str | None = None
    fail_after: str | None = None
    on_consume: Callable[[], None] = lambda: None
    segment: int = 0

    def push(
        self,
        documents: Sequence[Document],
        *,
        source: BatchKey | tuple[str, int] | None = None,
        evaluated: ExecutorResults | None = None,
        poison: Collection[int] = (),
        **more: Any,
    ) -> PushResult:
        documents = [one for place, one in enumerate(documents) if place not in poison]
        assert isinstance(source, BatchKey)
        query_id, batch_id, segment, _, _ = source
        self.threads.add(threading.get_ident())
        self.evaluated.append(evaluated)
        ids = {document.id for document in documents}
        if self.fail_before in ids:
            raise ValueError(f"no room for {self.fail_before}")
        if (query_id, batch_id) in self.ledger:
            self.refused.append((query_id, batch_id))
        else:
            self.ledger.append((query_id, batch_id))
            self.documents += documents
            self.segment = max(segment, self.segment)
        if self.fail_after in ids:
            raise ValueError(f"died after {self.fail_after}")
        self.on_consume()
        return PushResult((), len(documents), 0, 0, int)  # type: ignore[arg-type]  # nobody asks

    @property
    def ids(self) -> list[str]:
        return [document.id for document in self.documents]


def document(number: int) -> Document:
    return Document(("S", "T"), f"d{number}", number, b"<a>%d</a>" % number, number < 3, "test")


@pytest.fixture
def store() -> Store:
    return Store()


def fill(spool: Spool, *numbers: int) -> None:
    """Appends two segments, so that no batch of a test is just one."""
    half = len(numbers) // 2
    for part in (numbers[:half], numbers[half:]):
        spool.append([document(number) for number in part], 0)


def test_failed_batches_surface_and_come_again_until_each_document_is_in(
    spool: Spool, store: Store
) -> None:
    for start in range(0, 12, 4):
        fill(spool, *range(start, start + 4))
    store.fail_before = "d6"
    with pytest.raises(ValueError, match=r"^no room for d6$"):
        Consumer(spool, store, batch=4).run_once()
    assert store.ids == ["d0", "d1", "d2", "d3"]

    store.fail_before, store.fail_after = None, "d6"  # as killed after the store's commit
    with pytest.raises(ValueError, match=r"^died after d6$"):
        Consumer(spool, store, batch=4).run_once()

    store.fail_after = None
    Consumer(spool, store, batch=4).run_once()
    assert store.documents == [document(number) for number in range(12)]
    assert store.threads == {threading.get_ident()}
    assert store.ledger == [(store.ledger[0][0], segment) for segment in (2, 4, 6)]
    assert store.refused == []


def test_serves_what_comes_and_stops_after_the_batch_in_progress(
    spool: Spool, store: Store
) -> None:
    consumer = Consumer(spool, store, batch=4)
    fill(spool, 0, 1)

    def more() -> None:
        # A batch may be planned between two appended segments, so that it has d2 without d3.
        if store.ids == ["d0", "d1"]:
            fill(spool, 2, 3)
        elif "d3" in store.ids:
            fill(spool, 4, 5)
            consumer.stop()

    store.on_consume = more
    consumer.serve(interval=0.01)
    assert store.ids == ["d0", "d1", "d2", "d3"]
    assert consumer.run_once() == 0


def test_c7_one_consumer_goes_on_when_the_store_has_room_again(spool: Spool, store: Store) -> None:
    is_full = True

    def hold() -> None:
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    fill(spool, *range(8))
    consumer = Consumer(spool, store, hold=hold, batch=4)
    with pytest.raises(OSError, match="No space left"):
        consumer.run_once()
    assert store.ids == []
    is_full = False
    consumer.run_once()
    assert store.ids == [f"d{number}" for number in range(8)]


def test_a_spool_that_went_backwards_is_refused(spool: Spool, store: Store) -> None:
    store.segment = 7
    with pytest.raises(SpoolError, match="gone backwards: segment 7 was consumed"):
        Consumer(spool, store, batch=4).run_once()


@pytest.mark.usefixtures("apart")
def test_a_consumer_stops_at_a_lost_segment_after_those_before_it(
    spool: Spool, store: Store
) -> None:
    fill(spool, 1, 2)
    fill(spool, 3, 4)
    path = spool.segment(3).path
    image = path.read_bytes()
    path.unlink()
    named = (
        rf"{path} is missing \(segment 3\): .* xscl spool skip 3 --data {spool.directory.parent}"
    )
    consumer = Consumer(spool, store, batch=4)

    with pytest.raises(SpoolError, match=named):
        consumer.run_once()
    assert store.ids == ["d1", "d2"]
    path.write_bytes(image)
    Consumer(spool, store, batch=4).run_once()
    assert store.ids == ["d1", "d2", "d3", "d4"]


@pytest.mark.usefixtures("apart")
def test_a_consumer_goes_on_after_a_segment_that_was_given_up(spool: Spool, store: Store) -> None:
    fill(spool, 1, 2)
    fill(spool, 3, 4)
    spool.segment(3).path.unlink()
    spool.skip(3, 3)
    Consumer(spool, store, batch=4).run_once()
    assert (store.ids, store.segment) == (["d1", "d2", "d4"], 4)


def large(number: int, size: int) -> Document:
    return Document("S", f"d{number}", number, b"<a>%s</a>" % (b"x" * size))


def test_a_batch_has_as_many_documents_as_its_time_allows(spool: Spool, store: Store) -> None:
    for first in range(0, 5_000, 250):
        spool.append([document(number) for number in range(first, first + 250)], 0)
    now, done, slow = 0.0, 0, 1.0

    def took() -> None:
        nonlocal now, done
        sizes.append(len(store.documents) - done)
        now += slow * sizes[-1] / 1_000
        done = len(store.documents)

    sizes: list[int] = []

    def wait() -> None:
        nonlocal now
        now += 60.0  # for a disk that is full, say: documents do not take that

    store.on_consume = took
    consumer = Consumer(spool, store, hold=wait, batch=2_000, seconds=1.0, clock=lambda: now)
    assert consumer.run_once() == 5_000
    assert sizes == [2_000, 1_000, 1_000, 1_000]
    slow = 100.0  # and then another engine: far too slow for what is aimed at
    for first in range(5_000, 7_000, 250):
        spool.append([document(number) for number in range(first, first + 250)], 0)
    consumer.run_once()
    assert sizes[4:] == [1_000, 250, 250, 250, 250]


def test_batches_are_bounded_by_bytes_too(spool: Spool, store: Store) -> None:
    for number, size in enumerate((4_000, 20, 5_000, 20_000, 20)):
        spool.append([large(number, size)], 0)
    Consumer(spool, store, most_bytes=10_000).run_once()
    assert store.ledger == [("spool", 2), ("spool", 3), ("spool", 4), ("spool", 5)]
    assert store.ids == [f"d{number}" for number in range(5)]


class Remote:
    """Executors that are away for so many times, and find nothing; what a consumer uses of them.

    The document `ended_by` ends each process that reads it.
    """

    def __init__(self, times: int = 0, ended_by: str = "") -> None:
        self.times = times
        self.ended_by = ended_by
        self.asked: list[Sequence[int]] = []
        self.stopped = False

    def between(self) -> AbstractContextManager[None]:
        return nullcontext()

    def evaluate(
        self,
        segments: Sequence[int],
        documents: DocumentColumns,
        poison: frozenset[int] = frozenset(),
    ) -> ExecutorResults:
        if self.ended_by in set(documents.ids) - {documents.ids[at] for at in poison}:
            raise ExecutorsAway("a worker has ended")
        self.asked.append(segments)
        if len(self.asked) <= self.times:
            raise ExecutorsAway(f"no Java {len(self.asked)}")
        return ExecutorResults(np.arange(len(documents)), None, RESULTS.empty_table(), (), poison)

    def stop(self) -> None:
        self.stopped = True


def serve_once(spool: Spool, store: Store, executors: Remote, **options: Any) -> None:
    """Serve until a batch was consumed; executors that are away are asked again at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "AGAIN", 0.01)
        consumer = Consumer(spool, store, executors=executors, **options)  # type: ignore[arg-type]  # as much as is used
        store.on_consume = consumer.stop
        consumer.serve(interval=0.01)


def test_documents_wait_while_executors_are_away(spool: Spool, store: Store) -> None:
    fill(spool, 0, 1, 2, 3)
    executors, reasons = Remote(2), list[str | None]()

    def away(failure: ExecutorsAway | None) -> None:
        reasons.append(None if failure is None else failure.message)
        assert store.ids == []

    serve_once(spool, store, executors, on_away=away)
    assert reasons == ["no Java 1", "no Java 2", None]
    assert executors.asked == [[1, 2]] * 3
    assert executors.stopped
    assert (store.ids, store.segment) == (["d0", "d1", "d2", "d3"], 2)
    (evaluated,) = store.evaluated
    assert evaluated is not None
    assert evaluated.numbers.tolist() == [0, 1, 2, 3]


def test_a_document_that_ends_executors_is_left_out(
    spool: Spool, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for when they have failed twice, by another process."""
    read: list[int] = []

    def poisonous(documents: DocumentColumns) -> frozenset[int]:
        read.append(len(documents))
        return frozenset({2})

    monkeypatch.setattr(pipeline, "poisonous", poisonous)
    fill(spool, 0, 1, 2, 3)
    serve_once(spool, store, Remote(ended_by="d2"))
    assert store.ids == ["d0", "d1", "d3"]
    assert read == [4]


def test_executors_that_fail_get_fewer_documents(spool: Spool, store: Store) -> None:
    """They may have found more than fits into one micro-batch."""
    fill(spool, *range(8))
    fill(spool, *range(8, 16))
    executors = Remote(2)
    serve_once(spool, store, executors, batch=16)
    assert executors.asked == [[1, 2, 3, 4], [1, 2], [1]]


def test_executors_are_asked_again_for_a_batch_that_failed(spool: Spool, store: Store) -> None:
    fill(spool, 0, 1)
    executors: Any = Remote()
    consumer = Consumer(spool, store, executors=executors, batch=2)
    store.fail_before = "d0"
    with pytest.raises(ValueError, match="no room"):
        consumer.run_once()
    store.fail_before = None
    fill(spool, *range(2, 12))
    assert consumer.run_once() == 12
    assert executors.asked == [[1, 2], [1, 2], [3], [4]], "its size does not depend on time"


# -- Detection of a stalled consumer, by committed and waiting segments --------------------


class Segments:
    """A spool and a clock, both set by hand."""

    latest = 3
    now = 0.0


def test_it_is_stalled_when_something_waits_and_nothing_is_committed() -> None:
    spool = Segments()
    watch = ConsumerWatch(lambda: spool.latest, 3, lambda: spool.now, stalled=10)
    spool.now = 1_000
    assert watch.stall() is None, "nothing waits"
    spool.latest = 5
    assert watch.stall() is None, "it begins to wait"
    spool.now += 9
    assert watch.stall() is None
    spool.now += 1
    assert watch.stall() == ConsumerStall(4, 10)
    watch.committed(4)
    assert watch.stall() is None
    spool.now += 10
    assert watch.stall() == ConsumerStall(5, 10), "since the last commit was looked at"
    watch.committed(5)
    spool.now += 100
    assert watch.stall() is None


def test_health_says_so_while_the_engine_is_busy(
    home: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered without the engine's lock, which somebody has here."""
    monkeypatch.setattr("xscl.service.app.ConsumerWatch", partial(ConsumerWatch, stalled=0.1))
    with serving(home) as running, running.client() as client:
        assert ok(client.get("/v1/health"))["consumer"] == "ok"
        ok(client.put("/v1/streams/S", json={}))  # else its first document waits for the engine
        app = running.service.app
        assert app is not None
        with app.engine.transactions.lock:
            ok(client.post("/v1/documents/S", content="<a/>"))
            eventually(lambda: ok(client.get("/v1/health"))["consumer"] == "stalled")
            told = ok(client.get("/v1/health"))
            assert told["stalled_segment"] == 1
            assert told["stalled_since"].endswith("Z")
            eventually(lambda: bool(ok(client.get("/v1/status"))["service"]["stalled"]))
            assert figures(client)["xscl_consumer_stalled_seconds", ""] > 0
        eventually(lambda: ok(client.get("/v1/health"))["consumer"] == "ok")
