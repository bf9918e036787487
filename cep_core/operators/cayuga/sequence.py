"""Sequence (;θ): each left row with the earliest later right rows that satisfy θ.

A right row meets the instances that ended before it began; what is met is deleted when the epoch
ends, so that all simultaneous right rows meet it (Hong 2009, sections 3.2.2 and 4.4.3).
"""

from __future__ import annotations

from typing import cast

from cep_core.dataflow.mop import Wanted
from cep_core.dataflow.predicates import BoundPredicate
from cep_core.events import Row
from cep_core.operators.cayuga.active import ActiveIndex
from cep_core.operators.cayuga.state import StateMOp


class SequenceMOp(StateMOp):
    """Sequences of the same predicate, over streams of one left channel and one right stream.

    Puts out pairs: who needs the concatenation builds it.
    """

    kind = "sequence"

    def __init__(self, first: Wanted, number: int, index: ActiveIndex) -> None:
        width = first.inputs[0].wanted.width
        super().__init__(first, number, cast(BoundPredicate, first.definition), width, index)

    def match(self, row: Row) -> None:
        for older, members in self._meet(row):
            self._output.emit_pair(older, row, members)
