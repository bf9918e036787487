"""Runs that stand for sets of queries of one shape: how queries come and go.

`operators.pattern.matching` says what a run is, `operators.pattern.stacks` what stands in its place
for plain sequences.  All belongs to the thread of the engine.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from cep_core.algebra.text import counted
from cep_core.dataflow.channels import Channel, Members, Port, slots_of
from cep_core.dataflow.mop import Operator, OperatorNumber, OrderedMOp, Wanted, Wire
from cep_core.events import Row
from cep_core.operators.query_masks import QueryMasks


class SharedRuns(OrderedMOp):
    """Queries of one shape over the same channels; the slot of an output is a query's bit."""

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        self._output = Channel(True)
        self._queries = QueryMasks(len(first.inputs))
        self._wires: list[Wire] = []

    @abstractmethod
    def _receiver(self, input: int) -> Callable[[Row, Members], None]:
        """Return the receiver of an input's rows."""

    @abstractmethod
    def _forget_query(self, slot: int) -> None:
        """Keep nothing any more for a query that has gone."""

    def add(self, wanted: Wanted) -> Operator:
        operator = Operator(wanted, self._output, self._output.slot(), self)
        if not self._wires:
            self._wires = [
                Wire(Port(self, self._receiver(i)), self._lane) for i in range(len(wanted.inputs))
            ]
        self._queries.add(operator, self._wires)
        self.operators[operator] = None
        return operator

    def remove(self, operator: Operator) -> None:
        del self.operators[operator]
        self._output.release(operator.slot)
        self._queries.remove(operator, self._wires)
        self._forget_query(operator.slot)
        if not self.operators:
            self._lane.drop(self)

    def _shared(self) -> str:
        """Describe what several queries share."""
        if len(self.operators) < 2:
            return ""
        constants = counted(len(self._queries.constants.queries), "way", "ways")
        return f"; shared by {len(self.operators)} queries, tested {constants}"

    # -- snapshots -------------------------------------------------------------------------

    def _numbers(self, mask: int, number: OperatorNumber) -> list[int]:
        """Return the numbers of the operators of some queries."""
        by_slot = {operator.slot: operator for operator in self.operators}
        return [number(by_slot[slot]) for slot in slots_of(mask)] if mask else []

    def _mask_of(self, operators: list[Operator]) -> int:
        """Return the queries of operators."""
        mask = 0
        for operator in operators:
            mask |= 1 << operator.slot
        return mask
