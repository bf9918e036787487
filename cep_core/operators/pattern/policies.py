"""Runs, and after-match policies: what a match that is kept discards (docs/internals/patterns.md).

A run is a partial match of a pattern, for some of the queries that the m-op serves.

The matches that a match discards begin with certain events.  All of them have arrived when it is
reported, so it is enough to drop the runs and the waiting matches that begin with them.  *First
only* and *restart* concern later events as well: up to a time a query is *closed* to first events.

Each policy acts within a partition (`[k]`), that of the first event; a pattern without one has one
partition, ``()``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

from cep_core.algebra.pattern_tree import Policy
from cep_core.dataflow.channels import slots_of
from cep_core.dataflow.clock import BEGINNING, END
from cep_core.dataflow.mop import OWN
from cep_core.events import Row

# (component, row), in the order in which the rows end
Taken: TypeAlias = tuple[tuple[int, Row], ...]
RunPlace: TypeAlias = tuple[int, int, int]  # when a row ended and began, and its arrival


class Gap(NamedTuple):
    """The time after ``after`` and before ``before`` in which no event of a component may be.

    Without ``after`` the gap begins with the pattern: it has the events that end after ``since``,
    or without that within the window.  Without ``before`` it ends with the pattern.
    """

    component: int
    after: int | None
    before: int | None
    since: int | None = None


class Run(NamedTuple):
    """A partial match of a pattern, for the queries whose slots are the bits of ``mask``.

    ``taken`` are its events, ``cells`` has by component what later conditions read of them, and
    ``state`` is the number of its state in the automaton.  With n moves in that state, bit i of
    ``dead`` says that move i has ended, and bit n + i that UNTIL has ended it, so that it blocks no
    other move.  The bit `PatternState.grown` says that a run of the pace `longest` has got longer.
    ``gaps`` are those of its absences.  ``floor`` is the end of the events before the latest
    unordered part, ``opened`` the end of the first event in that part.  Windows count from
    ``first_end``, the end of the first event.
    """

    taken: Taken
    cells: tuple[Any, ...]
    state: int
    mask: int
    dead: int = 0
    gaps: tuple[Gap, ...] = ()
    floor: int | None = None
    opened: int = 0
    first_end: int = 0
    end: int = 0  # of the last event
    key: Any = None  # of its partition

    @property
    def begin(self) -> RunPlace:
        """The place of the first event (`RunPlace`): its end, begin and arrival."""
        return min(map(place_of, (row for _, row in self.taken)))

    @property
    def size(self) -> int:
        """The size, in events, that the bound of kept runs counts; 0 for a run of one event."""
        return OWN + len(self.taken) if len(self.taken) > 1 else 0

    @property
    def flat(self) -> Row:
        """The run as a row of a snapshot: (dead, floor, opened, gaps, *taken).

        Its state and its queries are not in the row.
        """
        gaps = tuple([tuple(gap) for gap in self.gaps])
        return (self.dead, self.floor, self.opened, gaps, *self.taken)

    @property
    def places(self) -> list[RunPlace]:
        """The places (end, begin, arrival) of the events, ascending."""
        return sorted(place_of(row) for _, row in self.taken)

    @property
    def identity(self) -> Hashable:
        """The key that equal runs of an epoch have in common, whatever their queries."""
        return (self.state, self.same, self.gaps, self.floor)

    def only(self, mask: int) -> Run:
        """Return this run with ``mask`` as its queries."""
        return self if mask == self.mask else self._replace(mask=mask)

    def without(self, forgotten: frozenset[int]) -> Run:
        """Return the run without the events of some components; later events still follow them."""
        cells = [None if at in forgotten else cell for at, cell in enumerate(self.cells)]
        return self._replace(
            taken=tuple([one for one in self.taken if one[0] not in forgotten]),
            cells=tuple(cells),
            gaps=tuple([gap for gap in self.gaps if gap.component not in forgotten]),
        )

    @property
    def names(self) -> tuple[int, ...]:
        """The components of the events, in the order of `places`."""
        by_place = sorted(self.taken, key=lambda one: (place_of(one[1]), one[0]))
        return tuple([component for component, _ in by_place])

    @property
    def steps(self) -> tuple[int, ...]:
        """The components that have been taken, each as often as it has."""
        return tuple(sorted(component for component, _ in self.taken))

    @property
    def same(self) -> frozenset[tuple[int, Row]]:
        """The key that equal matches have in common: the set of (component, event)."""
        return frozenset(self.taken)


def place_of(row: Row) -> RunPlace:
    """Return the key of a row in the order of events: its end, its begin, its arrival."""
    return (row[1], row[0], row[2])


def add_run(runs: dict[Hashable, Run], key: Hashable, run: Run) -> bool:
    """Add a run to others, under a key; return True if it is new for some query."""
    known = runs.get(key)
    if known is None:
        runs[key] = run
        return True
    if run.mask & ~known.mask:
        runs[key] = known.only(known.mask | run.mask)
        return True
    return False


class DiscardedRuns(NamedTuple):
    """The discarded runs: those of a partition that begin from ``low`` up to ``high``.

    A run that begins at ``high`` is discarded if this is ``inclusive``.
    """

    mask: int  # of the queries that discard them
    key: Any
    low: RunPlace
    high: RunPlace
    inclusive: bool

    def holds(self, key: Any, place: RunPlace) -> bool:
        """Return True if a run of a partition is discarded; `place` is that of its first event."""
        within = self.low <= place < self.high or (self.inclusive and place == self.high)
        return within and key == self.key


class Policies:
    """The policy of one m-op: the runs that its queries discard, and when they begin no runs.

    `closed` has by partition the time up to which a query begins none.  ``key_of`` has for each
    component the function from a row to its partition.
    """

    def __init__(
        self, policy: Policy, target: int | None, key_of: Sequence[Callable[[Row], Any]]
    ) -> None:
        self.policy = policy
        self.any = policy != "none"
        self._target = target
        self._key_of = key_of
        # By partition and slot of a query: up to which time no first event may begin.  It is kept
        # for ever, as an event may begin long before it ends, and a partition may come again.
        self.closed: dict[Any, dict[int, int]] = {}
        self._discarded: list[DiscardedRuns] = []

    @property
    def discards(self) -> int:
        """The mask of the queries that have discarded runs in this epoch."""
        mask = 0
        for one in self._discarded:
            mask |= one.mask
        return mask

    def key(self, run: Run) -> Any:
        """Return the partition `[k]` of a run, which is that of its first event."""
        component, row = run.taken[0]
        return self._key_of[component](row)

    def open(self, mask: int, component: int, row: Row) -> int:
        """Return those queries of a mask for which a row of a component may begin a match."""
        for slot, until in self.closed.get(self._key_of[component](row), {}).items():
            if row[0] <= until:
                mask &= ~(1 << slot)
        return mask

    def close(self, key: Any, mask: int, until: int) -> None:
        """Exclude first events of a partition up to a time, in ticks, for the queries of a mask."""
        self.closed.setdefault(key, {}).update(dict.fromkeys(slots_of(mask), until))

    def forget_query(self, slot: int) -> None:
        """Forget the times up to which a query is closed to first events."""
        for closed in self.closed.values():
            closed.pop(slot, None)
        self.closed = {key: closed for key, closed in self.closed.items() if closed}

    @property
    def is_by_key(self) -> bool:
        """False if the one partition in `closed` is that of policies without `[k]`; else True."""
        return self.closed.keys() != {()}

    def left(self, run: Run) -> int:
        """Return the mask of a run's queries for which no policy has discarded it."""
        mask = run.mask
        if self._discarded:
            begin, key = run.begin, self.key(run)
            for one in self._discarded:
                if mask & one.mask and one.holds(key, begin):
                    mask &= ~one.mask
        return mask

    def keep(self, run: Run, mask: int, end: int) -> None:
        """Record the runs that a kept match discards for the queries of a mask.

        ``run`` is that of the match, and ``end`` the time at which the match ends.
        """
        first, *_, last = (run.begin, *run.places)
        key = self.key(run)
        targets = [place_of(row) for component, row in run.taken if component == self._target]
        match self.policy:
            case "to next":
                self._discarded.append(DiscardedRuns(mask, key, first, first, True))
            case "past last":
                self._discarded.append(DiscardedRuns(mask, key, first, last, True))
            case "to first" if targets:
                self._discarded.append(DiscardedRuns(mask, key, first, min(targets), False))
            case "to last" if targets:
                self._discarded.append(DiscardedRuns(mask, key, first, max(targets), False))
            case "first only" | "restart":
                until = END if self.policy == "first only" else end
                self.close(key, mask, until)
                low, high = (BEGINNING, 0, 0), (END, END, END)
                self._discarded.append(DiscardedRuns(mask, key, low, high, True))
            case _:
                return

    def forget(self) -> None:
        """Forget the discarded runs, after all of them have been dropped."""
        self._discarded.clear()
