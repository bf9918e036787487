"""`feed-patterns`: Figure 4.18 of Hong 2009, the four templates of Table 4.3 over feed items.

W and X are uniform over 415 websites and 100 popularities.  The last two
templates have no X: their subscriptions are 415 distinct ones, each registered
many times.  `witnesses` are distinct rows, `matches` deliveries to subscribers.

Items are generated in place of the paper's 26,623 from 415 websites; a series
lasts at most 100 events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks.event_workloads import (
    ALL,
    ITEMS,
    NOTHING,
    PATTERNS,
    Mode,
    Pattern,
    Result,
    Side,
    feed_patterns,
    raced,
    verified,
    whole,
    without,
)
from benchmarks.harness import Options, Row, Value, growth_row, module_profile, values
from cep_core import Match

NAME = "feed-patterns"
SEED = 415
PARTS = 5
MODES: dict[str, Mode] = {"all": ALL, "no channels": without("share_channels"), "none": NOTHING}


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of a run; ``budget`` bounds the seconds for loading any one engine further."""

    subscriptions: tuple[int, ...]
    items: int
    budget: float


QUICK = Plan((1_000, 10_000, 40_000), 2_000, 20)
FULL = Plan((10_000, 20_000, 30_000, 40_000), ITEMS, float("inf"))


def run(options: Options) -> Iterator[Row]:
    """Yield the rate of each template at each number of subscriptions, and its growth."""
    for pattern in PATTERNS:
        verify(pattern)
    for pattern in PATTERNS:
        yield from _sizes(pattern, QUICK if options.quick else FULL, options.profile)


def verify(pattern: Pattern, subscriptions: int = 200, items: int = 400) -> int:
    """Return the number of matches of a small run, equal for all modes of sharing."""
    return verified(feed_patterns(pattern, subscriptions, items, SEED), MODES, pattern)


def _sizes(pattern: Pattern, plan: Plan, profile: bool) -> Iterator[Row]:
    sizes = plan.subscriptions
    side = Side(feed_patterns(pattern, sizes[-1], plan.items * (len(sizes) + 1), SEED))
    costs: list[float] = []
    for size in sizes:
        parameters = values(figure="4.18", template=pattern, subscriptions=size)
        if not side.load_within(size, plan.budget):
            reason = f"would not be loaded within {plan.budget:g} s"
            yield Row(NAME, parameters, {"skipped": reason})
            break
        seen: set[Result] = set()
        spent, matches = raced({"": side}, plan.items, PARTS, pattern, partial(_noted, seen))
        costs.append(spent[""])
        stats = side.engine.stats()
        figures: dict[str, Value] = {
            "events_per_s": 1 / spent[""],
            "matches": matches,
            "witnesses": len(seen),
            "events": plan.items,
            "operators": stats["operators"],
            "mops": stats["mops"],
            "registrations_per_s": side.registrations_per_s,
        }
        yield Row(NAME, parameters, figures)
    if len(costs) > 1:
        yield growth_row(NAME, {"template": pattern}, sizes[: len(costs)], costs)
    if profile:
        parameters = {"template": pattern, "subscriptions": side.loaded}
        yield module_profile(NAME, parameters, side.push, plan.items)


def _noted(seen: set[Result], match: Match) -> Result:
    """Return the content of a match, after recording its row."""
    said = whole(match)
    seen.add(said[1:])
    return said
