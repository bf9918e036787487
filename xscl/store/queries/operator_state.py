"""The state of temporal operators: numbered entries."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from xscl.store.store import Store


def operator_entries(store: Store) -> list[tuple[int, bytes]]:
    """Return all entries with their numbers, in the order of these."""
    rows = store.rows("SELECT number, entry FROM state.core ORDER BY number")
    return [(row["number"], bytes(row["entry"])) for row in rows]


def insert_operator_entries(store: Store, numbers: Sequence[int], entries: Sequence[bytes]) -> None:
    """Append entries with their numbers."""
    columns = {"number": pa.array(numbers, pa.int64()), "entry": pa.array(entries, pa.binary())}
    store.insert("state.core", pa.table(columns))


def delete_operator_entries(store: Store, numbers: Sequence[int]) -> None:
    """Delete the entries of some numbers."""
    store.remove("state.core", numbers)
