"""Refine: the union of a predicate's disjuncts, each with its residual test, without doubles.

All disjuncts of a join find a pair of rows in the same round, that of the later
one, so doubles are looked for within a round only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

from cep_core.plan import (
    VALUES,
    Batch,
    Channel,
    Clock,
    Members,
    MOp,
    Operator,
    Port,
    Row,
    Wanted,
    Wire,
    members_of,
)
from xscl.documents.composite_events import Composite, item_at
from xscl.language.scope import variables
from xscl.language.syntax import Predicate
from xscl.shredding.conditions.residual import Test, compiled
from xscl.shredding.nodes.tree import DocumentTree

READ_AHEAD = 64
"""Candidates whose documents are read in one go."""
AT_ONCE = 200_000
"""Candidates that wait for their test at most; the documents of so many are parsed once."""


class Refinement(NamedTuple):
    """The refinement of the rows of one disjunct.

    `order` puts their nodes in the order that all disjuncts share; the
    predicate's variables are called by their positions in it.
    """

    order: tuple[int, ...]
    residual: Predicate | None


class Refine(MOp):
    """One predicate's residual part over the joins of its disjuncts."""

    kind = "refine"
    joins = True

    def __init__(
        self,
        first: Wanted,
        number: int,
        tree: Callable[[int], DocumentTree],
        read: Callable[[Iterable[int]], None],
        batch: Batch,
        clock: Clock,
    ) -> None:
        super().__init__(first, number)
        self.depth = 3
        self._tree = tree
        self._read = read
        self._batch = batch
        self._clock = clock
        self._output = Channel(self, False)
        self._candidates: list[tuple[int, Composite]] = []
        self._passed: dict[tuple[tuple[int, ...], tuple[int, ...]], Composite] = {}
        definition = cast(tuple[Refinement, ...], first.definition)
        self._orders = [one.order for one in definition]
        self._tests = [_test(one.residual) for one in definition]
        self._wires = [Wire(self._port(index), None) for index in range(len(definition))]

    def accepts(self, wanted: Wanted) -> bool:
        return not self.operators

    def add(self, wanted: Wanted) -> Operator:
        operator = Operator(wanted, self._output, self._output.slot(), self)
        self.operators[operator] = None
        for wire, source in zip(self._wires, wanted.inputs, strict=True):
            wire.connect(source)
        return operator

    def remove(self, operator: Operator) -> None:
        del self.operators[operator]
        self._output.release(operator.slot)
        for wire, source in zip(self._wires, operator.wanted.inputs, strict=True):
            wire.disconnect(source)

    def _port(self, index: int) -> Port:
        def receive(row: Row, members: Members) -> None:
            self._candidates.append((index, cast(Composite, row[VALUES])))
            self._batch.touch(self)
            if len(self._candidates) >= AT_ONCE:
                self._test_candidates()

        return Port(self, receive)

    def run(self) -> None:
        """Test the candidates, and emit those that pass, each once."""
        self._test_candidates()
        passed, self._passed = self._passed, {}
        members = members_of([operator.slot for operator in self.operators])
        for made in sorted(passed.values(), key=lambda one: (one.rank, one.docs, one.nodes)):
            self._clock.now = made.clock
            self._output.emit(made.row, members)

    def _test_candidates(self) -> None:
        candidates, self._candidates = self._candidates, []
        # Those of the same documents one after the other, so that each document is read once.
        candidates.sort(key=lambda one: (sorted(one[1].docs), one[0]))
        passed = self._passed
        for start in range(0, len(candidates), READ_AHEAD):
            part = candidates[start : start + READ_AHEAD]
            if any(self._tests):
                self._read({doc for _, candidate in part for doc in candidate.docs})
            for index, candidate in part:
                order = self._orders[index]
                made = candidate._replace(nodes=tuple(candidate.nodes[i] for i in order))
                if (made.docs, made.nodes) not in passed and self._passes(index, made):
                    passed[made.docs, made.nodes] = made

    def _passes(self, index: int, composite: Composite) -> bool:
        test = self._tests[index]
        if test is None:
            return True
        named, holds = test
        return holds({str(at): item_at(composite, at, self._tree) for at in named})


def _test(residual: Predicate | None) -> tuple[tuple[int, ...], Test] | None:
    if residual is None:
        return None
    return tuple(map(int, variables(residual))), compiled(residual)
