"""Processes that do a part of stage 1 for an engine, so that a large batch has more than one core.

A batch is cut into equal shares, one of which stays here.  Each process has a copy of the automaton
(`xscl.xpath.worker`), which it is told of in the background: as long as it does not know all of
it yet, or has died, its share is shredded here.  Where documents are shredded fast, nothing is
handed on.  What comes back is merged as portions are that
Spark's tasks leave (`xscl.xpath.portions`); the output is the same, whoever shredded what.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from feeds.documents import Document
from xscl.xpath import worker
from xscl.xpath.changes import Changes
from xscl.xpath.nfa import Automaton
from xscl.xpath.portions import Part, Portion, portion_of, texts_of
from xscl.xpath.worker import Change, Message, Shred, read, write

_log = logging.getLogger(__name__)

FEW = 500
"""Documents of a batch that are shredded here alone: handing them on would not pay."""

SOON = 1_000
"""Pairs of variables that a process learns while a batch waits for it; of more it does not wait."""

PAYS = 100e-6
"""Seconds that a document takes to be shredded, from which on it pays to send it elsewhere.

With 100,000 subscriptions a push took 1.16 times as long with a worker in `rss` (a), 0.85 times in
(b); a document takes 56 microseconds in the one and 152 in the other.
"""

REST = 32
"""Batches until that is measured again."""

_PATIENCE = 60.0  # seconds for a share, after which a process counts as dead
_SECONDS = 5.0  # that a process has to end in
_DEATHS = 5  # after which no more processes are started


class Workers:
    """Some processes beside an engine, started with the first batch that is worth it."""

    def __init__(
        self, count: int, *, few: int = FEW, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._count = count
        self._clock = clock
        self._few = few
        self._processes: list[_Process] = []
        self._deaths = 0
        self._rest = 0

    def parts(
        self, automaton: Automaton, changes: Changes, documents: Sequence[Document]
    ) -> list[Part]:
        """Return the witnesses of a batch of documents, none (an empty list) if that does not pay.

        Whoever calls has the automaton for himself.
        """
        if len(documents) < self._few or not self._count:
            return []
        if self._rest:
            self._rest -= 1
            return []
        ready = self._ready(changes)
        if not ready:
            return []
        texts = texts_of(documents)
        share = -(-len(texts) // (1 + len(ready)))
        shares = [texts[at : at + share] for at in range(0, len(texts), share)]
        version = automaton.version
        asked = [
            (process.ask(Shred(version, each)), len(each))
            for process, each in zip(ready, shares[1:], strict=False)
        ]
        began = self._clock()
        found = [Part(portion_of(automaton, version, shares[0]), 0, len(shares[0]))]
        if self._clock() - began < PAYS * len(shares[0]):
            self._rest = REST
        for answer, count in asked:
            found.append(Part(_result(answer), 0, count))
        return found

    def close(self) -> None:
        """End the processes; the next batch starts others, with all that is asked for then."""
        for process in self._processes:
            process.close()
        self._processes.clear()

    def _ready(self, changes: Changes) -> list[_Process]:
        """Return the processes that know all that is asked for, or soon will; start them first."""
        if dead := sum(not process.is_alive for process in self._processes):
            self._deaths += dead
            self.close()
        if self._deaths > _DEATHS:
            return []
        if not self._processes:
            changes.forget()
            self._processes = [_Process() for _ in range(self._count)]
        ready = [process for process in self._processes if process.is_ready]
        gone, pairs = changes.take()
        if gone or pairs:
            for process in self._processes:
                process.ask(Change(gone, pairs))
        return ready if len(gone) + len(pairs) <= SOON else []


def _result(answer: Future[Portion | None]) -> Portion | None:
    """Return a portion; None if it does not come."""
    try:
        return answer.result(_PATIENCE)
    except TimeoutError:
        return None


class _Process:
    """A process, and the thread that talks to it."""

    def __init__(self) -> None:
        home = str(Path(worker.__file__).absolute().parents[2])
        path = os.environ.get("PYTHONPATH")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {worker.__name__} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{home}{os.pathsep}{path}" if path else home},
        )
        self._waiting: SimpleQueue[tuple[Message, Future[Portion | None]] | None] = SimpleQueue()
        self._last: Future[Portion | None] | None = None
        self.is_alive = True
        self._thread = threading.Thread(target=self._talk, name="shredding", daemon=True)
        self._thread.start()

    @property
    def is_ready(self) -> bool:
        """Whether it knows all that it was told."""
        return self.is_alive and (self._last is None or self._last.done())

    def ask(self, message: Message) -> Future[Portion | None]:
        """Return the answer that will come; None from a process that has died."""
        answer: Future[Portion | None] = Future()
        self._last = answer
        self._waiting.put((message, answer))
        return answer

    def close(self) -> None:
        """End the process."""
        self._waiting.put(None)
        self._thread.join(_SECONDS)
        if self._thread.is_alive():
            self._process.kill()
            self._thread.join()

    def _talk(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._process:  # closes both ends, and waits
            while (one := self._waiting.get()) is not None:
                message, answer = one
                answer.set_result(self._answer(message) if self.is_alive else None)
            with suppress(BrokenPipeError):  # what one who died did not take is still there
                self._process.stdin.close()

    def _answer(self, message: Message) -> Any:
        try:
            write(self._process.stdin, message)  # type: ignore[arg-type]  # there are both pipes
            return read(self._process.stdout)  # type: ignore[arg-type]
        except (OSError, EOFError) as error:
            self.is_alive = False
            _log.warning("a process that shreds documents has ended: %s", error or "no answer")
            return None
