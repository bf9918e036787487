"""What was consumed from the spool: the ledger, kept in the transaction of what it is about.

A consumer's batches have keys, (query id, batch id), and grow; a batch up to the
last one of its query was seen and changes nothing when it comes again.  Beside
the keys stands the segment up to which the spool was consumed, whoever did it:
there the next consumer begins.
"""

from __future__ import annotations

from typing import NamedTuple

from xscl.store import Store

DIRECT = "direct"
"""The query id of the consumer without Spark, which calls a batch by its last segment."""


class Batch(NamedTuple):
    """The key of a batch, and the last segment of which it has documents."""

    query_id: str
    batch_id: int
    segment: int = 0


class Ledger:
    """The ledger of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.segment = max(store.meta("segment"), self.last(DIRECT) or 0)

    def enter(self, batch: Batch) -> bool:
        """Enter a batch; False if it was there."""
        last = self.last(batch.query_id)
        if last is not None and batch.batch_id <= last:
            return False
        self._store.fetch("DELETE FROM state.ledger WHERE query_id = ?", [batch.query_id])
        self._store.fetch("INSERT INTO state.ledger VALUES (?, ?)", batch[:2])
        if batch.segment > self.segment:
            self.segment = batch.segment
            self._store.set_meta(segment=batch.segment)
        return True

    def last(self, query_id: str) -> int | None:
        """Return the last batch under a query id."""
        rows = self._store.fetch(
            "SELECT max(batch_id) FROM state.ledger WHERE query_id = ?", [query_id]
        )
        return None if rows[0][0] is None else int(rows[0][0])
