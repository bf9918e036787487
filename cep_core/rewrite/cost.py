"""The cost of patterns, and the cheapest forms of sequences and unions.

Schultz-Møller, Migliavacca and Pietzuch 2009, section 4.2, Table 1, and section 4.3.  The cost
model has rates, detection times and bursts of operators.  Rates are the worst case: predicates are
thought to let everything pass.  Costs are events handled in a second, and compare patterns with one
another; they are no processor time.  An iteration has no bound and so no cost.

Differs from Table 1: the burst size of a union is printed as b_size(E1) b_rate(E1) + b_size(E2)
b_rate(E2), which is a rate; the mean size of its bursts is that divided by its burst rate.

Sequences by dynamic programming: E1;E2 is associative (not commutative), so every sub-sequence has
a cheapest form, found from those of its parts (Figure 5).  In Figure 5 ``j=i+l`` is one too many;
Figure 6 has ``j=i+l-1``, as here.  Differs from Figure 5: it keeps the cheapest form of each
sub-sequence only.  But what a sequence costs above depends on its bursts as well, so a form that
costs more may be the better part: `optimal_next` keeps those with smaller bursts or other burst
rates, too.

Unions by Huffman, the rarest alternatives the deepest: E1|E2 is commutative and associative, and an
event passes every union between its source and the root.  So the cost of a tree is the sum of rate
times depth, as in an optimal prefix code (Figure 3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeAlias, TypeVar

from cep_core.algebra.pattern_tree import Chain, Choice, One, PatternTree

Tree = TypeVar("Tree")
StreamRates: TypeAlias = Mapping[str, float]  # events in a second, by stream


class Estimate(NamedTuple):
    """The estimate of an operator: rate μ, time DT between its events, bursts, and cost.

    Rates are in events or bursts a second, times in seconds, the cost in events handled a second.
    The cost includes that of all operators below it.
    """

    rate: float
    time: float
    burst_size: float
    burst_rate: float
    cost: float = 0.0


def of_source(rate: float) -> Estimate:
    """Return the estimate of a source: single events, as a Poisson process has them."""
    return Estimate(rate, 1 / rate, 1.0, rate)


def united(one: Estimate, other: Estimate) -> Estimate:
    """Return the estimate of E1|E2."""
    burst_rate = one.burst_rate + other.burst_rate
    handled = one.burst_size * one.burst_rate + other.burst_size * other.burst_rate
    rate = one.rate + other.rate
    cost = one.cost + other.cost + rate
    return Estimate(rate, 1 / burst_rate, handled / burst_rate, burst_rate, cost)


def followed(one: Estimate, other: Estimate) -> Estimate:
    """Return the estimate of E1;E2.

    Each E1 is handled; each burst of E2 meets the instances that have gathered since the last one;
    bursts of E2 beyond those of E1 are handled without an instance.
    """
    waiting = other.time / one.time * one.burst_size
    in_vain = max(other.burst_rate - one.burst_rate, 0) * other.burst_size
    own = one.rate + waiting * other.burst_size * other.burst_rate + in_vain
    return Estimate(
        one.rate,
        one.time + other.time,
        one.burst_size * one.burst_rate * other.time,
        1 / max(one.time, other.time),
        one.cost + other.cost + own,
    )


def estimate(tree: PatternTree, rates: Sequence[float | None]) -> Estimate | None:
    """Return the estimate of a pattern; None if it has no bound, or a rate is not known.

    ``rates`` are those of its components.
    """
    match tree:
        case One(component):
            rate = rates[component]
            return of_source(rate) if rate else None
        case Chain(parts) | Choice(parts) if parts:
            combine = followed if isinstance(tree, Chain) else united
            known = [estimate(part, rates) for part in parts]
            found = [one for one in known if one is not None]
            return reduce(combine, found) if len(found) == len(known) else None
        case _:
            return None


MOST_KEPT = 24  # forms of a sub-sequence


def optimal_next(
    operands: Sequence[Tree],
    estimates: Sequence[Estimate],
    join: Callable[[Tree, Tree], Tree],
    most_kept: int = MOST_KEPT,
) -> Tree:
    """Return the cheapest form of a sequence of operands; ``join`` makes the tree of two parts.

    Of each part at most ``most_kept`` forms are kept.  With one form of each it is the algorithm of
    Figure 5.
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


def optimal_union(
    operands: Sequence[tuple[float, Tree]], join: Callable[[Tree, Tree], Tree]
) -> Tree:
    """Return the cheapest tree of unions; operands come with their rates.

    The left operand of each union is the rarer one; of equal ones the one that came first.
    """
    queue = [(rate, place, tree) for place, (rate, tree) in enumerate(operands)]
    heapify(queue)
    made = len(queue)
    while len(queue) > 1:
        rate, _, left = heappop(queue)
        other, _, right = heappop(queue)
        heappush(queue, (rate + other, made, join(left, right)))
        made += 1
    return queue[0][2]
