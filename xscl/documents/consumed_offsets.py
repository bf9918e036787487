"""The consumed offsets of the spool, written in the transaction of the documents.

Batches have keys, (query id, batch id); a repeated batch changes nothing.  A query id names a
consumer: that of the spool, or a streaming query of Spark.  Batches may arrive out of order: ids
less than `KNOWN` below the largest one of a consumer are stored one by one, and all lower ones
count as consumed.

Beside the keys stands the last consumed segment, after which a consumer begins.
"""

from __future__ import annotations

from typing import NamedTuple

from xscl.store.queries.ledger import delete_batches, has_batch, insert_batch, last_batch
from xscl.store.store import Store

SPOOL = "spool"
"""The query id of the consumer of a spool; its batch ids are the numbers of last segments."""

KNOWN = 1_000
"""The distance below the last batch id of a query up to which batches are stored one by one."""


class Beat(NamedTuple):
    """A beat: the time in ticks before the document at an index of a batch."""

    place: int
    time: int


class BatchKey(NamedTuple):
    """The key (`query_id`, `batch_id`) of a batch, its last segment and its beats.

    `arrived` is the time at which the last segment was written; None: the engine's clock counts.
    """

    query_id: str
    batch_id: int
    segment: int = 0
    beats: tuple[Beat, ...] = ()
    arrived: int | None = None


class ConsumedOffsets:
    """Records the consumed batches of a store.

    `segment` is the number of the last consumed segment; a push writes it to the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.segment = store.progress("segment")

    def enter(self, batch: BatchKey) -> bool:
        """Record a batch; return False if it was recorded before."""
        if self.has(batch):
            return False
        query_id, batch_id = batch.query_id, batch.batch_id
        last = self.last(query_id)
        insert_batch(self._store, query_id, batch_id)
        if last is not None and batch_id // KNOWN > last // KNOWN:
            delete_batches(self._store, query_id, batch_id - KNOWN)
        self.segment = max(self.segment, batch.segment)
        return True

    def has(self, batch: BatchKey) -> bool:
        """Return True if a batch was recorded."""
        last = self.last(batch.query_id)
        if last is None or batch.batch_id > last:
            return False
        return batch.batch_id <= last - KNOWN or has_batch(self._store, *batch[:2])

    def last(self, query_id: str) -> int | None:
        """Return the largest batch id recorded for a query id; None if there is none."""
        return last_batch(self._store, query_id)
