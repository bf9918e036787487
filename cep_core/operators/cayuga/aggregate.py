"""Aggregates: over the rows of an instant (β), or of a sliding window (α).

Both see a whole epoch before they emit anything.  Rows of one group that belong to the same
streams form a *fragment*, which is aggregated once.  A stream's result combines its fragments;
streams with the same fragments get one row (rule c_α: shared fragment aggregation, Hong 2009,
section 5.3.3).  All aggregates on a channel that begin at the same arrival are one m-op and
consume its rows together (rule s_α).  A result does not tell from which rows it is made, so only
queries that see the same arrivals share it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias, cast

from cep_core.dataflow.channels import Channel, Members, Port, members_of, slots_of, without_slots
from cep_core.dataflow.journal import Unwritten
from cep_core.dataflow.mop import Operator, OperatorNumber, OrderedMOp, SavedRows, Wanted, Wire
from cep_core.dataflow.predicates import BoundColumns
from cep_core.events import VALUES, Row
from cep_core.operators.cayuga.accumulators import (
    WindowAccumulator,
    accumulator,
    result,
)

_NAN = float("nan")  # one object for all NaN: as a key it equals itself


class Aggregation(NamedTuple):
    """The definition of an aggregate: ``inputs`` computes argument and `by` of each function.

    ``counts_rows`` says which functions count rows, not values; ``window`` is None for an instant.
    """

    group_by: tuple[int, ...]
    functions: tuple[str, ...]
    counts_rows: tuple[bool, ...]
    inputs: BoundColumns
    window: int | None


class Fragment:
    """The rows of one group that have the same streams, and the accumulators over them.

    ``rows`` are (serial number, row, arguments of the functions), oldest first.
    """

    __slots__ = ("accumulators", "operators", "rows")

    def __init__(self, definition: Aggregation, operators: list[Operator]) -> None:
        self.operators = operators
        self.rows: deque[tuple[int, Row, Row]] = deque()
        self.accumulators: list[WindowAccumulator] = [accumulator(f) for f in definition.functions]

    def saved(self, kept: tuple[int, Row, Row], number: OperatorNumber) -> list[Any]:
        """Return a kept row as plain data: [row, the numbers of the operators that have it].

        ``number`` returns the number of an operator.
        """
        return [kept[1], [number(operator) for operator in self.operators]]

    def enter(self, number: int, row: Row, inputs: Row) -> None:
        """Add a row with its serial number.

        ``inputs`` has as values, for each function in turn, its argument and the value to compare.
        """
        self.rows.append((number, row, inputs))
        for place, held in enumerate(self.accumulators):
            held.enter(number, inputs[VALUES + 2 * place], inputs[VALUES + 2 * place + 1])

    def leave(self) -> None:
        """Remove the oldest row."""
        number, _, inputs = self.rows.popleft()
        for place, held in enumerate(self.accumulators):
            held.leave(number, inputs[VALUES + 2 * place])


Fragments: TypeAlias = dict[Members, Fragment]  # the fragments of a group, by membership


class Share:
    """The groups of one definition of aggregates, and the channel of its results."""

    def __init__(self, definition: Aggregation, channel: Channel, journal: Unwritten) -> None:
        self.definition = definition
        self.channel = channel
        self.slots: dict[int, Operator] = {}
        # rows of an instant are dropped at the end of its epoch: no log has them
        self._journal = journal if definition.window is not None else Unwritten()
        self.groups: dict[Row, Fragments] = {}  # by the values of the columns to group by
        self._number = 0

    def enter(self, rows: Iterable[tuple[Row, Members]]) -> list[tuple[Row, Members]]:
        """Add the rows that belong to streams of the definition.

        Return for each of these rows the key of its group, and those of its streams.
        """
        taken = []
        for row, members in rows:
            slots = [slot for slot in slots_of(members) if slot in self.slots]
            if slots:
                own = members_of(slots)
                taken.append((self.put(row, own), own))
        return taken

    def put(self, row: Row, members: Members) -> Row:
        """Add a row of the streams ``members``; return its values of the columns to group by."""
        definition = self.definition
        inputs = definition.inputs.shape(None, row, definition.inputs.constants)
        values = tuple([row[VALUES + column] for column in definition.group_by])
        values = tuple([_NAN if value != value else value for value in values])
        fragments = self.groups.setdefault(values, {})
        fragment = fragments.get(members)
        if fragment is None:
            operators = [self.slots[slot] for slot in slots_of(members)]
            fragment = fragments[members] = Fragment(definition, operators)
        self._number += 1
        fragment.enter(self._number, row, inputs)
        self._journal.keep(fragment, fragment.rows[-1])
        return values

    def forget(self, fragments: Fragments, until: int) -> None:
        """Remove rows with t1 <= ``until`` from a group's fragments; remove empty fragments."""
        for members, fragment in list(fragments.items()):
            while fragment.rows and fragment.rows[0][1][1] <= until:
                self._journal.drop((fragment.rows[0],))
                fragment.leave()
            if not fragment.rows:
                del fragments[members]

    def clear(self) -> dict[Row, Fragments]:
        """Remove all rows; return the fragments of the groups that had some, by group."""
        groups, self.groups = self.groups, {}
        for group in groups.values():
            for fragment in group.values():
                self._journal.drop(fragment.rows)
        return groups

    def results(self, now: int, key: Row, group: Fragments) -> Iterator[tuple[Row, set[int]]]:
        """Yield a group's result rows, each with the slots of the streams that it belongs to."""
        definition = self.definition
        for slots, fragments in blocks(group):
            values = [
                result(function, counts, [fragment.accumulators[place] for fragment in fragments])
                for place, (function, counts) in enumerate(
                    zip(definition.functions, definition.counts_rows, strict=True)
                )
            ]
            first = min(fragment.rows[0][1][2] for fragment in fragments)
            yield (now, now, first, *key, *values), slots


def blocks(fragments: dict[Members, Fragment]) -> list[tuple[set[int], list[Fragment]]]:
    """Return the slots of some fragments in blocks, as (slots of a block, its fragments).

    Each slot is in one block.  The streams of a block are in the same fragments, so they share
    their aggregates.
    """
    parts: list[tuple[set[int], list[Fragment]]] = []
    for members, fragment in fragments.items():
        fresh = set(slots_of(members))
        refined: list[tuple[set[int], list[Fragment]]] = []
        for slots, held in parts:
            inside, outside = slots & fresh, slots - fresh
            fresh -= inside
            if inside:
                refined.append((inside, [*held, fragment]))
            if outside:
                refined.append((outside, held))
        if fresh:
            refined.append((fresh, [fragment]))
        parts = refined
    return parts


class AggregateMOp(OrderedMOp):
    """Aggregates over one channel, for queries that see its rows from the same arrival on.

    Each definition has an output channel of its own.
    """

    journals = True

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        self.label = f"aggregate#{number}"
        self._wires = [Wire(Port(self, self.receive), self._lane)]
        self._shares: dict[Aggregation, Share] = {}
        self._arrived: list[tuple[Row, Members]] = []

    def accepts(self, wanted: Wanted) -> bool:
        share = self._shares.get(cast(Aggregation, wanted.definition))
        return share is None or wanted.inputs[0].slot not in share.slots

    def add(self, wanted: Wanted) -> Operator:
        definition = cast(Aggregation, wanted.definition)
        if definition not in self._shares:
            self._shares[definition] = Share(definition, Channel(True), self._lane.journal)
        operator = super().add(wanted)
        self._shares[definition].slots[operator.slot] = operator
        return operator

    def _slot(self, wanted: Wanted) -> tuple[Channel, int]:
        channel = self._shares[cast(Aggregation, wanted.definition)].channel
        return channel, channel.slot(wanted.inputs[0].slot)

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        slot = operator.slot
        share = self._shares[cast(Aggregation, operator.wanted.definition)]
        del share.slots[slot]
        if share.slots:
            self._rebuild(share, slot)
        else:
            share.clear()
            del self._shares[share.definition]

    def receive(self, row: Row, members: Members) -> None:
        """Collect a row of the epoch until `flush`; ignore one that arrived before the queries."""
        if row[2] >= self._since:
            if not self._arrived:
                self._lane.flush_later(self)
            self._arrived.append((row, members))

    def flush(self, now: int) -> None:
        """Emit the results of the epoch."""
        arrived, self._arrived = self._arrived, []
        for share in self._shares.values():
            if share.definition.window is None:
                self._instant(share, now, arrived)
            else:
                self._slide(share, now, arrived, share.definition.window)

    def evict(self, watermark: int) -> None:
        """Drop rows that are older than their window."""
        super().evict(watermark)
        for share in self._shares.values():
            window = share.definition.window
            if window is None:
                continue
            for key, group in list(share.groups.items()):
                share.forget(group, watermark - window)
                if not group:
                    del share.groups[key]
            if share.groups:
                self._arm(watermark, window)

    def channels(self) -> Iterator[Channel]:
        for share in self._shares.values():
            yield share.channel

    def instances(self) -> int:
        return sum(len(fragment.rows) for fragment in self._fragments())

    def entries(self) -> int:
        return sum(len(share.groups) for share in self._shares.values())

    def _fragments(self) -> Iterator[Fragment]:
        """Yield the fragments of all definitions and groups."""
        for share in self._shares.values():
            for group in share.groups.values():
                yield from group.values()

    def dump(self, number: OperatorNumber) -> SavedRows:
        kept = [
            fragment.saved(row, number) for fragment in self._fragments() for row in fragment.rows
        ]
        return sorted(kept, key=lambda one: one[0][1])

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        by_share: dict[Share, list[int]] = {}
        for operator in operators:
            share = self._shares[cast(Aggregation, operator.wanted.definition)]
            by_share.setdefault(share, []).append(operator.slot)
        for share, slots in by_share.items():
            share.put(row, members_of(sorted(slots)))
            if share.definition.window is not None:
                self._arm(row[1], share.definition.window)

    def _instant(self, share: Share, now: int, arrived: list[tuple[Row, Members]]) -> None:
        try:
            share.enter(arrived)
        finally:  # no epoch begins with rows of another
            groups = share.clear()
        for key, group in groups.items():
            for row, slots in share.results(now, key, group):
                share.channel.emit(row, members_of(sorted(slots)))

    def _slide(
        self, share: Share, now: int, arrived: list[tuple[Row, Members]], window: int
    ) -> None:
        taken = share.enter(arrived)
        done: dict[Row, list[tuple[Row, set[int]]]] = {}
        for key, members in taken:
            if key not in done:
                share.forget(share.groups[key], now - window)
                done[key] = list(share.results(now, key, share.groups[key]))
            for row, slots in done[key]:
                own = slots.intersection(slots_of(members))
                if own:
                    share.channel.emit(row, members_of(sorted(own)))
        if taken:
            self._arm(now, window)

    def _rebuild(self, share: Share, slot: int) -> None:
        """Make a definition's fragments again of their rows, without the stream of a slot."""
        for group in share.clear().values():
            rows = [
                (number, row, left)
                for members, fragment in group.items()
                for number, row, _ in fragment.rows
                if (left := without_slots(members, (slot,))) is not None
            ]
            for _, row, left in sorted(rows, key=lambda one: one[0]):
                share.put(row, left)
