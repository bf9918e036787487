"""After-match policies: what a match that is kept discards (docs/internals/patterns.md).

What is discarded begins with certain events.  All of them have been seen when a match is reported,
so it is enough to drop the runs and the waiting matches that begin with them.  *First only* and
*restart* concern later events as well: they say until when a query takes no first event.
"""

from __future__ import annotations

from typing import NamedTuple

from cep_core.algebra.pattern_tree import Policy
from cep_core.dataflow.channels import slots_of
from cep_core.dataflow.clock import BEGINNING, END
from cep_core.operators.pattern.run import Place, Run, place_of


class Discarded(NamedTuple):
    """An order to discard the runs that begin between two events, for some queries."""

    mask: int
    low: Place
    high: Place
    inclusive: bool

    def holds(self, place: Place) -> bool:
        """Return True if what begins with an event is discarded."""
        return self.low <= place < self.high or (self.inclusive and place == self.high)


class Policies:
    """The policy of one m-op: what its queries have discarded, and until when they are closed."""

    def __init__(self, policy: Policy, target: int | None) -> None:
        self.policy = policy
        self.any = policy != "none"
        self._target = target
        self.closed: dict[int, int] = {}  # by slot: no first event that begins up to that time
        self._discarded: list[Discarded] = []

    @property
    def discards(self) -> int:
        """The queries for which something has been discarded in this epoch."""
        mask = 0
        for one in self._discarded:
            mask |= one.mask
        return mask

    def open(self, mask: int, begin: int) -> int:
        """Return for which queries an event that begins at a time may be the first of a match."""
        for slot, until in self.closed.items():
            if begin <= until:
                mask &= ~(1 << slot)
        return mask

    def follow(self, mask: int, last: int) -> None:
        """Follow a start: until the last time that its window holds no other event is one."""
        if self.policy == "restart":
            for slot in slots_of(mask):
                self.closed[slot] = last

    def left(self, run: Run) -> int:
        """Return the queries for which a partial or whole match has not been discarded."""
        mask, begin = run.mask, run.begin
        for one in self._discarded:
            if mask & one.mask and one.holds(begin):
                mask &= ~one.mask
        return mask

    def keep(self, run: Run, mask: int, end: int) -> None:
        """Discard what a match that is kept discards."""
        first, *_, last = (run.begin, *run.places)
        targets = [place_of(row) for component, row in run.taken if component == self._target]
        match self.policy:
            case "to next":
                self._discarded.append(Discarded(mask, first, first, True))
            case "past last":
                self._discarded.append(Discarded(mask, first, last, True))
            case "to first" if targets:
                self._discarded.append(Discarded(mask, first, min(targets), False))
            case "to last" if targets:
                self._discarded.append(Discarded(mask, first, max(targets), False))
            case "first only" | "restart":
                until = END if self.policy == "first only" else end
                self.closed |= dict.fromkeys(slots_of(mask), until)
                high = (END, END, END)
                self._discarded.append(Discarded(mask, (BEGINNING, 0, 0), high, True))
            case _:
                return

    def forget(self) -> None:
        """Forget what was discarded: runs have been dropped."""
        self._discarded.clear()
