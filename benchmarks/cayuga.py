"""`cayuga`: Figures 4.13 and 4.14 of Hong 2009, the technical benchmark of Table 4.1.

Each template runs in one engine that is loaded up to each number of
subscriptions in turn.  The figures of time exclude loading, whose rate is shown
beside; a table `register` times one more subscription and its removal.

Figure 4.14 compares modes on Filter: `Cayuga` has no rules for channels, the
next three lack one technique of Table 4.2 each, `none` lacks all of them and
`all` none.  All modes read the same events.  A pattern of Table 4.1 hardly
ever matches, so the results of the modes are compared on a domain of two values first.

Differs from section 4.6.1: a point is measured on fewer events than 100,000.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.event_workloads import (
    ALL,
    INDEXES_OFF,
    NOTHING,
    TEMPLATES,
    Mode,
    Side,
    Table41,
    Template,
    cayuga,
    raced,
    verified,
    without,
)
from benchmarks.harness import Options, Row, Value, growth_row, module_profile, seconds, values

NAME = "cayuga"
SEED = 2007
PARTS = 5
MODES: Mapping[str, Mode] = {
    "all": ALL,
    "Cayuga": without("share_channels"),
    "no merging": without("share_channels", "common_subexpressions"),
    "no FR-index": without("share_channels", "index_predicates"),
    "no instance index": without("share_channels", options=INDEXES_OFF),
    "none": NOTHING,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of a run."""

    subscriptions: tuple[int, ...]
    events: int  # for each number of subscriptions
    modes: tuple[tuple[int, Sequence[str]], ...]  # subscriptions, and the modes to compare
    mode_events: int
    swept: int  # subscriptions while zipf_1 and the selectivity vary
    zipf_1: tuple[float, ...]
    selectivity: tuple[float, ...]
    registered: int  # subscriptions of the table `register`


QUICK = Plan(
    subscriptions=(500, 1_500),
    events=3_000,
    modes=((1_000, tuple(MODES)), (3_000, ("all", "none"))),
    mode_events=120,
    swept=200,
    zipf_1=(0.8, 1.4),
    selectivity=(0.5, 0.9),
    registered=1_000,
)
FULL = Plan(
    subscriptions=(100_000, 200_000, 300_000, 400_000),
    events=20_000,
    modes=tuple((size, tuple(MODES)) for size in (10_000, 20_000, 30_000, 40_000)),
    mode_events=240,
    swept=200_000,
    zipf_1=(0.8, 1.0, 1.2, 1.4),
    selectivity=(0.5, 0.6, 0.7, 0.8, 0.9),
    registered=100_000,
)


def run(options: Options) -> Iterator[Row]:
    """Yield the points of both figures, then the table of registration."""
    plan = QUICK if options.quick else FULL
    for template in TEMPLATES:
        verify(template)
    yield from _modes(plan)
    for template in TEMPLATES:
        yield from _sizes(template, plan, options.profile)
    for zipf in plan.zipf_1:
        yield _swept("4.13b", {"zipf_1": zipf}, Table41(zipf=(zipf, 1, 0.8)), plan)
    for share in plan.selectivity:
        yield _swept("4.13c", {"selectivity": share}, Table41(selectivity=share), plan)
    yield from _registration(plan)


def verify(template: Template, subscriptions: int = 25, events: int = 300) -> int:
    """Return the number of matches on a domain so small that there are many."""
    workload = cayuga(template, subscriptions, events, Table41(domain=2), SEED)
    return verified(workload, MODES, f"{template}, domain 2")


# -- Figure 4.13 ---------------------------------------------------------------------------


def _sizes(template: Template, plan: Plan, profile: bool) -> Iterator[Row]:
    """Yield the rates of a template at each number of subscriptions, and their growth."""
    sizes = plan.subscriptions
    events = plan.events * (len(sizes) + 1)
    side = Side(cayuga(template, sizes[-1], events, Table41(), SEED))
    costs: list[float] = []
    for size in sizes:
        parameters = values(figure="4.13a", template=template, subscriptions=size, mode="all")
        side.load(size)
        row, cost = _measured(side, parameters, plan.events)
        costs.append(cost)
        yield row
    parameters = {"figure": "4.13a", "template": template}
    yield growth_row(NAME, parameters, sizes, costs)
    if profile:
        parameters |= {"subscriptions": sizes[-1]}
        yield module_profile(NAME, parameters, side.push, plan.events)


def _swept(figure: str, varied: dict[str, Value], table: Table41, plan: Plan) -> Row:
    side = Side(cayuga("Filter", plan.swept, plan.events, table, SEED))
    side.load()
    parameters = values(figure=figure, template="Filter", subscriptions=plan.swept, mode="all")
    return _measured(side, parameters | varied, plan.events)[0]


def _measured(side: Side, parameters: dict[str, Value], events: int) -> tuple[Row, float]:
    """Return the row of one engine, and the seconds for an event."""
    spent, matches = raced({"": side}, events, PARTS, "")
    figures: dict[str, Value] = {"events_per_s": 1 / spent[""]}
    return Row(NAME, parameters, figures | _loaded(side, matches, events)), spent[""]


def _loaded(side: Side, matches: int, events: int) -> dict[str, Value]:
    stats = side.engine.stats()
    return {
        "matches": matches,
        "events": events,
        "operators": stats["operators"],
        "mops": stats["mops"],
        "instances": stats["instances"],
        "registrations_per_s": side.registrations_per_s,
    }


# -- Figure 4.14 ---------------------------------------------------------------------------


def _modes(plan: Plan) -> Iterator[Row]:
    """Yield the modes of Table 4.2 on Filter; `ratio` is against `none` on the same events."""
    size = plan.modes[-1][0]
    workload = cayuga("Filter", size, plan.mode_events * len(plan.modes), Table41(), SEED)
    sides = {mode: Side(workload, how) for mode, how in MODES.items()}
    for size, modes in plan.modes:
        sides = {mode: sides[mode] for mode in modes}
        for side in sides.values():
            side.load(size)
        spent, matches = raced(sides, plan.mode_events, PARTS, f"modes at {size}")
        for mode, side in sides.items():
            parameters = values(figure="4.14", template="Filter", subscriptions=size, mode=mode)
            figures = values(events_per_s=1 / spent[mode], ratio=spent["none"] / spent[mode])
            yield Row(NAME, parameters, figures | _loaded(side, matches, plan.mode_events))


# -- Registration --------------------------------------------------------------------------


def _registration(plan: Plan) -> Iterator[Row]:
    """Yield the times of loading, of one more subscription, and of its removal."""
    size, more = plan.registered, 200
    workload = cayuga("Filter", size + more, 0, Table41(), SEED)
    side = Side(workload)
    side.load(size)
    parameters = values(
        table="register", template="Filter", subscriptions=size, mode="all", storage="memory"
    )
    loading = values(
        registrations_per_s=side.registrations_per_s, milliseconds=1000 / side.registrations_per_s
    )
    yield Row(NAME, parameters | {"action": "load"}, loading)
    later = workload.queries[size:]
    core = side.engine
    adding = [_took(partial(core.register, name, text)) for name, text in later]
    removing = [_took(partial(core.unregister, name)) for name, _ in later]
    for action, spent in (("add", adding), ("remove", removing)):
        figures = values(
            milliseconds=statistics.median(spent), p95_ms=statistics.quantiles(spent, n=20)[-1]
        )
        yield Row(NAME, parameters | {"action": action}, figures)


def _took(action: Callable[[], None]) -> float:
    return 1000 * seconds(action)
