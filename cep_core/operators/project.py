"""Project (π, ρ, α_g) and Union: rows one by one.

A projection keeps membership as it is: one row is made for all streams (rule c_π, section 5.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from cep_core.channels import Channel, Members, Port
from cep_core.events import Row
from cep_core.mop import MOp, Operator, Wanted, Wire
from cep_core.operators.slotwise import SlotWise
from cep_core.predicates import Columns


class Project(SlotWise):
    """One projection of the streams of a channel."""

    kind = "project"
    single = True

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number, ordered=first.inputs[0].channel.ordered)
        self._columns = cast(Columns, first.definition)

    def receive(self, row: Row, members: Members) -> None:
        """Take a row in."""
        self._output.emit(self._columns.shape.make(None, row, self._columns.constants), members)


class Union(MOp):
    """The bag union of two streams: a row that belongs to both comes twice."""

    kind = "union"
    single = True

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        ordered = all(source.channel.ordered for source in first.inputs)
        self._wires = [Wire(Port(self, self.receive), None) for _ in first.inputs]
        self._output = Channel(self, ordered)

    def takes(self, wanted: Wanted) -> bool:
        return not self.operators

    def add(self, wanted: Wanted) -> Operator:
        operator = Operator(wanted, self._output, self._output.slot(), self)
        self.operators[operator] = None
        for wire, source in zip(self._wires, wanted.inputs, strict=True):
            wire.connect(source)
        return operator

    def remove(self, operator: Operator) -> None:
        del self.operators[operator]
        self._output.release(operator.slot)
        for wire, source in zip(self._wires, operator.wanted.inputs, strict=True):
            wire.disconnect(source)

    def receive(self, row: Row, members: Members) -> None:
        """Take a row in."""
        self._output.emit(row, 1)

    def channels(self) -> Iterator[Channel]:
        yield self._output
