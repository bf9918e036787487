"""XPathScan: all blocks of all streams of documents, evaluated by one automaton (stage 1)."""

from __future__ import annotations

from typing import cast

from cep_core.plan import (
    VALUES,
    Batch,
    Channel,
    Members,
    MOp,
    Operator,
    Port,
    Row,
    Wanted,
    Wire,
)
from xscl.planning.operators.joins import Joins
from xscl.shredding.arrivals import Arrival, shred
from xscl.shredding.automaton.nfa import Automaton


class XPathScan(MOp):
    """The blocks of the streams of one channel; an operator is the set of its variables' pairs.

    It takes the documents of a batch in and hands their witnesses to stage 2 as a whole.
    """

    kind = "xpath_scan"

    def __init__(
        self, first: Wanted, number: int, automaton: Automaton, joins: Joins, batch: Batch
    ) -> None:
        super().__init__(first, number)
        self._automaton = automaton
        self._joins = joins
        self._batch = batch
        self._wire = Wire(Port(self, self.receive), None)
        self._output = Channel(False)
        self._readers: dict[Operator, int] = {}  # uses of each stream
        self._arrivals: list[Arrival] = []

    def add(self, wanted: Wanted) -> Operator:
        operator = Operator(wanted, self._output, self._output.slot(), self)
        self.operators[operator] = None
        stream = wanted.inputs[0]
        self._readers[stream] = self._readers.get(stream, 0) + 1
        if self._readers[stream] == 1:
            self._wire.connect(stream)
        return operator

    def remove(self, operator: Operator) -> None:
        del self.operators[operator]
        self._output.release(operator.slot)
        stream = operator.wanted.inputs[0]
        self._readers[stream] -= 1
        if not self._readers[stream]:
            del self._readers[stream]
            self._wire.disconnect(stream)

    def receive(self, row: Row, members: Members) -> None:
        """Take a document in."""
        self._output.rows += 1  # what it hands on are the witnesses of as many documents
        self._arrivals.append(cast(Arrival, row[VALUES]))
        self._batch.touch(self)

    def run(self) -> None:
        """Hand the witnesses of the documents to stage 2."""
        arrivals, self._arrivals = self._arrivals, []
        self._joins.take(shred(self._automaton, arrivals))
