"""Negation (NG): rows between whose parts, before or after which, nothing happened.

A row that may cancel others is kept in an index: partitioned by time, and in each partition hashed
on the equalities of its predicate (Wu, Diao and Rizvi 2006, section 3.3).  A row of the source
probes the partitions that its interval overlaps; a partition is dropped as a whole when the window
has passed it.  A negative at the end of a sequence is probed when the window ends: the row waits
until the epoch first.t1 + T - 1 has all its rows, whether or not any comes.  The deadline works as
in `operators.cayuga.absence`: a timer for the tick before asks for a flush in that epoch, so that
the m-op takes its turn by depth.

With intervals, a row b cancels

- between the times s and e iff s < b.t0 and b.t1 < e;
- at the start iff last.t1 - T < b.t1 and b.t1 < first.t0;
- at the end iff last.t1 < b.t0 and b.t1 <= first.t1 + T - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from cep_core.algebra.text import counted
from cep_core.dataflow.channels import Members, Port, members_of, slots_of, without_slot
from cep_core.dataflow.clock import BEGINNING
from cep_core.dataflow.mop import Number, Operator, OrderedMOp, Saved, Wanted, Wire
from cep_core.dataflow.predicates import BoundPredicate, Shape, is_proper, values_of
from cep_core.events import VALUES, Row
from cep_core.operators.slotwise import SlotWiseMOp

_PARTITIONS = 8  # that a window overlaps
_LONGEST = 1 << 20  # ticks of a partition without a window


class Forbidden(NamedTuple):
    """One negative: what cancels, and the columns with the times between which it must not be."""

    filter: BoundPredicate
    after: int | None
    before: int | None


class Without(NamedTuple):
    """The definition of a negation; a window of END is none."""

    negatives: tuple[Forbidden, ...]
    first: int
    window: int


class Cancelling:
    """The rows that may cancel by one negative, by time and key."""

    def __init__(self, forbidden: Forbidden, size: int) -> None:
        self.after = forbidden.after
        self.before = forbidden.before
        shape, self._constants = forbidden.filter
        self._holds = shape.holds
        self._size = size
        self._left_key: Callable[[Row], Any] | None = None
        self._right_key: Callable[[Row], Any] | None = None
        self._several = False
        joins = _joins(shape)
        if joins:
            self._left_key = values_of([left for left, _ in joins])
            self._right_key = values_of([right for _, right in joins])
            self._several = len(joins) > 1
        self.hashed = self._left_key is not None
        self.partitions: dict[int, dict[Any, list[Row]]] = {}

    def keep(self, row: Row) -> bool:
        """Keep a row; return whether it can cancel anything."""
        key = None
        if self._right_key is not None:
            key = self._right_key(row)
            if not is_proper(key, self._several):
                return False
        self.partitions.setdefault(row[1] // self._size, {}).setdefault(key, []).append(row)
        return True

    def cancels(self, row: Row, after: int, before: int, oldest: int) -> bool:
        """Return True if a kept row between two times, later than the oldest, cancels a row."""
        key = None if self._left_key is None else self._left_key(row)
        newest = before - 1
        size, partitions = self._size, self.partitions
        begin, end = max(after, oldest) // size, newest // size
        places: Any = range(begin, end + 1)
        if end - begin >= len(partitions):
            places = [place for place in partitions if begin <= place <= end]
        for place in places:
            rows = partitions.get(place)
            for one in () if rows is None else rows.get(key, ()):
                timely = after < one[0] and oldest < one[1] <= newest
                if timely and self._holds(row, one, self._constants):
                    return True
        return False

    def drop(self, oldest: int) -> None:
        """Drop the partitions that end before or at a time."""
        for place in [one for one in self.partitions if (one + 1) * self._size - 1 <= oldest]:
            del self.partitions[place]

    def rows(self) -> Iterator[Row]:
        """Yield the rows, the older partitions first."""
        for place in sorted(self.partitions):
            for rows in self.partitions[place].values():
                yield from rows


def _joins(shape: Shape) -> list[tuple[int, int]]:
    """Return the equalities of a row and what cancels it that all disjuncts ask for."""
    found = [{(left, right) for left, right, _ in one.joins} for one in shape.disjuncts]
    return sorted(set.intersection(*found)) if found else []


class NegationMOp(SlotWiseMOp, OrderedMOp):
    """Negations of one definition, over streams of one source channel and the same negatives."""

    kind = "negation"

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number, ordered=True)
        definition = cast(Without, first.definition)
        self._window = definition.window
        self._first = definition.first + VALUES
        size = max(1, min(self._window // _PARTITIONS, _LONGEST))
        self._cancelling = [Cancelling(one, size) for one in definition.negatives]
        self._now = [one for one in self._cancelling if one.before is not None]
        self._later = [one for one in self._cancelling if one.before is None]
        self._wires = [
            Wire(Port(self, self._receiver(one)), self._lane) for one in self._cancelling
        ]
        self._due: dict[int, list[tuple[Row, Members]]] = {}

    # -- the plan --------------------------------------------------------------------------

    def add(self, wanted: Wanted) -> Operator:
        if not self.operators:
            for wire, one in zip(self._wires, wanted.inputs[1:], strict=True):
                wire.connect(one)
        return super().add(wanted)

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        for deadline, waiting in list(self._due.items()):
            self._due[deadline] = [
                (row, left)
                for row, members in waiting
                if (left := without_slot(members, operator.slot)) is not None
            ]
        if not self.operators:
            for wire, one in zip(self._wires, operator.wanted.inputs[1:], strict=True):
                wire.disconnect(one)
            self._lane.drop(self)

    def waiting_ports(self) -> tuple[Port, ...]:
        return (self._wire.port, *super().waiting_ports())

    def instances(self) -> int:
        kept = sum(1 for one in self._cancelling for _ in one.rows())
        return kept + sum(map(len, self._due.values()))

    def entries(self) -> int:
        return sum(len(keys) for one in self._cancelling for keys in one.partitions.values())

    def indexes(self) -> str:
        """Describe what the indexes answer."""
        hashed = sum(one.hashed for one in self._cancelling)
        found = [f"index by time, {hashed} of {len(self._cancelling)} hashed on equalities"]
        if self._later:
            found.append(
                f"postponed until {counted(self._window - 1, 'tick', 'ticks')} have passed"
            )
        return "; ".join(found)

    def dump(self, number: Number) -> Saved:
        owners = {slot: number(operator) for slot, operator in self._owners.items()}
        kept: Saved = [
            [row, [owners[slot] for slot in slots_of(members)], 0]
            for waiting in self._due.values()
            for row, members in waiting
        ]
        for side, one in enumerate(self._cancelling, 1):
            kept += [[row, list(owners.values()), side] for row in one.rows()]
        return kept

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        if side:
            self._keep(self._cancelling[side - 1], row)
        else:
            self._postpone(row, members_of(sorted(operator.slot for operator in operators)))

    # -- rows ------------------------------------------------------------------------------

    def receive(self, row: Row, members: Members) -> None:
        """Consume a row of the source."""
        if row[2] < self._since:
            return
        for one in self._now:
            assert one.before is not None
            before = row[one.before + VALUES]
            if one.after is None:
                cancelled = one.cancels(row, BEGINNING, before, row[1] - self._window)
            else:
                after = row[one.after + VALUES]
                cancelled = one.cancels(row, after, before, after)
            if cancelled:
                return
        if not self._later:
            self._output.emit(row, members)
        elif row[1] < self._deadline(row):
            self._postpone(row, members)

    def flush(self, now: int) -> None:
        """Emit the rows of this deadline that nothing has cancelled."""
        for row, members in self._due.pop(now, ()):
            if not any(self._happened(one, row, now) for one in self._later):
                self._output.emit((row[0], now, *row[2:]), members)

    def fire(self, deadline: int) -> None:
        """Schedule `finish` for the end of the epoch."""
        self._touch()

    def awaiting(self, time: int) -> Iterator[Operator]:
        for deadline in (time, time + 1):  # for the one after it something is prepared
            for _, members in self._due.get(deadline, ()):
                for slot in slots_of(members):
                    yield self._owners[slot]

    def finish(self, now: int) -> None:
        """Prepare for a deadline at the next tick."""
        super().finish(now)
        if now + 1 in self._due:
            self._lane.prepare(now + 1, self)

    def evict(self, watermark: int) -> None:
        """Drop what no window from the watermark on overlaps."""
        super().evict(watermark)
        for one in self._cancelling:
            one.drop(watermark - self._window)
        if any(one.partitions for one in self._cancelling):
            self._arm(watermark, self._window)

    def _receiver(self, cancelling: Cancelling) -> Callable[[Row, Members], None]:
        """Return the receiver of a negative's rows."""

        def receive(row: Row, members: Members) -> None:
            if row[2] >= self._since:
                self._keep(cancelling, row)

        return receive

    def _keep(self, cancelling: Cancelling, row: Row) -> None:
        if cancelling.keep(row):
            self._arm(row[1], self._window)

    def _happened(self, one: Cancelling, row: Row, now: int) -> bool:
        assert one.after is not None
        after = row[one.after + VALUES]
        return one.cancels(row, after, now + 1, after)

    def _deadline(self, row: Row) -> int:
        return int(row[self._first]) + self._window - 1

    def _postpone(self, row: Row, members: Members) -> None:
        deadline = self._deadline(row)
        waiting = self._due.get(deadline)
        if waiting is not None:
            waiting.append((row, members))
            return
        self._due[deadline] = [(row, members)]
        if not self._lane.expect(deadline, self):
            self.fire(deadline)
