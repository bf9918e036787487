"""Sequence (;θ): each left row with the earliest later right rows that satisfy θ.

A right row meets the instances that ended before it began; what is met is deleted when the epoch
ends, so that all simultaneous right rows meet it (Hong 2009, sections 3.2.2 and 4.4.3).

With a rank an instance takes of the right rows of an epoch those of the least rank.  They are known
when the epoch has all its right rows: so results come by depth, as those of aggregates do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cep_core.dataflow.channels import paired
from cep_core.dataflow.mop import Wanted
from cep_core.dataflow.predicates import BoundPredicate
from cep_core.events import VALUES, Row
from cep_core.operators.cayuga.active import ActiveIndex
from cep_core.operators.cayuga.state import Instance, StateMOp


class Ranked(NamedTuple):
    """The definition of a sequence that takes the right rows of the least value of a column."""

    filter: BoundPredicate
    column: int


class SequenceMOp(StateMOp):
    """Sequences of the same predicate, over streams of one left channel and one right stream."""

    kind = "sequence"

    def __init__(self, first: Wanted, number: int, index: ActiveIndex) -> None:
        definition: Any = first.definition
        ranked = isinstance(definition, Ranked)
        filter = definition.filter if ranked else definition
        super().__init__(first, number, filter, index)
        self._rank = VALUES + definition.column if ranked else None
        self._least: dict[int, tuple[Instance, int, list[Row]]] = {}  # by instance, of the epoch

    def match(self, row: Row) -> None:
        found = self._meet(row)
        if self._rank is None:
            for older, members in found:
                self._output.emit(paired(older, row), members)
            return
        if found and not self._least:
            self._lane.flush_later(self)
        for instance in found:
            rank = row[self._rank] or 0
            known = self._least.get(id(instance))
            if known is None or rank < known[1]:
                self._least[id(instance)] = (instance, rank, [row])
            elif rank == known[1]:
                known[2].append(row)

    def flush(self, now: int) -> None:
        """Emit the pairs of the epoch with the right rows of the least rank."""
        least, self._least = self._least, {}
        for (older, members), _, rows in least.values():
            for row in rows:
                self._output.emit(paired(older, row), members)
