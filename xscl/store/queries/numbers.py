"""Numbers that a statement is about, in its brackets after IN, and numbers that it finds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.store import sqlite_store
from xscl.store.lent_tables import FEW_NUMBERS
from xscl.store.sqlite_store import SqliteStore
from xscl.store.store import Store

Numbers: TypeAlias = npt.NDArray[np.int64]


def among(store: Store, numbers: Collection[int] | Numbers) -> tuple[str, list[object]]:
    """Return SQL for some numbers, for the brackets after IN, and its parameters.

    Many are lent, so the SQL is for the next statement only.
    """
    if isinstance(store, SqliteStore):
        return sqlite_store.among([int(number) for number in numbers])
    if len(numbers) <= FEW_NUMBERS:
        return ", ".join("?" * len(numbers)) or "NULL", [int(number) for number in numbers]
    store.lend("asked_numbers", pa.table({"number": pa.array(numbers, pa.int64())}))
    return "SELECT number FROM asked_numbers", []


def found_numbers(store: Store, query: str, parameters: Sequence[object] = ()) -> Numbers:
    """Return the numbers that a query of one column finds."""
    if isinstance(store, SqliteStore):
        rows = store.fetch(query, parameters)
        return np.fromiter((number for (number,) in rows), np.int64, len(rows))
    with store.translate_errors():
        (found,) = store.connection.execute(query, list(parameters)).fetchnumpy().values()
    return np.asarray(found, np.int64)


def found_number(store: Store, query: str, parameters: Sequence[object] = ()) -> int | None:
    """Return the number that a query of one column finds, None without a row, and for NULL."""
    rows = store.fetch(query, parameters)
    return None if not rows or rows[0][0] is None else int(rows[0][0])
