"""Group commit of registrations: many requests, one transaction.

A transaction costs a disk write.  Requests put queries on a queue and wait; one thread registers
all queued queries together.  A query that cannot be registered does not affect the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from xscl.documents.results import XSCL
from xscl.engine.facade import Engine
from xscl.service.group_commit import GroupCommit

MOST = 500
"""Maximum number of queries in a transaction."""

LINGER = 0.005
"""Seconds to wait for further queries after a batch of several."""

OTHERS = 2
"""Queries of events, and of what is kept, that are registered at a time; each blocks a thread."""


@dataclass(frozen=True, slots=True)
class QueuedQuery:
    """A queued query and the future of its registration."""

    name: str
    query: str
    updates: bool
    done: Future[None] = field(default_factory=Future)


class Registrar:
    """Registers queries of requests: a thread those that see what comes, others one by one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._others = asyncio.Semaphore(OTHERS)
        self._commits = GroupCommit[QueuedQuery](
            "registrar", self._register_all, lambda query: 1 / MOST, LINGER
        )

    async def register(
        self,
        name: str,
        query: str,
        updates: bool,
        language: str = XSCL,
        since: str | None = None,
        history: bool = False,
    ) -> None:
        """Register a query, and wait until it is committed; raises its error, and Stopping."""
        if since is not None or history or language != XSCL:
            async with self._others:
                asked = name, query, updates, language, since, history
                if await run_in_threadpool(self._register_other, *asked):
                    return
        queued = QueuedQuery(name, query, updates)
        self._commits.put(queued)
        # It goes on if who waits for it is cancelled.
        await asyncio.shield(asyncio.wrap_future(queued.done))

    def _register_other(
        self,
        name: str,
        query: str,
        updates: bool,
        language: str,
        since: str | None,
        history: bool,
    ) -> bool:
        """Register a query of events, or one that begins with what is kept; False if nothing is."""
        catalog = self._engine.host.catalog
        if since is None and language == XSCL and not catalog.has_past(query):
            return False
        if since is None and not history:
            self._engine.subscribe(name, query, updates=updates, language=language)
        else:
            catalog.subscribe_from(name, query, updates=updates, language=language, since=since)
        return True

    def close(self) -> None:
        """Register queued queries and stop."""
        self._commits.close()

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
