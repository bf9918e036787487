"""Conditions that could not be evaluated: what raises them, and the tally of an engine.

A condition that fails, or whose work is over its bounds, is neither true nor false.  AND, OR, NOT
and paths follow three-valued logic, so a condition has a value if what failed cannot change it;
otherwise it does not hold at the node, whatever NOT stands around it, and is counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

MOST = 1_000
"""Expressions that are counted: those that failed last."""
LONGEST = 200
"""Characters of a reason."""


class NotEvaluated(Exception):
    """A condition without a value: the expression, and why."""

    def __init__(self, expression: str, reason: str) -> None:
        super().__init__(f"{expression}: {reason}")
        self.expression = expression
        self.reason = reason[:LONGEST]


class Tally(NamedTuple):
    """Documents in which an expression was not evaluated; `latest` is the number of the last."""

    expression: str
    documents: int
    latest: int
    reason: str


class Unevaluated:
    """The expressions that were not evaluated since the engine was opened."""

    def __init__(self) -> None:
        self._tallies: OrderedDict[str, Tally] = OrderedDict()

    def note(self, document: int, errors: Iterable[NotEvaluated]) -> None:
        """Count the expressions that were not evaluated in a document."""
        for expression, reason in {one.expression: one.reason for one in errors}.items():
            known = self._tallies.pop(expression, None)
            count = 1 if known is None else known.documents + (known.latest != document)
            self._tallies[expression] = Tally(expression, count, document, reason)
            if len(self._tallies) > MOST:
                self._tallies.popitem(last=False)

    def of(self, expressions: Iterable[str]) -> list[Tally]:
        """Return the tallies of some expressions."""
        return [found for one in expressions if (found := self._tallies.get(one)) is not None]
