"""Group commit of documents: many requests, one durable spool segment.

A segment costs two disk writes, so documents of requests at the same time are appended as one
segment.  Those without a time are stamped then, so that their order of acceptance is their order of
time.

Documents that are spooled but not consumed are counted.  Above a limit new ones are refused (back
pressure), so that no acknowledged document is ever dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from feeds.documents import Document
from feeds.spool import Spool
from xscl.engine.disk_guard import DiskFull, DiskGuard
from xscl.engine.facade import Engine
from xscl.errors import Stopping, XsclError
from xscl.polling.arrival_clock import ArrivalClock

DOCUMENTS = 50_000
BYTES = 256_000_000
"""Maximum number and bytes of documents that wait to be consumed."""

_TOGETHER = 2_000
_TOGETHER_BYTES = 16_000_000


class IntakeFull(XsclError):
    """The limit of waiting documents is reached."""

    code = "busy"


@dataclass(frozen=True, slots=True)
class QueuedDocuments:
    """Documents of a request; `done` has them, stamped, when they are durable in the spool.

    `size` is the bytes of their texts.  The clock stamps those whose `timed` is false.
    """

    documents: Sequence[Document]
    size: int
    timed: Sequence[bool]
    done: Future[tuple[Document, ...]] = field(default_factory=Future)

    def share(self) -> float:
        """Return the share of a segment that the documents fill, by number or by bytes."""
        return max(len(self.documents) / _TOGETHER, self.size / _TOGETHER_BYTES)

    def stamped(self, clock: ArrivalClock) -> tuple[Document, ...]:
        """Return the documents, stamped by the clock if they have no times of their own."""
        return tuple(
            document if is_timed else replace(document, timestamp=clock.stamp())
            for document, is_timed in zip(self.documents, self.timed, strict=True)
        )


@dataclass(eq=False)
class Intake:
    """Appends documents of requests to the spool.

    `clock` stamps documents without a time; it is the only source of such times in this spool.
    At most `most` documents wait to be consumed, unless one request brings more.
    """

    spool: Spool
    engine: Engine
    disk: DiskGuard
    clock: ArrivalClock
    most: int = DOCUMENTS

    def __post_init__(self) -> None:
        self._mutex = threading.Lock()
        self._segments: deque[tuple[int, int, int]] = deque()  # segment, documents, bytes
        self._waiting = 0
        self._bytes = 0
        self._queue: deque[QueuedDocuments] = deque()
        self._appending = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """Append the queued documents; later calls of `append` raise Stopping."""
        with self._mutex:
            self._is_closed = True
        with self._appending:
            while self._queue:
                self._append_next()

    def append(
        self, documents: Sequence[Document], timed: Sequence[bool] = ()
    ) -> Sequence[Document]:
        """Append documents durably and return them with the times that they have in the spool.

        The clock stamps those whose `timed` is false, in order of acceptance; by default all have
        their times.  Raises IntakeFull, DiskFull, SpoolError, Stopping.
        """
        self.disk.refuse()
        size = sum(len(document.xml) for document in documents)
        brought = QueuedDocuments(documents, size, timed or [True] * len(documents))
        with self._mutex:
            if self._is_closed:
                raise Stopping()
            self._forget_consumed()
            if self._waiting and (
                self._waiting + len(brought.documents) > self.most
                or self._bytes + brought.size > BYTES
            ):
                raise IntakeFull(
                    f"{self._waiting} documents wait to be consumed",
                    hint="send it again a little later",
                )
            self._waiting += len(brought.documents)
            self._bytes += brought.size
            self._queue.append(brought)
        with self._appending:  # a waiting thread mostly finds its documents appended by another
            while not brought.done.done():
                self._append_next()
        return brought.done.result()

    def _append_next(self) -> None:
        """Append the first requests of the queue that fill a segment, and set their futures."""
        together, filled = list[QueuedDocuments](), 0.0
        with self._mutex:
            while self._queue and filled < 1.0:
                together.append(self._queue.popleft())
                filled += together[-1].share()
        size = sum(brought.size for brought in together)
        count = sum(len(brought.documents) for brought in together)
        appended: list[tuple[Document, ...]] = []

        def stamp() -> tuple[Sequence[Document], int]:
            appended.extend(brought.stamped(self.clock) for brought in together)
            return [document for documents in appended for document in documents], self.clock.now()

        try:
            number = self.spool.append_in_turn(stamp)
        except Exception as error:
            if self.disk.failed(error):
                error = DiskFull(str(error), hint="send it again when there is room")
            with self._mutex:
                self._waiting -= count
                self._bytes -= size
            for brought in together:
                brought.done.set_exception(error)
            return
        with self._mutex:
            self._segments.append((number, count, size))
        for brought, documents in zip(together, appended, strict=True):
            brought.done.set_result(documents)

    def _forget_consumed(self) -> None:
        segment = self.engine.ingest.segment
        while self._segments and self._segments[0][0] <= segment:
            _, documents, size = self._segments.popleft()
            self._waiting -= documents
            self._bytes -= size
