"""Refine: the union of a predicate's disjuncts, each with its residual test, without doubles.

All disjuncts of a join find a pair of rows in the same round, that of the later
one, so doubles are looked for within a round only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple, cast

from cep_core.algebra.function_bounds import STEPS, Budget, spending
from cep_core.plan import (
    VALUES,
    Batch,
    Clock,
    Members,
    Port,
    Row,
    SoleMOp,
    Wanted,
    Wire,
    members_of,
)
from xscl.documents.composite_events import Composite, item_at
from xscl.language.lowering import OneSidedNumbers
from xscl.language.syntax import Path, Predicate
from xscl.planning.operators.joins import CandidatePort, Candidates
from xscl.shredding.conditions.residual import CompiledOperand, compiled, values_in
from xscl.shredding.nodes import DocumentTree, string_value

READ_AHEAD = 64
"""Candidates whose documents are read in one go."""
MOST_CHARACTERS = 16_000_000
"""Characters of string values that a predicate keeps for further candidates."""
DOCUMENT = 5
"""The budget of all candidates of an arriving document, as a multiple of one evaluation's."""
AT_ONCE = 200_000
"""The most candidates that wait for their test; a document is parsed once for all that wait."""


class Refinement(NamedTuple):
    """The test that the rows of one disjunct have to pass, by its predicate `residual`.

    `order` puts the nodes of a row in the order that all disjuncts share.  The
    predicate's variables are called by their positions in this order.
    """

    order: tuple[int, ...]
    residual: Predicate | None
    one_sided: OneSidedNumbers


class Refine(SoleMOp):
    """Tests the residual part of one predicate on the results of the joins of its disjuncts."""

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
        super().__init__(first, number, ordered=False)
        self.depth = 3
        self._tree = tree
        self._read = read
        self._batch = batch
        self._clock = clock
        self._candidates: list[tuple[int, Composite]] = []
        self._passed: dict[tuple[tuple[int, ...], tuple[int, ...]], Composite] = {}
        definition = cast(tuple[Refinement, ...], first.definition)
        self._values: dict[tuple[int, int], str | None] = {}  # by document and node
        self._characters = 0
        # By number of the newest document: its budget, and the results of tests (`_holds`).
        self._budgets: dict[int, tuple[Budget, dict[object, tuple[bool, int]]]] = {}
        self._counted: set[int] = set()  # disjuncts whose candidates of this batch were tested
        self._orders = [one.order for one in definition]
        self._tests = [_test(one.residual, one.one_sided) for one in definition]
        self._wires = [Wire(self._port(index), None) for index in range(len(definition))]

    def _port(self, index: int) -> Port:
        def receive(row: Row, members: Members) -> None:
            self._candidates.append((index, cast(Composite, row[VALUES])))
            self._batch.touch(self)
            if len(self._candidates) >= AT_ONCE:
                self._test_candidates()

        test = self._tests[index]
        if test is None or not test.plain:
            return Port(self, receive)
        return CandidatePort(self, receive, lambda columns: self._passing(index, columns))

    def _holds(self, index: int, doc: int, row: tuple[Any, ...]) -> bool:
        """Return True if the test of the disjunct `index` holds for a candidate's values, `row`.

        `doc` is the document that arrived last; the test spends its budget of work.  Candidates
        that are tested by columns are tested again as composites, since several predicates may
        read a join.  The second test of equal texts returns the result of the first.
        """
        test = cast(ResidualTest, self._tests[index])
        holds_for = test.test.evaluate
        if test.test.light:
            return bool(holds_for(row))
        budget, known = self._budgets.setdefault(doc, (Budget(STEPS * DOCUMENT), {}))
        key = (index, *row) if test.plain else None
        if key is not None and key in known:
            holds, one_sided = known[key]
            test.one_sided.count += one_sided
            return holds
        before = test.one_sided.count
        with spending(budget):
            holds = bool(holds_for(row))
        if key is not None:
            known[key] = holds, test.one_sided.count - before
        return holds

    def _passing(self, index: int, candidates: Candidates) -> Iterator[bool]:
        """Yield for each candidate the result of the test of the disjunct `index` on its texts."""
        test = cast(ResidualTest, self._tests[index])
        self._counted.add(index)
        columns = []
        for position in test.positions:
            at = self._orders[index][position]
            docs = candidates.left if at < candidates.split else candidates.right
            places = list(zip(docs, candidates.nodes[at], strict=True))
            texts = self._string_values(set(places))
            columns.append(map(texts.__getitem__, places))
        # A condition on constants alone has no columns, and one answer for every candidate.
        rows = zip(*columns, strict=True) if columns else repeat((), len(candidates.left))
        newest = map(max, candidates.left, candidates.right)
        for doc, values in zip(newest, rows, strict=True):
            yield self._holds(index, doc, values)

    def _string_values(self, places: set[tuple[int, int]]) -> Mapping[tuple[int, int], str | None]:
        """Return string values by (document, node): those of `places`, and others that are kept.

        The value of node -1 is None.  A document is parsed once for all its candidates.
        """
        missing = sorted(places - self._values.keys())
        if self._characters > MOST_CHARACTERS:
            self._values, self._characters, missing = {}, 0, sorted(places)
        for start in range(0, len(missing), READ_AHEAD):
            part = missing[start : start + READ_AHEAD]
            self._read({doc for doc, _ in part})
            for doc, node in part:
                text = string_value(self._tree(doc).items[node]) if node >= 0 else None
                self._values[doc, node] = text
                self._characters += len(text or "")
        return self._values

    def run(self) -> None:
        """Test the candidates, and emit those that pass, each once."""
        self._test_candidates()
        passed, self._passed = self._passed, {}
        self._budgets.clear()
        self._counted.clear()
        members = members_of([operator.slot for operator in self.operators])
        for made in sorted(passed.values(), key=lambda one: (one.rank, one.docs, one.nodes)):
            self._clock.now = made.clock
            self._output.emit(made.row, members)

    def _test_candidates(self) -> None:
        candidates, self._candidates = self._candidates, []
        # Candidates of the same documents follow one another, so that each document is read once.
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
        before = test.one_sided.count
        nodes = {str(at): item_at(composite, at, self._tree) for at in test.positions}
        row = tuple(values_in(test.test.leaves, nodes))
        found = self._holds(index, max(composite.docs, default=0), row)
        if index in self._counted:
            test.one_sided.count = before
        return found


class ResidualTest(NamedTuple):
    """A residual predicate over the variables at some positions.

    It is `plain` if it reads only their string values, no paths below them.
    """

    positions: tuple[int, ...]
    test: CompiledOperand
    plain: bool
    one_sided: OneSidedNumbers


def _test(residual: Predicate | None, one_sided: OneSidedNumbers) -> ResidualTest | None:
    if residual is None:
        return None
    test = compiled(residual, one_sided)
    positions = tuple(dict.fromkeys(int(name) for name, _ in test.leaves))
    plain = all(path == Path() for _, path in test.leaves)
    return ResidualTest(positions, test, plain, one_sided)
