"""Documents from requests to the spool: many requests, one segment, durable before the answer.

A segment costs two writes to the disk.  Whoever brings a document puts it on a queue and waits; one
thread appends all that is there together.  What is in the spool and not consumed yet is counted,
and when that is much, documents are refused until the engine has caught up: nothing that was
acknowledged is ever dropped.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from feeds.documents import Document
from feeds.spool import Spool
from xscl.diskroom import DiskFull, DiskRoom
from xscl.engine import Engine
from xscl.errors import Stopping, XsclError
from xscl.followed import ticks

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
    done: Future[int] = field(default_factory=Future)


class Intake:
    """A thread that appends what waits to the spool."""

    def __init__(
        self,
        spool: Spool,
        engine: Engine,
        room: DiskRoom,
        documents: int = DOCUMENTS,
        size: int = BYTES,
    ) -> None:
        self._room = room
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

    def bring(self, documents: Sequence[Document]) -> int:
        """Return the segment that has the documents, durably; raises Busy, DiskFull, SpoolError."""
        self._room.refuse()
        brought = Brought(tuple(documents), sum(len(one.xml) for one in documents))
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
        segment = self._engine.segment
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
        documents = [one for brought in together for one in brought.documents]
        try:
            number = self._spool.append(documents, ticks())
        except Exception as error:
            if self._room.failed(error):
                error = DiskFull(str(error), hint="send it again when there is room")
            with self._mutex:
                self._waiting -= len(documents)
                self._bytes -= size
            for brought in together:
                brought.done.set_exception(error)
            return
        with self._mutex:
            self._segments.append((number, len(documents), size))
        for brought in together:
            brought.done.set_result(number)
