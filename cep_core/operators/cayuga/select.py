"""Select (σ), project (π, ρ, α_g) and union: m-ops that process each row by itself.

Selections are predicates over a channel in one index.  Above a base stream it is the index of a
publish/subscribe system, above a state Cayuga's FR-index (Hong 2009, sections 4.5.4 and 5.4.3).
Each stream of the input has an index of its own.  A definition that half of the input's streams
share is *broad*: it is evaluated once for a row, not for each of its streams (rule c_σ, section
5.4.4).  A projection keeps membership as it is: one row is made for all streams (rule c_π, section
5.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from cep_core.dataflow.channels import Channel, Members, Port, members_of, slots_of
from cep_core.dataflow.mop import MOp, Operator, SlotWiseMOp, SoleMOp, Wanted, Wire
from cep_core.dataflow.predicate_index import PredicateIndex, places_of
from cep_core.dataflow.predicates import BoundColumns, BoundPredicate
from cep_core.events import Row

_MOST_COUNTED = 1024  # with more streams in the input no further selection is counted as broad
_LEAST_BROAD = 4  # streams of a broad definition, at least


class SelectMOp(MOp):
    """Selections that read one channel.

    ``shared``: their streams are slots of one output channel; else each has a channel of its own.
    """

    single = True

    def __init__(self, first: Wanted, number: int, shared: bool) -> None:
        super().__init__(first, number)
        self._input = first.inputs[0].channel
        self._shared = shared
        self._wires = [Wire(Port(self, self.receive), None)]
        self._output = Channel(self._input.ordered)
        self._by_slot: dict[int, PredicateIndex[Any]] = {}
        self._broad: PredicateIndex[BoundPredicate] = PredicateIndex()
        # by definition: the output slot for each input slot
        self._streams: dict[BoundPredicate, dict[int, int]] = {}

    def add(self, wanted: Wanted) -> Operator:
        definition = cast(BoundPredicate, wanted.definition)
        places_of(definition, None)  # what cannot be compiled fails before anything has changed
        operator = super().add(wanted)
        source = wanted.inputs[0].slot
        if not self._shared:
            self._index(source).add(definition, operator.channel)
        elif not self._is_broad(definition, source, operator.slot):
            self._index(source).add(definition, operator.slot)
        return operator

    def remove(self, operator: Operator) -> None:
        definition = cast(BoundPredicate, operator.wanted.definition)
        self._forget(operator, definition, operator.wanted.inputs[0].slot)
        super().remove(operator)

    def _slot(self, wanted: Wanted) -> tuple[Channel, int]:
        channel = self._output if self._shared else Channel(self._input.ordered)
        return channel, channel.slot()

    def receive(self, row: Row, members: Members) -> None:
        """Emit the row for the selections, on the streams of `members`, that it satisfies."""
        found = self._find(row, members)
        if found:
            self._emit(row, found)

    def channels(self) -> Iterator[Channel]:
        if self._shared:
            yield self._output
        else:
            yield from (operator.channel for operator in self.operators)

    def entries(self) -> int:
        return sum(map(len, self._by_slot.values())) + len(self._broad)

    def _emit(self, row: Row, found: list[Any]) -> None:
        if not self._shared:
            for channel in found:
                channel.emit(row, 1)
        elif len(found) == 1:
            slot = found[0]
            self._output.emit(row, 1 << slot if slot < 64 else (slot,))
        else:
            found.sort()
            self._output.emit(row, members_of(found))

    def _find(self, row: Row, members: Members) -> list[Any]:
        """Return the outputs of the selections that a row satisfies, on the streams of `members`.

        They are slots if the selections share a channel, else channels.
        """
        found: list[Any] = []
        for slot in slots_of(members):
            index = self._by_slot.get(slot)
            if index is not None:
                found += index.find(None, row)
        if len(self._broad):
            for definition in self._broad.find(None, row):
                streams = self._streams[definition]
                found += [streams[slot] for slot in slots_of(members) if slot in streams]
        return found

    def _index(self, slot: int) -> PredicateIndex[Any]:
        index = self._by_slot.get(slot)
        if index is None:
            index = self._by_slot[slot] = PredicateIndex()
        return index

    def _is_broad(self, definition: BoundPredicate, source: int, target: int) -> bool:
        """Note that a definition reads and writes a slot (``source``, ``target``).

        Return True if the definition is broad, so that it is tested once for all its streams.
        """
        if self._input.live > _MOST_COUNTED or self._input.live == 1:
            return False
        streams = self._streams.setdefault(definition, {})
        if source in streams:
            return False  # counted before, for an equal selection that the plan has not merged
        streams[source] = target
        if definition in self._broad.definitions:
            return True
        if len(streams) < _LEAST_BROAD or 2 * len(streams) < self._input.live:
            return False
        self._broad.add(definition, definition)
        for slot, out in streams.items():
            if slot != source:
                self._drop(slot, out)
        return True

    def _forget(self, operator: Operator, definition: BoundPredicate, source: int) -> None:
        if not self._shared:
            self._drop(source, operator.channel)
            return
        streams = self._streams.get(definition, {})
        if streams.get(source) != operator.slot:
            self._drop(source, operator.slot)
            return
        del streams[source]
        if definition not in self._broad.definitions:
            self._drop(source, operator.slot)
        elif not streams:
            self._broad.remove(definition)
        if not streams:
            del self._streams[definition]

    def _drop(self, source: int, target: object) -> None:
        index = self._by_slot[source]
        index.remove(target)
        if not len(index):
            del self._by_slot[source]


class ProjectMOp(SlotWiseMOp):
    """One projection of the streams of a channel."""

    single = True

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number, ordered=first.inputs[0].channel.ordered)
        self._columns = cast(BoundColumns, first.definition)

    def receive(self, row: Row, members: Members) -> None:
        """Emit the projection of the row, with the same membership."""
        self._output.emit(self._columns.shape(None, row, self._columns.constants), members)


class UnionMOp(SoleMOp):
    """The bag union of two streams: a row that belongs to both comes twice."""

    single = True

    def __init__(self, first: Wanted, number: int) -> None:
        ordered = all(source.channel.ordered for source in first.inputs)
        super().__init__(first, number, ordered=ordered)
        self._wires = [Wire(Port(self, self.receive), None) for _ in first.inputs]

    def receive(self, row: Row, members: Members) -> None:
        """Emit the row, on the one stream of the output."""
        self._output.emit(row, 1)
