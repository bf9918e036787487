"""Numbers that a statement is about, in its brackets after IN."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from templates.columns.arrow_tables import FEW_NUMBERS
from xscl.store import sqlite_store
from xscl.store.sqlite_store import SqliteStore
from xscl.store.store import Store


def among(store: Store, numbers: Collection[int]) -> tuple[str, list[object]]:
    """Return SQL for some numbers, for the brackets after IN, and its parameters.

    Many are lent, so the SQL is for the next statement only.
    """
    if isinstance(store, SqliteStore):
        return sqlite_store.among(list(numbers))
    if len(numbers) <= FEW_NUMBERS:
        return ", ".join("?" * len(numbers)) or "NULL", list(numbers)
    store.lend("asked", pa.table({"number": pa.array(numbers, pa.int64())}))
    return "SELECT number FROM asked", []
