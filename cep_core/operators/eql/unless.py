"""Unless: left rows that no right row ends together with.

The exception of NEXT CEP over a pattern that is detected in one moment (Schultz-Møller, Migliavacca
and Pietzuch 2009, section 3.4): only what is simultaneous can come before it has been detected.
Right rows come from the AN-index, which this m-op never leaves while it is in the plan.
"""

from __future__ import annotations

from typing import cast

from cep_core.dataflow.channels import Members, Port
from cep_core.dataflow.mop import Operator, OrderedMOp, SoleMOp, Wanted, Wire
from cep_core.dataflow.predicates import BoundPredicate
from cep_core.events import Row
from cep_core.operators.cayuga.active import ActiveIndex


class UnlessMOp(SoleMOp, OrderedMOp):
    """An exception over one left and one right stream."""

    kind = "unless"

    def __init__(self, first: Wanted, number: int, index: ActiveIndex) -> None:
        super().__init__(first, number)
        self.active = index
        self.place = index.place(cast(BoundPredicate, first.definition))
        filter = cast(BoundPredicate, first.definition)
        self._holds = filter.shape.holds
        self._constants = filter.constants
        self._wires = [Wire(Port(self, self.receive), self._lane)]  # of the left input only
        self._rows: list[Row] = []
        self._others: list[Row] = []
        self._flushing = False

    def add(self, wanted: Wanted) -> Operator:
        operator = super().add(wanted)
        self.active.attend(self, wanted.inputs[1])
        self.active.activate(self)
        return operator

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        self.active.deactivate(self)
        self.active.leave(self)

    def receive(self, row: Row, members: Members) -> None:
        """Consume a left row."""
        if row[2] >= self._since:
            self._rows.append(row)
            self._later()

    def match(self, row: Row) -> None:
        """Consume a right row that may concern left rows."""
        if row[2] >= self._since:
            self._others.append(row)
            self._later()

    def flush(self, now: int) -> None:
        """Emit the left rows of the epoch that no right row concerns."""
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
