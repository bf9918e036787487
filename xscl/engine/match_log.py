"""The log of matches: the results of all pushes in the order of positions, and a cursor.

A match is read beside the engine, on a connection of its own: a result is expanded to the matches
of its subscribers, whose documents are read when they are used.  The engine's lock is not taken, so
that neither waits for the other; on the engine's connection a reader would see what is not
committed.

A page holds the matches after a position, or before one.  New results never move older ones, so
consecutive pages neither overlap nor leave a gap.  It costs its own rows, and one scan of the
result streams' column.  SQL skips rows that a subscription cannot see as far as numbers tell:
documents and composites are numbered in the order of arrival, so visible ones have no smaller
number than `since`.  `Matches` decides the rest.

The cursor is the position up to which matches were delivered; it is stored with the next push, or
at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from feeds.xml.xmlparse import parse
from xscl.documents.composite_events import Composite, kept_parts, of_document
from xscl.documents.document_ids import StoredDocument
from xscl.documents.document_log import evicted
from xscl.documents.results import RESULTS_UP_TO, Subscription
from xscl.engine.transactions import Transactions
from xscl.errors import UnknownSubscription
from xscl.shredding.nodes import DocumentTree, TreeCache, number_nodes
from xscl.store.queries.documents import TimedText, text_of, texts_of
from xscl.store.queries.feeds import given_titles
from xscl.store.queries.kept_matches import count_kept
from xscl.store.queries.results import (
    ResultRange,
    last_positions,
    results_between,
    results_of_pair,
)
from xscl.store.queries.stories import heads_between
from xscl.store.store import Store
from xscl.store.store_errors import StoreClosed
from xscl.subscriptions.match import Match, MatchSource
from xscl.subscriptions.matches import Matches, MatchList, MatchSequence

LIMIT = 100
"""Matches on a page by default."""
LISTED = 1_000
"""Matches on each of the pages by which all matches of a subscription are read."""
SCANNED = 20_000
"""Results that are looked at for one page of several subscriptions."""
LAST = (1 << 63) - 1
AHEAD, SMALL = 64, 16_384
"""Documents that are read at once for the next matches, and the bytes that each has at most."""
TITLES = 1_000
"""Documents whose feeds are looked up at once."""

Near: TypeAlias = Callable[[int, int], Sequence[int]]
MatchPlace: TypeAlias = tuple[int, int]
"""The place of a match in the log: its position, and the number of its subscription."""


class UnknownVersion(UnknownSubscription):
    """A version was asked for of which a subscription keeps no matches."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of matches, in the order that was asked for.

    `more` is True if further matches may follow.  All results up to `place`, in that order, were
    read: the next page begins after it.  `clock` is the engine's clock, in ticks, in the commit
    that was read.
    """

    matches: tuple[Match, ...]
    more: bool
    place: MatchPlace
    clock: int

    @property
    def end(self) -> int:
        """The position in `place`, up to which the results were read."""
        return self.place[0]


@dataclass(frozen=True, slots=True)
class PositionRange:
    """The range of kept results: those up to position `forgotten` were evicted.

    `newest` is the position of the last result.
    """

    forgotten: int
    newest: int


class MatchLog:
    """Reads the results of an engine as matches, and stores the delivery cursor.

    It has a connection of its own.  Any thread may call it and use its matches; only one reads at a
    time.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._store = transactions.connect()
        self._lock = threading.RLock()
        self._trees = TreeCache()
        self._ahead: dict[int, TimedText] = {}  # texts read in advance, by document number
        self._titles: dict[int, str] = {}  # the user's name for a document's feed, by its number

    def close(self) -> None:
        """Close the connection, as soon as no other thread reads."""
        with self._lock:
            self._store.close()

    def again(self) -> MatchLog:
        """Return a second reader of the same log, on its own connection.

        Close it before the engine.
        """
        return MatchLog(self._transactions)

    # -- All matches after a place ---------------------------------------------------------

    def expand(self, rows: pa.Table) -> Matches:
        """Return the matches of results, which are rows of `state.result` in their order.

        The caller holds the engine's lock.
        """
        return self._matches(rows, self._subscribers(rows))

    def since(self, position: int = 1) -> Matches:
        """Return all kept matches of the results at `position` and later, in their order."""
        with self._transactions.lock:
            return self.expand(self._transactions.store.scan("result", position))

    def after(self, last: Match | int | None = None) -> MatchSequence:
        """Return the kept matches of all subscriptions that follow `last`, in their order.

        `last` is a match or a position, of which no match is returned; None: return all.
        """
        with self._transactions.lock:
            position = last.position if isinstance(last, Match) else (last or 0) + 1
            found = self.since(position)
            if not isinstance(last, Match):
                return found
            # A result is a match of each subscription that shares it: some may follow `last`.
            passed = [m.id for m in found[: found.count_first()] if m.position == position]
            return found[passed.index(last.id) + 1 if last.id in passed else len(passed) :]

    def of(self, name: str, after: int = 0) -> MatchList:
        """Return the kept matches of a subscription at positions above `after`, oldest first.

        Raises UnknownSubscription.
        """
        found, more = list[Match](), True
        while more:
            page = self.page(name, after=after, limit=LISTED)
            found += page.matches
            after, more = page.end, page.more
        return MatchList(found)

    def at(self, position: int, mine: Callable[[Subscription], bool]) -> list[Match]:
        """Return the matches of the result at a position, of subscriptions for which `mine` holds.

        Empty if the result is not kept.  Raises StoreError if its composites are not.
        """
        rows = results_between(self._store, position, position, limit=1)
        return list(self._matches(rows, self._subscribers(rows, mine)))

    def versions(self, name: str) -> tuple[Subscription, ...]:
        """Return the earlier versions of a name that have kept matches, then the current one.

        The current one is missing if the subscription was removed.  Raises UnknownSubscription.
        """
        return self._transactions.state.subscriptions.versions(name)

    # -- Pages -----------------------------------------------------------------------------

    def page(
        self,
        name: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = LIMIT,
        newest_first: bool = False,
        version: int | None = None,
        heads: bool = False,
    ) -> Page:
        """Return at most `limit` matches of a subscription between two positions.

        Matches at the positions `after` and `before` are not included.  The matches are those of
        all versions, or of one `version`.  With `heads` a story is shown as the match with which it
        has grown last.  Raises UnknownSubscription.
        """
        while True:
            versions = self._transactions.state.subscriptions.versions(name)
            asked = tuple(one for one in versions if version in (None, one.version))
            if not asked:
                last = versions[-1].version
                raise UnknownVersion(
                    f"{name!r} has no matches of version {version}", hint=f"the last one is {last}"
                )
            page = self.page_of_all(
                asked.__contains__,
                after=(after, LAST),
                before=None if before is None else (before, 0),
                limit=limit,
                newest_first=newest_first,
                versions=asked,
                heads=heads,
            )
            # If the versions changed meanwhile, one may have matches on the page that are missing
            # here.  A change is in memory before its commit, so this comparison sees each version
            # whose matches the page can show.
            if self._transactions.state.subscriptions.versions(name) == versions:
                return page

    def page_of_all(
        self,
        mine: Callable[[Subscription], bool],
        *,
        after: MatchPlace = (0, 0),
        before: MatchPlace | None = None,
        limit: int = LIMIT,
        newest_first: bool = False,
        prefix: str = "",
        versions: Sequence[Subscription] = (),
        heads: bool = False,
    ) -> Page:
        """Return at most `limit` matches of all subscriptions for which `mine` holds.

        Matches are those between the places `after` and `before`, neither included.  `mine` must
        hold only for names with `prefix`, and only for `versions` if some are given: other results
        are not read.  Matches of one result are in the order of registration.  With `heads` a story
        is shown as the match with which it has grown last.  Results are read in growing batches
        until a page is full.  If many results of others lie between, it may hold fewer matches,
        even none, although `more` is True: continue after its `place`.
        """
        ranges = [
            ResultRange(
                version.qid,
                version.since,
                version.after,
                LAST if version.until is None else version.until,
            )
            for version in versions
        ]
        read = partial(results_between, self._store, ranges=ranges, prefix=prefix)
        before = before or (LAST, 0)
        low, high = after[0], before[0]
        chunk = limit + 4  # some matches of the first and the last result may be out of bounds
        while True:
            with self.snapshot():
                rows = read(low, high, newest_first=newest_first, limit=chunk).sort_by("position")
                whole = rows.num_rows < chunk
                position, clock = self._store.numbers("position", "clock")
                subscribers = self._subscribers(rows, mine)
                is_grouped = any(
                    sharer.distinct for sharers in subscribers.values() for sharer in sharers
                )
                # A DISTINCT subscription has one match for a group of results with equal documents:
                # results before the first row and after the last one may belong to their groups.
                if is_grouped:
                    _, qid, doc1, doc2, _ = (column[-1].as_py() for column in rows.columns)
                    lead = read(0, low - 1, newest_first=True, limit=1)
                    trail = results_of_pair(self._store, qid, doc1, doc2, after=high)
                    rows = pa.concat_tables([lead, rows, trail])
                first, last = (0, LAST) if whole else _ends(rows)
                passed = self._passed_heads(subscribers, rows) if heads else None
                own = pc.is_in(rows["qid"], pa.array(list(subscribers), pa.int32()))
                if passed is not None and not is_grouped:
                    # Results that `heads` hides are dropped before they are expanded: a story of
                    # 300 documents has 45,000 results, of which one is shown.
                    own = pc.and_(own, _shown(rows, subscribers, passed))
                matches = self._matches(rows.filter(own), subscribers)
                if is_grouped:
                    first, last = _sure(matches, newest_first, first, last)
                inside = (
                    match
                    for match in (reversed(matches) if newest_first else matches)
                    if after < (match.position, match.number) < before
                    and first <= match.position <= last
                    and (
                        passed is None
                        or not match.found_by.stories
                        or (match.found_by.key, match.position) in passed
                    )
                )
                found = tuple(islice(inside, limit + 1))  # one more than shown: do others follow?
            if len(found) > limit:
                end = found[limit - 1]
                return Page(found[:limit], True, (end.position, end.number), clock)
            if whole:
                return Page(found, False, (0, 0) if newest_first else (position, LAST), clock)
            if not versions and chunk >= SCANNED and first <= last:
                return Page(found, True, (first, 0) if newest_first else (last, LAST), clock)
            chunk *= 4

    def _passed_heads(
        self, subscribers: Mapping[int, Sequence[Subscription]], rows: pa.Table
    ) -> set[tuple[str, int]]:
        """Return the last growth of each story, if its position is among those of the results.

        It is given as (key of the subscription, position).
        """
        keys = {
            sharer.key for sharers in subscribers.values() for sharer in sharers if sharer.stories
        }
        return heads_between(self._store, keys, *_ends(rows)) if keys else set()

    def _subscribers(
        self, rows: pa.Table, mine: Callable[[Subscription], bool] | None = None
    ) -> dict[int, Sequence[Subscription]]:
        """Return the subscriptions that share the streams of results of some rows, by qid.

        Earlier versions are included.  If `mine` is given, only those for which it holds are.
        """
        if not rows.num_rows:
            return {}
        known = self._transactions.state.subscriptions
        now, earlier = known.by_qid, known.retired.by_qid
        found: dict[int, Sequence[Subscription]] = {}
        for qid in set(rows["qid"].to_numpy().tolist()):
            sharers = (*now.get(qid, ()), *earlier.get(qid, ()))
            if sharers := sharers if mine is None else tuple(filter(mine, sharers)):
                found[qid] = sharers
        return found

    # -- Parts of matches ------------------------------------------------------------------

    def _matches(
        self, rows: pa.Table, subscribers: Mapping[int, Sequence[Subscription]]
    ) -> Matches:
        # Documents of these matches are read ahead, in the order of `docs`: pages are often listed
        # first, and then read.
        docs: list[int] = []  # numbers of the documents, in the order of the matches
        places: dict[int, int] = {}

        def parts(
            numbers: Set[int],
        ) -> tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]:
            composites, documents = self._parts(numbers)
            found = (doc for n in numbers if n in composites for doc in composites[n].sources)
            docs[:] = dict.fromkeys(found)
            places.update((doc, place) for place, doc in enumerate(docs))
            return composites, documents

        def near(doc: int, most: int) -> Sequence[int]:
            """Return the number of a document, with up to `most` before and after it in `docs`."""
            place = places.get(doc)
            return (doc,) if place is None else docs[max(0, place - most) : place + most]

        # Each sequence of matches has its own source: when that of a trial is freed, its twin is
        # closed.
        source = MatchSource(
            self._transactions.compiled,
            partial(self.tree, near=near),
            partial(self._feed_title, near=near),
        )
        return Matches(rows, subscribers, parts, source)

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Yield the connection within a transaction that sees one commit; other threads wait."""
        with self._lock, self._store.reading():
            yield self._store

    def _parts(
        self, numbers: Set[int]
    ) -> tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]:
        """Return the composites with some numbers, and their documents, as of one commit.

        Both are by number; those that are not kept are missing.
        """
        self._titles = {}  # looked up again, as a user may have renamed a feed
        recent = self._transactions.state.documents.recent
        known = {n: document for n in numbers if (document := recent(n)) is not None}
        if len(known) == len(numbers):
            return {n: of_document(document) for n, document in known.items()}, known
        with self.snapshot():
            return kept_parts(self._store, numbers, recent)

    def tree(self, doc: int, near: Near) -> DocumentTree:
        """Return the nodes of the document with the number `doc`.

        `near(doc, n)` returns that number and up to n others on each side, of documents that are
        likely to be read next: their texts are read with it.  Raises StoreError if the text is not
        kept.
        """
        with self._lock:
            tree = self._trees.get(doc)
            if tree is None:
                text = self._text(doc, near)
                if text is None:
                    raise evicted()
                tree = self._trees.put(doc, number_nodes(parse(text.xml), text.ts))
            return tree

    def _feed_title(self, doc: int, near: Near) -> str:
        with self._lock, suppress(StoreClosed):  # after `close` cached titles can still be read
            titles = self._titles  # `_parts` in another thread may replace it
            if doc not in titles:
                titles = self._titles = given_titles(self._store, {doc, *near(doc, TITLES)})
            return titles[doc]
        return ""

    def _text(self, doc: int, near: Near) -> TimedText | None:
        """Return the text and time of a document; None if it is not kept.

        Texts of the documents that are `near` it are read with it, if they are small.
        """
        if doc not in self._ahead:
            soon = [one for one in near(doc, AHEAD) if one not in self._trees]
            self._ahead = texts_of(self._store, soon, SMALL)
        found = self._ahead.pop(doc, None)
        return text_of(self._store, doc) if found is None else found

    # -- Positions -------------------------------------------------------------------------

    def is_backfilling(self, name: str) -> bool:
        """Return True if a subscription has a backfill that is not complete."""
        known = self._transactions.state.subscriptions
        one = known.get(name)
        return one is not None and one.number in known.backfills

    def position(self) -> int:
        """Return the position of the last result that was committed."""
        return self.progress()[1]

    def progress(self) -> tuple[int, int]:
        """Return the delivery cursor and the position of the last result, both of one commit."""
        with self._lock:
            delivered, position = self._store.numbers("told", "position")
        return delivered, position

    def span(self) -> PositionRange:
        """Return the positions between which results are kept."""
        with self._lock:
            return PositionRange(self._store.meta(RESULTS_UP_TO), self._store.progress("position"))

    def count(
        self, after: int, up_to: int, mine: Callable[[Subscription], bool] = lambda _: True
    ) -> int:
        """Return the number of kept matches at positions above `after`, up to `up_to`.

        Those of subscriptions for which `mine` holds are counted.
        """
        with self._lock:
            counts = count_kept(self._store, after, up_to)
        of_name = self._transactions.state.subscriptions.of_name
        return sum(n for name, n in counts.items() if any(map(mine, of_name(name))))

    def last_positions(self) -> dict[int, int]:
        """Return the position of the last kept result of each stream of results, by qid."""
        with self._lock:
            return last_positions(self._store)

    # -- Delivery --------------------------------------------------------------------------

    def undelivered(self) -> Matches:
        """Return the matches after the cursor: those of a process that ended before delivery.

        A store that never had a delivery has none: the cursor begins behind all its matches.
        """
        with self._transactions.lock:
            return self.since(self.begin_delivery() + 1)

    def begin_delivery(self) -> int:
        """Return the cursor, a position.

        In a store that never had a delivery it is first set behind all matches, and stored.
        """
        with self._transactions.lock:
            if self.acknowledged < 0:
                self.acknowledge(durable=True)
            return self.acknowledged

    @property
    def acknowledged(self) -> int:
        """The cursor: the position up to which matches were delivered, below 0 if never."""
        return self._transactions.state.acknowledged

    def acknowledge(self, *, durable: bool = False) -> None:
        """Move the cursor behind all matches.

        It is stored with the next push, with `durable` now.
        """
        with self._transactions.lock:
            state = self._transactions.state
            state.acknowledged = state.position
            if durable:
                self.save_acknowledged()

    def try_acknowledge(self, position: int) -> None:
        """Move the cursor to a position, never backwards; do nothing while the lock is taken."""
        if self._transactions.lock.acquire(blocking=False):
            try:
                state = self._transactions.state
                state.acknowledged = max(state.acknowledged, position)
            finally:
                self._transactions.lock.release()

    def save_acknowledged(self) -> None:
        """Store the cursor now, if it has moved since it was last stored."""
        with self._transactions.lock:
            if self.acknowledged != self._transactions.store.progress("told"):
                with self._transactions.change() as state:
                    state.store.set_progress(told=state.acknowledged)


def _shown(
    rows: pa.Table,
    subscribers: Mapping[int, Sequence[Subscription]],
    heads: Collection[tuple[str, int]],
) -> pa.ChunkedArray:
    """Return a mask of the results (`rows`) that may be shown when a story is shown as its head.

    They are those at the positions in `heads`, and those that have a subscription without stories.
    """
    plain = [qid for qid, found in subscribers.items() if not all(one.stories for one in found)]
    positions = [position for _, position in heads]
    return pc.or_(
        pc.is_in(rows["qid"], pa.array(plain, pa.int32())),
        pc.is_in(rows["position"], pa.array(positions, pa.int64())),
    )


def _ends(rows: pa.Table) -> tuple[int, int]:
    """Return the positions of the first and the last row."""
    return rows["position"][0].as_py(), rows["position"][-1].as_py()


def _sure(matches: Matches, newest_first: bool, first: int, last: int) -> tuple[int, int]:
    """Return the first and the last position between which all groups of results are whole.

    A group has the results of one qid with the same documents, of which DISTINCT makes one match.
    `first` and `last` are the positions between which results were read: the group at the end that
    is read last may continue beyond it, and is then left out."""
    positions = matches.positions
    begins = [at for at, repeats in enumerate(matches.repeats) if not repeats]
    if not positions or positions[0 if newest_first else -1] != (first if newest_first else last):
        return first, last
    if newest_first:
        return (positions[begins[1]] if len(begins) > 1 else LAST), last
    return first, (positions[begins[-1] - 1] if begins[-1] else -1)
