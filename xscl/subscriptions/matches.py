"""The matches of results: each result is expanded to its subscribers on reading.

The fan-out test is here: a subscription sees documents that arrived after its registration.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import pyarrow as pa

from templates.model.join_graph import INFINITE
from xscl.documents.composite_events import Composite, joined
from xscl.documents.document_ids import StoredDocument
from xscl.documents.document_log import evicted
from xscl.documents.results import Subscription
from xscl.subscriptions.match import SHOWN, Match, MatchSource, html_of, lazy, match_of, values_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


# -- Matches as tables, for Arrow, pandas and Polars -------------------------------------------

_TIME = pa.timestamp("us", tz="UTC")
_SOURCE = {
    **dict.fromkeys(("document", "stream", "id"), pa.string()),
    "version": pa.int64(),
    **dict.fromkeys(("root", "title"), pa.string()),
}
"""The attributes of a `DocumentSource` that a table has: name, the parts of it, root, title."""
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "subscription": pa.string(),
        "position": pa.int64(),
        "start": _TIME,
        "end": _TIME,
        "documents": pa.list_(pa.string()),
        "sources": pa.list_(pa.struct(_SOURCE)),
        "values": pa.map_(pa.string(), pa.list_(pa.string())),
        "history": pa.bool_(),
    }
)
"""One row for each match: `start` and `end` are its earliest and latest time, `values` the string
values of the nodes that each variable is bound to."""

VALUES = pa.schema([("position", pa.int64()), SCHEMA.field("subscription"), SCHEMA.field("values")])
"""The values of matches, for the SQL relation `matches`."""

LARGEST = 32_000_000
"""Characters of the values of all matches in that relation."""


def values_table(matches: Iterable[Match]) -> pa.Table:
    """Return the values of matches as an Arrow table of the schema `VALUES`, one row for each.

    It ends before the match with which the values would exceed `LARGEST` characters.
    """
    rows, size = [], 0
    for match in matches:
        values = values_of(match)
        match.forget()
        size += sum(len(text) for texts in values.values() for text in texts)
        if size > LARGEST:
            break
        rows.append(
            {
                "position": match.position,
                "subscription": match.subscription,
                "values": list(values.items()),
            }
        )
    return pa.Table.from_pylist(rows, schema=VALUES)


# -- Sequences of matches ----------------------------------------------------------------------

GONE = -1
"""The `ResultAge.first` of a result whose parts are no longer kept."""


class MatchSequence(Sequence[Match]):
    """A sequence of matches that compares and adds like a list, and can be made a table."""

    _matches: Sequence[Match]

    def __len__(self) -> int:
        return len(self._matches)

    def __iter__(self) -> Iterator[Match]:
        return iter(self._matches)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> MatchList: ...
    def __getitem__(self, index: int | slice) -> Match | MatchList:
        found = self._matches[index]
        return MatchList(found) if isinstance(found, list) else found  # type: ignore[return-value]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Sequence[Match]) -> list[Match]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Match]) -> list[Match]:
        return [*other, *self]

    def to_arrow(self) -> pa.Table:
        """Return a table with one row for each match, as `SCHEMA` says."""
        rows = [
            {
                "id": match.id,
                "subscription": match.subscription,
                "position": match.position,
                "start": match.t0,
                "end": match.t1,
                "documents": list(match.documents),
                "sources": [
                    {name: getattr(one, name) for name in _SOURCE} for one in match.sources
                ],
                "values": list(values_of(match).items()),
                "history": match.history,
            }
            for match in self
        ]
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def to_pandas(self) -> pd.DataFrame:
        """Return the table of `to_arrow` as a data frame of pandas; ImportError without pandas."""
        return self.to_arrow().to_pandas(maps_as_pydicts="strict")

    def to_polars(self) -> pl.DataFrame:
        """Return the table of `to_arrow` as a data frame of Polars; ImportError without Polars."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, islice(self, SHOWN)))
        more = f", ... and {len(self) - SHOWN:,} more" if len(self) > SHOWN else ""
        return f"[{shown}{more}]"

    def _repr_html_(self) -> str:
        """Return the first `SHOWN` matches as an HTML table, for notebooks."""
        return html_of(self)


class MatchList(MatchSequence):
    """A sequence of matches that are all in memory."""

    def __init__(self, matches: Iterable[Match]) -> None:
        self._matches = list(matches)


class ResultAge(NamedTuple):
    """The properties of a result that decide which subscriptions receive it.

    `first` is the number of the oldest document that it was made from, `GONE` if it is not kept.
    `updated`: one of its documents is a second or later version.  `repeats`: it has the qid and the
    documents of the result before it.
    """

    first: int
    updated: bool
    repeats: bool


@dataclass(eq=False, repr=False)
class Matches(MatchSequence):
    """The matches of some results, in order: a sequence that is expanded as it is read.

    `rows` are the results, with the columns position, qid, doc1, doc2 and nodes; one that is a
    single composite or document has doc1 = doc2.  `subscribers` has the subscriptions of each qid,
    which all bind the same outputs.  `read` returns the composites with some numbers, and their
    documents, both by number as far as they are kept.  It is called once, on first use, in the
    thread that reads.
    """

    _rows: pa.Table
    _subscribers: Mapping[int, Sequence[Subscription]]
    _read: Callable[[Set[int]], tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]]
    source: MatchSource
    _since: dict[int, int] = field(default_factory=dict, init=False)

    # -- Results ---------------------------------------------------------------------------

    @lazy
    def _columns(self) -> dict[str, list[Any]]:
        names = ("position", "qid", "doc1", "doc2", "nodes")
        return {name: self._rows[name].to_pylist() for name in names}

    @lazy
    def _numbers(self) -> Set[int]:
        pairs = zip(self._columns["doc1"], self._columns["doc2"], strict=True)
        return dict.fromkeys(chain.from_iterable(pairs)).keys()

    @lazy
    def _kept(self) -> tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]:
        return self._read(self._numbers)

    @lazy
    def _ages(self) -> Sequence[ResultAge]:
        """The age of each result, in the order of the results."""
        ages: list[ResultAge] = []
        before: tuple[object, ...] = ()
        columns, kept = self._columns, self._kept[0]
        for qid, one, other in zip(columns["qid"], columns["doc1"], columns["doc2"], strict=True):
            left, right = kept.get(one), kept.get(other)
            if left is None or right is None:
                ages.append(ResultAge(GONE, updated=False, repeats=False))
                continue
            first, updated = min(left.first, right.first), max(left.version, right.version) > 1
            group = qid, left.docs, right.docs, left.ts, right.ts
            ages.append(ResultAge(first, updated, group == before))
            before = group
        return ages

    @property
    def positions(self) -> list[int]:
        """The position of each result, in order, also of those without a match."""
        return self._columns["position"]

    @property
    def repeats(self) -> list[bool]:
        """For each result True if it has the qid and the documents of the one before it."""
        return [age.repeats for age in self._ages]

    def results(self) -> Iterator[tuple[int, list[StoredDocument]]]:
        """Yield the position of each result with its documents, as far as these are kept.

        Raises StoreError for a result whose composites were evicted.
        """
        for index, position in enumerate(self.positions):
            found = map(self._kept[1].get, self._composite(index).sources)
            yield position, [one for one in found if one is not None]

    def by_document(self) -> Iterator[tuple[Subscription, int, tuple[int, ...]]]:
        """Yield for each match its subscription, its position and the numbers of its documents.

        Of results that repeat documents a DISTINCT subscription has the first one only.
        """
        for index, position in enumerate(self.positions):
            if receivers := self._receivers(index):
                docs = tuple(filter(self._kept[1].__contains__, self._composite(index).sources))
                for receiver in receivers:
                    yield receiver, position, docs

    def _composite(self, index: int) -> Composite:
        """Return the composite of the result at an index; raises StoreError if it was evicted."""
        qid, one, other, nodes = (
            self._columns[name][index] for name in ("qid", "doc1", "doc2", "nodes")
        )
        composites = self._kept[0]
        if one not in composites or other not in composites:
            raise evicted()
        sharers = self._subscribers.get(qid)
        return joined(composites, one, other, nodes, sharers[0].split if sharers else 0)

    # -- Matches ---------------------------------------------------------------------------

    @lazy
    def _ends(self) -> list[int]:
        """For each result the number of matches of it and of all results before it."""
        ends, total = [], 0
        for index in range(self._rows.num_rows):
            total += len(self._receivers(index))
            ends.append(total)
        return ends

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Match]:
        for index in range(self._rows.num_rows):
            for subscription in self._receivers(index):
                yield self._match(index, subscription)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> MatchList: ...
    def __getitem__(self, index: int | slice) -> Match | MatchList:
        if isinstance(index, slice):
            return MatchList(self[i] for i in range(*index.indices(len(self))))
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(index)
        result = bisect_right(self._ends, number)
        before = self._ends[result - 1] if result else 0
        return self._match(result, self._receivers(result)[number - before])

    def count_first(self) -> int:
        """Return the number of matches of the first result."""
        return self._ends[0] if self._ends else 0

    @property
    def streams(self) -> list[int]:
        """The qids that `subscribers` has, in its order."""
        return list(self._subscribers)

    @property
    def last(self) -> int:
        """The position of the last result, 0 if there is none."""
        return self.positions[-1] if self.positions else 0

    def received(self) -> Counter[str]:
        """Return the number of matches of each subscription, by name.

        Results that were evicted are not counted.
        """
        found, complete = Counter[str](), Counter[int]()
        for index, age in enumerate(self._ages):
            # These are counted by qid first: 1,000 results may have 1,000 receivers each.
            if self._is_complete(index):
                complete[self._columns["qid"][index]] += 1
            elif age.first != GONE:
                found.update(receiver.name for receiver in self._receivers(index))
        for qid, count in complete.items():
            found.update({one.name: count for one in self._subscribers.get(qid, ())})
        return found

    def _is_complete(self, index: int) -> bool:
        """Return True if all subscriptions of its qid receive the result at an index."""
        qid, (first, updated, _) = self._columns["qid"][index], self._ages[index]
        plain = self._plain(qid, self._subscribers.get(qid, ()))
        return first != GONE and not updated and plain <= first

    def _receivers(self, index: int) -> Sequence[Subscription]:
        """Return the subscriptions that receive the result at an index.

        Of results with the same documents a DISTINCT subscription receives the first one only.
        Raises StoreError if the result was evicted.
        """
        qid, (first, updated, repeats) = self._columns["qid"][index], self._ages[index]
        if first == GONE:
            raise evicted()
        sharers = self._subscribers.get(qid, ())
        if self._is_complete(index):
            return sharers
        return [
            s
            for s in sharers
            if s.since <= first
            and s.covers(self.positions[index])
            and (s.updates or not updated)
            and not (s.distinct and repeats)
        ]

    def _plain(self, qid: int, sharers: Sequence[Subscription]) -> int:
        """Return the least `first` with which a result is received by all subscriptions of a qid.

        These are `sharers`.  It is INFINITE if one of them is DISTINCT, or its results are bounded
        by positions; it does not hold for results that are `updated`.
        """
        known = self._since.get(qid)
        if known is None:
            tested = any(s.distinct or s.is_bounded for s in sharers)
            known = INFINITE if tested else max((s.since for s in sharers), default=0)
            self._since[qid] = known
        return known

    def _match(self, index: int, subscription: Subscription) -> Match:
        """Return the match of the result at an index for a subscription that receives it.

        For a DISTINCT one it is the match of all results that repeat the documents of this one.
        """
        end = index + 1
        while subscription.distinct and end < self._rows.num_rows and self._ages[end].repeats:
            end += 1
        found = [self._composite(one) for one in range(index, end)]
        position = self.positions[index]
        return match_of(subscription, found, self._kept[1], self.source, position)
