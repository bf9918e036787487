"""Relations of few rows as columns in memory, and their equality joins.

A join of a handful of rows takes DuckDB about a millisecond for each relation,
nearly all of it for planning.  Here it takes some microseconds, and time grows
with the rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Column: TypeAlias = npt.NDArray[Any]
Columns: TypeAlias = Mapping[str, Column]


def columns_of(table: pa.Table) -> Columns:
    """Return the columns of an Arrow table of numbers; NULL is 0."""
    return {
        name: (column.fill_null(0) if column.null_count else column).to_numpy()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def chosen(columns: Columns, rows: Column) -> Columns:
    """Return some rows, by their numbers or as a mask."""
    return {name: column[rows] for name, column in columns.items()}


MOST = 1_000_000
"""Pairs of rows from which on a join is left to the database."""


class TooManyRows(Exception):
    """A join in memory would have more than `MOST` rows."""


class Index:
    """Finds the rows of a column that have given values."""

    def __init__(self, values: Column) -> None:
        self._order = np.argsort(values, kind="stable")
        self._sorted = values[self._order]

    def count(self, wanted: Column) -> int:
        """Return how many pairs `rows` would return."""
        first, last = self._bounds(wanted)
        return int((last - first).sum())

    def rows(self, wanted: Column) -> tuple[Column, Column]:
        """Return all pairs of a place in `wanted` and a row that has the value there.

        Raises TooManyRows.
        """
        first, last = self._bounds(wanted)
        counts = last - first
        if counts.sum() > MOST:
            raise TooManyRows
        which = np.repeat(np.arange(len(wanted)), counts)
        before = np.cumsum(counts) - counts
        nth = np.arange(len(which)) - before[which]
        return which, self._order[first[which] + nth]

    def _bounds(self, wanted: Column) -> tuple[Column, Column]:
        return (
            np.searchsorted(self._sorted, wanted, "left"),
            np.searchsorted(self._sorted, wanted, "right"),
        )


def equal_rows(left: Sequence[Column], right: Sequence[Column]) -> tuple[Column, Column]:
    """Return the pairs of a row of `left` and a row of `right` that are equal in all columns."""
    size = len(left[0])
    codes = np.zeros(size + len(right[0]), dtype=np.int64)
    for one, other in zip(left, right, strict=True):
        values, inverse = np.unique(np.concatenate((one, other)), return_inverse=True)
        codes = codes * len(values) + inverse
        _, codes = np.unique(codes, return_inverse=True)
    return Index(codes[size:]).rows(codes[:size])
