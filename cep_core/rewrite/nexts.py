"""Sequences by dynamic programming: the cheapest way to put parentheses.

E1;E2 is associative (not commutative), so every sub-sequence has a cheapest form, found from those
of its parts (Schultz-Møller, Migliavacca and Pietzuch 2009, section 4.3 and Figure 5).  In Figure 5
``j=i+l`` is one too many; Figure 6 has ``j=i+l-1``, as here.

Differs from Figure 5: it keeps the cheapest form of each sub-sequence only.  But what a sequence
costs above depends on its bursts as well, so a form that costs more may be the better part:
`optimal_next` keeps those with smaller bursts or other burst rates, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cep_core.rewrite.cost import Estimate, followed

Tree = TypeVar("Tree")
MOST_KEPT = 24  # forms of a sub-sequence


def optimal_next(
    operands: Sequence[Tree],
    estimates: Sequence[Estimate],
    join: Callable[[Tree, Tree], Tree],
    most_kept: int = MOST_KEPT,
) -> Tree:
    """Return the cheapest form of a sequence of operands, found from so many of each part.

    With one form of each part it is the algorithm of Figure 5.
    """
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
            forms[first, last] = _promising(made)[:most_kept]
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
    return kept
