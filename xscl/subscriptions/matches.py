"""The matches of results: each result is expanded to its subscribers on reading.

The fan-out test is here: a subscription sees documents that arrived after its registration.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, overload

import numpy as np
import pyarrow as pa

from templates.model.relations import INFINITE
from xscl.documents.lazy import lazy
from xscl.documents.results import Result, Results, Subscription
from xscl.subscriptions.match import Match, MatchSource, match_of
from xscl.subscriptions.match_tables import html_of, table_of, text_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class MatchSequence(Sequence[Match]):
    """A sequence of matches that compares and adds like a list of them."""

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> MatchSequence: ...
    @abstractmethod
    def __getitem__(self, index: int | slice) -> Match | MatchSequence:
        """Return a match, or some as a sequence of the same kind."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Sequence[Match]) -> list[Match]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Match]) -> list[Match]:
        return [*other, *self]

    def to_arrow(self) -> pa.Table:
        """Return a table with one row for each match, as `match_tables.SCHEMA` says."""
        return table_of(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a data frame of pandas; raises ImportError without pandas."""
        return self.to_arrow().to_pandas(maps_as_pydicts="strict")

    def to_polars(self) -> pl.DataFrame:
        """Return the table as a data frame of Polars; raises ImportError without Polars."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def __repr__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        """Return the first matches as a table, for notebooks."""
        return html_of(self)


class MatchList(MatchSequence):
    """Matches that were read already."""

    def __init__(self, matches: Iterable[Match]) -> None:
        self._matches = list(matches)

    def __len__(self) -> int:
        return len(self._matches)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> MatchList: ...
    def __getitem__(self, index: int | slice) -> Match | MatchList:
        found = self._matches[index]
        return MatchList(found) if isinstance(found, list) else found


class Matches(MatchSequence):
    """The matches of some results, in order: a sequence that is expanded as it is read."""

    def __init__(
        self,
        results: Results,
        subscribers: Mapping[int, Sequence[Subscription]],
        source: MatchSource,
    ) -> None:
        self._results = results
        self._subscribers = subscribers
        self.source = source
        self._since: dict[int, int] = {}

    @lazy
    def _ends(self) -> list[int]:
        """The number of matches up to and with each result."""
        ends, total = [], 0
        for index in range(len(self._results)):
            total += len(self._receivers(index))
            ends.append(total)
        return ends

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Match]:
        for index in range(len(self._results)):
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
        """The numbers of the streams of these results."""
        return list(self._subscribers)

    @property
    def last(self) -> int:
        """The position of the last result, 0 if there is none."""
        return self._results.position(-1) if len(self._results) else 0

    def received(self) -> Counter[str]:
        """Return the number of matches of each subscription, by name, without expanding them."""
        found = Counter[str]()
        if not len(self._results):
            return found
        ages = self._results.ages()
        order = np.argsort(ages.qids, kind="stable")
        ends = np.flatnonzero(np.diff(ages.qids[order])) + 1
        for rows in np.split(order, ends):
            firsts, updated, repeats = ages.firsts[rows], ages.updated[rows], ages.repeats[rows]
            positions = self._results.positions()[rows]
            for one in self._subscribers.get(int(ages.qids[rows[0]]), ()):
                seen = firsts >= one.since
                if not one.updates:
                    seen &= ~updated
                if one.distinct:
                    seen &= ~repeats
                if one.is_bounded:
                    seen &= positions > one.after
                    seen &= positions <= (INFINITE if one.until is None else one.until)
                if count := int(seen.sum()):
                    found[one.name] += count
        return found

    @property
    def results(self) -> Results:
        """The results to which the matches belong."""
        return self._results

    def _receivers(self, index: int) -> Sequence[Subscription]:
        """Return the subscriptions that receive a result (a test at fan-out).

        A DISTINCT subscription receives the first result of each group of
        documents only.
        """
        qid, first, updated = self._results.age(index)
        sharers = self._subscribers.get(qid, ())
        if not updated and self._plain(qid, sharers) <= first:
            return sharers
        return [
            s
            for s in sharers
            if s.since <= first
            and s.covers(self._results.position(index))
            and (s.updates or not updated)
            and not (s.distinct and self._continues(index))
        ]

    def _plain(self, qid: int, sharers: Sequence[Subscription]) -> int:
        """Return the arrival from which on all of a join's subscriptions receive every result."""
        known = self._since.get(qid)
        if known is None:
            tested = any(s.distinct or s.is_bounded for s in sharers)
            known = INFINITE if tested else max((s.since for s in sharers), default=0)
            self._since[qid] = known
        return known

    def _continues(self, index: int) -> bool:
        return index > 0 and self._results.group(index - 1) == self._results.group(index)

    def _match(self, index: int, subscription: Subscription) -> Match:
        result = self._results[index]
        return match_of(
            subscription, self._grouped(index) if subscription.distinct else result, self.source
        )

    def _grouped(self, index: int) -> Result:
        """Return the results of a group as one, each variable with all its nodes."""
        group = [self._results[index]]
        while index + 1 < len(self._results) and self._continues(index + 1):
            index += 1
            group.append(self._results[index])
        nodes = zip(*(result.nodes for result in group), strict=True)
        united = tuple(tuple(sorted({n for each in column for n in each})) for column in nodes)
        head = group[0]
        return replace(head, nodes=united)
