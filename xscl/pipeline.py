"""From the spool to the engine: what a consumer is, and the one that needs no Spark.

A consumer reads the segments of a spool in order and hands their documents to
a `Sink` in batches.  Each batch has a key, (query id, batch id), which the
sink enters into its ledger in the same transaction as the documents, so that a
batch that comes twice changes nothing.

`DirectConsumer` calls its query "direct" and a batch by the number of its last
segment.  `xscl.spark.SparkConsumer` has the query id and the batch numbers of
its checkpoint.  A store may change from one to the other: each begins where
the ledger says that the other one ended.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from feeds.documents import Document
from feeds.spool import Segment, Spool
from xscl.errors import XsclError

DIRECT = "direct"
"""The query id of the consumer without Spark."""

BATCH = 10_000
"""A batch of the direct consumer is closed with the segment that brings it to so many documents."""

_START_OVER = (
    "delete the checkpoint to read the whole spool again; documents that the store has are "
    "recognised"
)
_LISTED = 1_000
"""So many segments are looked at ahead of time, at most."""


class PipelineError(XsclError):
    """Documents cannot be taken from the spool to the engine."""

    code = "pipeline"


class Sink(Protocol):
    """What takes the documents: an engine with its ledger.

    Always called in the thread that runs the consumer.
    """

    def consume(self, documents: list[Document], query_id: str, batch_id: int) -> None:
        """Takes a batch, which may be empty, and enters it into the ledger: all or nothing.

        A batch that the ledger already has changes nothing.
        """

    def consumed(self, query_id: str) -> int | None:
        """The last batch in the ledger under this query id, None if there is none."""


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

    `checkpoint` is the directory in which a `SparkConsumer` of the same store
    may have left its checkpoint.
    """

    def __init__(
        self, spool: Spool, sink: Sink, *, checkpoint: Path | None = None, batch: int = BATCH
    ) -> None:
        self._spool = spool
        self._sink = sink
        self._batch = batch
        self._stopping = threading.Event()
        self._position = max(sink.consumed(DIRECT) or 0, position_of_spark(sink, checkpoint))

    def run_once(self) -> int:
        """Consumes what is in the spool now, and returns the number of documents."""
        count, end = 0, self._spool.latest()
        while not self._stopping.is_set():
            segments = self._next_batch(end)
            if not segments:
                break
            documents = read_all(self._spool, [segment.number for segment in segments])
            self._sink.consume(documents, DIRECT, segments[-1].number)
            self._position = segments[-1].number
            count += len(documents)
        return count

    def serve(self, interval: float = 1.0) -> None:
        """Consumes what is and what comes until `stop`, looking every `interval` seconds."""
        while not self._stopping.is_set():
            self.run_once()
            self._stopping.wait(interval)

    def stop(self) -> None:
        """Asks for the end after the batch in progress; the consumer does not start again."""
        self._stopping.set()

    def _next_batch(self, end: int) -> list[Segment]:
        """The segments up to `end` that make the next batch, none if there are none."""
        batch: list[Segment] = []
        rows = 0
        for segment in self._spool.segments(self._position, _LISTED):
            if rows >= self._batch or segment.number > end:
                break
            batch.append(segment)
            rows += segment.rows
        return batch


def read_all(spool: Spool, numbers: list[int]) -> list[Document]:
    """The documents of several segments, in the order given."""
    return [document for number in numbers for document in spool.read(number)]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a Spark checkpoint says: the id of its query and the last batch that it committed."""

    directory: Path
    query_id: str
    committed: int | None

    def segment(self, batch_id: int) -> int:
        """The last segment of a batch, 0 if the checkpoint has forgotten the batch."""
        path = self.directory / "offsets" / str(batch_id)
        if not path.exists():
            return 0
        return int(_entry(path, path.read_text("utf-8").rstrip().rpartition("\n")[2], "segment"))


def read_checkpoint(directory: Path) -> Checkpoint | None:
    """The checkpoint in a directory, None if no query has started there yet."""
    path = directory / "metadata"
    if not path.exists():
        return None
    query_id = _entry(path, path.read_text("utf-8"), "id")
    commits = (directory / "commits").glob("[0-9]*")
    committed = max((int(commit.name) for commit in commits if commit.name.isdigit()), default=None)
    return Checkpoint(directory, query_id, committed)


def position_of_spark(sink: Sink, directory: Path | None) -> int:
    """The segment up to which the sink got everything from the query of a checkpoint.

    The sink's ledger decides, not the checkpoint: whatever has become of the
    one, what is in the other was consumed.
    """
    checkpoint = read_checkpoint(directory) if directory is not None else None
    batch_id = sink.consumed(checkpoint.query_id) if checkpoint is not None else None
    return checkpoint.segment(batch_id) if checkpoint and batch_id is not None else 0


def check_store(sink: Sink, checkpoint: Checkpoint) -> None:
    """Raises if the sink lacks batches that the checkpoint has committed.

    Spark would go on after them, and their documents would be lost: the store
    was put back from an older copy, or is another one.
    """
    consumed = sink.consumed(checkpoint.query_id)
    if checkpoint.committed is not None and (consumed is None or consumed < checkpoint.committed):
        state = "no batch" if consumed is None else f"batches up to {consumed}"
        raise PipelineError(
            f"the store has {state} of the checkpoint {checkpoint.directory}, which is at batch "
            f"{checkpoint.committed}",
            hint=f"put the newer store back, or {_START_OVER}",
        )


def _entry(path: Path, text: str, key: str) -> str:
    """One entry of a JSON object in a file of a checkpoint, as text."""
    try:
        return str(json.loads(text)[key])
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"the checkpoint file {path} is damaged", hint=_START_OVER) from error
