"""Runs that stand for sets of queries of one shape: how queries come and go.

`operators.pattern.matching` and `operators.sase.runs` say what a run is.  All belongs to the thread
of the engine.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from cep_core.dataflow.channels import Channel, Members, Port
from cep_core.dataflow.mop import Operator, OrderedMOp, Wanted, Wire
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
