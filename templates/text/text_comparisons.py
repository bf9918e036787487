"""Comparisons of two texts that an index answers: operators of edges beside `=` and `!=`.

An operator is a text, the `operator` of an edge in a join graph.  `contains` says that the left
node's text contains the right one's; `within contains` has the sides exchanged.  `jaccard > 0.6`
compares the sets of words of two texts, which stand between spaces.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from templates.columns import Column, unpack
from templates.model.join_graph import EXCHANGED, LEFT, RIGHT, JoinGraph
from templates.template import RowColumns, add

TextRole: TypeAlias = Literal["whole", "part", "words"]
"""The role of a text in a comparison; texts of one role share an index."""

PARTS: dict[str, Callable[[str, str], bool]] = {
    "contains": operator.contains,
    "starts-with": str.startswith,
    "ends-with": str.endswith,
}
BOUNDS: dict[str, Callable[[float, float], bool]] = {">": operator.gt, ">=": operator.ge}


def jaccard(one: Sized, other: Sized, common: int) -> float:
    """Return `common`, the count of common words of two sets, as a share of all their words.

    0 if both are empty.
    """
    every = len(one) + len(other) - common
    return common / every if every else 0.0


@dataclass(frozen=True, slots=True)
class TextOperator:
    """An operator: its test, whether its sides are exchanged, and for `jaccard` its bound."""

    test: str
    exchanged: bool
    sign: str = ""
    bound: float = 0.0

    def role(self, *, left: bool) -> TextRole:
        """Return the role of the texts of a side: `words`, or `whole` or `part` where one text is
        tested to be in another.
        """
        if self.sign:
            return "words"
        return "whole" if left is not self.exchanged else "part"


@lru_cache(maxsize=1024)
def text_operator(text: str) -> TextOperator:
    """Return the operator for which `text`, the `operator` of an edge, stands."""
    exchanged = text.startswith(EXCHANGED)
    test, *bound = text.removeprefix(EXCHANGED).split()
    return (
        TextOperator(test, exchanged, bound[0], float(bound[1]))
        if bound
        else TextOperator(test, exchanged)
    )


# -- Pairs of variables that are compared so --------------------------------------------------

# The caller gives these pairs definitions of their own: a pair is in no equality, and has one
# operator on one side.

_NONE: Mapping[int, Any] = MappingProxyType({})


class TextEdges:
    """Counts the text comparisons of all rows of R_T by their pairs of variables.

    It tells which pairs are compared with which, and by which roles (`TextRole`) their texts are
    indexed.
    """

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._far: tuple[dict[int, dict[int, str]], ...] = ({}, {})
        self._roles: dict[TextRole, dict[int, int]] = {}

    def count(self, graph: JoinGraph, rows: RowColumns, by: int) -> None:
        """Add to the uses of a template's text comparisons: `by` (1 or -1) for each of `rows`."""
        for place, edge in graph.text_joins.items():
            for number, count in Counter(rows[f"e{place}"]).items():
                self._count(number, edge.operator, by * count)

    def _count(self, edge: int, operator: str, by: int) -> None:
        before = self._rows.get(edge, 0)
        add(self._rows, edge, by)
        after = self._rows.get(edge, 0)
        if before and after:
            return
        ends = [int(one) for one in unpack(edge)]
        for side in (LEFT, RIGHT):
            near, far = ends[side], ends[1 - side]
            role = text_operator(operator).role(left=side == LEFT)
            add(self._roles.setdefault(role, {}), near, 1 if after else -1)
            if after:
                self._far[side].setdefault(near, {})[far] = operator
            else:
                del self._far[side][near][far]

    def far(self, near: int, side: int) -> Mapping[int, str]:
        """Return the pairs that a pair `near` on a side (`LEFT`, `RIGHT`) is compared with, and
        their operators.
        """
        return self._far[side].get(near, _NONE)

    def near(self, pairs: Column, side: int) -> Column:
        """Return a mask of the pairs whose texts are compared on a side (`LEFT`, `RIGHT`)."""
        known = [pair for pair, far in self._far[side].items() if far]
        found: Column = np.isin(pairs, known)
        return found

    def of_role(self, role: TextRole) -> Mapping[int, int]:
        """Return the pairs whose texts have a role, each with the number of its comparisons."""
        return self._roles.get(role, _NONE)
