"""The table of consumed batches, by (query id, batch id) (`xscl.documents.consumed_offsets`)."""

from __future__ import annotations

from xscl.store.queries.rows import found_number
from xscl.store.store import Store


def insert_batch(store: Store, query_id: str, batch_id: int) -> None:
    """Record that a batch is consumed."""
    store.insert_rows("state.ledger", [{"query_id": query_id, "batch_id": batch_id}])


def has_batch(store: Store, query_id: str, batch_id: int) -> bool:
    """Return True if a batch is recorded as consumed."""
    query = "SELECT 1 FROM state.ledger WHERE query_id = ? AND batch_id = ?"
    return bool(store.fetch(query, [query_id, batch_id]))


def last_batch(store: Store, query_id: str) -> int | None:
    """Return the largest batch id of a query, None without one."""
    query = "SELECT max(batch_id) FROM state.ledger WHERE query_id = ?"
    return found_number(store, query, [query_id])


def delete_batches(store: Store, query_id: str, upto: int) -> None:
    """Delete the batches of a query up to and including `upto`."""
    sql = "DELETE FROM state.ledger WHERE query_id = ? AND batch_id <= ?"
    store.fetch(sql, [query_id, upto])
