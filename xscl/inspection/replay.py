"""Replay: the kept documents of an engine as the input of another one.

A trial sees the documents that have a text, with their recorded places in the order of arrival:
clocks M(n), ranks, versions.  So its matches are those that the query would have had, independent
of evicted state and of batches.  Published documents are documents like any other.

One rule differs in a trial: items that a feed held at its first poll (`history`) count as if they
had arrived in their own time (`xscl.engine.twin`).  Otherwise a feed of last month's items
that is followed today would have nothing to try a query on: at today's clock no two of them are
within a window.  A history has both: matches at the recorded clocks, whose state it shares with
others, and those of such items alone in their own time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from templates.model.join_graph import INFINITE
from templates.model.relations import Pair, Witnesses
from xscl.documents.results import Subscription
from xscl.errors import XsclError
from xscl.language.parser import parse_window
from xscl.shredding.arrivals import Arrivals, shred
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.pattern import is_derived
from xscl.store.queries.documents import documents_of_past, earliest_time, kept_rows, places_of_kept
from xscl.store.queries.rows import RowNumbers, rows_of
from xscl.store.queries.tables import LEVELS
from xscl.store.queries.witnesses import last_nodes
from xscl.store.store import Store
from xscl.subscriptions.subscriptions import Subscriptions

BATCH = 1_000
TRIED = "try"
"""The name of a tried query that has none."""


@dataclass(frozen=True, slots=True)
class TrialScope:
    """A trial: a query, and the part of the past that it reads.

    It reads the documents of `streams` with `begin` <= timestamp <= `end`, in ticks, whose `first`
    is at least the given one; with `updates` also new versions.  `texts` are those of documents (by
    number) that are not kept.
    With `own_time` history counts as if it had arrived in its own time.
    """

    name: str
    query: str
    streams: tuple[str, ...]
    updates: bool = False
    first: int = 0
    begin: int = -INFINITE
    end: int = INFINITE
    texts: Mapping[int, bytes] = field(default_factory=dict)
    own_time: bool = True


def subscription_named(
    store: Store, subscriptions: Subscriptions, query: str
) -> Subscription | None:
    """Return the subscription of a name, None for the text of a query.

    Raises UnknownSubscription for a text that looks like a name and is no stream.
    """
    found = subscriptions.get(query)
    if found is None and re.fullmatch(r"[\w.'-]+", query):
        known = any(rows_of(store, "stream", name=query))
        return None if known or query in subscriptions.streams() else subscriptions[query]
    return found


def registered(store: Store, subscriptions: Subscriptions, query: str) -> Subscription | None:
    """Return the subscription of a name, also a removed one; None for the text of a query.

    Raises UnknownSubscription for a text that looks like a name and is no stream; XsclError for a
    query in another language: its events are not kept.
    """
    versions = subscriptions.of_name(query)
    found = versions[-1] if versions else subscription_named(store, subscriptions, query)
    if found is not None and found.relational:
        raise XsclError(
            f"{query!r} is in {found.language}: only queries in XSCL can be asked about documents"
        )
    return found


def beginning(since: str | int | None, clock: int) -> int:
    """Return the first time of a trial, in ticks: the clock less the duration `since`.

    `since` is a number of ticks, or a text such as `7 d`; without it the time is before all
    documents.  Raises QueryError for an invalid duration, XsclError for a future time.
    """
    back = parse_window(since) if isinstance(since, str) else since
    if back is not None and back < 0:
        raise XsclError(f"{back} ticks are no time back", hint="a duration such as 7 d, or ticks")
    return -INFINITE if back is None else clock - back


def first(store: Store, trial: TrialScope) -> int | None:
    """Return the event time at which a trial begins, in ticks: its `begin`, or its first document.

    None if it has neither.
    """
    if trial.begin > -INFINITE:
        return trial.begin
    return earliest_time(store, trial.streams, until=trial.end)


def past(store: Store, trial: TrialScope) -> RowNumbers:
    """Return the numbers of the documents of a trial, in order of arrival."""
    return documents_of_past(
        store,
        trial.streams,
        begin=trial.begin,
        end=trial.end,
        first=trial.first,
        updates=trial.updates,
        besides=trial.texts.keys(),
    )


# -- The order of arrival, for a replay in slices --------------------------------------------

# The number of a published document comes after those of its whole batch.
# Such a document is replayed with the one that it arrived with: later, NEXT and the like miss it.
#
#     numbers   1  2  3  4 | 5         document 5 was published when 2 arrived
#     order     1  2  5 | 3  4         no slice ends between 2 and 5


@dataclass(frozen=True, slots=True)
class KeptDocuments:
    """Documents in the order of arrival; those with equal `places` are replayed together."""

    docs: RowNumbers
    places: RowNumbers

    def __len__(self) -> int:
        return len(self.docs)

    def end_of_slice(self, start: int, size: int) -> int:
        """Return the index behind a slice from the index `start` on, of at least `size` documents.

        It is shorter if fewer documents are left.
        """
        last = min(start + size, len(self)) - 1
        return int(np.searchsorted(self.places, self.places[last], side="right"))

    def slices(self, size: int) -> Iterator[RowNumbers]:
        """Yield the numbers of the documents in slices of at least `size`."""
        start = 0
        while start < len(self):
            end = self.end_of_slice(start, size)
            yield self.docs[start:end]
            start = end


def kept_documents(
    store: Store, streams: Collection[str], since: int, first: int, end: int
) -> KeptDocuments:
    """Return the documents of streams that have a text, with numbers from `first` to before `end`.

    The documents that each was made from have numbers from `since` on.  `end` must not lie between
    documents that one batch has published.
    """
    rows = places_of_kept(store, streams, since=since, first=first, end=end)
    docs, ranks, ts, clocks = (
        rows[name].to_numpy().astype(np.int64) for name in ("doc", "rank", "ts", "clock")
    )
    places = _places(docs, ranks, ts, clocks)
    order = np.lexsort((docs, ranks >= LEVELS, places))
    return KeptDocuments(docs[order], places[order])


def _places(docs: RowNumbers, ranks: RowNumbers, ts: RowNumbers, clocks: RowNumbers) -> RowNumbers:
    """Return for each document the number of the document with which it arrived, perhaps itself.

    A document that an operator over time has published has a rank below all documents.  It was
    published when the clock had passed its time, so it may come before the first document that
    brings the clock there: until then no operator has missed it.
    """
    places: RowNumbers = ranks // LEVELS
    timed = ranks < LEVELS
    order = np.lexsort((docs[~timed], places[~timed]))
    passed = np.searchsorted(np.maximum.accumulate(clocks[~timed][order]), ts[timed])
    passing = np.append(places[~timed][order], INFINITE)[passed]
    places[timed] = np.minimum(docs[timed], passing)
    return places


# -- Witnesses of kept documents -------------------------------------------------------------

# A subscription that begins in the past joins kept documents with later ones.
# So kept documents are shredded again for the subscription's pairs, into the shared join state.
# Other subscriptions receive nothing new, because the fan-out tests who sees a result.


def witnesses(store: Store, pairs: Iterable[Pair], *documents: RowNumbers) -> Iterator[Witnesses]:
    """Yield the witnesses of kept documents for pairs of variables, in batches.

    They replace the kept ones for the same pairs.  No batch has documents of several arguments.
    """
    automaton, pairs = Automaton(), list(pairs)
    automaton.install(pairs)  # a pair may be there twice
    numbers = [pair.number for pair in pairs]
    derived = [p.number for p in pairs if is_derived(p.second)]
    every = np.concatenate(documents)
    last = last_nodes(store, every, apart_from=numbers) if derived else {}
    for docs in documents:
        for start in range(0, len(docs), BATCH):
            rows = kept_rows(store, docs[start : start + BATCH])
            if len(rows):
                made = shred(automaton, Arrivals.of(rows), range(len(rows)))
                yield _behind(made, derived, last) if last else made


def _behind(made: Witnesses, derived: Sequence[int], last: Mapping[int, int]) -> Witnesses:
    """Return witnesses with derived nodes numbered after all kept nodes of their documents.

    Stage 1 numbers them after those of the document, in the order of demand; pairs that were
    installed earlier have these numbers already.  `derived` are the pairs with derived nodes,
    `last` the last node of each document in the kept witnesses.
    """
    bindings = made.bindings
    docs = bindings["doc"].to_pylist()
    more = np.array([last.get(doc, -1) + 1 for doc in docs], np.int32)
    more *= np.isin(bindings["pair"].to_numpy(), derived)
    first, second = (bindings[name].to_numpy() for name in ("node1", "node2"))
    moved = {"node1": np.where(first == second, first + more, first), "node2": second + more}
    for name, column in moved.items():
        at = bindings.schema.get_field_index(name)
        bindings = bindings.set_column(at, bindings.schema.field(at), pa.array(column))
    return replace(made, bindings=bindings)
