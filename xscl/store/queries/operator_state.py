"""The state of temporal operators: numbered entries."""

from __future__ import annotations

from collections.abc import Sequence

from xscl.store.store import Store


def operator_entries(store: Store) -> list[tuple[int, bytes]]:
    """Return all entries with their numbers, in the order of these."""
    rows = store.rows("SELECT number, entry FROM state.core ORDER BY number")
    return [(row["number"], bytes(row["entry"])) for row in rows]


def insert_operator_entries(store: Store, numbers: Sequence[int], entries: Sequence[bytes]) -> None:
    """Append entries with their numbers."""
    store.insert_columns("state.core", {"number": numbers, "entry": entries})


def delete_operator_entries(store: Store, numbers: Sequence[int]) -> None:
    """Delete the entries of some numbers."""
    store.execute_many("DELETE FROM state.core WHERE number = ?", ((one,) for one in numbers))
