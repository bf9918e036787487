"""Numbers that a statement is about, in its brackets after IN, and numbers that it finds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

import apsw
import numpy as np
import numpy.typing as npt

from xscl.store.store import Store

RowNumbers: TypeAlias = npt.NDArray[np.int64]

_FEW = 8  # numbers that a statement names


def among(numbers: Collection[int] | RowNumbers) -> tuple[str, list[object]]:
    """Return SQL for some numbers, for the brackets after IN, and its parameters."""
    if len(numbers) <= _FEW:
        return ", ".join("?" * len(numbers)) or "NULL", [int(number) for number in numbers]
    array = np.fromiter(numbers, np.int64, len(numbers))
    return "SELECT value FROM carray(?)", [apsw.carray(array)]


def found_numbers(store: Store, query: str, parameters: Sequence[object] = ()) -> RowNumbers:
    """Return the numbers that a query of one column finds."""
    rows = store.fetch(query, parameters)
    return np.fromiter((number for (number,) in rows), np.int64, len(rows))


def found_number(store: Store, query: str, parameters: Sequence[object] = ()) -> int | None:
    """Return the number that a query of one column finds, None without a row, and for NULL."""
    rows = store.fetch(query, parameters)
    return None if not rows or rows[0][0] is None else int(rows[0][0])
