"""Sequences by dynamic programming: the cheapest way to put parentheses.

E1;E2 is associative (not commutative), so every sub-sequence has a cheapest form, found from those
of its parts (Schultz-Møller, Migliavacca and Pietzuch 2009, section 4.3 and Figure 5).  In Figure 5
``j=i+l`` is one too many; Figure 6 has ``j=i+l-1``, as here.

Differs from Figure 5: it keeps the cheapest form of each sub-sequence only.  But what a sequence
costs above depends on its bursts as well, so a form that costs more may be the better part:
`optimal_next` keeps those with smaller bursts or other burst rates, too.  `choices` are the steps
of the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from cep_core.rewrite.cost import Estimate, followed

Tree = TypeVar("Tree")
_MOST_KEPT = 24  # forms of a sub-sequence


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


def figure_5(
    operands: Sequence[Tree], estimates: Sequence[Estimate], join: Callable[[Tree, Tree], Tree]
) -> Tree:
    """Return the form of a sequence of operands that the algorithm of Figure 5 finds."""
    count = len(operands)
    made = list(operands)
    for choice, _ in choices(estimates):
        left = made[index_of(choice.first, choice.best, count)]
        right = made[index_of(choice.best + 1, choice.last, count)]
        made.append(join(left, right))
    return made[-1]


def optimal_next(
    operands: Sequence[Tree], estimates: Sequence[Estimate], join: Callable[[Tree, Tree], Tree]
) -> Tree:
    """Return the cheapest form of a sequence of operands."""
    count = len(operands)
    forms = {
        (place, place): [(found, operand)]
        for place, (found, operand) in enumerate(zip(estimates, operands, strict=True))
    }
    for length in range(2, count + 1):
        for first in range(count - length + 1):
            last = first + length - 1
            made = [
                (followed(one, other), join(left, right))
                for middle in range(first, last)
                for one, left in forms[first, middle]
                for other, right in forms[middle + 1, last]
            ]
            forms[first, last] = _promising(made)
    return min(forms[0, count - 1], key=lambda form: form[0].cost)[1]


def _promising(made: Sequence[tuple[Estimate, Tree]]) -> list[tuple[Estimate, Tree]]:
    """Return the forms that may be part of the cheapest whole.

    All have one rate and one detection time.  A form with smaller bursts may be worth its cost; so
    may one with other burst rates.
    """
    kept: list[tuple[Estimate, Tree]] = []
    for form in sorted(made, key=lambda one: one[0].cost):
        found = form[0]
        better = any(
            one.burst_size <= found.burst_size and one.burst_rate == found.burst_rate
            for one, _ in kept
        )
        if not better:
            kept.append(form)
    return kept[:_MOST_KEPT]
