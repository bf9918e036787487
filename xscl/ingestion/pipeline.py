"""From the spool to the engine: what a consumer is, and the one that needs no Spark.

A consumer reads the segments of a spool in order and hands their documents to
a `Sink` in batches.  Each batch has a key, (query id, batch id), which the
sink enters into its ledger in the same transaction as the documents, so that a
batch that comes twice changes nothing.  The ledger also says up to which
segment the spool was consumed: a store may change from one consumer to the
other, and each begins where the other one ended.  A batch has the beats of the
spool too, at their places.  At a segment that is lost a consumer stops, after
the batches before it, until that is put back or given up (`xscl spool skip`).

`DirectConsumer` calls its query "direct" and a batch by the number of its last
segment.  `xscl.ingestion.spark.spark_pipeline.SparkConsumer` has the query id and the batch
numbers of
its checkpoint.
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
from xscl.engine.batch_size import Sizing
from xscl.errors import XsclError
from xscl.shredding.remote.artefact import Artefacts
from xscl.shredding.remote.remote_bindings import Part
from xscl.store.consumed_offsets import DIRECT, Batch, Beat

BATCH = 10_000
"""The most documents after which a batch of the direct consumer is closed, with their segment."""

SECONDS = 1.0
"""What a batch of the direct consumer may take; it is closed after fewer documents if need be."""

BATCH_BYTES = 16_000_000
"""The most bytes in a batch of several segments of the direct consumer.

The trees of a batch are kept until its end, and may have thirty times its bytes: of 100 MB of items
that are mostly tags, batches of 64 MB took 2.2 GB, of 16 MB 0.7 GB, and a quarter less time.
"""

_START_OVER = "delete the checkpoint: the next run begins where the store ended"
KEPT = 1 << 28
"""Bytes of consumed segments that stay, for a store that is put back from a backup."""

_STOPPED_WITHIN = 0.1  # seconds

_LISTED = 1_000
"""The most segments in one batch."""


class PipelineError(XsclError):
    """Documents cannot be taken from the spool to the engine."""

    code = "pipeline"


class Sink(Protocol):
    """What takes the documents: an engine with its ledger.

    Always called in the thread that runs the consumer.
    """

    def hold(self) -> None:
        """Returns when a batch can be taken, before each; may raise."""

    def consume(
        self, documents: Sequence[Document], batch: Batch, parts: Sequence[Part] = ()
    ) -> None:
        """Takes a batch, which may be empty, and enters it into the ledger: all or nothing.

        A batch that the ledger already has changes nothing.  `parts` are the witnesses of the
        documents, where they were found elsewhere.
        """

    def consumed(self, query_id: str) -> int | None:
        """The last batch in the ledger under this query id, None if there is none."""

    @property
    def segment(self) -> int:
        """The segment up to which the spool was consumed, whoever did it."""

    def publish_patterns(self, artefacts: Artefacts) -> None:
        """Leaves what documents are shredded with for other processes, if it can be written."""


class Consumer(Protocol):
    """Both consumers, as a service sees them."""

    def run_once(self) -> int:
        """Consumes what is in the spool now, and returns the number of documents."""

    def serve(self, interval: float = 1.0) -> None:
        """Consumes what is and what comes until `stop`, looking every `interval` seconds."""

    def stop(self) -> None:
        """Asks for the end after the batch in progress; from any thread or signal handler."""


class DirectConsumer:
    """Consumes a spool in this very process, without Spark.

    A batch is closed with the segment that brings it to so many documents, and before one that
    would bring it above so many bytes.  So many are what can be done in so many `seconds`, at most
    `batch`.
    """

    def __init__(
        self,
        spool: Spool,
        sink: Sink,
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
        """Consumes what is in the spool now, and returns the number of documents."""
        count, end = 0, self._spool.latest()
        while not self._stopping.is_set():
            numbers = self._next_batch(end)
            if not numbers:
                break
            documents, beats = read_all(self._spool, numbers)
            last = numbers[-1]
            self._sink.hold()
            began = self._clock()
            self._sink.consume(documents, Batch(DIRECT, last, last, beats))
            self._sizing.learn(len(documents), self._clock() - began)
            self._position = last
            reached("batch_done")
            forget(self._spool, last)
            count += len(documents)
        return count

    def serve(self, interval: float = 1.0) -> None:
        """Consumes what is and what comes until `stop`.

        What this process appends is consumed at once, what others do after `interval` seconds.
        """
        while not self._stopping.is_set():
            self.run_once()
            looking = time.monotonic() + interval
            while not self._stopping.is_set() and (left := looking - time.monotonic()) > 0:
                if self._spool.wait(self._position, min(left, _STOPPED_WITHIN)):
                    break

    def stop(self) -> None:
        """Asks for the end after the batch in progress; the consumer does not start again."""
        self._stopping.set()

    def _next_batch(self, end: int) -> list[int]:
        """The segments up to `end` that make the next batch, none if there are none.

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
    """Deletes segments that were consumed long ago, if this process may."""
    if not spool.read_only:
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
class Checkpoint:
    """What a Spark checkpoint says: the id of its query and the last batch that it committed."""

    directory: Path
    query_id: str
    committed: int | None


def read_checkpoint(directory: Path) -> Checkpoint | None:
    """The checkpoint in a directory, None if no query has started there yet."""
    path = directory / "metadata"
    if not path.exists():
        return None
    query_id = _entry(path, path.read_text("utf-8"), "id")
    commits = (directory / "commits").glob("[0-9]*")
    committed = max((int(commit.name) for commit in commits if commit.name.isdigit()), default=None)
    return Checkpoint(directory, query_id, committed)


def read_offset(directory: Path, batch_id: int) -> int:
    """The segment with which a batch ends by Spark's log of offsets.

    Raises if it does not say: where the beats of the batch end would not be known.
    """
    path = directory / "offsets" / str(batch_id)
    try:
        *_, offset = path.read_text("utf-8").splitlines()
        return int(json.loads(offset)["segment"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PipelineError(  # all in one line: through Java comes nothing else
            f"Spark's log {path} does not say with which segment its batch ends: {_START_OVER}"
        ) from error


def check_store(sink: Sink, checkpoint: Checkpoint) -> None:
    """Raises if the sink lacks batches that the checkpoint has committed, but for the last one.

    Spark would go on after them, and their documents would be lost: the store
    was put back from an older copy, or is another one.
    """
    consumed = sink.consumed(checkpoint.query_id)
    if _missing(consumed, checkpoint) > 1:
        state = "no batch" if consumed is None else f"batches up to {consumed}"
        raise PipelineError(
            f"the store has {state} of the checkpoint {checkpoint.directory}, which is at batch "
            f"{checkpoint.committed}",
            hint=f"put the newer store back, or {_START_OVER}",
        )


def reconcile(sink: Sink, directory: Path) -> None:
    """Makes the checkpoint in a directory, if there is one, say what the sink has.

    If the sink lacks the last batch, its commit is taken back, with the offsets of the one that
    was begun after it: Spark gives the newest batch again that it has offsets of, and no other.
    Raises if the sink lacks more.
    """
    checkpoint = read_checkpoint(directory)
    if checkpoint is None:
        return
    check_store(sink, checkpoint)
    if _missing(sink.consumed(checkpoint.query_id), checkpoint) == 1:
        assert checkpoint.committed is not None
        _remove(directory / "offsets", checkpoint.committed + 1)
        _remove(directory / "commits", checkpoint.committed)


def _remove(log: Path, batch_id: int) -> None:
    """Removes an entry of one of Spark's logs, if it is there, and its checksum."""
    for name in (str(batch_id), f".{batch_id}.crc"):
        (log / name).unlink(missing_ok=True)


def _missing(consumed: int | None, checkpoint: Checkpoint) -> int:
    """How many batches a checkpoint has committed after the last one that the sink has."""
    if checkpoint.committed is None:
        return 0
    return checkpoint.committed - (-1 if consumed is None else consumed)


def _entry(path: Path, text: str, key: str) -> str:
    """One entry of a JSON object in a file of a checkpoint, as text."""
    try:
        return str(json.loads(text)[key])
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"the checkpoint file {path} is damaged", hint=_START_OVER) from error
