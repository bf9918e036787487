"""The predicates of a query over the documents of a question.

A predicate is split into conjuncts, and each is tested separately, so that the failing ones can be
named.  Aggregates of FOLD over earlier rows (`$.x`) are unknown here: the trial of the whole query
decides conjuncts with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any

from xscl.inspection.why.choices import Choices, Conjunct
from xscl.inspection.why.nearest import closest_values
from xscl.inspection.why.question import Edge
from xscl.language.normalform import Joined, names_of
from xscl.language.scope import Scope, here, leaves, rewritten, variables
from xscl.language.syntax import (
    And,
    Decorated,
    FollowedBy,
    Join,
    Not,
    Operand,
    Or,
    Predicate,
    VariablePath,
)
from xscl.language.unparse import unparse
from xscl.language.valuejoin import Disjunct
from xscl.planning.compile import CompiledQuery
from xscl.shredding.conditions.residual import texts_of, texts_over

CHOICES = 100
"""Choices of nodes for which an operand over several variables is computed."""


class Comparisons:
    """The evaluation of a query's predicates over choices of nodes in some documents."""

    def __init__(self, query: CompiledQuery, choices: Choices) -> None:
        self._source = query.source
        self._places = query.normal.places
        self._choices = choices

    def written(self, form: Joined[Disjunct], expression: Join | FollowedBy) -> Predicate | None:
        """Return the original predicate of a join, which its normal form splits."""
        if expression.predicate is None:
            return None
        left, right = (names_of(side, self._places) for side in (form.left, form.right))
        scope = Scope(self._source, left, right)
        return scope.resolved(expression.predicate, paths=True)

    def conjuncts(self, predicate: Predicate | None) -> tuple[Conjunct, ...]:
        """Return the parts of a predicate that the documents decide."""
        if predicate is None:
            return ()
        found = rewritten(predicate, _plain)
        return tuple(Conjunct(part) for part in _parts(found) if self._is_decided(part))

    def _is_decided(self, predicate: Predicate) -> bool:
        return all(
            isinstance(leaf, VariablePath) and leaf.variable in self._places
            for leaf in leaves(predicate)
            if isinstance(leaf, VariablePath | Decorated)
        )

    def edges(self, conjuncts: Sequence[Conjunct]) -> Iterator[Edge]:
        """Yield whether each conjunct holds for some nodes, with the values that come nearest."""
        for one in conjuncts:
            near = closest_values(one.predicate, self._texts)
            yield Edge("value", unparse(one.predicate), self.hold([one]), near)

    def at_once(self, conjuncts: Sequence[Conjunct]) -> Iterator[Edge]:
        """Yield that conjuncts do not hold for the same nodes, if so."""
        if not self.hold(conjuncts):
            text = " AND ".join(unparse(one.predicate) for one in conjuncts)
            near = "each holds for some nodes, but no choice of nodes satisfies them together"
            yield Edge("value", text, False, near)

    def hold(self, conjuncts: Sequence[Conjunct]) -> bool:
        """Return True if some choice of nodes satisfies all conjuncts."""
        return next(self._choices.of(conjuncts), None) is not None

    def _texts(self, operand: Operand) -> Sequence[str]:
        """Return the values of an operand over the nodes of its variables.

        Of several variables some choices count.
        """
        names = variables(operand)
        texts = texts_of(rewritten(operand, here))
        if not names:
            return texts("")
        if len(names) == 1:
            return [text for item in self._choices.items(names[0]) for text in texts(item)]
        items = (self._choices.items(name) for name in names)
        rows = (dict(zip(names, row, strict=True)) for row in islice(product(*items), CHOICES))
        return [text for row in rows for text in texts_over(operand)(row)]


def _parts(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the conjuncts of a predicate."""
    match predicate:
        case And(parts):
            for part in parts:
                yield from _parts(part)
        case Not(Or(parts)):
            for part in parts:
                yield from _parts(Not(part))
        case Not(Not(part)):
            yield from _parts(part)
        case _:
            yield predicate


def _plain(leaf: Any) -> Any:
    """Return a name of FOLD without its decorator, but for values of the last row."""
    if isinstance(leaf, Decorated) and leaf.input:
        return VariablePath(leaf.name)
    return leaf
