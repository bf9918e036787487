"""Conditions that could not be evaluated: what raises them, and the tally of an engine.

A condition that fails, or whose work is over its bounds, is neither true nor false.  AND, OR, NOT
and paths follow three-valued logic, so a condition has a value if what failed cannot change it;
otherwise it does not hold at the node, whatever NOT stands around it, and is counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

MOST = 1_000
"""The most expressions that are counted: those that failed last."""
LONGEST = 200
"""The most characters of a reason; a longer one is cut."""


class NotEvaluated(Exception):
    """A condition without a value: the expression, and why."""

    def __init__(self, expression: str, reason: str) -> None:
        super().__init__(f"{expression}: {reason}")
        self.expression = expression
        self.reason = reason[:LONGEST]


class Tally(NamedTuple):
    """Documents in which an expression was not evaluated; `latest` is the id of the last."""

    expression: str
    documents: int
    latest: str
    reason: str


class ExpressionTallies:
    """Counts by expression the documents in which it was not evaluated since the engine's start."""

    def __init__(self) -> None:
        self._tallies: OrderedDict[str, Tally] = OrderedDict()
        self.noted: dict[tuple[int, str], str] = {}
        """The reasons by the number of the document and the expression, until `count`."""

    def __len__(self) -> int:
        return len(self._tallies)

    def note(self, document: int, errors: Iterable[NotEvaluated]) -> None:
        """Note the expressions that were not evaluated in a document, by its number."""
        for error in errors:
            self.noted[document, error.expression] = error.reason

    def count(self, ids: Callable[[set[int]], Mapping[int, str]]) -> None:
        """Add the documents noted since the last call to the tallies of their expressions.

        `ids` is a function from numbers of documents to their ids.
        """
        failed, self.noted = self.noted, {}
        named = ids({document for document, _ in failed}) if failed else {}
        for (document, expression), reason in failed.items():
            known = self._tallies.pop(expression, None)
            count = 1 if known is None else known.documents + 1
            self._tallies[expression] = Tally(expression, count, named.get(document, ""), reason)
            if len(self._tallies) > MOST:
                self._tallies.popitem(last=False)

    def of(self, expressions: Iterable[str]) -> list[Tally]:
        """Return the tallies of some expressions, in their order; not each has a tally."""
        return [
            found
            for expression in expressions
            if (found := self._tallies.get(expression)) is not None
        ]
