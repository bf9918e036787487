"""Relations of few rows as columns in memory, and their equality joins.

A join of a handful of rows takes DuckDB about a millisecond for each relation,
nearly all of it for planning.  Here it takes some microseconds, and time grows
with the rows alone.

An `Index` has sorted runs, each less than half as long as the one before: a new run is merged with
those before it until that holds.  Adding costs the logarithm of the size; a search is one binary
search in each run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.storage import RELATIONS, Storage

Column: TypeAlias = npt.NDArray[Any]
Columns: TypeAlias = Mapping[str, Column]

Number = TypeVar("Number", int, npt.NDArray[np.int64])


def pack(left: Number, right: Number) -> Number:
    """Return one number for two below 2^31: of documents, or of pairs of variables.

    ::

        bit  62 ......... 31 30 .......... 0
             |    left     | |    right    |

    A join on two columns thereby compares one.
    """
    return (left << 31) | right


def unpack(numbers: Number) -> tuple[Number, Number]:
    """Return the left and the right half of packed numbers."""
    return numbers >> 31, numbers & ((1 << 31) - 1)


def columns_of(table: pa.Table) -> Columns:
    """Return the columns of an Arrow table of numbers; NULL is 0."""
    return {
        name: (column.fill_null(0) if column.null_count else column).to_numpy()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def with_valued(bindings: pa.Table) -> Columns:
    """Return the columns of bindings, and in `valued` a mask of those with a key."""
    key = bindings["key"]
    valued = key.is_valid().to_numpy() if key.null_count else np.ones(len(key), np.bool_)
    return {**columns_of(bindings), "valued": valued}


def table_of(rows: Sequence[Sequence[object]], schema: pa.Schema) -> pa.Table:
    """Return rows of Python values as an Arrow table with a schema."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def chosen(columns: Columns, rows: Column) -> Columns:
    """Return the same rows of all columns, given by their indexes or by a mask."""
    return {name: column[rows] for name, column in columns.items()}


def grown(column: Column, number: int, filled: int) -> Column:
    """Return a column with an element `number`: itself, or a longer copy, `filled` at its end."""
    if number < len(column):
        return column
    more = np.full(max(number + 1, 2 * len(column)), filled, dtype=column.dtype)
    more[: len(column)] = column
    return more


def together(parts: Sequence[Columns]) -> Columns:
    """Return the rows of all `parts`, one after the other; they have the same columns."""
    parts = [part for part in parts if len(next(iter(part.values())))] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


MOST = 20_000
"""Rows of an intermediate result above which a query is divided, or its answers are counted."""


class TooManyRows(Exception):
    """A join in memory would have more rows than its bound."""


def spread(first: Column, last: Column) -> tuple[Column, Column]:
    """Return the numbers of the ranges from `first` to before `last`, one range after the other.

    The first column has for each number the index of its range, the second one the numbers.
    """
    counts = last - first
    which = np.arange(len(counts)).repeat(counts)
    before = counts.cumsum() - counts
    return which, np.arange(len(which)) + (first - before)[which]


def steps(*columns: Column) -> Column:
    """Return 0 and the indexes of the rows that differ in some column from the row before."""
    differ = np.zeros(len(columns[0]), dtype=np.bool_)
    differ[:1] = True
    for column in columns:
        differ[1:] |= column[1:] != column[:-1]
    return differ.nonzero()[0]


def grouped_counts(columns: Columns, *names: str) -> tuple[Columns, Column]:
    """Return the first row and the size of each group of rows that are equal in columns `names`.

    The groups are sorted by these columns.
    """
    order = np.lexsort([columns[name] for name in reversed(names)])
    first = steps(*(columns[name][order] for name in names))
    return chosen(columns, order[first]), np.diff(first, append=len(order))


def numbered(first: Column, size: int) -> Column:
    """Return for each of `size` rows the index of its group, given the first row of each group."""
    opens = np.zeros(size, np.int64)
    opens[first[1:]] = 1
    return opens.cumsum()


def ends(first: Column, size: int) -> Column:
    """Return the index after the last row of each group, given the first row of each.

    `size` is the number of all rows.
    """
    found = np.empty(len(first), np.int64)
    found[:-1], found[-1:] = first[1:], size
    return found


def portions(sizes: Column, most: int) -> list[Column]:
    """Return the indexes of `sizes`, in order, in portions whose sizes add up to below twice
    `most`.

    A size above `most` makes a portion of its own.
    """
    if not len(sizes):
        return []
    before = np.cumsum(sizes) - sizes
    begins = (np.diff(before // most) > 0) | (sizes[1:] > most)
    return np.split(np.arange(len(sizes)), np.flatnonzero(begins) + 1)


DENSE = 8
"""Numbers in a range of less than this many times their count are marked in a mask of the range."""


def distinct(values: Column) -> Column:
    """Return the distinct values, sorted; `numpy.unique` hashes, which takes longer."""
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    if high - low < DENSE * len(values):
        present = np.zeros(high - low + 1, dtype=np.bool_)
        present[values - values.dtype.type(low)] = True
        dense: Column = present.nonzero()[0].astype(values.dtype) + values.dtype.type(low)
        return dense
    values = np.sort(values)
    return values[np.concatenate(([True], values[1:] != values[:-1]))]


def among(values: Column, present: Column) -> Column:
    """Return a mask of the values that are in `present`, which is sorted."""
    if not len(present):
        return np.zeros(len(values), dtype=np.bool_)
    place = np.searchsorted(present, values)
    place[place == len(present)] = 0
    found: Column = present[place] == values
    return found


def equal_rows(left: Sequence[Column], right: Sequence[Column]) -> tuple[Column, Column]:
    """Return two columns of indexes: a row of `left` and a row of `right`, equal in all columns.

    Raises:
        TooManyRows: there are more than `MOST` of them.
    """
    size = len(left[0])
    codes, span = np.zeros(size + len(right[0]), dtype=np.int64), 1
    for one, other in zip(left, right, strict=True):
        values, width = _placed(np.concatenate((one, other)).astype(np.int64))
        if span * width >= MOST_CODES:
            codes, span = _placed(codes)
        codes, span = codes * width + values, span * width
    return Index(codes[size:]).rows(codes[:size], most=MOST)


MOST_CODES = 1 << 62


def _placed(values: Column) -> tuple[Column, int]:
    """Return a code for each value, which keeps equality and order, and the number of codes.

    It is the distance from the least value, or in a large range the rank among distinct values.
    """
    if not len(values):
        return values, 1
    low, high = int(values.min()), int(values.max())
    if high - low < DENSE * len(values):
        return values - low, high - low + 1
    every = distinct(values)
    return np.searchsorted(every, values), len(every)


class GrowingColumns:
    """Columns in memory, of equal length, to which rows are appended."""

    def __init__(self, types: Mapping[str, npt.DTypeLike]) -> None:
        self._columns = {name: np.empty(1024, dtype) for name, dtype in types.items()}
        self.size = 0

    def __getitem__(self, name: str) -> Column:
        return self._columns[name][: self.size]

    def extend(self, rows: Mapping[str, Column | Sequence[int]]) -> None:
        """Append rows, given as columns of equal length."""
        count = len(next(iter(rows.values())))
        room = len(next(iter(self._columns.values())))
        if self.size + count > room:
            more = max(room // 2, self.size + count - room)
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate((column, np.empty(more, column.dtype)))
        for name, column in self._columns.items():
            column[self.size : self.size + count] = rows[name]
        self.size += count

    def only(self, rows: Column) -> None:
        """Remove all rows but those at the indexes `rows`."""
        self._columns = {name: self[name][rows] for name in self._columns}
        self.size = len(next(iter(self._columns.values())))


SHORT = 256
"""A run of fewer entries is merged with the next one that is added, whatever the size of that."""


class Index:
    """Finds the rows of a column that have given values: sorted runs, which are searched."""

    def __init__(self, values: Column | None = None) -> None:
        self._runs: list[tuple[Column, Column]] = []
        if values is not None:
            self.add(values, np.arange(len(values)))

    def __len__(self) -> int:
        return sum(len(values) for values, _ in self._runs)

    def add(self, values: Column, rows: Column) -> None:
        """Add the row numbers `rows`, each with the value at the same index of `values`."""
        if not len(values):
            return
        while self._runs and len(self._runs[-1][0]) < max(2 * len(values), SHORT):
            before = self._runs.pop()
            values = np.concatenate((before[0], values))
            rows = np.concatenate((before[1], rows))
        order = np.argsort(values, kind="stable")
        self._runs.append((values[order], rows[order]))

    def cut(self, row: int) -> None:
        """Remove the entries of rows from the number `row` on."""
        self._only([rows < row for _, rows in self._runs])

    def remove(self, values: Column) -> None:
        """Remove the entries that have one of `values`, which is sorted."""
        self._only([~among(here, values) for here, _ in self._runs])

    def _only(self, stays: Sequence[Column]) -> None:
        """Keep some entries of each sorted run; `stays` has a mask for each run."""
        self._runs = [
            run if these.all() else (run[0][these], run[1][these])
            for run, these in zip(self._runs, stays, strict=True)
            if these.any()
        ]

    def counts(self, wanted: Column) -> Column:
        """Return for each value of `wanted` the number of rows that have it."""
        found = np.zeros(len(wanted), dtype=np.int64)
        for values, _ in self._runs:
            found += values.searchsorted(wanted, "right")
            found -= values.searchsorted(wanted, "left")
        return found

    def rows(self, wanted: Column, *, most: float = float("inf")) -> tuple[Column, Column]:
        """Return two columns: an index in `wanted`, and a row with that value, for all such rows.

        Raises:
            TooManyRows: there are more than `most` of them.
        """
        places, found, size = [], [], 0
        for values, rows in self._runs:
            first = values.searchsorted(wanted, "left")
            last = values.searchsorted(wanted, "right")
            size += int((last - first).sum())
            if size > most:
                raise TooManyRows
            if (first < last).any():  # with few wanted values most runs have none
                which, at = spread(first, last)
                places.append(which)
                found.append(rows[at].astype(np.int64, copy=False))
        if len(found) == 1:
            return places[0], found[0]
        nothing = np.empty(0, np.int64)
        return np.concatenate([nothing, *places]), np.concatenate([nothing, *found])


# -- String values and their keys -------------------------------------------------------------

# Keys are fixed-width numbers that join as exactly as the texts.
#
# A key is a 64-bit hash of the text.  Keys are *verified when they are stored*:
# a text whose key belongs to another text takes the hash of the next salt, and
# so on.  Within one state equal keys therefore mean equal texts, and no join has
# to compare texts again.  A repeated text tries the same salts and gets the same
# key.
#
# No text is read again for that.  Memory has the *check* of each stored text beside its key: its
# hash under the secret of this process (Python's own hash of texts, 64 bits).  Two texts are taken
# for one if both are equal, which nobody can bring about who does not know the secret.

Keys = npt.NDArray[np.uint64]
Hash = Callable[[Sequence[str], int], Keys]


def keys_of(texts: Sequence[str], salt: int = 0) -> Keys:
    """Return the 64-bit keys of texts under a salt."""
    salting = salt.to_bytes(8, "little")
    digests = [
        blake2b(text.encode(), digest_size=8, salt=salting).digest()
        if salt
        else blake2b(text.encode(), digest_size=8).digest()  # the same as salt 0, and faster
        for text in texts
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").copy()


def _checks_of(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(hash, texts), np.int64, len(texts))


@dataclass(frozen=True, slots=True)
class Interned:
    """The keys of a batch's distinct texts, and a mask: True for texts that were stored before."""

    keys: Keys
    known: npt.NDArray[np.bool_]


class InternedValues:
    """The stored texts, with their keys; in memory 16 bytes of each."""

    def __init__(self, storage: Storage, hashed: Hash = keys_of) -> None:
        self._storage = storage
        self._hashed = hashed

    def intern(self, texts: Sequence[str]) -> Interned:
        """Return the keys of distinct texts, in their order, and store the new texts."""
        keys = self._hashed(texts, 0)
        known = np.zeros(len(texts), dtype=np.bool_)
        if texts:
            checks, salt = _checks_of(texts), 0
            rows = self._store(texts, keys, checks, known, np.arange(len(texts)))
            while len(rows):
                salt += 1
                keys[rows] = self._hashed([texts[row] for row in rows], salt)
                rows = self._store(texts, keys, checks, known, rows)
        return Interned(keys, known)

    def sweep(self, keys: Column) -> None:
        """Delete the texts whose keys are not in `keys`, which is sorted."""
        gone = self._storage.keep("value", lambda rows: among(rows["key"].to_numpy(), keys))
        if gone.num_rows:
            self._checks.remove(distinct(gone["key"].to_numpy()))

    def _store(
        self,
        texts: Sequence[str],
        keys: Keys,
        checks: Column,
        known: npt.NDArray[np.bool_],
        rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Store the texts at the indexes `rows`; mark in `known` the texts that were stored before.

        Return the indexes of the texts whose keys belong to other texts.
        """
        ours = keys[rows]
        at, found = self._checks.rows(ours)
        there = np.zeros(len(rows), dtype=np.bool_)
        there[at] = True
        known[rows[at[found == checks[rows[at]]]]] = True
        new = rows[~there]
        fresh, first = np.unique(keys[new], return_index=True)
        if len(fresh):
            chosen = new[first]
            columns = [pa.array(fresh), pa.array([texts[row] for row in chosen], pa.string())]
            self._storage.append("value", pa.table(columns, RELATIONS["value"]))
            self._checks.add(fresh, checks[chosen])
        taken = rows[there & ~known[rows]]
        if len(fresh) == len(new):
            return taken
        return np.concatenate((taken, np.delete(new, first)))

    @cached_property
    def _checks(self) -> Index:
        """The *check* of each stored text by its key: a hash under the secret of this process."""
        keys, checks = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for part in self._storage.parts("value"):
            keys.append(part["key"].to_numpy())
            checks.append(_checks_of(part["strVal"].to_pylist()))
        found = Index()
        found.add(np.concatenate(keys), np.concatenate(checks))
        return found
