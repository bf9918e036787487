"""The join state in memory: slices R_L,s and R_R,s of all values (Hong 2009, section 6.5).

A slice has the rows of one string value.  The rows are columns; one index finds
those of a value, another those of a document.  So a batch costs the rows that it
reads, not the size of the state.  The storage has the same rows and is the source of
truth: after a restart or a failure they are read from there.

Many pairs of variables bind the same two nodes of a document: each of a hundred patterns that
differ in a constant has a pair for the item and its title.  So the rows of two nodes and a value
are a *link*, which has the value once.  The index by value finds links, and rows through them.

A row takes 8 bytes; a link 25, 12 more in the index of values; a document 76.  Beyond a
budget a part of it is evicted.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.columns import (
    Column,
    Columns,
    GrowingColumns,
    Index,
    among,
    chosen,
    columns_of,
    distinct,
    ends,
    grouped_counts,
    numbered,
    pack,
    spread,
    steps,
    together,
    with_valued,
)
from templates.model.join_graph import INFINITE
from templates.storage import Mask, Storage, scan

ROW: Mapping[str, npt.DTypeLike] = {"pair": np.int32, "link": np.int32}
LINK: Mapping[str, npt.DTypeLike] = {
    "slot": np.int32,  # the index of its document in the columns `DOCUMENT`
    "node1": np.int32,
    "node2": np.int32,
    "key": np.uint64,
    "valued": np.bool_,  # True if the second node has a key: its value is joined
    "end": np.int32,  # the row after the link's last one
}
DOCUMENT: Mapping[str, npt.DTypeLike] = {
    "doc": np.int64,
    "start": np.int64,
    "ts": np.int64,
    "clock": np.int64,
    "rank": np.int64,
    "base": np.int64,
    "end": np.int64,  # the row after the document's last one
    "touched": np.int32,  # the last turn (batch) that read its rows
}
TIMES = tuple(name for name in DOCUMENT if name not in ("end", "touched"))
ROW_BYTES, LINK_BYTES, DOCUMENT_BYTES, DROPPED_BYTES = 8, 37, 76, 16

LINKED = ("place", "node1", "node2", "valued", "key")
"""The key columns of a link; `place` is the position of its document in the batch."""


class Dropped:
    """Counts the evicted links by value."""

    def __init__(self) -> None:
        self._keys = np.empty(0, np.uint64)
        self._counts = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def counts(self, keys: Column) -> Column:
        """Return the number of links for each value in `keys`."""
        if not len(self._keys):
            return np.zeros(len(keys), np.int64)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._counts[place], 0)

    def change(self, keys: Column, counts: Column) -> None:
        """Add `counts`, which may be negative, to the numbers of links of the values `keys`."""
        every = np.concatenate((self._keys, keys))
        united, place = np.unique(every, return_inverse=True)
        total = np.zeros(len(united), np.int64)
        np.add.at(total, place, np.concatenate((self._counts, counts)))
        self._keys, self._counts = united[total > 0], total[total > 0]

    def remove(self, keys: Column) -> None:
        """Remove the counts of the values `keys`, which are sorted."""
        stays = ~among(self._keys, keys)
        self._keys, self._counts = self._keys[stays], self._counts[stays]


FILLED = 0.75
"""The part of the budget that documents use after an eviction."""


class JoinState:
    """The bindings that later documents may join with, indexed by value and by document.

    With a storage it is a cache of its rows within a budget of bytes (Hong 2009, section 6.5).

    Differs from section 6.5: the paper evicts slices of single values; here documents are evicted,
    the least recently used first.  A row is found by its value and, once its document is read,
    with all other rows of that document.  If values were evicted one by one, most documents would
    be incomplete.

    A document in memory is complete.  For evicted documents the number of links of each value
    stays in memory, which `counts` uses.  Only reading a value's slice loads its documents.  So a
    value that very many documents share (the address of a channel) loads them only if it drives a
    join.

    The rows that one batch reads may exceed the budget until the next one begins.
    """

    def __init__(self, storage: Storage | None = None, budget: int | None = None) -> None:
        """Read the rows of a storage, newest documents first, up to `budget` bytes; None: all."""
        self._storage = storage
        self._budget = budget
        self._dropped = Dropped()
        self._turn = 0
        self.fetches = 0  # reads of evicted documents from the storage
        self.clear()
        if storage is not None:
            self._read(storage)

    def clear(self) -> None:
        """Drop all rows."""
        self._rows = GrowingColumns(ROW)
        self._links = GrowingColumns(LINK)
        self._documents = GrowingColumns(DOCUMENT)
        self._by_value = Index()
        self._by_doc = Index()
        self._newest = -1  # the largest number that a document has had here

    def __len__(self) -> int:
        return self._rows.size

    @property
    def whole(self) -> bool:
        """True if all of the state is in memory."""
        return not len(self._dropped)

    @property
    def nbytes(self) -> int:
        """The bytes of all columns and indexes, as if all links had values; thread-safe."""
        rows = ROW_BYTES * self._rows.size + LINK_BYTES * self._links.size
        return rows + DOCUMENT_BYTES * self._documents.size + DROPPED_BYTES * len(self._dropped)

    # -- Reading the storage ---------------------------------------------------------------

    def _read(self, storage: Storage) -> None:
        """Read the documents that fit, the newest first."""
        first = self._first_that_fits(storage)
        if first is None:
            self._load(storage)
            return
        self._count_dropped(storage, lambda rows: rows["doc"].to_numpy() < first)
        self._load(storage, where=lambda rows: rows["doc"].to_numpy() >= first)

    def _load(
        self, storage: Storage, docs: Column | None = None, where: Mask | None = None
    ) -> None:
        """Read the rows of the documents `docs` (None: all) for whose times the mask `where` holds.

        A binding without times is left out: it has expired, and `Storage.keep` has not deleted it.
        """
        times = scan(storage, "times", docs=docs, where=where).sort_by("doc")
        there = times["doc"].to_numpy()

        def usable(rows: pa.Table) -> Column:
            return among(rows["doc"].to_numpy(), there)

        bindings = scan(storage, "binding", docs=docs, where=usable)
        self.add(with_valued(bindings), columns_of(times))

    def _count_dropped(self, storage: Storage, where: Mask) -> None:
        """Count by value the links of the bindings for which the mask `where` holds.

        A link that is stored in several parts counts several times, until its value is looked up.
        """
        self._dropped = Dropped()
        for part in storage.parts("binding", LINK_COLUMNS):
            links = _links_of(part.filter(pa.array(where(part))))
            self._dropped.change(*np.unique(links["key"][links["valued"]], return_counts=True))

    def _first_that_fits(self, storage: Storage) -> int | None:
        """Return the number of the oldest document that fits the budget, read from the newest on.

        None if all fit.
        """
        if self._budget is None:
            return None
        rows = sum(part.num_rows for part in storage.parts("binding", ("doc",)))
        if rows * (ROW_BYTES + LINK_BYTES + DOCUMENT_BYTES) <= FILLED * self._budget:
            return None
        docs, sizes = [], []
        for part in storage.parts("binding", LINK_COLUMNS):
            of_rows, of_links = part["doc"].to_numpy(), _links_of(part)["doc"]
            for several, nbytes in ((of_rows, ROW_BYTES), (of_links, LINK_BYTES)):
                found, counts = np.unique(several, return_counts=True)
                docs.append(found)
                sizes.append(nbytes * counts)
        every, place = np.unique(np.concatenate(docs), return_inverse=True)
        total = DOCUMENT_BYTES + np.bincount(place, np.concatenate(sizes)).astype(np.int64)
        newest, fitting = every[::-1], _fitting(total[::-1], self._budget)
        if fitting == len(newest):
            return None
        return int(newest[fitting - 1]) if fitting else int(newest[0]) + 1

    def _fetch(self, keys: Column) -> None:
        """Load all documents that have one of the values `keys`."""
        if self._storage is None or self.whole:
            return
        asked = distinct(keys)
        asked = asked[self._dropped.counts(asked) > 0]
        if not len(asked):
            return
        self.fetches += 1
        having = scan(
            *(self._storage, "binding", ("doc", "key")),
            where=lambda rows: among(columns_of(rows)["key"], asked),
        )
        self.bring(distinct(having["doc"].to_numpy()))
        self._dropped.remove(asked)

    def bring(self, docs: Column) -> None:
        """Load those of `docs`, which is sorted, that are not in memory."""
        if self._storage is None or self.whole:
            return
        docs = docs[~self.has_documents(docs)]
        if not len(docs):
            return
        before = self._links.size
        self._load(self._storage, docs, lambda rows: among(rows["doc"].to_numpy(), docs))
        fetched = self._links["key"][before:][self._links["valued"][before:]]
        self._dropped.change(fetched, np.full(len(fetched), -1))

    # -- Adding ----------------------------------------------------------------------------

    def add(self, columns: Columns, documents: Columns) -> None:
        """Add rows: `columns` of the relation `binding`, and `documents` of `times`, by document.

        A document that is already present is removed and added again with its old and new rows, so
        the rows of a document stay contiguous.  Such documents are composites of this push and thus
        among the last.
        """
        if not len(columns["doc"]):
            return
        docs = documents["doc"]
        _, slots = self._by_doc.rows(docs) if docs[0] <= self._newest else (docs, docs[:0])
        self._newest = max(self._newest, int(docs[-1]))
        if len(slots):
            there = self._take_from(int(slots.min()), tuple(columns), TIMES)
            columns, documents = (
                together(parts) for parts in zip(there, (columns, documents), strict=True)
            )
            documents = chosen(documents, np.unique(documents["doc"], return_index=True)[1])
        columns = {**columns, "place": np.searchsorted(documents["doc"], columns["doc"])}
        order, first = _by_link(columns)
        columns = chosen(columns, order)
        place = columns["place"]
        links = chosen(columns, first)
        opening = steps(place[first])
        before = self._rows.size, self._links.size, self._documents.size
        link = before[1] + numbered(first, len(place))
        self._rows.extend({"pair": columns["pair"], "link": link})
        slot = before[2] + numbered(opening, len(first))
        self._links.extend({**links, "slot": slot, "end": before[0] + ends(first, len(place))})
        documents = chosen(documents, place[first[opening]])
        touched = np.full(len(opening), self._turn, np.int32)
        last = before[0] + ends(first[opening], len(place))
        self._documents.extend({**documents, "end": last, "touched": touched})
        self._index(*before[1:])

    def _take_from(
        self, slot: int, columns: tuple[str, ...], documents: tuple[str, ...]
    ) -> tuple[Columns, Columns]:
        """Remove the documents at `slot` and above, with their rows; return both.

        The first result has the named `columns` of the rows, the second those of the `documents`.
        """
        link = int(np.searchsorted(self._links["slot"], slot))
        row = int(self._documents["end"][slot - 1]) if slot else 0
        rows = self.rows(np.arange(row, self._rows.size), columns)
        taken = {name: self._documents[name][slot:] for name in documents}
        self._rows.size, self._links.size, self._documents.size = row, link, slot
        self._by_value.cut(link)
        self._by_doc.cut(slot)
        return rows, taken

    # -- Finding ---------------------------------------------------------------------------

    def counts(self, keys: Column) -> Column:
        """Return the number of stored links for each value in `keys`, evicted ones included."""
        found: Column = self._by_value.counts(keys) + self._dropped.counts(keys)
        return found

    def of_values(self, keys: Column) -> tuple[Column, Column]:
        """Return (places, rows): all pairs of an index in `keys` and a row with that value."""
        self._fetch(keys)
        which, links = self._by_value.rows(keys)
        place, rows = _within(self._links["end"], links)
        self._touch(rows)
        return which[place], rows

    def of_pairs(self, keys: Column, pairs: Column) -> tuple[Column, Column]:
        """Return (places, rows): all combinations of an index in `keys` and a matching row.

        A row matches if it has the value `keys[place]` and the pair `pairs[place]`.
        """
        every = distinct(keys)
        self._fetch(every)
        which, links = self._by_value.rows(every)
        place, rows = _within(self._links["end"], links)
        usable = np.flatnonzero(among(self._rows["pair"][rows], distinct(pairs)))
        which, rows = which[place[usable]], rows[usable]
        there = Index(pack(which, self._rows["pair"][rows].astype(np.int64)))
        place, found = there.rows(pack(np.searchsorted(every, keys), pairs))
        self._touch(rows[found])
        return place, rows[found]

    def of_documents(self, docs: Column) -> Column:
        """Return the row numbers of all bindings of `docs`, which are distinct."""
        _, slots = self._by_doc.rows(docs)
        return _within(self._documents["end"], slots)[1]

    def ranks(self, docs: Column) -> Column:
        """Return the arrival rank of each document; -1 for documents without rows."""
        found = np.full(len(docs), -1, np.int64)
        which, slots = self._by_doc.rows(docs)
        found[which] = self._documents["rank"][slots]
        return found

    def rows(self, rows: Column, names: tuple[str, ...]) -> Columns:
        """Return some columns of some rows; `names` are columns of `binding` and of `times`."""
        links = self._rows["link"][rows]
        slots = self._links["slot"][links]
        found = {}
        for name in names:
            if name in ROW:
                found[name] = self._rows[name][rows]
            elif name in LINK:
                found[name] = self._links[name][links]
            else:
                found[name] = self._documents[name][slots]
        return found

    def ages(self) -> tuple[Column, Column]:
        """Return two columns by row: its pair of variables, and the time of its document (`ts`)."""
        times = self._documents["ts"][self._links["slot"]]
        return self._rows["pair"], times[self._rows["link"]]

    def documents(self) -> Column:
        """Return the numbers of the documents with rows in memory, sorted."""
        return np.sort(self._documents["doc"])

    def values(self) -> Column:
        """Return the keys of the values in memory, sorted."""
        return distinct(self._links["key"][self._links["valued"]])

    def has_documents(self, docs: Column) -> Column:
        """Return a mask: True for each of `docs` that has rows in memory."""
        found: Column = self._by_doc.counts(docs) > 0
        return found

    def _touch(self, rows: Column) -> None:
        """Record the use of the documents of some rows."""
        slots = self._links["slot"][self._rows["link"][rows]]
        self._documents["touched"][slots] = self._turn

    # -- Forgetting ------------------------------------------------------------------------

    def trim(self, others: int) -> None:
        """Begin a batch: evict the least recently used documents beyond the budget.

        `others` are bytes of the budget that the indexes of texts take; no part of these is
        evicted.
        """
        self._turn += 1
        if self._budget is None or self.nbytes + others <= self._budget:
            return
        left = max(0, self._budget - DROPPED_BYTES * len(self._dropped) - others)
        latest = np.lexsort((self._documents["doc"], self._documents["touched"]))[::-1]
        sizes = ROW_BYTES * np.diff(self._documents["end"], prepend=0) + DOCUMENT_BYTES
        sizes += LINK_BYTES * np.bincount(self._links["slot"], minlength=len(sizes))
        stays = np.zeros(self._documents.size, np.bool_)
        stays[latest[: _fitting(sizes[latest], left)]] = True
        link_stays = stays[self._links["slot"]]
        gone = self._links["key"][~link_stays & self._links["valued"]]
        self._only(np.flatnonzero(link_stays[self._rows["link"]]))
        self._dropped.change(gone, np.ones(len(gone), np.int64))

    def forget(self, keeps: Column, clock: int) -> None:
        """Evict rows older at a clock than the retention of their pair of variables, in ticks.

        A negative retention means that no join needs the pair's rows any more.  They have left the
        storage already.
        """
        pairs, ts = self.ages()
        keep = keeps[pairs]
        self._only(np.flatnonzero((keep >= 0) & (ts >= clock - keep)))
        if self._storage is not None and not self.whole:
            here = self.documents()
            self._count_dropped(self._storage, lambda rows: ~among(rows["doc"].to_numpy(), here))

    def _only(self, rows: Column) -> None:
        if len(rows) == self._rows.size:
            return
        link = self._rows["link"][rows]
        first = steps(link)
        slot = self._links["slot"][link[first]]
        opening = steps(slot)
        self._rows.only(rows)
        self._links.only(link[first])
        self._documents.only(slot[opening])
        self._rows["link"][:] = numbered(first, len(rows))
        self._links["slot"][:] = numbered(opening, len(first))
        self._links["end"][:] = ends(first, len(rows))
        self._documents["end"][:] = ends(first[opening], len(rows))
        self._by_value, self._by_doc = Index(), Index()
        self._index(0, 0)

    def _index(self, link: int, slot: int) -> None:
        """Index the links from index `link` on, and the documents from index `slot` on."""
        valued = link + np.flatnonzero(self._links["valued"][link:])
        self._by_value.add(self._links["key"][valued], valued.astype(np.int32))
        slots = np.arange(slot, self._documents.size)
        self._by_doc.add(self._documents["doc"][slots], slots)


def _by_link(columns: Columns) -> tuple[Column, Column]:
    """Return the rows' indexes, sorted by document (`place`) and link, and where links begin.

    The second column has the positions in the first one at which another link begins.
    """
    parts = [columns[name] for name in LINKED]
    sizes = [int(part.max()) + 1 for part in parts[:-1]]
    if math.prod(sizes) < 1 << 63:
        codes = np.ravel_multi_index(parts[:-1], sizes)
        order: Column = np.argsort(codes, kind="stable")
        codes = codes[order]
        first = steps(codes, columns["key"][order])
        if len(steps(codes)) == len(first):  # nearly always: no two links differ in `key` alone
            return order, first
    order = np.lexsort(parts[::-1])
    return order, steps(*(part[order] for part in parts))


def _within(ends: Column, numbers: Column) -> tuple[Column, Column]:
    """Return two columns: an index in `numbers`, and a row of the document or link of that number.

    `ends` has the row after the last one of each document, or of each link.
    """
    first = np.where(numbers > 0, ends[numbers - 1], 0)
    return spread(first, ends[numbers])


SHARE = 8
PUSHES = 4
"""A deletion waits until 1 / `SHARE` of all rows have expired, and `PUSHES` times those of a push.

With title joins within a day and batches of 1,000 items, each most of a day, the second condition
saves 10 of 42 µs an item.
"""


class Expiry:
    """Tells when a deletion of expired rows pays, from the times at which the rows expire.

    A deletion reads the whole state, so it waits until an eighth of it has expired: the amortised
    cost of a deleted row does not depend on how many stay.  Large pushes beside a small state would
    still delete in each: a deletion has fixed costs, so it also waits for as many expired rows as
    several pushes add.  Rows are counted again when an eighth has been added.
    """

    def __init__(self, keeps: Column, times: Column) -> None:
        """Count rows by the time at which they expire.

        `keeps` are their retentions, `times` the times of their documents, both in ticks.
        """
        finite = keeps < INFINITE
        self._leave = np.sort(times[finite] + np.maximum(keeps[finite], 0))
        self.kept = len(keeps)

    def due(self, clock: int, added: int) -> bool:
        """Return True if enough of the counted rows have expired at a clock that a deletion pays.

        `added` is the number of rows of the last push.
        """
        expired = int(np.searchsorted(self._leave, clock))
        return expired > PUSHES * added and SHARE * expired >= self.kept


LINK_COLUMNS = ("doc", "node1", "node2", "key")


def _links_of(bindings: pa.Table) -> Columns:
    """Return the distinct links among the rows `bindings`, as one row of each link.

    A link is a document, two nodes and a value.
    """
    columns: Columns = {**columns_of(bindings), "valued": bindings["key"].is_valid().to_numpy()}
    return grouped_counts(columns, *LINK_COLUMNS, "valued")[0]


def _fitting(sizes: Column, budget: int) -> int:
    """Return the count of the first documents that fit together into `FILLED` of a budget.

    `sizes` are their bytes, `budget` is in bytes.
    """
    return int(np.searchsorted(np.cumsum(sizes), FILLED * budget, "right"))


def a_quarter() -> int:
    """Return a quarter of the machine's memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
