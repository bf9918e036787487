"""Sequences by dynamic programming: the cheapest way to put parentheses.

E1;E2 is associative (not commutative), so every sub-sequence has a cheapest form, found from those
of its parts (Schultz-Møller, Migliavacca and Pietzuch 2009, section 4.3 and Figure 5).  In Figure 5
``j=i+l`` is one too many; Figure 6 has ``j=i+l-1``, as here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from cep_core.rewrite.cost import Estimate, followed

Tree = TypeVar("Tree")


def index_of(first: int, last: int, count: int) -> int:
    """Return where the list has the cheapest form of operands ``first`` to ``last``.

    The list has all forms of length 1, then all of length 2, and so on.
    """
    length = last - first + 1
    shorter = sum(count - shorter + 1 for shorter in range(1, length))
    return shorter + first


class Choice(NamedTuple):
    """A step of the algorithm: the forms of a sub-sequence, and which of them is cheapest."""

    first: int
    last: int
    costs: tuple[float, ...]  # for each place to split, from the left
    best: int


def choices(estimates: Sequence[Estimate]) -> Iterator[tuple[Choice, list[Estimate]]]:
    """Yield the steps, shorter sub-sequences first, with the list as it is before each."""
    count = len(estimates)
    found = list(estimates)
    for length in range(2, count + 1):
        for first in range(count - length + 1):
            last = first + length - 1
            forms = [
                followed(
                    found[index_of(first, middle, count)], found[index_of(middle + 1, last, count)]
                )
                for middle in range(first, last)
            ]
            costs = tuple(form.cost for form in forms)
            best = costs.index(min(costs))
            yield Choice(first, last, costs, first + best), found
            found.append(forms[best])


def optimal_next(
    operands: Sequence[Tree], estimates: Sequence[Estimate], join: Callable[[Tree, Tree], Tree]
) -> Tree:
    """Return the cheapest form of a sequence of operands."""
    count = len(operands)
    made = list(operands)
    for choice, _ in choices(estimates):
        left = made[index_of(choice.first, choice.best, count)]
        right = made[index_of(choice.best + 1, choice.last, count)]
        made.append(join(left, right))
    return made[-1]
