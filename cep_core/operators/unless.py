"""Unless: left rows that no right row ends together with.

The exception of NEXT CEP over a pattern that is detected in one moment (Schultz-Møller, Migliavacca
and Pietzuch 2009, section 3.4): only what is simultaneous can come before it has been detected.
Right rows come from the AN-index, which this m-op never leaves while it is in the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from cep_core.channels import Channel, Members, Port
from cep_core.events import Row
from cep_core.mop import MOp, Operator, Wanted, Wire
from cep_core.operators.active import ActiveIndex
from cep_core.predicates import Definition


class Unless(MOp):
    """An exception over one left and one right stream."""

    kind = "unless"

    def __init__(self, first: Wanted, number: int, index: ActiveIndex) -> None:
        super().__init__(first, number)
        assert first.lane is not None
        self.active = index
        self.place = index.place(cast(Definition, first.definition))
        self.lane = self._lane = first.lane
        filter = cast(Definition, first.definition)
        self._holds = filter.shape.holds
        self._constants = filter.constants
        self._since = first.since
        self._left = Wire(Port(self, self.receive), self._lane)
        self._output = Channel(self, True)
        self._rows: list[Row] = []
        self._others: list[Row] = []
        self._flushing = False

    def takes(self, wanted: Wanted) -> bool:
        return not self.operators

    def add(self, wanted: Wanted) -> Operator:
        operator = Operator(wanted, self._output, self._output.slot(), self)
        self.operators[operator] = None
        self._left.connect(wanted.inputs[0])
        self.active.attend(self, wanted.inputs[1])
        self.active.activate(self)
        return operator

    def remove(self, operator: Operator) -> None:
        del self.operators[operator]
        self._output.release(operator.slot)
        self._left.disconnect(operator.wanted.inputs[0])
        self.active.deactivate(self)
        self.active.leave(self)

    def waiting_ports(self) -> tuple[Port, ...]:
        return (self._left.port,)

    def channels(self) -> Iterator[Channel]:
        yield self._output

    def receive(self, row: Row, members: Members) -> None:
        """Take a left row in."""
        if self._since is None or row[2] >= self._since:
            self._rows.append(row)
            self._later()

    def match(self, row: Row) -> None:
        """Take a right row in that may concern left rows."""
        if self._since is None or row[2] >= self._since:
            self._others.append(row)
            self._later()

    def flush(self, now: int) -> None:
        """Put out the left rows of the epoch that no right row concerns."""
        rows, self._rows = self._rows, []
        others, self._others = self._others, []
        self._flushing = False
        for row in rows:
            if not any(self._holds(row, other, self._constants) for other in others):
                self._output.emit(row, 1)

    def _later(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._lane.flush_later(self)
