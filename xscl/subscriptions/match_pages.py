"""Kept matches page by page, read beside the engine: on a connection of their own.

The table of results is in the order of positions, and a match has its result's position.  A page
holds the matches after a position, or before one.  New results never move older ones, so
consecutive pages neither overlap nor leave a gap.

A page costs its own rows, and one scan of the result streams' column.  SQL skips rows that a
subscription cannot see as far as numbers tell: documents and composites are numbered in the order
of arrival, so visible ones have no smaller number than `since`.  `Matches` decides the rest.  The
engine's lock is not taken.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from feeds.xml.xmlparse import parse
from xscl.documents.composite_events import Composite, of_document, stored_composite
from xscl.documents.document_log import StoredDocument, evicted, stored_in
from xscl.documents.results import RESULTS_UP_TO, Subscription
from xscl.documents.tree_cache import TreeCache
from xscl.errors import UnknownSubscription
from xscl.planning.compile import CompiledQuery
from xscl.shredding.nodes.tree import DocumentTree, number_nodes
from xscl.store.queries.kept_matches import count_kept
from xscl.store.queries.results import (
    ResultRange,
    last_positions,
    results_between,
    results_of_pair,
)
from xscl.store.queries.rows import rows_of
from xscl.store.queries.texts import small_texts, text_of
from xscl.store.store import Store
from xscl.subscriptions.match import Match, MatchSource
from xscl.subscriptions.matches import Matches
from xscl.subscriptions.subscriptions import Subscriptions

LIMIT = 100
"""Matches on a page where nobody says how many."""
SCANNED = 20_000
"""Results that are looked at for one page of several subscriptions."""
LAST = (1 << 63) - 1
AHEAD, SMALL = 64, 16_384
"""Documents that are read at once for the next matches, and the bytes that each has at most."""

Place: TypeAlias = tuple[int, int]
"""Where a match stands among all: its position, and the number of its subscription."""


class UnknownVersion(UnknownSubscription):
    """A subscription has no matches of a version."""


@dataclass(frozen=True, slots=True)
class Page:
    """Matches in the requested order; `more` is True if others follow.

    All results up to position `end` were read, or down to it with `newest_first`: the next page
    begins there.  `clock` is the engine's as of then.
    """

    matches: tuple[Match, ...]
    more: bool
    end: int
    clock: int


@dataclass(frozen=True, slots=True)
class PositionRange:
    """Positions of results: those up to `forgotten` were evicted, `newest` is the last one."""

    forgotten: int
    newest: int


@dataclass(frozen=True, slots=True)
class _PageRequest:
    """The request of a page: matches between two positions, both exclusive."""

    after: Place
    before: Place
    limit: int
    newest_first: bool
    versions: tuple[Subscription, ...] = ()
    prefix: str = ""

    @property
    def is_of_one(self) -> bool:
        """True if the matches are those of one subscription, in these versions."""
        return bool(self.versions)

    @property
    def low(self) -> int:
        """The lower bound of positions."""
        return self.after[0] + self.is_of_one

    @property
    def high(self) -> int:
        """The upper bound of positions."""
        return self.before[0] - self.is_of_one

    def results(
        self, store: Store, low: int, high: int, limit: int, *, newest_first: bool
    ) -> pa.Table:
        """Return the first results between two positions, or the last ones."""
        ranges = [
            ResultRange(one.qid, one.since, one.after, LAST if one.until is None else one.until)
            for one in self.versions
        ]
        return results_between(
            store,
            low,
            high,
            ranges=ranges,
            prefix=self.prefix,
            newest_first=newest_first,
            limit=limit,
        )


@dataclass(frozen=True, slots=True)
class _ResultRows:
    """Results in ascending order; `whole` is True if no others follow."""

    table: pa.Table
    whole: bool
    position: int
    clock: int


class MatchPages:
    """Pages of matches, and what matches read; thread-safe, one thread at a time.

    `store` is a connection of its own (`Store.connect_again`): a match reads its documents lazily,
    in whatever thread uses it, while the engine goes on.  On the engine's connection it would see
    what is not committed, or wait for it.  `recent` returns documents that need not be read; it
    must be callable from any thread.
    """

    def __init__(
        self,
        store: Store,
        subscriptions: Callable[[], Subscriptions],
        compiled: Callable[[str], CompiledQuery],
        recent: Callable[[int], StoredDocument | None],
    ) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._compiled = compiled
        self._recent = recent
        self._lock = threading.RLock()
        self._trees = TreeCache()
        self._expected: Sequence[int] = ()  # documents of the matches that were read last
        self._ahead: dict[int, bytes] = {}  # texts of some of these

    def close(self) -> None:
        """Close the connection when no other thread reads."""
        with self._lock:
            self._store.close()

    # -- Parts of matches ------------------------------------------------------------------

    def matches(self, rows: pa.Table, subscribers: Mapping[int, Sequence[Subscription]]) -> Matches:
        """Return rows of the table of results as matches."""
        return Matches(rows, subscribers, self.read, MatchSource(self._compiled, self.tree))

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Hold the connection, within a transaction that sees one commit, while the block runs."""
        with self._lock, self._store.reading():
            yield self._store

    def read(
        self, numbers: set[int]
    ) -> tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]:
        """Return the kept ones of composites by number and their documents, of one commit."""
        known = {n: document for n in numbers if (document := self._recent(n)) is not None}
        if len(known) == len(numbers):
            return {n: of_document(document) for n, document in known.items()}, known
        with self.snapshot():
            return self.read_within(numbers)

    def read_within(
        self, numbers: set[int]
    ) -> tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]:
        """Read what is kept of composites and documents within the caller's `snapshot`."""
        documents = stored_in(self._store, numbers, self._recent)
        composites = {n: of_document(document) for n, document in documents.items()}
        missing = sorted(numbers - composites.keys())
        if missing:
            rows = rows_of(self._store, "composite", order="doc", doc=missing)
            composites.update((row["doc"], stored_composite(row)) for row in rows)
        sources = {doc for one in composites.values() for doc in one.sources}
        documents.update(stored_in(self._store, sources - documents.keys(), self._recent))
        self._expected = sorted(documents)
        return composites, documents

    def tree(self, doc: int) -> DocumentTree:
        """Return a document's nodes. Raises StoreError if its text is no longer kept."""
        with self._lock:
            tree = self._trees.get(doc)
            if tree is None:
                text = self._text(doc)
                if text is None:
                    raise evicted()
                tree = self._trees.put(doc, number_nodes(parse(text)))
            return tree

    def _text(self, doc: int) -> bytes | None:
        """Return the text of a document, and read those of the next matches with it."""
        if doc not in self._ahead:
            at = bisect_left(self._expected, doc)
            soon = [one for one in self._expected[at : at + AHEAD] if one not in self._trees]
            self._ahead = small_texts(self._store, soon, SMALL)
        found = self._ahead.pop(doc, None)
        return text_of(self._store, doc) if found is None else found

    # -- Pages -----------------------------------------------------------------------------

    def is_backfilling(self, name: str) -> bool:
        """Return whether the history of a subscription is not read yet."""
        known = self._subscriptions()
        one = known.get(name)
        return one is not None and one.number in known.backfills

    def position(self) -> int:
        """Return the position of the last result."""
        with self._lock:
            return self._store.progress("position")

    def progress(self) -> tuple[int, int]:
        """Return the delivery cursor and the position of the last result, both of one commit."""
        with self._lock:
            delivered, position = self._store.numbers("told", "position")
        return delivered, position

    def span(self) -> PositionRange:
        """Return the range of kept positions."""
        with self._lock:
            return PositionRange(self._store.meta(RESULTS_UP_TO), self._store.progress("position"))

    def count(
        self, after: int, up_to: int, mine: Callable[[Subscription], bool] = lambda _: True
    ) -> int:
        """Return the number of kept matches between two positions, of subscriptions `mine`."""
        with self._lock:
            counts = count_kept(self._store, after, up_to)
        known = self._subscriptions()
        return sum(n for name, n in counts.items() if any(map(mine, known.of_name(name))))

    def last_positions(self) -> dict[int, int]:
        """Return the position of the last result of each stream of results."""
        with self._lock:
            return last_positions(self._store)

    def of(
        self,
        name: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = LIMIT,
        newest_first: bool = False,
        version: int | None = None,
    ) -> Page:
        """Return matches of a subscription between two positions, neither of them included.

        They are those of all versions, or of one.  Raises UnknownSubscription.
        """
        upper = LAST if before is None else before
        while True:
            versions = self._subscriptions().versions(name)
            asked = tuple(one for one in versions if version in (None, one.version))
            if not asked:
                last = versions[-1].version
                raise UnknownVersion(
                    f"{name!r} has no matches of version {version}", hint=f"the last one is {last}"
                )
            request = _PageRequest((after, LAST), (upper, 0), limit, newest_first, asked)
            page = self._page(request, asked.__contains__)
            # Else a version that began meanwhile may have matches before the end of the page.  A
            # change is in memory before its commit, so that no page shows more than is compared.
            if self._subscriptions().versions(name) == versions:
                return page

    def of_all(
        self,
        mine: Callable[[Subscription], bool],
        *,
        after: Place = (0, 0),
        before: Place | None = None,
        limit: int = LIMIT,
        newest_first: bool = False,
        prefix: str = "",
    ) -> Page:
        """Return matches of all subscriptions that are `mine` between two places.

        Their names all begin with `prefix`.  Matches of one result are in the order of
        registration.  A page may hold fewer matches than exist, even none, if many results of
        others lie between: continue from `end`.
        """
        upper = before or (LAST, 0)
        return self._page(_PageRequest(after, upper, limit, newest_first, prefix=prefix), mine)

    def _page(self, asked: _PageRequest, mine: Callable[[Subscription], bool]) -> Page:
        """Read results, in growing batches, until they fill a page."""
        chunk = asked.limit + 2
        while True:
            with self.snapshot():
                rows = self._rows(asked, chunk)
                subscribers = self._subscribers(rows.table, mine)
                if any(one.distinct for sharers in subscribers.values() for one in sharers):
                    rows = replace(rows, table=self._with_neighbours(asked, rows.table))
                first, last, found = self._between(asked, rows, subscribers)
            if rows.whole or len(found) > asked.limit:
                return _filled(asked, rows, found)
            if not asked.is_of_one and chunk >= SCANNED and first <= last:
                return Page(tuple(found), True, first if asked.newest_first else last, rows.clock)
            chunk *= 4

    # -- Results ---------------------------------------------------------------------------

    def _rows(self, asked: _PageRequest, chunk: int) -> _ResultRows:
        """Return a number of results from the beginning of the page."""
        newest_first = asked.newest_first
        found = asked.results(self._store, asked.low, asked.high, chunk, newest_first=newest_first)
        table = found.sort_by("position") if newest_first else found
        position, clock = self._store.numbers("position", "clock")
        return _ResultRows(table, found.num_rows < chunk, position, clock)

    def _with_neighbours(self, asked: _PageRequest, table: pa.Table) -> pa.Table:
        """Return results with outside ones that may belong to the group of the first or last."""
        _, qid, doc1, doc2, _ = (column[-1].as_py() for column in table.columns)
        lead = asked.results(self._store, 0, asked.low - 1, 1, newest_first=True)
        trail = results_of_pair(self._store, qid, doc1, doc2, after=asked.high)
        return pa.concat_tables([lead, table, trail])

    def _subscribers(
        self, table: pa.Table, mine: Callable[[Subscription], bool]
    ) -> dict[int, list[Subscription]]:
        receivers = self._subscriptions().receivers
        found = {
            qid: [one for one in receivers(qid) if mine(one)]
            for qid in pc.unique(table["qid"]).to_pylist()
        }
        return {qid: subscribers for qid, subscribers in found.items() if subscribers}

    def _between(
        self,
        asked: _PageRequest,
        rows: _ResultRows,
        subscribers: Mapping[int, Sequence[Subscription]],
    ) -> tuple[int, int, list[Match]]:
        """Return the first and the last complete position, and the matches of the page.

        A group that is cut at the end of the results is incomplete; one match more than requested
        means that others follow.
        """
        own = pc.is_in(rows.table["qid"], pa.array(list(subscribers), pa.int32()))
        matches = self.matches(rows.table.filter(own), subscribers)
        positions = rows.table["position"]
        first, last = (0, LAST) if rows.whole else (positions[0].as_py(), positions[-1].as_py())
        if any(one.distinct for sharers in subscribers.values() for one in sharers):
            first, last = _sure(matches, asked.newest_first, first, last)
        found: list[Match] = []
        for match in reversed(matches) if asked.newest_first else matches:
            inside = asked.after < (match.position, match.number) < asked.before
            if inside and first <= match.position <= last:
                found.append(match)
                if len(found) > asked.limit:
                    break
        return first, last, found


def _filled(asked: _PageRequest, rows: _ResultRows, found: list[Match]) -> Page:
    """Return the page of some matches, one of which may be too many."""
    more = len(found) > asked.limit
    kept = tuple(found[: asked.limit])
    end = kept[-1].position if more else 0 if asked.newest_first else rows.position
    return Page(kept, more, end, rows.clock)


def _sure(matches: Matches, newest_first: bool, first: int, last: int) -> tuple[int, int]:
    """Return the range of positions in which no group is cut, by the ends of the read results."""
    positions = matches.positions
    begins = [at for at, repeats in enumerate(matches.repeats) if not repeats]
    if not positions or positions[0 if newest_first else -1] != (first if newest_first else last):
        return first, last
    if newest_first:
        return (positions[begins[1]] if len(begins) > 1 else LAST), last
    return first, (positions[begins[-1] - 1] if begins[-1] else -1)
