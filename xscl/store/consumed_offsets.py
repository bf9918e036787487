"""What was consumed from the spool: the ledger, kept in the transaction of what it is about.

A consumer's batches have keys, (query id, batch id); one that was seen changes
nothing when it comes again.  They need not come in order: the last ones of a
query are known one by one, and what is `KNOWN` below its last counts as seen.

Beside the keys stands the segment up to which the spool was consumed, whoever
did it: there the next consumer begins.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from xscl.store.store import Store

DIRECT = "direct"
"""The query id of the consumer without Spark, which calls a batch by its last segment."""


KNOWN = 1_000
"""So far below the last batch of a query the ledger knows each one."""


class Beat(NamedTuple):
    """That it was so late, in ticks, before the document at some place of a batch came."""

    place: int
    time: int


class Batch(NamedTuple):
    """The key of a batch, the last segment that is in it, and the beats between its documents."""

    query_id: str
    batch_id: int
    segment: int = 0
    beats: tuple[Beat, ...] = ()


class Ledger:
    """The ledger of a store; who pushes writes `segment` with the other numbers of a push."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: dict[str, int | None] = {}
        self.segment = max(store.progress("segment"), self.last(DIRECT) or 0)

    def enter(self, batch: Batch) -> bool:
        """Enter a batch; False if it was there."""
        if self.has(batch):
            return False
        query_id, batch_id = batch.query_id, batch.batch_id
        last = self.last(query_id)
        entry = {"query_id": [query_id], "batch_id": pa.array([batch_id], pa.int64())}
        self._store.insert("state.ledger", pa.table(entry))
        if last is not None and batch_id // KNOWN > last // KNOWN:
            self._store.fetch(
                "DELETE FROM state.ledger WHERE query_id = ? AND batch_id <= ?",
                [query_id, batch_id - KNOWN],
            )
        self._last[query_id] = batch_id if last is None else max(last, batch_id)
        self.segment = max(self.segment, batch.segment)
        return True

    def has(self, batch: Batch) -> bool:
        """Return whether a batch was entered."""
        last = self.last(batch.query_id)
        if last is None or batch.batch_id > last:
            return False
        return self._has(batch.query_id, batch.batch_id, last)

    def last(self, query_id: str) -> int | None:
        """Return the last batch under a query id."""
        if query_id not in self._last:
            ((last,),) = self._store.fetch(
                "SELECT max(batch_id) FROM state.ledger WHERE query_id = ?", [query_id]
            )
            self._last[query_id] = None if last is None else int(last)
        return self._last[query_id]

    def _has(self, query_id: str, batch_id: int, last: int) -> bool:
        known = "SELECT 1 FROM state.ledger WHERE query_id = ? AND batch_id = ?"
        return batch_id <= last - KNOWN or bool(self._store.fetch(known, [query_id, batch_id]))
