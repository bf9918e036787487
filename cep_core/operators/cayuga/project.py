"""Project (π, ρ, α_g) and Union: rows one by one.

A projection keeps membership as it is: one row is made for all streams (rule c_π, section 5.3.1).
"""

from __future__ import annotations

from typing import cast

from cep_core.dataflow.channels import Members, Port
from cep_core.dataflow.mop import SoleMOp, Wanted, Wire
from cep_core.dataflow.predicates import BoundColumns
from cep_core.events import Row
from cep_core.operators.slotwise import SlotWiseMOp


class ProjectMOp(SlotWiseMOp):
    """One projection of the streams of a channel."""

    kind = "project"
    single = True

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number, ordered=first.inputs[0].channel.ordered)
        self._columns = cast(BoundColumns, first.definition)

    def receive(self, row: Row, members: Members) -> None:
        """Consume a row."""
        self._output.emit(self._columns.shape.make(None, row, self._columns.constants), members)


class UnionMOp(SoleMOp):
    """The bag union of two streams: a row that belongs to both comes twice."""

    kind = "union"
    single = True

    def __init__(self, first: Wanted, number: int) -> None:
        ordered = all(source.channel.ordered for source in first.inputs)
        super().__init__(first, number, ordered=ordered)
        self._wires = [Wire(Port(self, self.receive), None) for _ in first.inputs]

    def receive(self, row: Row, members: Members) -> None:
        """Consume a row."""
        self._output.emit(row, 1)
