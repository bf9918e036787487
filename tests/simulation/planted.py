"""Defects that the simulator must find: `python -m tests.simulation --plant NAME`.

Each replaces a part of the product in the process of a simulation, before the service starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import feeds.spool
import xscl.store.store_file
from feeds.documents import Document
from xscl.delivery.endpoint import Endpoint, SendOutcome
from xscl.delivery.outbox.deliveries import Deliveries
from xscl.documents.document_ids import DocumentIds, Hashes
from xscl.engine.transactions import Transactions
from xscl.service.intake import Intake, QueuedDocuments
from xscl.store.database import Database
from xscl.store.queries.numbers import Numbers


class Unsynchronised:
    """`os` with a function that does nothing."""

    def __init__(self, function: str) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        return (lambda _: None) if name == self._function else getattr(os, name)


def missing_fsync() -> None:
    """A segment is acknowledged, and its bytes are not synchronised."""

    vars(feeds.spool)["os"] = Unsynchronised("fsync")


def missing_fsync_of_log() -> None:
    """A push is acknowledged, and its part of the log of SQLite is not synchronised."""
    settings = xscl.store.store_file.WRITING
    unsynchronised = [one.replace("synchronous = FULL", "synchronous = OFF") for one in settings]
    vars(xscl.store.store_file)["WRITING"] = unsynchronised


def early_mark() -> None:
    """The mark of a store says that it has a commit, before that is durable."""
    transaction = Database.transaction

    @contextmanager
    def _transaction(self: Database) -> Iterator[None]:
        with transaction(self):
            yield
            if self._file is not None:
                mark = self._file.mark._replace(commits=self.commits + 1)
                self._file.note(mark, durably=True)

    Database.transaction = _transaction  # type: ignore[method-assign]  # the planted defect


def early_base() -> None:
    """The mark of a store says what the file has without its log, before a checkpoint is made."""
    checkpoint = Database.checkpoint

    def _checkpoint(self: Database, mode: int) -> bool:
        if self._file is not None:
            self._file.note(self._file.mark._replace(base=self.commits), durably=True)
        return checkpoint(self, mode)

    Database.checkpoint = _checkpoint  # type: ignore[method-assign]  # the planted defect


def lost_wake_up() -> None:
    """A thread appends one batch of documents, although its own may be in a later one."""

    def _complete(self: Intake, brought: QueuedDocuments) -> None:
        with self._appending:
            if not brought.done.done():
                self._append(self._next_batch())

    Intake._complete = _complete  # type: ignore[method-assign]  # the planted defect
    QueuedDocuments.share = lambda self: 1.0  # type: ignore[method-assign]  # each is a batch


def cursor_before_answer() -> None:
    """The position of an endpoint is saved when a message is sent, not when it is accepted."""
    send = Deliveries._send

    async def _send(
        self: Deliveries, endpoint: Endpoint, sender: Any, messages: Any
    ) -> SendOutcome:
        self._endpoints.update(endpoint.id, lambda e: e.passed(messages[-1].last))
        return await send(self, endpoint, sender, messages)

    Deliveries._send = _send  # type: ignore[method-assign]  # the planted defect


def early_stamp() -> None:
    """Documents get their time when the request arrives, before their order is decided."""
    append = Intake.append

    def _append(
        self: Intake, documents: Sequence[Document], timed: Sequence[bool] = ()
    ) -> Sequence[Document]:
        stamped = [
            one if is_timed else replace(one, timestamp=self._clock.stamp())
            for one, is_timed in zip(documents, timed or [True] * len(documents), strict=True)
        ]
        return append(self, stamped)

    Intake.append = _append  # type: ignore[method-assign]  # the planted defect


def early_unlock() -> None:
    """The lock of the engine is released before the transaction is committed."""
    change = Transactions.change

    @contextmanager
    def _change(self: Transactions) -> Iterator[Any]:
        with change(self) as state:
            yield state
            held = self.lock._release_save()  # type: ignore[attr-defined]  # the planted defect
            self.lock._acquire_restore(held)  # type: ignore[attr-defined]  # the planted defect

    Transactions.change = _change  # type: ignore[method-assign]  # the planted defect


def shared_connection() -> None:
    """Nothing keeps two threads from the connection that writes.

    Of the first release, ordinary use ended by such a fault: there the consumer's thread read each
    match through the engine's own connection.
    """
    make = Database.__init__

    def _init(self: Database, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        self.lock = nullcontext()  # type: ignore[assignment]  # the planted defect

    Database.__init__ = _init  # type: ignore[method-assign]  # the planted defect


def skipped_gap() -> None:
    """A consumer goes on behind segments that are missing."""
    feeds.spool._holes = lambda *_: iter(())  # the planted defect


def forgotten_ids() -> None:
    """Duplicate detection misses the documents of the last push."""
    add = DocumentIds.add
    last: dict[DocumentIds, tuple[Hashes, Numbers]] = {}

    def _add(self: DocumentIds, hashes: Hashes, docs: Numbers) -> None:
        if self in last:
            add(self, *last[self])
        last[self] = hashes, docs

    DocumentIds.add = _add  # type: ignore[method-assign]  # the planted defect


DEFECTS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        *(missing_fsync, lost_wake_up, cursor_before_answer, early_stamp, early_unlock),
        *(shared_connection, skipped_gap, missing_fsync_of_log, early_mark),
        *(early_base, forgotten_ids),
    )
}
