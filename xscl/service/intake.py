"""Documents from requests to the spool: many requests, one segment, durable before the answer.

A segment costs two writes to the disk.  Whoever brings a document puts it on a queue and waits; one
thread appends all that is there together.  A document without a time gets it there, so that for all
of them the order of acceptance is the order of time.  What is in the spool and not consumed yet is
counted, and when that is much, documents are refused until the engine has caught up: nothing that
was acknowledged is ever dropped.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from feeds.documents import Document
from feeds.spool import Spool
from xscl.engine.facade import Engine
from xscl.errors import Stopping, XsclError
from xscl.polling.arrival_clock import ArrivalClock
from xscl.store.disk_guard import DiskFull, DiskRoom

DOCUMENTS = 50_000
BYTES = 256_000_000
"""What may wait to be consumed."""

_TOGETHER = 2_000
_TOGETHER_BYTES = 16_000_000


class Busy(XsclError):
    """So much waits that nothing more is taken for now."""

    code = "busy"


@dataclass(frozen=True, slots=True)
class Brought:
    """Documents of a request, and who waits for them to be durable."""

    documents: tuple[Document, ...]
    size: int
    is_timed: bool
    done: Future[tuple[Document, ...]] = field(default_factory=Future)

    def stamped(self, clock: ArrivalClock) -> tuple[Document, ...]:
        """The documents, with times by the clock if they have none of their own."""
        if self.is_timed:
            return self.documents
        return tuple(replace(one, timestamp=clock.stamp()) for one in self.documents)


class Intake:
    """A thread that appends what waits to the spool.

    `clock` gives times to documents that have none; it is the only one that does so in this spool.
    """

    def __init__(
        self,
        spool: Spool,
        engine: Engine,
        room: DiskRoom,
        clock: ArrivalClock,
        documents: int = DOCUMENTS,
        size: int = BYTES,
    ) -> None:
        self._room = room
        self._clock = clock
        self._spool = spool
        self._engine = engine
        self._most = documents, size
        self._brought: queue.SimpleQueue[Brought | None] = queue.SimpleQueue()
        self._mutex = threading.Lock()
        self._closed = False
        self._segments: deque[tuple[int, int, int]] = deque()  # number, documents, bytes
        self._waiting = 0
        self._bytes = 0
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)
        self._thread.start()

    def bring(self, documents: Sequence[Document], *, is_timed: bool = True) -> Sequence[Document]:
        """Append documents, and return them as they are in the spool, durably.

        Without times of their own (`is_timed` is false) they have those of the clock, by the order
        of acceptance.  Raises Busy, DiskFull, SpoolError.
        """
        self._room.refuse()
        size = sum(len(one.xml) for one in documents)
        brought = Brought(tuple(documents), size, is_timed)
        with self._mutex:
            if self._closed:
                raise Stopping()
            self._forget_consumed()
            documents_most, bytes_most = self._most
            if self._waiting and (
                self._waiting + len(brought.documents) > documents_most
                or self._bytes + brought.size > bytes_most
            ):
                raise Busy(
                    f"{self._waiting} documents wait to be consumed",
                    hint="send it again a little later",
                )
            self._waiting += len(brought.documents)
            self._bytes += brought.size
            self._brought.put(brought)
        return brought.done.result()

    def close(self) -> None:
        """Append what waits, and end."""
        with self._mutex:
            self._closed = True
            self._brought.put(None)
        self._thread.join()

    def _forget_consumed(self) -> None:
        segment = self._engine.host.ingest.segment
        while self._segments and self._segments[0][0] <= segment:
            _, documents, size = self._segments.popleft()
            self._waiting -= documents
            self._bytes -= size

    def _run(self) -> None:
        while (first := self._brought.get()) is not None:
            together, size, last = [first], first.size, False
            while len(together) < _TOGETHER and size < _TOGETHER_BYTES:
                try:
                    one = self._brought.get_nowait()
                except queue.Empty:
                    break
                if one is None:
                    last = True
                    break
                together.append(one)
                size += one.size
            self._append(together, size)
            if last:
                return

    def _append(self, together: Sequence[Brought], size: int) -> None:
        count = sum(len(brought.documents) for brought in together)
        appended: list[tuple[Document, ...]] = []

        def stamp() -> tuple[Sequence[Document], int]:
            appended.extend(brought.stamped(self._clock) for brought in together)
            return [one for documents in appended for one in documents], self._clock.now()

        try:
            number = self._spool.append_in_turn(stamp)
        except Exception as error:
            if self._room.failed(error):
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
