"""Defects that the simulator must find: `python -m tests.simulation --plant NAME`.

Each replaces a part of the product in the process of a simulation, before the service starts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import feeds.spool
import xscl.store.journal
import xscl.store.store_file
from feeds.documents import Document
from feeds.spool import Spool
from templates.model.relations import INFINITE
from xscl.delivery.endpoint import Endpoint, Outcome
from xscl.delivery.outbox.deliveries import Deliveries
from xscl.documents.document_ids import DocumentIds, Hashes, Numbers
from xscl.engine.transactions import Transactions
from xscl.limiter import DailyQuota
from xscl.service.accounts import Account
from xscl.service.group_commit import GroupCommit
from xscl.service.intake import Intake
from xscl.service.usage import Owned, Usage
from xscl.store.journal import Record


class Unsynchronised:
    """`os` with a function that does nothing."""

    def __init__(self, function: str) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        return (lambda _: None) if name == self._function else getattr(os, name)


def missing_fsync() -> None:
    """A segment is acknowledged, and its bytes are not synchronised."""

    vars(feeds.spool)["os"] = Unsynchronised("fsync")


def missing_fsync_of_journal() -> None:
    """A push is acknowledged, and its record is not synchronised."""
    vars(xscl.store.journal)["os"] = Unsynchronised("fdatasync")


def torn_record() -> None:
    """A record that a crash has torn is read as if it were whole."""
    whole = xscl.store.journal.records_of

    def records_of(image: bytes, store: str) -> Iterator[tuple[Record, int]]:
        return whole(image + bytes(1 << 22), store)

    vars(xscl.store.journal).update(_checksum=lambda *_: 0, records_of=records_of)


def lost_wake_up() -> None:
    """A consumer of a queue clears its signal after it has found the queue empty."""

    def _init(self: Any, name: str, process: Any, share: Any, linger: float = 0.0) -> None:
        self._process, self._items, self._closed = process, [], False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self: Any, item: object) -> None:
        self._items.append(item)
        self._ready.set()

    def close(self: Any) -> None:
        self._closed = True
        self._ready.set()
        self._thread.join()

    def _run(self: Any) -> None:
        while True:
            if not self._items:
                if self._closed:
                    return
                self._ready.clear()  # a `set` since the test is lost
                self._ready.wait()
            batch, self._items = self._items, []
            if batch:
                self._process(batch)

    for name, method in {"__init__": _init, "put": put, "close": close, "_run": _run}.items():
        setattr(GroupCommit, name, method)


def cursor_before_answer() -> None:
    """The position of an endpoint is saved when a message is sent, not when it is accepted."""
    send = Deliveries._send

    async def _send(self: Deliveries, endpoint: Endpoint, sender: Any, messages: Any) -> Outcome:
        self._endpoints.update(endpoint.id, lambda e: e.passed(messages[-1].last))
        return await send(self, endpoint, sender, messages)

    Deliveries._send = _send  # type: ignore[method-assign]  # the planted defect


def early_stamp() -> None:
    """Documents get their time when the request arrives, before their order is decided."""
    append = Intake.append

    def _append(
        self: Intake, documents: Sequence[Document], *, is_timed: bool = True
    ) -> Sequence[Document]:
        if not is_timed:
            documents = [replace(one, timestamp=self._clock.stamp()) for one in documents]
        return append(self, documents)

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
    """Matches are printed from the engine's own connection, in the thread that prints."""
    from tests.stress import planted

    planted.plant()


def quota_before() -> None:
    """Quotas are checked before what is used is counted, and not again with it."""
    consume = DailyQuota.consume

    def add(self: Usage, account: Account, what: Owned, count: int = 1) -> None:
        self.refuse(account, what, count)
        with self._mutex:
            self._kept[what][account.number] += count

    def _consume(
        self: DailyQuota[int], key: int, limit: int | None = None, count: int = 1
    ) -> float | None:
        if limit is not None and self.used(key) + count > limit:
            return consume(self, key, limit, count)
        return consume(self, key, None, count)

    Usage.add = add  # type: ignore[method-assign]  # the planted defect
    DailyQuota.consume = _consume  # type: ignore[assignment,method-assign]  # the planted defect


def skipped_gap() -> None:
    """A consumer goes on behind segments that are missing."""
    Spool._first_lost = lambda *_: None  # type: ignore[method-assign]  # the planted defect


def forgotten_ids() -> None:
    """Duplicate detection misses document versions that the journal has and the database lacks."""
    add = DocumentIds.add

    def _add(self: DocumentIds, hashes: Hashes, docs: Numbers) -> None:
        add(self, hashes, docs)
        self._unsaved_from = INFINITE

    DocumentIds.add = _add  # type: ignore[method-assign]  # the planted defect


def missing_copies() -> None:
    """A checkpoint overwrites blocks of which there are no copies."""
    vars(xscl.store.store_file)["copy_blocks"] = lambda *_: None


DEFECTS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        *(missing_fsync, lost_wake_up, cursor_before_answer, early_stamp, early_unlock),
        *(shared_connection, quota_before, skipped_gap, missing_fsync_of_journal, torn_record),
        *(forgotten_ids, missing_copies),
    )
}
