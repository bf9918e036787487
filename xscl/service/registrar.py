"""Group commit of registrations: many requests, one transaction.

A transaction costs a disk write.  Requests put queries on a queue and wait; one thread registers
all queued queries together.  A query that cannot be registered does not affect the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from xscl.documents.results import XSCL
from xscl.engine.facade import Engine
from xscl.errors import Stopping
from xscl.service.group_commit import GroupCommit

MOST = 500
"""Maximum number of queries in a transaction."""

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
        asked = QueuedQuery(name, query, updates)
        if since is None and not history and language == XSCL:
            self._commits.put(asked)
            return asked.done
        try:
            self._others.submit(self._register_other, asked, language, since, history)
        except RuntimeError:  # the executor was shut down
            raise Stopping() from None
        return asked.done

    def _register_other(
        self, asked: QueuedQuery, language: str, since: str | None, history: bool
    ) -> None:
        """Register a query of events, or one that begins with what is kept."""
        catalog = self._engine.host.catalog
        try:
            named = asked.name, asked.query
            if since is None and not history:
                self._engine.subscribe(*named, updates=asked.updates, language=language)
            elif since is None and language == XSCL and not catalog.has_past(asked.query):
                self._commits.put(asked)
                return
            else:
                catalog.subscribe_from(
                    *named, updates=asked.updates, language=language, since=since
                )
        except BaseException as error:
            asked.done.set_exception(error)
        else:
            asked.done.set_result(None)

    def close(self) -> None:
        """Register queued queries and stop."""
        self._others.shutdown()
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
