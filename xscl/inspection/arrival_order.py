"""The kept documents of some streams in the order of arrival, for a replay in slices.

The number of a published document comes after those of its whole batch.  It is replayed with the
document that it arrived with: operators over time of a reader would miss it after the batch.

    numbers   1  2  3  4 | 5         document 5 was published when 2 arrived
    order     1  2  5 | 3  4         no slice ends between 2 and 5
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from templates.model.join_graph import INFINITE
from xscl.store.queries.past import places_of_kept
from xscl.store.queries.tables import LEVELS
from xscl.store.store import Store

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeptDocuments:
    """Documents in the order of arrival; those with equal `places` are replayed together."""

    docs: Numbers
    places: Numbers

    def __len__(self) -> int:
        return len(self.docs)

    def end_of_slice(self, start: int, size: int) -> int:
        """Return where a slice ends that begins at `start` and has at least `size` documents."""
        last = min(start + size, len(self)) - 1
        return int(np.searchsorted(self.places, self.places[last], side="right"))

    def slices(self, size: int) -> Iterator[Numbers]:
        """Yield the documents in slices of at least `size`."""
        start = 0
        while start < len(self):
            end = self.end_of_slice(start, size)
            yield self.docs[start:end]
            start = end


def kept_documents(
    store: Store, streams: Collection[str], since: int, first: int, end: int
) -> KeptDocuments:
    """Return the documents of streams that have a text, with numbers from `first` to before `end`.

    What they were made of came from document `since` on.  Before `end`, the documents that each
    batch has published must be there, or none of them.
    """
    rows = places_of_kept(store, streams, since=since, first=first, end=end)
    docs, ranks, ts, clocks = (
        rows[name].to_numpy().astype(np.int64) for name in ("doc", "rank", "ts", "clock")
    )
    places = _places(docs, ranks, ts, clocks)
    order = np.lexsort((docs, ranks >= LEVELS, places))
    return KeptDocuments(docs[order], places[order])


def _places(docs: Numbers, ranks: Numbers, ts: Numbers, clocks: Numbers) -> Numbers:
    """Return the numbers of the documents with which documents arrived.

    One that an operator over time has published has a rank below all documents.  It was published
    when the clock had passed its time, so it may come before the first document that brings the
    clock there: until then no operator has missed it.
    """
    places: Numbers = ranks // LEVELS
    timed = ranks < LEVELS
    order = np.lexsort((docs[~timed], places[~timed]))
    passed = np.searchsorted(np.maximum.accumulate(clocks[~timed][order]), ts[timed])
    passing = np.append(places[~timed][order], INFINITE)[passed]
    places[timed] = np.minimum(docs[timed], passing)
    return places
