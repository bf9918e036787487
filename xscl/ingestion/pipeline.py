"""The consumer: pushes documents from the spool to the engine, through executors if there are any.

It reads the segments of a spool in order and pushes their documents in batches.  Each batch has a
key, its last segment, which the engine records in the transaction of the documents, so that a
repeated batch changes nothing, and a consumer begins after the last one.  A batch includes the
beats of the spool, at their places.  At a lost segment a consumer stops, after the batches before
it, until the segment is restored or given up (`xscl spool skip`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

from feeds.documents import DocumentColumns
from feeds.faultpoints import reached
from feeds.spool import Spool
from feeds.spool_note import note_consumed
from xscl.documents.consumed_offsets import SPOOL, BatchKey, Beat
from xscl.engine.batch_size import BatchSize
from xscl.engine.executors import Executors
from xscl.engine.ingest import Ingest, PushResult
from xscl.errors import XsclError
from xscl.ingestion.quarantine import BatchAttempts, poisonous
from xscl.ingestion.watches import AGAIN
from xscl.subscriptions.matches import Matches

_log = logging.getLogger(__name__)

BATCH = 10_000
"""Default of `Consumer.batch`: the segment that brings a batch to as many documents ends it."""

SECONDS = 1.0
"""The target time of a batch without executors, in seconds, which bounds its documents."""

BATCH_BYTES = 16_000_000
"""The most bytes in a batch of several segments.

The trees of a batch are kept until its end, and may have thirty times its bytes: of 100 MB of items
that are mostly tags, batches of 64 MB took 2.2 GB, of 16 MB 0.7 GB, and a quarter less time.
"""

KEPT = 1 << 28
"""Bytes of consumed segments that are kept: a store restored from a backup consumes them again."""

_STOPPED_WITHIN = 0.1  # seconds between two checks for `stop` while no segment comes

SUSPICIOUS = 2
"""Failures of executors after which another process reads the batch, to find what crashes it.

Most failures have nothing to do with a document."""

_LISTED = 1_000
"""Maximum number of segments in a batch."""


class PipelineError(XsclError):
    """Documents cannot be consumed from the spool."""

    code = "pipeline"


class ExecutorsAway(PipelineError):
    """Executors cannot evaluate documents now: these wait in the spool."""


def _go_on() -> None:
    """Return: the default of `hold`, which delays no batch."""


def _ignore(outcome: object) -> None:
    """Ignore an outcome: the default of the callbacks."""


@dataclass(eq=False)
class Consumer:
    """Consumes a spool, with `executors` for stage 1 and for the joins that they evaluate.

    A batch ends with the segment that brings it to the target number of documents, and before one
    that would exceed `most_bytes`.  The target is the number of documents consumed in `seconds`, at
    most `batch`.  With executors it is `batch`, since a micro-batch has a fixed cost, and is halved
    after each of their failures.

    `hold` is called before each batch; it may wait or raise.  `attempts` records whether a batch
    crashed a process.  `on_matches` gets the matches of each transaction, which others deliver
    (`xscl.delivery.outbox`), `on_pushed` the counts of each batch, and `on_committed` its key.
    `on_away` is called with the failure while executors are away, and with None afterwards.
    """

    spool: Spool
    ingest: Ingest
    _: KW_ONLY
    executors: Executors | None = None
    hold: Callable[[], None] = _go_on
    attempts: BatchAttempts = field(default_factory=BatchAttempts)
    on_matches: Callable[[Matches], None] = _ignore
    on_pushed: Callable[[PushResult], None] = _ignore
    on_committed: Callable[[BatchKey], None] = _ignore
    on_away: Callable[[ExecutorsAway | None], None] = _ignore
    batch: int = BATCH
    most_bytes: int = BATCH_BYTES
    seconds: float = SECONDS
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._sizing = BatchSize(self.seconds, self.batch)
        self._stopping = threading.Event()
        self._position = self.ingest.segment
        self._failures = 0  # of executors since their last success

    def run_once(self) -> int:
        """Consume the segments that are in the spool now, and return their number of documents.

        Raises ExecutorsAway.
        """
        count, end = 0, self.spool.latest()
        while not self._stopping.is_set():
            numbers = self._next_batch(end)
            if not numbers:
                break
            self.hold()
            if self.executors is None:
                count += self._consume(numbers)
            else:
                with self.executors.between():
                    count += self._consume(numbers)
        return count

    def _consume(self, numbers: Sequence[int]) -> int:
        """Consume segments as one batch, and return the number of documents."""
        documents, beats = read_all(self.spool, numbers)
        last = numbers[-1]
        arrived = self.spool.segment(last).arrived
        evaluated, poison = None, frozenset[int]()
        if self.executors is not None:
            if self._failures >= SUSPICIOUS:
                poison = poisonous(documents)
            self._failures += 1
            evaluated = self.executors.evaluate(numbers, documents, poison)
            poison = evaluated.poison  # an earlier evaluation's, if its commit failed
            self._failures = 0
            self.on_away(None)
        reached("batch_read")
        if self.attempts.begin(last, self.ingest.segment):
            poison = poisonous(documents)
        for at in sorted(poison):
            name = documents[at].id
            _log.error("the document %r is set aside: a process ended while it read it", name)

        def heard(matches: Matches) -> None:
            reached("committed")
            self.on_matches(matches)

        # A batch that was consumed before changes nothing and matches nothing.
        batch, began = BatchKey(SPOOL, last, last, beats, arrived), self.clock()
        pushed = self.ingest.push(
            documents, source=batch, evaluated=evaluated, poison=poison, listen=heard
        )
        self.on_pushed(pushed)
        self.on_committed(batch)
        seconds, count = self.clock() - began, len(documents)
        figures = {"documents": count, "segment": last, "seconds": round(seconds, 4)}
        _log.info("a batch was pushed", extra=figures)
        if self.executors is None:
            self._sizing.learn(count, seconds)
        self._position = last
        reached("batch_done")
        forget(self.spool, last)
        return count

    def serve(self, interval: float = 1.0, beat: Callable[[], None] = lambda: None) -> None:
        """Consume present and new segments until `stop`.

        Segments that this process appends are consumed at once, those of other processes within
        `interval` seconds.  `beat` is called every `interval` seconds.
        """
        due = time.monotonic()
        while not self._stopping.is_set():
            try:
                self.run_once()
            except ExecutorsAway as error:
                if not self._stopping.is_set():
                    self.on_away(error)
                    self._stopping.wait(AGAIN)
                continue
            if time.monotonic() >= due:
                beat()
                due = time.monotonic() + interval
            looking = time.monotonic() + interval
            while not self._stopping.is_set() and (left := looking - time.monotonic()) > 0:
                if self.spool.wait(self._position, min(left, _STOPPED_WITHIN)):
                    break

    def stop(self) -> None:
        """Make `serve` end after the batch in progress; for any thread or signal handler."""
        self._stopping.set()
        if self.executors is not None:
            self.executors.stop()

    def _next_batch(self, end: int) -> list[int]:
        """Return the numbers of the next batch's segments, at most `end`; [] if none wait.

        Raises SegmentsMissing if the next one is lost.
        """
        waiting = self.spool.consecutive(self._position, end, _LISTED)
        if len(waiting) < 2:
            return waiting  # without opening it: a first segment is taken whatever its size
        batch: list[int] = []
        rows = size = 0
        # Halved for each failure of executors: too many results may have been the reason.
        most = self._sizing.documents >> self._failures
        for number in waiting:
            if batch and rows >= most:
                break
            segment = self.spool.segment(number)
            rows += segment.rows
            size += segment.size
            if batch and size > self.most_bytes:
                break
            batch.append(number)
        return batch


def forget(spool: Spool, up_to: int) -> None:
    """Note that a spool is consumed to segment `up_to`; delete consumed ones beyond `KEPT` bytes.

    A spool that is open read-only stays as it is.
    """
    if not spool.read_only:
        note_consumed(spool.directory, up_to)
        spool.forget(up_to, KEPT)


def read_all(spool: Spool, numbers: Sequence[int]) -> tuple[DocumentColumns, tuple[Beat, ...]]:
    """Return the documents of segments, in the order given, and the beats between them."""
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
