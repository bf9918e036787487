"""The cost model of patterns: rates, detection times and bursts of their operators.

Schultz-Møller, Migliavacca and Pietzuch 2009, section 4.2 and Table 1.  Rates are the worst case:
predicates are thought to let everything pass.  Costs are events handled in a second, and compare
patterns with one another; they are no processor time.  An iteration has no bound and so no cost.

Differs from Table 1: the burst size of a union is printed as b_size(E1) b_rate(E1) + b_size(E2)
b_rate(E2), which is a rate; the mean size of its bursts is that divided by its burst rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias

from cep_core.algebra.pattern_tree import Chain, Choice, One, PatternTree

StreamRates: TypeAlias = Mapping[str, float]  # events in a second, by stream


class Estimate(NamedTuple):
    """The rate μ of an operator, the time DT between its events, its bursts, its cost.

    The cost is that of the operator and all below it.
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

    Each E1 is handled; each burst of E2 meets the instances that have gathered since the last; and
    what comes of E2 without any E1 before it is handled for nothing.
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
