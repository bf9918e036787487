"""A run: a partial match of a pattern, for some of the queries that the m-op serves."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from cep_core.events import Row

Taken: TypeAlias = tuple[tuple[int, Row], ...]  # components with their rows, by their ends
RunPlace: TypeAlias = tuple[int, int, int]  # when a row ended and began, and its arrival


class Gap(NamedTuple):
    """A time in which no event of a component may be; None: where the pattern begins or ends."""

    component: int
    after: int | None
    before: int | None


class Run(NamedTuple):
    """The events of a run, and the state of the automaton.

    ``mask`` has the slots of the queries, ``dead`` the moves of the state that have ended, and
    above these bits those of them that UNTIL has ended: they block no other.
    ``floor`` is the end of what came before the latest unordered part, ``opened`` the end of the
    first event in it.  Windows count from ``first_end``, when the first event ends.
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
        """The place of the first event."""
        return min(map(place_of, (row for _, row in self.taken)))

    @property
    def places(self) -> list[RunPlace]:
        """The places of the events, in order."""
        return sorted(place_of(row) for _, row in self.taken)

    @property
    def names(self) -> tuple[int, ...]:
        """The components of the events, in order."""
        by_place = sorted(self.taken, key=lambda one: (place_of(one[1]), one[0]))
        return tuple([component for component, _ in by_place])

    @property
    def steps(self) -> tuple[int, ...]:
        """The components that have been taken, each as often as it has."""
        return tuple(sorted(component for component, _ in self.taken))

    @property
    def same(self) -> frozenset[tuple[int, Row]]:
        """The identity of a match: components with their events."""
        return frozenset(self.taken)


def place_of(row: Row) -> RunPlace:
    """Return where a row stands in the order of events."""
    return (row[1], row[0], row[2])
