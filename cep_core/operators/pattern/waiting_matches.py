"""Matches that wait: for absences at their ends, or because a run has to be the longest.

A match waits until one of its ways to end is certain; a match that may get longer waits until its
run takes no more, or its window is over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

from cep_core.algebra.pattern_automaton import Absences
from cep_core.dataflow.clock import END
from cep_core.operators.pattern.absences import AbsentEvents, Bounds, gaps_behind
from cep_core.operators.pattern.conditions import MatchShape
from cep_core.operators.pattern.policies import Gap, Run, add_run
from cep_core.operators.shared_runs import QueryMasks


class EndWay(NamedTuple):
    """A way to end: the gaps of the last absences, and the ``deadline`` that makes them certain."""

    deadline: int
    gaps: tuple[Gap, ...]


class WaitingMatch(NamedTuple):
    """A match that becomes certain by one of the `ways` to end.

    Without ways it is a longest run, which waits while it may get longer.
    """

    run: Run
    ways: tuple[EndWay, ...]


class WaitingMatches:
    """The matches of one m-op that are not certain yet, by deadline."""

    def __init__(
        self,
        shape: MatchShape,
        queries: QueryMasks,
        absences: AbsentEvents,
        expect: Callable[[int], None],
    ) -> None:
        """``expect`` asks for a call of `certain` at a deadline."""
        self._shape, self._queries, self._absences = shape, queries, absences
        self._expect = expect
        self.by_deadline: dict[int, list[WaitingMatch]] = {}
        # of this epoch: runs that have got longer, and those that can get no longer
        self.grown: list[Run] = []
        self.complete: list[Run] = []
        self.longer: dict[Hashable, int] = {}  # the mask of queries of a `grown` run, by `Run.same`

    def __iter__(self) -> Iterator[Run]:
        for found in self.by_deadline.values():
            for one in found:
                yield one.run

    def wait(self, deadline: int, match: WaitingMatch) -> None:
        """Add a match that waits for a deadline."""
        known = self.by_deadline.get(deadline)
        if known is not None:
            known.append(match)
            return
        self.by_deadline[deadline] = [match]
        self._expect(deadline)

    def drop(self, left: Callable[[Run], int]) -> None:
        """Keep each match for the queries that `left` returns for its run; without any, drop it."""
        for deadline, waiting in self.by_deadline.items():
            self.by_deadline[deadline] = [
                WaitingMatch(run.only(still), ways) for run, ways in waiting if (still := left(run))
            ]

    def drop_growing(self, over: int) -> None:
        """Remove the queries of the mask ``over`` from the waiting matches that could get longer.

        Their runs were dropped, so that nothing can make these matches longer.
        """
        for runs in (self.grown, self.complete):
            runs[:] = [run.only(left) for run in runs if (left := run.mask & ~over)]
        for waiting in self.by_deadline.values():
            waiting[:] = [
                WaitingMatch(run.only(left), ways)
                for run, ways in waiting
                if (left := run.mask if ways else run.mask & ~over)
            ]

    def certain(self, now: int, made: Iterable[Run]) -> dict[Hashable, Run]:
        """Return the matches certain in an epoch, by `Run.same`; `made` are the runs made in it."""
        whole: dict[Hashable, Run] = {}
        later: dict[Hashable, WaitingMatch] = {}
        waiting = self.by_deadline.pop(now, [])
        if self._shape.waits:
            made = self._longest(now, made, waiting)
        for run in made:
            ends = self._shape.states[run.state].ends
            if not ends:
                continue
            mask = self._queries.constants.holding(
                self._shape.accept, run.cells, run.taken[-1][1], run.mask
            )
            if run.gaps:
                mask &= ~self._absences.happened(run, run.gaps, mask, now)
            if not mask:
                continue
            if ends == ((),):
                add_run(whole, run.same, run.only(mask))
                continue
            for window, queries in self._queries.windows.items():
                for part, bounds in self._absences.bounds(mask & queries):
                    own = run.only(part)
                    ways = [self._way(own, way, bounds, window) for way in ends]
                    key = (run.same, window, bounds)
                    known = later.get(key, WaitingMatch(own, ()))
                    together = own.only(part | known.run.mask)
                    found = (*known.ways, *[way for way in ways if way is not None])
                    later[key] = WaitingMatch(together, found)
        for match in (*later.values(), *waiting):
            self._decide(match, now, whole)
        return whole

    def _way(self, run: Run, way: Absences, bounds: Bounds, window: int) -> EndWay | None:
        """Return a way to end within a window; None if the window is over before its absences."""
        over, gaps = gaps_behind(run, way, bounds, None)
        last = run.end if over is None else over
        if all(one.time is not None for one in way):
            return EndWay(last, gaps)
        deadline = run.first_end + window - 1
        return EndWay(deadline, gaps) if last < deadline else None

    def _decide(self, match: WaitingMatch, now: int, whole: dict[Hashable, Run]) -> None:
        """Add a match to `whole` for the queries for which a way to end is certain by now.

        For other queries it waits for the next deadline of a way to end.
        """
        run, ways = match
        left = run.mask
        for way in ways:
            mask = left if way.deadline <= now else 0
            mask &= ~self._absences.happened(run, way.gaps, mask, now)
            if mask:
                add_run(whole, run.same, run.only(mask))
                left &= ~mask
        later = tuple([way for way in ways if way.deadline > now])
        if left and later:
            first = min(way.deadline for way in later)
            self.wait(first, WaitingMatch(run.only(left), later))

    # -- the longest run -------------------------------------------------------------------

    def _longest(
        self, now: int, made: Iterable[Run], waiting: Iterable[WaitingMatch]
    ) -> Iterator[Run]:
        """Yield the runs that can get no longer at the time ``now``; the others wait.

        They wait until their windows end.  ``made`` are the runs made in this epoch, ``waiting``
        the matches that have waited for it.
        """
        grown, self.grown = self.grown, []
        complete, self.complete = self.complete, []
        longer = self.longer = {}
        for run in grown:
            longer[run.same] = longer.get(run.same, 0) | run.mask
        for run in (*grown, *complete):
            self._wait_no_more(run)
        ended = [one.run for one in waiting if not one.ways]
        for run in complete:
            ended.append(run.only(self._queries.within(run.mask, now - run.first_end)))
        for run in made:
            if not self._shape.states[run.state].longest:
                yield run
                continue
            for window, queries in self._queries.windows.items():
                deadline, part = run.first_end + window - 1, run.only(run.mask & queries)
                if deadline <= now:
                    ended.append(part)
                elif (still := part.mask & ~longer.get(run.same, 0)) and window < END:
                    self.wait(deadline, WaitingMatch(part.only(still), ()))
        for run in ended:
            yield run.only(run.mask & ~longer.get(run.same, 0))

    def _wait_no_more(self, run: Run) -> None:
        """Remove a run's queries from the match of its events that waits for the window to end."""
        for window in self._queries.windows:
            known = self.by_deadline.get(run.first_end + window - 1, [])
            for place, (other, ways) in enumerate(known):
                if not ways and other.same == run.same:
                    left = other.only(other.mask & ~run.mask)
                    known[place] = WaitingMatch(left, ways)
