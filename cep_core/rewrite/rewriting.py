r"""Rewriting of a pattern before it is planned, by the rates of its streams.

Unions are put in Huffman's order, sequences in the cheapest parentheses.  A `;` is associative
where no filter relates its operands: with FILTER(y.f = z.f), (x;y);z takes the first y and then a
z that fits, x;(y;z) the first pair that fits.  There the parentheses stay as they are written, from
the first operand to the last one that the filter reads.  Tests end detections that have been made,
so they follow the first operand, up to the lowest `;` that has what they read.  A time constraint
from the first to the last operand bounds all that is between; any other keeps its parentheses,
because its bound does.  (x;y)\z keeps its top `;`: z comes after x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from cep_core.algebra.operands import with_operands
from cep_core.rewrite.cost import Rates, estimate
from cep_core.rewrite.limits import constraint, ends_with
from cep_core.rewrite.nexts import figure_5, optimal_next
from cep_core.rewrite.pattern import (
    Condition,
    Conditions,
    Either,
    Except,
    Next,
    Pattern,
    aliases_of,
)
from cep_core.rewrite.unions import optimal_union

_MOST_COMPARED = 16  # operands of a sequence of which all forms are compared


def rewritten(pattern: Pattern, rates: Rates) -> Pattern:
    """Return the cheapest equal pattern that the rules know; the same if nothing is known."""
    match pattern:
        case Next():
            return _cheaper(_chain(pattern).built(rates), pattern, rates)
        case Either():
            return _cheaper(_united(pattern, rates), pattern, rates)
        case Except(Next() as inner, other):
            parts = rewritten(inner.left, rates), rewritten(inner.right, rates)
            below = replace(inner, left=parts[0], right=parts[1])
            return replace(pattern, inner=below, other=rewritten(other, rates))
        case _:
            return with_operands(pattern, "Pattern", lambda part: rewritten(part, rates))


def _cheaper(one: Pattern, written: Pattern, rates: Rates) -> Pattern:
    """Return a pattern if it is cheaper than the one that was written."""
    found, before = estimate(one, rates), estimate(written, rates)
    if found is None or before is None:
        return one
    return one if found.cost < before.cost else written


# -- unions --------------------------------------------------------------------------------


def _united(pattern: Either, rates: Rates) -> Pattern:
    alternatives = [rewritten(one, rates) for one in _alternatives(pattern)]
    estimates = [estimate(one, rates) for one in alternatives]
    weighted = [
        (one.rate, alternative)
        for one, alternative in zip(estimates, alternatives, strict=True)
        if one is not None
    ]
    if len(weighted) < len(alternatives):
        return pattern
    made = optimal_union(weighted, lambda left, right: Either(left, right, span=pattern.span))
    assert isinstance(made, Either)
    return replace(made, tests=pattern.tests)


def _alternatives(pattern: Either) -> list[Pattern]:
    """Return the operands of a union and of those below it without conditions of their own."""
    found: list[Pattern] = []
    for one in (pattern.left, pattern.right):
        found += _alternatives(one) if isinstance(one, Either) and not one.tests else [one]
    return found


# -- sequences -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chain:
    """The operands of a sequence, and the conditions between them."""

    operands: tuple[Pattern, ...]
    filters: Conditions
    tests: Conditions

    def built(self, rates: Rates) -> Pattern:
        """Return the cheapest sequence."""
        parts = tuple(rewritten(one, rates) for one in self.operands)
        return replace(self, operands=parts)._associated(rates)

    def _associated(self, rates: Rates) -> Pattern:
        operands, tests = self.operands, self.tests
        if len(operands) == 1:
            return operands[0]
        fixed = self._fixed()
        if fixed:
            below = Chain(
                operands[:fixed], self._until(self.filters, fixed), self._until(tests, fixed)
            )
            filters = tuple(one for one in self.filters if one not in below.filters)
            own = self._until(tests, fixed + 1)
            own = tuple(one for one in own if one not in below.tests)
            first = Next(below._associated(rates), operands[fixed], filters, own)
            operands = (first, *operands[fixed + 1 :])
            tests = tuple(one for one in tests if one not in below.tests and one not in own)
        return _tested(_parenthesised(operands, rates), tests)

    def chooses_right(self) -> bool:
        """Return True if the conditions of a binary sequence select among right rows."""
        inside = aliases_of(self.operands[1])
        tests = (one for one in self.tests if not self._is_free(one))
        return any(one.aliases & inside for one in (*self.filters, *tests))

    def _fixed(self) -> int:
        """Return the last operand up to which the parentheses have to stay."""
        found = [self._last(one) for one in self.filters]
        found += [self._last(one) for one in self.tests if not self._is_free(one)]
        return max(found, default=0)

    def _is_free(self, test: Condition) -> bool:
        """Return True if a test may be evaluated at any operator above its inputs."""
        if any(ref.kind in ("prev", "all") for ref in test.read):
            return False
        limit = constraint(test)
        if limit is None:
            return all(ref.kind == "field" for ref in test.read)
        return limit[0] in aliases_of(self.operands[0]) and ends_with(self.operands[-1], limit[1])

    def _until(self, conditions: Conditions, count: int) -> Conditions:
        """Return the conditions that read nothing but the first operands."""
        return tuple(one for one in conditions if self._last(one) < count)

    def _last(self, condition: Condition) -> int:
        places = [
            place
            for place, operand in enumerate(self.operands)
            if condition.aliases & aliases_of(operand)
        ]
        return max(places, default=0)


def _chain(pattern: Next) -> Chain:
    """Return the operands of a sequence: also those of sequences within it that may be regrouped.

    A sequence to the right with conditions of its own is an operand: it has its own choice.  So is
    one that is chosen by a filter above it, which would choose among other rows if it were opened.
    """
    left = (
        _chain(pattern.left) if isinstance(pattern.left, Next) else Chain((pattern.left,), (), ())
    )
    right = Chain((pattern.right,), (), ())
    if isinstance(pattern.right, Next):
        inner = _chain(pattern.right)
        whole = Chain((pattern.left, pattern.right), pattern.filters, pattern.tests)
        right = right if inner.filters or inner.tests or whole.chooses_right() else inner
    return Chain(
        (*left.operands, *right.operands),
        (*left.filters, *pattern.filters),
        (*left.tests, *pattern.tests),
    )


def _parenthesised(operands: Sequence[Pattern], rates: Rates) -> Pattern:
    estimates = [estimate(one, rates) for one in operands]
    known = [one for one in estimates if one is not None]
    if len(known) < len(operands):
        return reduce(Next, operands)
    # The optimum of 40 operands takes half a minute, as its work grows with the fourth power.
    chosen = optimal_next if len(operands) <= _MOST_COMPARED else figure_5
    return chosen(operands, known, Next)


def _tested(pattern: Pattern, tests: Conditions) -> Pattern:
    """Return a sequence with each test at the lowest `;` on its left that has what it reads."""
    if not isinstance(pattern, Next) or not tests:
        return pattern
    known = aliases_of(pattern.left) if isinstance(pattern.left, Next) else frozenset[str]()
    below = tuple(one for one in tests if one.aliases <= known)
    own = tuple(one for one in tests if one not in below)
    left = _tested(pattern.left, below)
    return replace(pattern, left=left, tests=(*pattern.tests, *own))
