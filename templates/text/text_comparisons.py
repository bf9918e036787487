"""Comparisons of two texts that an index answers: operators of edges beside `=` and `!=`.

The text of an operator is that of its edge in a join graph.  `contains` says that the left node's
text contains the right one's; `within contains` has the sides exchanged.  `jaccard > 0.6` compares
the sets of words of two texts, which stand between spaces.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from templates.model.join_graph import EXCHANGED

TextRole: TypeAlias = Literal["whole", "part", "words"]
"""The role of a text in a comparison; texts of one role share an index."""

PARTS: dict[str, Callable[[str, str], bool]] = {
    "contains": operator.contains,
    "starts-with": str.startswith,
    "ends-with": str.endswith,
}
BOUNDS: dict[str, Callable[[float, float], bool]] = {">": operator.gt, ">=": operator.ge}


def jaccard(one: Sized, other: Sized, common: int) -> float:
    """Return the share of common words in all words of two sets, 0 if both are empty."""
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
        """Return the role of the texts of one side."""
        if self.sign:
            return "words"
        return "whole" if left is not self.exchanged else "part"


@lru_cache(maxsize=1024)
def text_operator(text: str) -> TextOperator:
    """Return the operator of an edge."""
    exchanged = text.startswith(EXCHANGED)
    test, *bound = text.removeprefix(EXCHANGED).split()
    return (
        TextOperator(test, exchanged, bound[0], float(bound[1]))
        if bound
        else TextOperator(test, exchanged)
    )
