"""Group commit of registrations: many requests, one transaction.

A transaction costs a disk write.  Requests put queries on a queue and wait; one thread registers
all queued queries together.  A query that cannot be registered does not affect the others.
"""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from xscl.documents.results import XSCL
from xscl.engine.facade import Engine
from xscl.errors import Stopping

MOST = 500
"""Maximum number of queries in a transaction."""

PAST = 5.0
"""Time limit in seconds of a backfill, which blocks the engine."""

LINGER = 0.005
"""Seconds to wait for further queries after a batch of several."""


@dataclass(frozen=True, slots=True)
class QueuedQuery:
    """A queued query and the future of its registration."""

    name: str
    query: str
    updates: bool
    done: Future[None] = field(default_factory=Future)


class Registrar:
    """A thread that registers queued queries."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: queue.SimpleQueue[QueuedQuery | None] = queue.SimpleQueue()
        self._mutex = threading.Lock()
        self._closed = False
        self._others = ThreadPoolExecutor(2, "registrar")
        self._thread = threading.Thread(target=self._run, name="registrar", daemon=True)
        self._thread.start()

    def ask(
        self, name: str, query: str, updates: bool, language: str = XSCL, since: str | None = None
    ) -> Future[None]:
        """Queue a query; return the future of its registration, which raises its error."""
        asked = QueuedQuery(name, query, updates)
        with self._mutex:
            if self._closed:
                raise Stopping()
            if since is None and language == XSCL:
                self._waiting.put(asked)
                return asked.done
            # A backfill may take long, so queries without one do not wait behind it.
            return self._others.submit(
                self._engine.subscribe,
                *(name, query),
                updates=updates,
                language=language,
                since=since,
                seconds=PAST,
            )

    def close(self) -> None:
        """Register queued queries and stop."""
        with self._mutex:
            self._closed = True
            self._waiting.put(None)
        self._thread.join()
        self._others.shutdown()

    def _run(self) -> None:
        together: list[QueuedQuery] = []
        while (first := self._waiting.get()) is not None:
            if len(together) > 1:  # under load, clients that were just answered send again soon
                time.sleep(LINGER)
            together = [first]
            last = False
            while len(together) < MOST and not last:
                try:
                    one = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if one is None:
                    last = True
                else:
                    together.append(one)
            for updates in (False, True):
                self._register([one for one in together if one.updates == updates], updates)
            if last:
                return

    def _register(self, together: list[QueuedQuery], updates: bool) -> None:
        if not together:
            return
        try:
            answers = self._engine.host.catalog.subscribe_each(
                [(one.name, one.query) for one in together], updates=updates
            )
        except Exception as error:
            for one in together:
                one.done.set_exception(error)
            return
        for one, wrong in zip(together, answers, strict=True):
            if wrong is None:
                one.done.set_result(None)
            else:
                one.done.set_exception(wrong)
