"""A consistent read of the store and of the state in memory, concurrent with pushes.

The store is read in a transaction of its own, which sees whole commits only.  The state in memory
(the relations of the last push, the readers of streams) must be of the same commit.  If the
engine's lock is free, it is held until the transaction has its snapshot.  A push may hold it for
seconds; then the read is optimistic: `EngineState.pushed` is another object after each commit, and
None while one is under way.  If it is the same before and after BEGIN, the database snapshot and
the relations in memory belong to one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa

from templates.batch_join import Pushed
from templates.registry.members import JoinRow
from templates.registry.registry import NumberedVariable
from xscl.engine.transactions import Transactions
from xscl.errors import XsclError
from xscl.inspection.rebuilt_relations import documents_seen
from xscl.store.store import Store

PATIENCE = 0.2
"""Seconds for which a read waits for a push to end, before it reads what was before that."""


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """A store within a transaction, and the state in memory of the same commit.

    `readings` and `streams` are the tables of `xscl.subscriptions.lateness` and
    `xscl.subscriptions.streams`; `rows` are those of R_T by qid.  `named` returns their pairs of
    variables by number, also unwritten ones.  `qids` returns the rows that subscriptions use, by
    their names; `documents_seen` the first document that some subscription of each row sees, and
    `most` is the bound of results.
    """

    store: Store
    pushed: Pushed
    readings: pa.Table
    streams: pa.Table
    rows: Mapping[int, JoinRow]
    named: Callable[[Iterable[int]], Sequence[tuple[int, NumberedVariable, NumberedVariable]]]
    qids: Callable[[Iterable[str]], set[int]]
    documents_seen: Callable[[], Mapping[int, int]]
    most: int


@contextmanager
def read_snapshot(transactions: Transactions, store: Store) -> Iterator[ReadSnapshot]:
    """Yield a snapshot; other threads may push meanwhile.

    `store` is a connection of its own (`Transactions.connect`), on which a transaction is open for
    as long as the block runs.
    """
    patience = PATIENCE
    while True:
        locked = transactions.lock.acquire(timeout=patience)
        try:
            if locked:
                transactions.expect_current()
            before = transactions.state.pushed
            with store.reading():
                store.progress("position")  # from here on the transaction has its snapshot
                found = _snapshot(transactions, store, before, locked)
                if locked:
                    transactions.lock.release()
                    locked = False
                elif transactions.state.pushed is not before:
                    found = None
                if found is not None:
                    yield found
                    return
        finally:
            if locked:
                transactions.lock.release()
        patience = -1  # a commit is under way, or something is not at hand: wait


def _snapshot(
    transactions: Transactions, store: Store, pushed: Pushed | None, locked: bool
) -> ReadSnapshot | None:
    """Return the snapshot; None if it cannot be read without the lock."""
    state = transactions.state
    streams = state.streams.table() if locked else state.streams.cached_table
    if pushed is None or streams is None:
        return None

    def qids(names: Iterable[str]) -> set[int]:
        found: set[int] = set()
        now = transactions.state
        for name in names:
            with suppress(XsclError, KeyError):  # it was removed meanwhile
                found.update(now.dataflow.subscribed.qids(now.subscriptions[name]))
        return found

    with suppress(RuntimeError, KeyError):  # without the lock, something may have changed
        registry, readings = state.registry, state.readings.table()
        return ReadSnapshot(
            store,
            pushed,
            readings,
            streams,
            registry.rows(),
            registry.pairs.named,
            qids,
            lambda: documents_seen(list(state.subscriptions), state.dataflow.subscribed.qids),
            state.processor.most,
        )
    return None
