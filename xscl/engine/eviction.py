"""Eviction of expired texts, results and identities from the store, in batches.

*Horizons*, one for each kind, bound what may be evicted.  A horizon is the number of the first
document within the age; it only rises.  Documents are numbered in the order of arrival, and times
of arrival never decrease, so all numbers below the horizon are older, and the evicted ones are a
range of numbers.  Composites are numbered among the documents, so the largest number of a result
gives its age.

    texts        below the horizon only referenced ones stay
    matches      results below the horizon are evicted, with everything that only they referenced
    documents    rows below the horizon are evicted if no version of their id is referenced

A scan costs as much as its input, so it waits until enough can have expired: until the clock has
moved by an eighth of an age, or an eighth as many documents have arrived as texts were left last
time.  No query sees a deletion: each scan computes the references from the join state, the results,
the composites and the temporal operators.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from cep_core.plan import VALUES, MOp, Plan, Row
from templates.model.join_graph import INFINITE
from templates.registry import Registry
from xscl.documents.composite_events import Composite
from xscl.documents.document_log import DocumentLog
from xscl.documents.results import RESULTS_UP_TO
from xscl.documents.retention import Retention, load_retention, save_retention
from xscl.shredding.arrivals import Arrivals
from xscl.store.queries.composites import (
    delete_composites,
    documents_of_composites,
    relational_composites,
)
from xscl.store.queries.documents import (
    bytes_of_texts,
    delete_texts,
    documents_from,
    documents_of_streams,
    documents_with_texts,
    expired_documents,
    first_arrived_since,
    sizes_of_texts,
)
from xscl.store.queries.lateness import keep_newest
from xscl.store.queries.results import delete_results, documents_of_results, first_result_of
from xscl.store.queries.rows import RowNumbers, delete_prefixed, delete_rows
from xscl.store.queries.stories import delete_past_stories
from xscl.store.queries.witnesses import documents_of_joins
from xscl.store.store import Store

_log = logging.getLogger(__name__)

PART = 8
"""Reciprocal of the part of an age, or of the rows of the last scan, that triggers a scan."""
FEW = 4096
"""Number of texts and results below which a scan runs whenever anything may have expired."""
BOUNDED = 64
"""Number of pushes between two checks of the sizes of bounded tables."""


_USUAL = Retention()


@dataclass(slots=True)
class _Horizon:
    """A bound of what is evicted: `first` is the number of the first document that is young enough.

    `looked` is the clock of arrivals, in ticks, at which it was last computed.
    """

    first: int
    looked: int = -INFINITE

    def due(self, clock: int, age: int | None) -> bool:
        """Return True if `clock` is so far past `looked` that another scan can be worth its cost.

        That is an eighth of `age`, which is in ticks; False if `age` is None.
        """
        return age is not None and clock >= self.looked + max(1, age // PART)


class Eviction:
    """Retention and eviction of past data in a store, within the engine's transaction."""

    def __init__(
        self,
        store: Store,
        documents: DocumentLog,
        plan: Plan,
        needed_from: Callable[[], int],
        registry: Registry,
    ) -> None:
        """`needed_from` returns the number of the first document that a backfill still reads."""
        self._registry = registry
        self._store = store
        self._needed_from = needed_from
        self._documents = documents
        self._plan = plan
        self._set(load_retention(store))
        *horizons, self._forgotten, self._bytes = store.numbers(
            "texts_from", "matches_from", "documents_from", "documents_forgotten", "text_bytes"
        )
        self._texts, self._matches, self._identities = map(_Horizon, horizons)
        if self._bytes < 0:  # the store was written by a release that did not count them
            self._bytes = bytes_of_texts(store)
        self._bytes_left = 0  # bytes of texts after the last eviction that `text_bytes` caused
        self._looked_at = 0  # number of texts below the horizon, and of results, at the last sweep
        self._arrived = 0  # number of documents since the last sweep
        # While executors join, SQL rebuilds the relations of the last push.  It reads the push's
        # documents (`_last`), and all since the time `_oldest`: they could be joined with those.
        self._last: list[RowNumbers] = []
        self._oldest = self._oldest_after = INFINITE
        self._pushes = 0

    def _set(self, told: Retention | None) -> None:
        self.told = told
        self._retention = _USUAL if told is None else told
        self._everything = self._retention.everything

    @property
    def _oldest_elsewhere(self) -> int:
        return self._registry.elsewhere.oldest(self._documents.clock)

    @property
    def texts_from(self) -> int:
        """The number of the first document whose text is kept although nothing refers to it."""
        return self._texts.first

    def first_in_age(self) -> int:
        """Return the number of the first document whose text the retention keeps by its age.

        `texts_from` may be smaller, since a backfill holds it back.  If a further backfill began
        there, it would hold it back, too, and nothing would be evicted while there is always one.
        """
        age = self._retention.history
        if age is None or not self._everything:
            return 0
        return self._first_since(self._documents.arrived - age, self._texts)

    @property
    def oldest(self) -> int:
        """The number of the first document that is young enough for its matches to be kept."""
        return self._matches.first

    def retain(self, retention: Retention) -> None:
        """Set the retention; the next push applies it."""
        save_retention(self._store, retention)
        self._set(retention)
        for horizon in (self._texts, self._matches, self._identities):
            horizon.looked = -INFINITE

    def numbers(self) -> dict[str, int]:
        """Return the values that eviction stores in the table `progress`, by column.

        Columns in `_from` are numbers of documents, `documents_forgotten` is a count.
        """
        return {
            "texts_from": self._texts.first,
            "matches_from": self._matches.first,
            "documents_from": self._identities.first,
            "documents_forgotten": self._forgotten,
            "text_bytes": self._bytes,
        }

    # -- Each push -------------------------------------------------------------------------

    def keep(self, accepted: Sequence[Arrivals], needed: set[int]) -> None:
        """Store the texts of new documents: all if the retention says so or executors join.

        Else those of the document numbers in `needed`.
        """
        self._oldest, self._oldest_after = self._oldest_after, self._oldest_elsewhere
        is_elsewhere = self._oldest_after < INFINITE
        self._last = [batch.docs for batch in accepted] if is_elsewhere else []
        every = self._everything or is_elsewhere
        for batch in accepted:
            docs, texts = batch.docs.tolist(), batch.xml
            self._arrived += len(docs)
            if not every:
                wanted = list(map(needed.__contains__, docs))
                docs, texts = list(compress(docs, wanted)), list(compress(texts, wanted))
            self.keep_texts(docs, texts)

    def keep_texts(self, docs: Sequence[int], texts: Sequence[bytes]) -> None:
        """Store the texts of documents: `docs` are their numbers, in the order of `texts`."""
        self._store.insert("text", {"doc": docs, "xml": texts})
        self._bytes += sum(map(len, texts))

    def forget(self, position: int, *, freed: bool) -> None:
        """Evict expired data, if enough has expired.

        `position` is that of the last result before this push, whose own results stay until the
        next one.  `freed` is True if join state was evicted, or temporal operators may have
        released documents.
        """
        clock, retention = self._documents.arrived, self._retention
        if not self._everything and self._oldest_elsewhere < INFINITE:
            freed = True  # executors may have released documents
        if self._matches.due(clock, retention.matches):
            freed = self._forget_results(clock, position) or freed
        if self._texts_have_aged(clock) or (freed and self._pays()):
            self._sweep()
        if self._are_too_many_bytes():
            self._make_room()
        if self._identities.due(clock, retention.identities):
            self._forget_documents(clock)
        self._pushes += 1
        if not self._pushes % BOUNDED:
            most = self._retention.rows
            keep_newest(self._store, most, tolerated=most + most // PART)

    def erase(self, prefix: str) -> None:
        """Delete all documents of the streams whose names begin with a prefix.

        Their texts, `late` and `rejected` rows go with them.  No subscription may read the streams.
        """
        self._sweep()
        docs = documents_of_streams(self._store, prefix)
        self._bytes -= delete_texts(self._store, docs)
        delete_rows(self._store, "late", doc=docs)
        delete_rows(self._store, "document", doc=docs)
        delete_prefixed(self._store, "rejected", "stream", prefix)
        self._store.set_progress(**self.numbers())

    def sweep(self) -> None:
        """Delete unreferenced composites and expired texts now; for changes other than a push."""
        delete_past_stories(self._store, self._store.meta(RESULTS_UP_TO))
        self._sweep()
        self._store.set_progress(**self.numbers())

    def _sweep(self) -> None:
        in_results = documents_of_results(self._store)
        numbered = np.concatenate((documents_of_joins(self._store), in_results))
        delete_composites(self._store, but=numbered)
        before = self._texts.first if self._everything else INFINITE
        docs = documents_with_texts(self._store, before=before)
        stays = np.isin(docs, self._referred(numbered))
        self._bytes -= delete_texts(self._store, docs[~stays])
        texts = int(np.count_nonzero(docs[stays] < self._texts.first))
        self._looked_at = texts + len(in_results) // 2
        self._arrived = 0

    def _referred(self, *numbered: RowNumbers) -> RowNumbers:
        """Return the numbers of all referenced documents, in no order and with repetitions.

        `numbered` are those in the join state and in results; the other references are read.
        """
        held = np.fromiter(
            (doc for composite in self._composites() for doc in composite.docs), np.int64
        )
        elsewhere = documents_from(self._store, min(self._oldest, self._oldest_elsewhere))
        composites = documents_of_composites(self._store)
        return np.concatenate((*numbered, composites, held, elsewhere, *self._last))

    def _pays(self) -> bool:
        return self._looked_at < FEW or self._arrived * PART >= self._looked_at

    def _first_since(self, time: int, horizon: _Horizon) -> int:
        """Return the number of the first document that arrived at `time` or later.

        Documents before the horizon are not looked at.  If there is none, it is the next number.
        """
        first = first_arrived_since(self._store, time, doc=horizon.first)
        return self._documents.next if first is None else first

    def _move(self, horizon: _Horizon, clock: int, age: int) -> bool:
        """Move a horizon to the first document that is at most `age` ticks old at `clock`.

        It does not move back, nor past what backfills need.  Return True if it moved.
        """
        before, horizon.looked = horizon.first, clock
        first = min(self._first_since(clock - age, horizon), self._needed_from())
        horizon.first = max(before, first)
        return horizon.first > before

    # -- Texts -----------------------------------------------------------------------------

    def _texts_have_aged(self, clock: int) -> bool:
        """Move the horizon of texts if that is due; return True if some texts may have expired."""
        age = self._retention.history
        if not self._everything:
            again, self._texts.looked = self._texts.looked == -INFINITE, clock
            self._texts.first = self._documents.next
            return again
        return (
            age is not None and self._texts.due(clock, age) and self._move(self._texts, clock, age)
        )

    def _are_too_many_bytes(self) -> bool:
        """Return True if the texts have more than `text_bytes`, and an eviction may help.

        One that left more than the limit is repeated after an eighth of the limit was added.
        """
        most = self._retention.text_bytes
        if most is None or not self._everything or self._bytes <= most:
            return False
        return self._bytes >= self._bytes_left + most // PART or self._bytes_left <= most

    def _make_room(self) -> None:
        """Evict the oldest unreferenced texts until the rest fits into the limit of bytes."""
        self._sweep()
        if self._are_too_many_bytes():
            before = self._bytes
            self._texts.first = self._fitting()
            self._sweep()
            _log.warning(
                "texts of the oldest documents were removed (%.1f MB): all together have more than"
                " %.1f MB; a shorter --history keeps fewer",
                (before - self._bytes) / 1e6,
                (self._retention.text_bytes or 0) / 1e6,
            )
        self._bytes_left = self._bytes

    def _fitting(self) -> int:
        """Return a horizon of texts: with it a sweep leaves at most 7/8 of `text_bytes`.

        If all unreferenced texts are not enough, it is the number of the next document.  Reads the
        sizes of about twice as many texts as are evicted.
        """
        assert self._retention.text_bytes is not None
        excess = self._bytes - (self._retention.text_bytes - self._retention.text_bytes // PART)
        end = self._documents.next
        docs = documents_with_texts(self._store, first=self._texts.first, before=end)
        numbered = documents_of_joins(self._store), documents_of_results(self._store)
        docs = docs[~np.isin(docs, self._referred(*numbered))]
        step = FEW + 2 * len(docs) * excess // max(1, self._bytes)
        for start in range(0, len(docs), step):
            some = docs[start : start + step]
            total = np.cumsum(sizes_of_texts(self._store, some))
            if total[-1] >= excess:
                return int(some[np.searchsorted(total, excess)]) + 1
            excess -= int(total[-1])
        return end

    # -- Results ---------------------------------------------------------------------------

    def _forget_results(self, clock: int, position: int) -> bool:
        """Delete the results that are older than the retention; return True if any was deleted.

        `clock` is the clock of arrivals, in ticks.  Those after `position` stay.
        """
        assert self._retention.matches is not None
        self._move(self._matches, clock, self._retention.matches)
        cut = first_result_of(self._store, self._matches.first)
        return self._delete_results(position if cut is None else min(position, cut - 1))

    def _delete_results(self, last: int) -> bool:
        """Delete the results up to a position, except those that joins of events may make again.

        Return True if any was deleted.
        """
        # While a join of events keeps one of a row's events, it may make the row again.
        joins = [mop for mop in self._plan.mops if mop.joins]
        bases = {row[2] for row in _rows_of(joins)}
        kept = relational_composites(self._store, bases) if bases else ()
        oldest = delete_results(self._store, last, but_of=kept)
        if oldest is not None:
            self._store.set_meta(**{RESULTS_UP_TO: oldest})
            delete_past_stories(self._store, oldest)
        return oldest is not None

    # -- Identities ------------------------------------------------------------------------

    def _forget_documents(self, clock: int) -> None:
        """Delete the rows of old documents in `document` and `late`, with all their versions.

        A document stays if anything refers to a version of it.
        """
        assert self._retention.identities is not None
        if not self._move(self._identities, clock, self._retention.identities):
            return
        first = self._identities.first
        # Numbers of the documents that later rows of operators over time may have, in any version.
        held = {row[2] for row in self._rows()}
        held.update(
            doc for composite in self._composites() for doc in (*composite.docs, *composite.bases)
        )
        kept = (
            self._referred(documents_of_joins(self._store), documents_of_results(self._store)),
            documents_with_texts(self._store, before=first),
            documents_of_composites(self._store, bases=True),
            np.fromiter(held, np.int64),
        )
        gone = expired_documents(self._store, first, kept=np.concatenate(kept), firsts=held)
        delete_rows(self._store, "document", doc=gone)
        delete_rows(self._store, "late", doc=gone)
        self._forgotten += len(gone)

    # -- What operators over time hold -----------------------------------------------------

    def _rows(self) -> Iterator[Row]:
        """Yield the rows of the event core that wait for their epoch or are in an m-op's state."""
        for lane in self._plan.lanes.values():
            for _, row, _ in lane.waiting():
                yield row
        yield from _rows_of(self._plan.mops)

    def _composites(self) -> Iterator[Composite]:
        """Yield the composites that are values in the rows of `_rows`."""
        values = (value for row in self._rows() for value in row[VALUES:])
        return (value for value in values if isinstance(value, Composite))


def _rows_of(mops: Iterable[MOp]) -> Iterator[Row]:
    """Yield the rows in the state of m-ops."""
    return (row for mop in mops for row, *_ in mop.dump(lambda operator: 0))
