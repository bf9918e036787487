"""A part of the join state in memory, within a budget of bytes (Hong 2009, section 6.5).

Differs from section 6.5: the paper evicts slices of single values; here documents
are evicted, the least recently used first.  A row is found by its value and, once
its document is read, with all other rows of that document.  If values were evicted
one by one, most documents would be incomplete.

A document in memory is complete.  For evicted documents the number of links of
each value stays in memory, which `counts` uses.  Only reading a value's slice loads
its documents.  So a value that very many documents share (the address of a channel)
loads them only if it drives a join.
"""

from __future__ import annotations

import os

import duckdb
import numpy as np

from templates.columns.arrow_tables import Lender
from templates.columns.columns import Column, distinct
from templates.state.join_state import DOCUMENT_BYTES, LINK_BYTES, ROW_BYTES, JoinState

FILLED = 0.75
"""The part of the budget that is left in use when something is dropped."""

_LINKS = "SELECT DISTINCT doc, node1, node2, key FROM state.binding WHERE key IS NOT NULL"


class Dropped:
    """The values of evicted links, with the number of links of each."""

    def __init__(self) -> None:
        self._keys = np.empty(0, np.uint64)
        self._counts = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        """Their bytes."""
        return self._keys.nbytes + self._counts.nbytes

    def counts(self, keys: Column) -> Column:
        """Return the number of links of each of some values."""
        if not len(self._keys):
            return np.zeros(len(keys), np.int64)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._counts[place], 0)

    def change(self, keys: Column, counts: Column) -> None:
        """Add links of values, or remove as many."""
        every = np.concatenate((self._keys, keys))
        united, place = np.unique(every, return_inverse=True)
        total = np.zeros(len(united), np.int64)
        np.add.at(total, place, np.concatenate((self._counts, counts)))
        self._keys, self._counts = united[total > 0], total[total > 0]


class ViewCache(JoinState):
    """The join state, as much of it in memory as a budget of bytes allows.

    The rows that one batch reads may exceed the budget until the next one begins.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, lender: Lender, budget: int | None
    ) -> None:
        super().__init__()
        self._connection = connection
        self._lender = lender
        self._budget = budget
        self._dropped = Dropped()
        self.fetches = 0  # from the database, of what had been dropped
        self._read()

    @property
    def whole(self) -> bool:
        """True if all of the state is in memory."""
        return not len(self._dropped)

    @property
    def nbytes(self) -> int:
        """The bytes of all of it."""
        return super().nbytes + self._dropped.nbytes

    def _read(self) -> None:
        """Read the documents that fit, the newest first."""
        first = self._first_that_fits()
        if first is None:
            self._load("true")
            return
        self._dropped.change(*self._counted(f"doc < {first}"))
        self._load(f"doc >= {first}")

    def _load(self, which: str) -> None:
        """Read the rows of some documents."""
        bindings, times = (
            self._connection.sql(f"FROM state.{table} WHERE {which}{order}").to_arrow_table()
            for table, order in (("binding", ""), ("times", " ORDER BY doc"))
        )
        self.add(bindings, times)

    def _counted(self, which: str) -> tuple[Column, Column]:
        """Return the values of some documents, with the number of links of each."""
        counted = self._connection.sql(
            f"SELECT key, count(*) AS links FROM ({_LINKS} AND {which}) GROUP BY key"
        ).to_arrow_table()
        return counted["key"].to_numpy(), counted["links"].to_numpy()

    def _first_that_fits(self) -> int | None:
        """Return the first document of the newest that fit; None if all fit."""
        if self._budget is None:
            return None
        counted = self._connection.sql(
            f"SELECT doc, count(*) * {ROW_BYTES} + count(DISTINCT (node1, node2, key)) *"
            f" {LINK_BYTES} + {DOCUMENT_BYTES} AS bytes"
            " FROM state.binding GROUP BY doc ORDER BY doc DESC"
        ).to_arrow_table()
        docs = counted["doc"].to_numpy()
        fitting = _fitting(counted["bytes"].to_numpy(), self._budget)
        if fitting == len(docs):
            return None
        return int(docs[fitting - 1]) if fitting else int(docs[0]) + 1

    # -- Finding ---------------------------------------------------------------------------

    def counts(self, keys: Column) -> Column:
        """Return the number of links of each of some values."""
        found: Column = super().counts(keys) + self._dropped.counts(keys)
        return found

    def of_values(self, keys: Column) -> tuple[Column, Column]:
        """Return all pairs of a place in `keys` and a row with the value there."""
        self._fetch(keys)
        which, rows = super().of_values(keys)
        self._touch(rows)
        return which, rows

    def of_pairs(self, keys: Column, pairs: Column) -> tuple[Column, Column]:
        """Return all places of `keys` and `pairs`, each with a row of that value and that pair."""
        self._fetch(keys)
        which, rows = super().of_pairs(keys, pairs)
        self._touch(rows)
        return which, rows

    def _fetch(self, keys: Column) -> None:
        """Load all documents that have one of some values."""
        if self.whole:
            return
        asked = distinct(keys)
        asked = asked[self._dropped.counts(asked) > 0]
        if not len(asked):
            return
        self.fetches += 1
        having = self._connection.sql(
            f"SELECT DISTINCT doc FROM state.binding WHERE key IN ({self._lender.among(asked)})"
        ).to_arrow_table()
        self.bring(having["doc"].to_numpy())

    def bring(self, docs: Column) -> None:
        """Load some documents."""
        docs = docs[~self.has_documents(docs)]
        if self.whole or not len(docs):
            return
        before = self._links.size
        self._load(f"doc IN ({self._lender.among(docs)})")
        fetched = self._links["key"][before:][self._links["valued"][before:]]
        self._dropped.change(fetched, np.full(len(fetched), -1))

    # -- Forgetting ------------------------------------------------------------------------

    def trim(self) -> None:
        """Begin a batch: evict the least recently used documents beyond the budget."""
        self.turn += 1
        if self._budget is None or self.nbytes <= self._budget:
            return
        left = max(0, self._budget - self._dropped.nbytes)
        gone = self.drop_oldest(lambda sizes: _fitting(sizes, left))
        self._dropped.change(gone, np.ones(len(gone), np.int64))

    def forget(self, keeps: Column, clock: int) -> None:
        """Evict rows that are older than the retention of their pair of variables, at a clock.

        They are deleted in the database already.
        """
        had = not self.whole
        super().forget(keeps, clock)
        if had:
            self._count_dropped()

    def _count_dropped(self) -> None:
        """Count the links of the documents that are not in memory; none of them is read."""
        here = self._documents["doc"].copy()
        elsewhere = f"doc NOT IN ({self._lender.among(here)})" if len(here) else "true"
        self._dropped = Dropped()
        self._dropped.change(*self._counted(elsewhere))


def _fitting(sizes: Column, budget: int) -> int:
    """Return the number of documents that fit into a part of a budget, given their bytes."""
    return int(np.searchsorted(np.cumsum(sizes), FILLED * budget, "right"))


def a_quarter() -> int:
    """Return a quarter of the machine's memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
