"""The join state in memory: slices R_L,s and R_R,s of all values (Hong 2009, section 6.5).

A slice is what the state has of one string value.  The rows are columns, an
index finds those of a value, another those of a document, so a batch costs
what it meets, not what is kept.  The database has the same rows, and is the
truth: after a restart or a failure they are read from there.

A row takes 21 bytes, 12 more in the index of values; a document 76.  If that is too much a part
of it may be dropped (`templates.viewcache`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.columns import Column, Columns, Growing, chosen, columns_of, spread
from templates.runs import Runs

ROW: Mapping[str, npt.DTypeLike] = {
    "slot": np.int32,  # the document's place among those that are kept
    "pair": np.int32,
    "node1": np.int32,
    "node2": np.int32,
    "key": np.uint64,
    "valued": np.bool_,  # whether the second node's value joins: there is a key
}
DOCUMENT: Mapping[str, npt.DTypeLike] = {
    "doc": np.int64,
    "start": np.int64,
    "ts": np.int64,
    "clock": np.int64,
    "rank": np.int64,
    "base": np.int64,
    "end": np.int64,  # the row after the document's last one
    "touched": np.int32,  # the turn in which it was met last
}
ROW_BYTES, DOCUMENT_BYTES = 33, 76


class Kept:
    """The bindings that later documents may meet, found by value and by document."""

    def __init__(self) -> None:
        self.turn = 0
        self.clear()

    def clear(self) -> None:
        """Have nothing."""
        self._rows = Growing(ROW)
        self._documents = Growing(DOCUMENT)
        self._by_value = Runs()
        self._by_doc = Runs()

    def __len__(self) -> int:
        return self._rows.size

    @property
    def nbytes(self) -> int:
        """How many bytes all of it takes."""
        parts = (self._rows, self._documents, self._by_value, self._by_doc)
        return sum(part.nbytes for part in parts)

    def add(self, bindings: pa.Table) -> None:
        """Add rows of `state.binding`."""
        if not bindings.num_rows:
            return
        valued = bindings["key"].is_valid().to_numpy()
        order = np.argsort(bindings["doc"].to_numpy(), kind="stable")
        columns = chosen({**columns_of(bindings), "valued": valued}, order)
        doc = columns["doc"]
        starts = np.flatnonzero(np.concatenate(([True], doc[1:] != doc[:-1])))
        before, first = self._rows.size, self._documents.size
        ends = before + np.append(starts[1:], len(doc))
        slots = np.arange(first, first + len(starts))
        slot = np.repeat(slots, np.diff(np.append(starts, len(doc))))
        self._rows.extend({**columns, "slot": slot})
        touched = np.full(len(starts), self.turn, np.int32)
        self._documents.extend({**chosen(columns, starts), "end": ends, "touched": touched})
        self._index(before, first)

    # -- Finding ---------------------------------------------------------------------------

    def counts(self, keys: Column) -> Column:
        """Return how many rows there are of each of some values, or a few more."""
        return self._by_value.counts(keys & _UPPER, keys | _LOWER)

    def of_values(self, keys: Column) -> tuple[Column, Column]:
        """Return all pairs of a place in `keys` and a row with the value there."""
        which, rows = self._by_value.rows(keys & _UPPER, keys | _LOWER)
        return _where(self._rows["key"][rows] == keys[which], which, rows)

    def of_pairs(self, keys: Column, pairs: Column) -> tuple[Column, Column]:
        """Return all places of `keys` and `pairs`, each with a row of that value and that pair."""
        which, rows = self._by_value.rows(*[_indexed(keys, pairs)] * 2)
        found, there = self._rows["key"][rows], self._rows["pair"][rows]
        return _where((found == keys[which]) & (there == pairs[which]), which, rows)

    def of_documents(self, docs: Column) -> Column:
        """Return the rows of some documents, each of which is named once."""
        _, slots = self._by_doc.rows(docs, docs)
        end = self._documents["end"]
        first = np.where(slots > 0, end[slots - 1], 0)
        return spread(first, end[slots])[1]

    def rows(self, rows: Column, names: tuple[str, ...]) -> Columns:
        """Return some columns of some rows: those of `state.binding`."""
        slots = self._rows["slot"][rows]
        return {
            name: self._documents[name][slots] if name in DOCUMENT else self._rows[name][rows]
            for name in names
        }

    def ages(self) -> tuple[Column, Column]:
        """Return of all rows the pairs of variables, and the times."""
        return self._rows["pair"], self._documents["ts"][self._rows["slot"]]

    def has_documents(self, docs: Column) -> Column:
        """Return for each of some documents whether it has rows."""
        found: Column = self._by_doc.counts(docs, docs) > 0
        return found

    def _touch(self, rows: Column) -> None:
        """Note that the documents of some rows were met."""
        self._documents["touched"][self._rows["slot"][rows]] = self.turn

    # -- Forgetting ------------------------------------------------------------------------

    def drop_oldest(self, fitting: Callable[[Column], int]) -> Column:
        """Drop the documents that were met longest ago; return the values of their rows.

        `fitting` says how many may stay, given how many rows each has, the latest one first.
        """
        latest = np.lexsort((self._documents["doc"], self._documents["touched"]))[::-1]
        sizes = np.diff(self._documents["end"], prepend=0)
        stays = np.zeros(self._documents.size, np.bool_)
        stays[latest[: fitting(sizes[latest])]] = True
        row_stays = stays[self._rows["slot"]]
        gone: Column = self._rows["key"][~row_stays & self._rows["valued"]]
        self._only(np.flatnonzero(row_stays))
        return gone

    def forget(self, keeps: Column, clock: int) -> None:
        """Forget rows older than their pair of variables is kept, by its number, before a clock.

        A negative number says that nobody needs the pair's rows any more.
        """
        keep = keeps[self._rows["pair"]]
        ts = self._documents["ts"][self._rows["slot"]]
        self._only(np.flatnonzero((keep >= 0) & (ts >= clock - keep)))

    def _only(self, rows: Column) -> None:
        if len(rows) == self._rows.size:
            return
        slots, ends = np.unique(self._rows["slot"][rows], return_index=True)
        ends = np.append(ends[1:], len(rows))
        self._rows.only(rows)
        self._documents.only(slots)
        self._rows["slot"][:] = np.repeat(np.arange(len(slots)), np.diff(ends, prepend=0))
        self._documents["end"][:] = ends
        self._by_value, self._by_doc = Runs(), Runs()
        self._index(0, 0)

    def _index(self, row: int, slot: int) -> None:
        """Have the rows and documents from some on found."""
        valued = row + np.flatnonzero(self._rows["valued"][row:])
        keys, pairs = self._rows["key"][valued], self._rows["pair"][valued]
        self._by_value.add(_indexed(keys, pairs), valued.astype(np.int32))
        slots = np.arange(slot, self._documents.size)
        self._by_doc.add(self._documents["doc"][slots], slots)


_LOWER = np.uint64((1 << 24) - 1)
_UPPER = ~_LOWER


def _indexed(keys: Column, pairs: Column) -> Column:
    """Return what rows are ordered by: most of the value's key, and in it the pair.

    So one index finds the rows of a value, and those of them that have a pair.
    """
    return (keys & _UPPER) | (pairs.astype(np.uint64) & _LOWER)


def _where(usable: Column, which: Column, rows: Column) -> tuple[Column, Column]:
    return (which, rows) if usable.all() else (which[usable], rows[usable])
