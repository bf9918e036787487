"""M-ops that change the rows of a channel and leave its slots as they are."""

from __future__ import annotations

from abc import abstractmethod

from cep_core.dataflow.channels import Channel, Members, Port
from cep_core.dataflow.mop import MOp, Operator, Wanted, Wire
from cep_core.events import Row


class SlotWiseMOp(MOp):
    """One change for the streams of one channel: an operator has the slot of its input."""

    def __init__(self, first: Wanted, number: int, *, ordered: bool) -> None:
        super().__init__(first, number)
        self._wire = Wire(Port(self, self.receive), self.lane)
        self._output = Channel(ordered)
        self._owners: dict[int, Operator] = {}  # by slot

    @abstractmethod
    def receive(self, row: Row, members: Members) -> None:
        """Consume a row."""

    def accepts(self, wanted: Wanted) -> bool:
        return wanted.inputs[0].slot not in self._owners

    def add(self, wanted: Wanted) -> Operator:
        source = wanted.inputs[0]
        operator = Operator(wanted, self._output, source.slot, self)
        self.operators[operator] = None
        self._owners[source.slot] = operator
        self._output.occupy()
        self._wire.connect(source)
        return operator

    def remove(self, operator: Operator) -> None:
        del self.operators[operator]
        del self._owners[operator.slot]
        self._output.vacate()
        self._wire.disconnect(operator.wanted.inputs[0])
