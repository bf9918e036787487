"""`rumor`: Figures 5.8 to 5.10 of Hong 2009, event patterns and hybrid queries with shared plans.

Workloads 1 and 2 exercise the predicate, AN- and AI-indexes: `rules on` is
everything, `rules off` shares nothing and has no index.  Workload 3 is asked
over sharable streams S1, S2, ...: `channels` is everything, `no channels` lacks
the c_ rules.  Both sides take the same events; one event of workload 3 belongs
to all the S_i and counts as one.

Both sides deliver a match to each of its queries, which no channel can save;
RUMOR emitted one channel tuple instead.  So workload 3 is shown at two densities.
In the default domain of 1,000 values up to 0.4 of the queries match a T event;
in one of 100,000 values the work of the plan dominates.
Each window that is drawn is registered on every S_i.

The hybrid queries are Query 2 over generated loads of 104 processes, smoothed
over 60 s; starting conditions are arithmetic, so that no index can hold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from benchmarks.event_workloads import (
    ALL,
    NOTHING,
    PROCESSES,
    Mode,
    Operator,
    Side,
    Table53,
    Workload,
    hybrid,
    raced,
    verified,
    without,
    workload_1,
    workload_2,
    workload_3,
)
from benchmarks.harness import Options, Row, Value, growth_row, module_profile

NAME = "rumor"
SEED = 2009
PARTS = 5
RULES: Mapping[str, Mode] = {"rules on": ALL, "rules off": NOTHING}
CHANNELS: Mapping[str, Mode] = {"channels": ALL, "no channels": without("share_channels")}
OPERATORS: tuple[Operator, ...] = get_args(Operator)
CAPACITIES = (10, 20, 50)
SPARSE = 100_000


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of a run."""

    queries_1: tuple[int, ...]  # of workload 1
    baseline_1: int  # up to so many queries rules off is measured, too
    queries_2: tuple[int, ...]
    baseline_2: int
    queries_3: int
    dense: tuple[int, ...]  # capacities at the default domain
    domains: tuple[int, ...]
    zipfs: tuple[float, ...]
    events: int
    hybrids: tuple[int, ...]
    selectivities: tuple[float, ...]
    seconds: int  # of processor loads


QUICK = Plan(
    queries_1=(1_000, 10_000),
    baseline_1=1_000,
    queries_2=(10, 100, 1_000),
    baseline_2=100,
    queries_3=1_000,
    dense=(10,),
    domains=(),
    zipfs=(),
    events=900,
    hybrids=(1, 10, 50),
    selectivities=(0.0, 0.2, 0.6, 1.0),
    seconds=48,
)
FULL = Plan(
    queries_1=(1_000, 10_000, 100_000),
    baseline_1=1_000,
    queries_2=(10, 100, 1_000, 10_000),
    baseline_2=1_000,
    queries_3=1_000,
    dense=CAPACITIES,
    domains=(100, 1_000, 10_000),
    zipfs=(1.2, 1.5, 1.8, 2.0),
    events=12_000,
    hybrids=(1, 10, 20, 50, 100),
    selectivities=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    seconds=180,
)


def run(options: Options) -> Iterator[Row]:
    """Yield the points of all three figures."""
    plan = QUICK if options.quick else FULL
    if options.profile:
        yield from _profiles(plan)
    verify()
    yield from _workload_1(plan)
    for operator in OPERATORS:
        yield from _workload_2(operator, plan)
    for operator in OPERATORS:
        yield from _workload_3(operator, plan)
    yield from _hybrid(plan)


def verify() -> int:
    """Return the number of matches of small workloads, equal for all modes of sharing."""
    table = Table53(domain=20)
    small = {"workload 1": workload_1(100, 400, table, SEED)}
    for operator in OPERATORS:
        small[f"workload 2 {operator}"] = workload_2(operator, 20, 300, table, SEED)
        small[f"workload 3 {operator}"] = workload_3(operator, 40, 4, 200, table, SEED)
    small["hybrid"] = hybrid(3, 0.5, 30, SEED)
    modes = {**RULES, "no channels": CHANNELS["no channels"]}
    return sum(verified(workload, modes, what) for what, workload in small.items())


# -- Figures 5.8 and 5.9 -------------------------------------------------------------------


def _workload_1(plan: Plan) -> Iterator[Row]:
    costs = []
    for queries in plan.queries_1:
        modes = _affordable(queries <= plan.baseline_1)
        workload = workload_1(queries, plan.events, Table53(), SEED)
        for row in _points(_named("5.8a", "workload 1", queries), workload, modes, plan.events):
            costs += _cost(row)
            yield row
    yield growth_row(NAME, {"template": "workload 1"}, plan.queries_1, costs)
    for domain in plan.domains:
        workload = workload_1(1_000, plan.events, Table53(domain=domain), SEED)
        parameters = _named("5.8b", "workload 1", 1_000) | {"domain": domain}
        yield from _points(parameters, workload, RULES, plan.events)
    for zipf in plan.zipfs:
        workload = workload_1(1_000, plan.events, Table53(zipf=zipf), SEED)
        parameters = _named("5.8d", "workload 1", 1_000) | {"zipf": zipf}
        yield from _points(parameters, workload, RULES, plan.events)


def _workload_2(operator: Operator, plan: Plan) -> Iterator[Row]:
    costs = []
    for queries in plan.queries_2:
        modes = _affordable(queries <= plan.baseline_2)
        workload = workload_2(operator, queries, plan.events, Table53(), SEED)
        parameters = _named(
            "5.9a" if operator == ";" else "5.9b", f"workload 2 {operator}", queries
        )
        for row in _points(parameters, workload, modes, plan.events):
            costs += _cost(row)
            yield row
    yield growth_row(NAME, {"template": f"workload 2 {operator}"}, plan.queries_2, costs)


def _workload_3(operator: Operator, plan: Plan) -> Iterator[Row]:
    """Yield the gain of channels by capacity and by how often anything matches."""
    for domain, capacities in ((Table53().domain, plan.dense), (SPARSE, CAPACITIES)):
        for capacity in capacities:
            table = Table53(domain=domain)
            workload = workload_3(operator, plan.queries_3, capacity, plan.events, table, SEED)
            parameters = _named("5.9d", f"workload 3 {operator}", len(workload.queries))
            parameters |= {"capacity": capacity, "domain": domain}
            yield from _points(parameters, workload, CHANNELS, plan.events)


# -- Figure 5.10 ---------------------------------------------------------------------------


def _hybrid(plan: Plan) -> Iterator[Row]:
    """Yield the rates of hybrid queries by their number, and by selectivity at ten of them."""
    events = plan.seconds * PROCESSES
    for queries in plan.hybrids:
        workload = hybrid(queries, 0.5, plan.seconds, SEED)
        parameters = _named("5.10a", "hybrid", queries) | {"selectivity": 0.5}
        yield from _points(parameters, workload, CHANNELS, events)
    for selectivity in plan.selectivities:
        workload = hybrid(10, selectivity, plan.seconds, SEED)
        parameters = _named("5.10b", "hybrid", 10) | {"selectivity": selectivity}
        yield from _points(parameters, workload, CHANNELS, events)


def _profiles(plan: Plan) -> Iterator[Row]:
    """Yield profiles by workload."""
    events, table = plan.events, Table53()
    profiles = {
        "workload 1": workload_1(plan.queries_1[-1], events, table, SEED),
        "workload 2 ;": workload_2(";", 100, events, table, SEED),
        "workload 2 μ": workload_2("μ", 100, events, table, SEED),
        "workload 3 ;": workload_3(";", plan.queries_3, 10, events, table, SEED),
        "hybrid": hybrid(10, 0.5, plan.seconds, SEED),
    }
    for template, workload in profiles.items():
        side = Side(workload)
        side.load()
        yield module_profile(NAME, {"template": template}, side.push, len(workload.events))


# -- Rows ----------------------------------------------------------------------------------


def _affordable(baseline: bool) -> Mapping[str, Mode]:
    return RULES if baseline else {"rules on": ALL}


def _named(figure: str, template: str, queries: int) -> dict[str, Value]:
    return {"figure": figure, "template": template, "subscriptions": queries}


def _points(
    parameters: dict[str, Value], workload: Workload, modes: Mapping[str, Mode], events: int
) -> Iterator[Row]:
    """Yield a row for each mode; `ratio` is against the last mode, if there are two."""
    sides = {mode: Side(workload, how) for mode, how in modes.items()}
    for side in sides.values():
        side.load()
    spent, matches = raced(sides, events, PARTS, f"{parameters}")
    baseline = list(modes)[-1]
    for mode, side in sides.items():
        stats = side.engine.stats()
        figures: dict[str, Value] = {
            "events_per_s": 1 / spent[mode],
            "ratio": spent[baseline] / spent[mode],
            "matches": matches,
            "events": events,
            "mops": stats["mops"],
            "instances": stats["instances"],
            "registrations_per_s": side.registrations_per_s,
        }
        if len(sides) == 1:
            del figures["ratio"]
        yield Row(NAME, parameters | {"mode": mode}, figures)


def _cost(row: Row) -> list[float]:
    """Return the seconds for an event if the row is of the whole plan."""
    return (
        [1 / float(str(row.figures["events_per_s"]))]
        if row.parameters["mode"] == "rules on"
        else []
    )
