"""Absences of matches: the gaps in which no event may occur, and the rows of such events.

An absence without a time of its own lasts from the event before it to the event after it.  One with
a time has to be over before the next event begins.  The events in the gaps of all absences are
tested when the match is complete.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from cep_core.algebra.pattern_automaton import Absences
from cep_core.dataflow.mop import WORK, count_by_slot, mask_of
from cep_core.dataflow.predicates import key_function
from cep_core.events import Row
from cep_core.operators.pattern.conditions import MatchShape
from cep_core.operators.pattern.policies import Gap, Run
from cep_core.operators.shared_runs import QueryMasks

# of a query, in ticks: spans of unordered parts, then times of absences
Bounds: TypeAlias = tuple[Any, ...]


class AbsentEvents:
    """Rows of the components that must be absent, with the queries that select them.

    `happened` finds the queries for which one of the rows is in a gap of a run.
    """

    def __init__(self, shape: MatchShape, queries: QueryMasks) -> None:
        self._shape, self._queries = shape, queries
        keys = shape.partitions.keys
        self._keys = {c: key_function(keys[c]) if c in keys else None for c in shape.absent}
        # by component and partition: rows with the masks of their queries; None: no partitions
        self._rows: dict[int, dict[Any, list[tuple[Row, int]]]] = {c: {} for c in shape.absent}
        self._tried = Counter[int]()  # tested rows of this epoch, by the mask of their queries
        self._asked: list[tuple[int, list[tuple[Row, int]], int | None]] = []  # not counted yet
        self._all_tried = 0  # an upper bound of the rows tested for any query that is not given up
        self.given_up = 0  # the mask of the queries that have too many rows to test

    def __iter__(self) -> Iterator[tuple[int, Row, int]]:
        for component, found in self._rows.items():
            for rows in found.values():
                for row, mask in rows:
                    yield component, row, mask

    def begin(self) -> None:
        """Reset the counts for another epoch."""
        if self._asked or self._tried:
            self._tried.clear()
            self._asked.clear()
            self._all_tried = self.given_up = 0

    def add(self, component: int, row: Row, mask: int) -> None:
        """Keep a row that the queries of ``mask`` select, unless a null or NaN excludes it.

        A row with null or NaN in a column of the partition can be in no partition.
        """
        key_of = self._keys[component]
        key = None if key_of is None else key_of(row)
        if key_of is None or key is not None:
            self._rows[component].setdefault(key, []).append((row, mask))

    def keep(self, left: Callable[[Row, int], int]) -> None:
        """Keep each row for the queries that `left` returns, given the row and its queries."""
        for component, found in self._rows.items():
            kept = {
                key: [(row, more) for row, mask in rows if (more := left(row, mask))]
                for key, rows in found.items()
            }
            self._rows[component] = {key: rows for key, rows in kept.items() if rows}

    def drop_old(self, watermark: int, runs: Iterable[Run], waiting: Iterable[Run]) -> None:
        """Drop the rows that are in no gap of a run, of a waiting match or of a later match."""
        oldest = watermark - self._queries.longest
        if self._shape.timed:
            oldest = min([watermark, *[run.first_end for run in runs]])
        elif self._shape.spanning:  # tested at the end of a window, an absence may begin before it
            oldest -= self._queries.longest
        oldest = min([oldest, *[run.first_end for run in waiting]]) - self._longest - 1
        self.keep(lambda row, mask: mask if row[1] > oldest else 0)

    @property
    def reach(self) -> int:
        """The ticks for which rows are kept: the longest time of an absence.

        If an absence has no time, it is the longest window.
        """
        return self._longest if self._shape.timed else self._queries.longest

    @property
    def _longest(self) -> int:
        known = self._queries.constants.queries
        return max([one[at] for one in known for at in self._shape.silences], default=0)

    def bounds(self, mask: int) -> Sequence[tuple[int, Bounds]]:
        """Return (mask of queries, times of their absences in ticks) for the queries of a mask."""
        if not self._shape.silences:
            return ((mask, ()),) if mask else ()
        apart: dict[Bounds, int] = {}
        for constants, queries in self._queries.constants.queries.items():
            if mask & queries:
                times = constants[self._shape.spans :]
                apart[times] = apart.get(times, 0) | (mask & queries)
        return [(part, times) for times, part in apart.items()]

    def over(self, run: Run, passes: Absences, row: Row, mask: int) -> int:
        """Return the queries of a mask for which run and absences end before ``row`` begins.

        ``row`` is the next event; ``passes`` are the absences between the run and that event.
        """
        found = 0
        for part, bounds in self.bounds(mask):
            last, _ = gaps_behind(run, passes, bounds, row)
            touching = self._shape.pattern.rules.simultaneous and last == row[0]
            if last is None or last < row[0] or touching:
                found |= part
        return found

    def happened(self, run: Run, gaps: Iterable[Gap], mask: int, now: int) -> int:
        """Return the queries of a mask for which an event that must be absent is in one of `gaps`.

        The queries in `given_up` are among them: too many events would have to be tested for them.
        ``now`` is the time of the epoch.
        """
        holding, found = self._queries.constants.holding, 0
        for component, after, before, since in gaps:
            key = None if self._keys[component] is None else run.key
            rows = self._rows[component].get(key)
            if not rows:
                continue
            newest = now if before is None else before - 1
            oldest = since if after is None else after
            oldest = run.end - self._queries.longest if oldest is None else oldest
            first = bisect_right(rows, oldest, key=_ends_at)
            last = bisect_right(rows, newest, key=_ends_at)
            tried, begins = rows[first:last], after is None and since is None
            if not tried:
                continue
            self._asked.append((mask, tried, run.end if begins else None))
            self._all_tried += len(tried)
            if self._all_tried > WORK:
                self._count()
                found |= self.given_up & mask
            for row, queries in tried if mask & ~found else ():
                asking = mask & queries & ~found
                if begins:
                    asking = self._queries.within(asking, run.end - row[1])
                elif after is not None and row[0] <= after:
                    continue
                found |= holding(self._shape.first[component], run.cells, row, asking)
        return found

    def _count(self) -> None:
        """Count for each query the tested rows that it selects, within its own window.

        A query with more than `WORK` is added to `given_up`.
        """
        for mask, rows, end in self._asked:
            for row, queries in rows:
                asking = mask & queries & ~self.given_up
                if end is not None:
                    asking = self._queries.within(asking, end - row[1])
                if asking:
                    self._tried[asking] += 1
        self._asked.clear()
        counts = count_by_slot(self._tried)
        self.given_up |= mask_of(slot for slot, count in counts.items() if count > WORK)
        self._all_tried = max([one for one in counts.values() if one <= WORK], default=0)


def gaps_behind(
    run: Run, passes: Absences, bounds: Bounds, row: Row | None
) -> tuple[int | None, tuple[Gap, ...]]:
    """Return when a run and the absences `passes` behind it are over, and the gaps of the absences.

    That is the end of the run's last event or of the last absence with a time of its own; None
    before the first event.  ``row`` is the next event, None at the end of the pattern.  ``bounds``
    has the lengths of absences in ticks.
    """
    begin = last = run.end if run.taken else None
    gaps: tuple[Gap, ...] = ()
    for one in passes:
        begin = run.floor if one.spanning else begin if one.beside else last
        if one.time is None:
            gaps += (Gap(one.component, begin, None if row is None else row[0]),)
        elif begin is not None:
            over = begin + bounds[one.time]
            gaps += (Gap(one.component, begin, over + 1),)
            last = over if last is None else max(last, over)
        else:
            first = run.taken[0][1] if run.taken else row
            assert first is not None
            gaps += (Gap(one.component, None, first[0], first[1] - bounds[one.time] - 1),)
    return last, gaps


def _ends_at(one: tuple[Row, int]) -> int:
    end: int = one[0][1]
    return end
