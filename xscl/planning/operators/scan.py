"""XPathScan: all blocks of all streams of documents, evaluated by one automaton (stage 1)."""

from __future__ import annotations

from collections import Counter

from cep_core.plan import Channel, MOp, Operator, Wanted


class XPathScan(MOp):
    """The blocks of the streams of one channel; an operator is the set of its variables' pairs.

    `streams` counts the operators by stream.  `Dataflow.shred` runs the automaton over documents of
    these streams, and hands their witnesses to stage 2 as a whole.  `output` emits no rows, but
    counts these documents.
    """

    kind = "xpath_scan"

    def __init__(self, first: Wanted, number: int, streams: Counter[str]) -> None:
        super().__init__(first, number)
        self.output = self._output = Channel(False)
        self._streams = streams

    def add(self, wanted: Wanted) -> Operator:
        operator = Operator(wanted, self._output, self._output.slot(), self)
        self.operators[operator] = None
        self._streams[_stream(operator)] += 1
        return operator

    def remove(self, operator: Operator) -> None:
        del self.operators[operator]
        self._output.release(operator.slot)
        self._streams[_stream(operator)] -= 1


def _stream(scan: Operator) -> str:
    return str(scan.wanted.inputs[0].wanted.definition)
