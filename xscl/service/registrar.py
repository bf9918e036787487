"""Group commit of registrations: many requests, one transaction.

A transaction costs a disk write.  Requests put queries on a queue and wait; one thread registers
all queued queries together.  A query that cannot be registered does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from xscl.documents.results import XSCL
from xscl.engine.facade import Engine
from xscl.errors import Stopping, TooLong
from xscl.service.group_commit import GroupCommit

MOST = 500
"""Maximum number of queries in a transaction."""

PAST = 5.0
"""Time limit in seconds of a backfill, which blocks the engine."""

BRIEFLY = 2.0
"""Time limit in seconds of a history that was not asked for as such: without it from now on."""

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
        self._others = ThreadPoolExecutor(2, "registrar")
        self._commits = GroupCommit[QueuedQuery](
            "registrar", self._register_all, lambda query: 1 / MOST, LINGER
        )

    def ask(
        self,
        name: str,
        query: str,
        updates: bool,
        language: str = XSCL,
        since: str | None = None,
        history: bool = False,
    ) -> Future[None]:
        """Queue a query; return the future of its registration, which raises its error."""
        if since is None and not history and language == XSCL:
            asked = QueuedQuery(name, query, updates)
            self._commits.put(asked)
            return asked.done
        # A backfill may take long, so queries without one do not wait behind it.
        subscribe = partial(self._engine.subscribe, name, query, updates=updates, language=language)
        began = partial(subscribe, since=since, seconds=PAST) if since or not history else None
        try:
            if began is None:
                return self._others.submit(_with_history, subscribe)
            return self._others.submit(began)
        except RuntimeError:  # the executor was shut down
            raise Stopping() from None

    def close(self) -> None:
        """Register queued queries and stop."""
        self._commits.close()
        self._others.shutdown()

    def _register_all(self, together: Sequence[QueuedQuery]) -> None:
        for updates in (False, True):
            self._register([one for one in together if one.updates == updates], updates)

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


def _with_history(subscribe: Callable[..., None]) -> None:
    """Register a query with its history; from now on if that takes too long."""
    try:
        subscribe(history=True, seconds=BRIEFLY)
    except TooLong:
        subscribe()
