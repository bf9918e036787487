"""Iterate (μ): an instance takes one right row after the other and is put out each time.

An instance that a right row meets (filter θ) is deleted when the epoch ends.  Each row that also
satisfies the rebind predicate makes a new instance with that row as the last, which is emitted
(Hong 2009, section 3.2.3; the rebind and forward edges of section 3.3.2 have the same predicate).
"""

from __future__ import annotations

from typing import NamedTuple, cast

from cep_core.dataflow.channels import Members
from cep_core.dataflow.mop import Wanted
from cep_core.dataflow.predicates import BoundColumns, BoundPredicate
from cep_core.events import Row
from cep_core.operators.cayuga.active import ActiveIndex
from cep_core.operators.cayuga.state import StateMOp


class Iteration(NamedTuple):
    """The definition of μ: θ, the rebind predicate, the first and every later instance."""

    filter: BoundPredicate
    rebind: BoundPredicate
    first: BoundColumns
    next: BoundColumns


class IterateMOp(StateMOp):
    """Iterations of the same definition, over streams of one left channel and one right stream."""

    kind = "iterate"

    def __init__(self, first: Wanted, number: int, index: ActiveIndex) -> None:
        definition = cast(Iteration, first.definition)
        super().__init__(first, number, definition.filter, index)
        self._first = definition.first
        self._next = definition.next
        self._rebind = definition.rebind
        self._rebinds = definition.rebind.shape.holds

    def receive(self, row: Row, members: Members) -> None:
        if row[2] >= self._since:
            self._pend(self._first.shape.make(None, row, self._first.constants), members)

    def match(self, row: Row) -> None:
        for older, members in self._meet(row):
            if self._rebinds(older, row, self._rebind.constants):
                made = self._next.shape.make(older, row, self._next.constants)
                self._output.emit(made, members)
                self._pend(made, members)
