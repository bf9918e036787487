"""Consumers from the spool to the engine: their interface, and the one without Spark.

A consumer reads the segments of a spool in order and passes their documents to a
`BatchSink` in batches.  Each batch has a key, (query id, batch id), which the sink records
in the transaction of the documents, so that a repeated batch changes nothing.  The
sink also records the last consumed segment: a store may change from one consumer to
the other, and each continues where the other one ended.  A batch includes the beats of
the spool, at their places.  At a lost segment a consumer stops, after the batches
before it, until the segment is restored or given up (`xscl spool skip`).

`DirectConsumer` has the query id "direct" and the number of the last segment as batch id.
`xscl.ingestion.spark.spark_pipeline.SparkConsumer` has the ids of its checkpoint.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from feeds.documents import Document, DocumentColumns
from feeds.faultpoints import reached
from feeds.spool import Spool
from xscl.documents.consumed_offsets import DIRECT, BatchKey, Beat
from xscl.engine.batch_size import Sizing
from xscl.errors import XsclError
from xscl.shredding.arrivals import BatchPart
from xscl.shredding.remote.artefact import ArtefactDirectory
from xscl.store.consumed_note import note_consumed

BATCH = 10_000
"""The most documents after which a batch of the direct consumer is closed, with their segment."""

SECONDS = 1.0
"""What a batch of the direct consumer may take; it is closed after fewer documents if need be."""

BATCH_BYTES = 16_000_000
"""The most bytes in a batch of several segments of the direct consumer.

The trees of a batch are kept until its end, and may have thirty times its bytes: of 100 MB of items
that are mostly tags, batches of 64 MB took 2.2 GB, of 16 MB 0.7 GB, and a quarter less time.
"""

START_OVER = "delete the checkpoint: the next run begins where the store ended"
KEPT = 1 << 28
"""Bytes of consumed segments that stay, for a store that is put back from a backup."""

_STOPPED_WITHIN = 0.1  # seconds

_LISTED = 1_000
"""The most segments in one batch."""


class PipelineError(XsclError):
    """Documents cannot be consumed from the spool."""

    code = "pipeline"


class BatchSink(Protocol):
    """The receiver of the documents: an engine with its consumed offsets.

    Always called in the thread that runs the consumer.
    """

    def hold(self) -> None:
        """Wait until a batch can be consumed, before each; may raise."""

    def consume(
        self, documents: Sequence[Document], batch: BatchKey, parts: Sequence[BatchPart] = ()
    ) -> None:
        """Consume a batch, which may be empty, and record its key: all or nothing.

        A batch that was consumed before changes nothing.  `parts` are the witnesses of documents
        that other processes have shredded.
        """

    def consumed(self, query_id: str) -> int | None:
        """Return the last consumed batch under this query id, None if there is none."""

    @property
    def segment(self) -> int:
        """The last segment that any consumer has consumed."""

    def publish_patterns(self, artefacts: ArtefactDirectory) -> None:
        """Publish the automaton for other processes, if it can be written."""


class Consumer(Protocol):
    """The interface of both consumers for a service."""

    def run_once(self) -> int:
        """Consume the present segments of the spool, and return the number of documents."""

    def serve(self, interval: float = 1.0) -> None:
        """Consume present and new segments until `stop`, polling every `interval` seconds."""

    def stop(self) -> None:
        """Request the end after the batch in progress; from any thread or signal handler."""


class DirectConsumer:
    """Consumes a spool in this process, without Spark.

    A batch ends with the segment that brings it to the target number of documents, and before one
    that would exceed the bound of bytes.  The target is what was consumed in `seconds`, at most
    `batch` documents.
    """

    def __init__(
        self,
        spool: Spool,
        sink: BatchSink,
        *,
        batch: int = BATCH,
        most_bytes: int = BATCH_BYTES,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spool = spool
        self._sink = sink
        self._sizing = Sizing(seconds, batch)
        self._clock = clock
        self._most_bytes = most_bytes
        self._stopping = threading.Event()
        self._position = sink.segment

    def run_once(self) -> int:
        """Consume the present segments of the spool, and return the number of documents."""
        count, end = 0, self._spool.latest()
        while not self._stopping.is_set():
            numbers = self._next_batch(end)
            if not numbers:
                break
            documents, beats = read_all(self._spool, numbers)
            last = numbers[-1]
            arrived = self._spool.segment(last).arrived
            self._sink.hold()
            began = self._clock()
            self._sink.consume(documents, BatchKey(DIRECT, last, last, beats, arrived))
            self._sizing.learn(len(documents), self._clock() - began)
            self._position = last
            reached("batch_done")
            forget(self._spool, last)
            count += len(documents)
        return count

    def serve(self, interval: float = 1.0) -> None:
        """Consume present and new segments until `stop`.

        Segments of this process are consumed at once, those of others after `interval` seconds.
        """
        while not self._stopping.is_set():
            self.run_once()
            looking = time.monotonic() + interval
            while not self._stopping.is_set() and (left := looking - time.monotonic()) > 0:
                if self._spool.wait(self._position, min(left, _STOPPED_WITHIN)):
                    break

    def stop(self) -> None:
        """Request the end after the batch in progress; the consumer does not start again."""
        self._stopping.set()

    def _next_batch(self, end: int) -> list[int]:
        """Return the segments of the next batch, up to `end`; none if there are none.

        Raises SegmentsMissing if the next one is lost.
        """
        waiting = self._spool.consecutive(self._position, end, _LISTED)
        if len(waiting) < 2:
            return waiting  # not opened twice: the first one is taken, whatever is in it
        batch: list[int] = []
        rows = size = 0
        for number in waiting:
            if rows >= self._sizing.documents:
                break
            segment = self._spool.segment(number)
            rows += segment.rows
            size += segment.size
            if batch and size > self._most_bytes:
                break
            batch.append(number)
        return batch


def forget(spool: Spool, up_to: int) -> None:
    """Note what was consumed, and delete what was so long ago, if this process has the right."""
    if not spool.read_only:
        note_consumed(spool.directory, up_to)
        spool.forget(up_to, KEPT)


def read_all(spool: Spool, numbers: Sequence[int]) -> tuple[DocumentColumns, tuple[Beat, ...]]:
    """The documents of several segments, in the order given, and the beats between them."""
    documents: list[DocumentColumns] = []
    beats: list[Beat] = []
    count = 0
    for number in numbers:
        found = spool.columns(number)
        if not found:
            beats.append(Beat(count, spool.segment(number).arrived))
        documents.append(found)
        count += len(found)
    return DocumentColumns.united(documents), tuple(beats)


@dataclass(frozen=True, slots=True)
class SparkCheckpoint:
    """The state of a Spark checkpoint: its query id and its last committed batch."""

    directory: Path
    query_id: str
    committed: int | None


def read_checkpoint(directory: Path) -> SparkCheckpoint | None:
    """Return the checkpoint in a directory, None if no query has started there yet.

    Raises PipelineError if its file of metadata is no JSON object with an id.
    """
    path = directory / "metadata"
    if not path.exists():
        return None
    try:
        query_id = str(json.loads(path.read_text("utf-8"))["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"the checkpoint file {path} is damaged", hint=START_OVER) from error
    commits = (directory / "commits").glob("[0-9]*")
    committed = max((int(commit.name) for commit in commits if commit.name.isdigit()), default=None)
    return SparkCheckpoint(directory, query_id, committed)


def read_offset(directory: Path, batch_id: int) -> int:
    """Return the last segment of a batch by Spark's log of offsets.

    Raises if it is unknown: the end of the batch's beats would be unknown, too.
    """
    path = directory / "offsets" / str(batch_id)
    try:
        *_, offset = path.read_text("utf-8").splitlines()
        return int(json.loads(offset)["segment"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PipelineError(  # all in one line: through Java comes nothing else
            f"Spark's log {path} does not say with which segment its batch ends: {START_OVER}"
        ) from error


def check_store(sink: BatchSink, checkpoint: SparkCheckpoint) -> bool:
    """Return True if the sink lacks the last batch that the checkpoint has committed.

    Raises PipelineError if it lacks more: Spark would continue after them, and their documents
    would be lost.  The store was restored from an older copy, or is another one.
    """
    if checkpoint.committed is None:
        return False
    consumed = sink.consumed(checkpoint.query_id)
    missing = checkpoint.committed - (-1 if consumed is None else consumed)
    if missing > 1:
        state = "no batch" if consumed is None else f"batches up to {consumed}"
        raise PipelineError(
            f"the store has {state} of the checkpoint {checkpoint.directory}, which is at batch "
            f"{checkpoint.committed}",
            hint=f"put the newer store back, or {START_OVER}",
        )
    return missing == 1


def reconcile(sink: BatchSink, directory: Path) -> None:
    """Align the checkpoint in a directory, if there is one, with the sink.

    If the sink lacks the last batch, its commit is removed, with the offsets of the one begun after
    it: Spark repeats only the newest batch that it has offsets of.  Raises if the sink lacks more.
    """
    checkpoint = read_checkpoint(directory)
    if checkpoint is not None and check_store(sink, checkpoint):
        assert checkpoint.committed is not None
        _remove(directory / "offsets", checkpoint.committed + 1)
        _remove(directory / "commits", checkpoint.committed)


def _remove(log: Path, batch_id: int) -> None:
    """Remove an entry of one of Spark's logs, if it is there, and its checksum."""
    for name in (str(batch_id), f".{batch_id}.crc"):
        (log / name).unlink(missing_ok=True)
