"""Group commit of registrations: many requests, one transaction.

A transaction costs a disk write, so queries of requests at the same time are registered together.
A query that cannot be registered does not affect the others.
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

TOGETHER = 16
"""Maximum number of queries in a transaction; each blocks a thread until it is registered."""

OTHERS = 2
"""Queries of events, and of what is kept, that are registered at a time; each blocks a thread."""


@dataclass(frozen=True, slots=True)
class QueuedQuery:
    """A query and the future of its registration; `since` is the length of its history.

    With `history` it begins with the matches of what is kept.
    """

    name: str
    query: str
    updates: bool
    language: str = XSCL
    since: str | None = None
    history: bool = False
    done: Future[None] = field(default_factory=Future)

    def share(self) -> float:
        """Return the share of a transaction."""
        return 1 / TOGETHER


class Registrar:
    """Registers queries of requests: those that see what comes together, others one by one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._others = asyncio.Semaphore(OTHERS)
        self._waiting = asyncio.Semaphore(TOGETHER)
        self._commits = GroupCommit[QueuedQuery](self._register_all)

    async def register(self, asked: QueuedQuery) -> None:
        """Register a query, and wait until it is committed; raises its error, and Stopping.

        It is registered even if who waits for it is cancelled.
        """
        if asked.since is not None or asked.history or asked.language != XSCL:
            async with self._others:
                if await run_in_threadpool(self._register_other, asked):
                    return
        async with self._waiting:
            await run_in_threadpool(self._commits.commit, asked)
        asked.done.result()

    def _register_other(self, asked: QueuedQuery) -> bool:
        """Register a query of events, or one that begins with what is kept; False if nothing is."""
        catalog, how = self._engine.catalog, {"updates": asked.updates}
        language, since = asked.language, asked.since
        if since is None and language == XSCL and not catalog.has_past(asked.query):
            return False
        if since is None and not asked.history:
            self._engine.subscribe(asked.name, asked.query, language=language, **how)
        else:
            catalog.subscribe_from(asked.name, asked.query, language=language, since=since, **how)
        return True

    def close(self) -> None:
        """Register queued queries, and take no more."""
        self._commits.close()

    def _register_all(self, together: Sequence[QueuedQuery]) -> None:
        for updates in (False, True):
            self._register([one for one in together if one.updates == updates], updates)

    def _register(self, together: list[QueuedQuery], updates: bool) -> None:
        if not together:
            return
        try:
            answers = self._engine.catalog.subscribe_each(
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
