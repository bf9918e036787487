"""`sase`: Figures 8, 9, 11 and 12 of Wu, Diao and Rizvi 2006, scanning for sequences.

- `construction` (Figures 8 and 9): active instance stacks against the basic algorithm, without
  predicates; the number of types stands for the domain V1 of an equivalence test, as in the paper.
  `basic` adds a cell to its stack for each event of the stream, as the paper's automaton does;
  `basic, own types` sees only the three types of the query, which is more than the paper gave it.
  Scope `scan` is the time in scan and construction.  Scope `end_to_end` adds intake of events and
  delivery of results, which cost Python as much as the stacks and dilute the ratio.  Scope `rows`
  is end to end with results read as rows (`Engine.take` and `rows`), not as ordered matches.
- `length` (Figure 11): at V1 = 100 as the paper, and at equal matches per event.
- `domain` (Figure 12): one test and two, everything pushed down.
- `memory`: rows on the stacks after each of ten windows.

The paper compares with TelegraphCQ in Figures 11 and 12; that is not done again.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.harness import REPEATS, Options, Row, Value, exponent
from benchmarks.runtime_stack import BASIC
from benchmarks.sase_workload import (
    TYPES,
    WINDOW,
    Side,
    Table1,
    alternating,
    domain_for,
    events,
    query,
    scanning,
    side,
    simulated,
    stage_shares,
    warmed,
)

NAME = "sase"


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of a run."""

    batch: int  # events of a measurement
    domains: tuple[int, ...]  # of construction
    windows: tuple[int, ...]
    sparse: int  # the domain at which windows are varied
    tested: tuple[int, ...]  # domains of the first of two tests
    lengths: tuple[int, ...]
    equal: float  # matches per event at all lengths
    windows_kept: int


QUICK = Plan(3_000, (100, 1_000), (10_000, 20_000), 1_000, (50, 500), (2, 3, 6), 0.05, 10)
FULL = Plan(
    batch=10_000,
    domains=(100, 300, 1_000, 3_000, 10_000),
    windows=(10_000, 20_000, 50_000, 100_000),
    sparse=10_000,
    tested=(10, 50, 100, 500, 1_000, 10_000),
    lengths=(2, 3, 4, 5, 6),
    equal=0.05,
    windows_kept=10,
)


def run(options: Options) -> Iterator[Row]:
    """Yield the points of all figures."""
    plan = QUICK if options.quick else FULL
    if options.profile:
        yield from profile(plan.batch)
    for domain in plan.domains:
        yield from construction(domain, WINDOW, plan.batch)
    by_window: list[Row] = []
    for window in plan.windows:
        by_window += (rows := list(construction(plan.sparse, window, plan.batch)))
        yield from rows
    yield from growth(by_window)
    yield from lengths(plan)
    for domain in plan.tested:
        yield from domains(domain, plan.batch)
    yield from memory(plan.windows_kept)


def construction(domain: int, window: int, batch: int) -> Iterator[Row]:
    """Yield active instance stacks against the basic algorithm (Figures 8 and 9)."""
    length = 3
    table = Table1(simulated(TYPES, domain, length), (domain, 20))
    taken = events(table, window + 3 * REPEATS * batch)
    text = query(length, window)
    sides = {
        "ais": side(table, text, taken),
        "basic": side(table, text, taken, BASIC),
        "basic, own types": side(table, text, taken, BASIC, one_stream=False),
    }
    warmed(sides, window)
    before = {name: one.matches for name, one in sides.items()}
    whole = medians(sides, batch)
    busy = {name: statistics.median(one.cpu[-REPEATS:]) for name, one in sides.items()}
    scan: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(REPEATS):
        for name, one in sides.items():
            scan[name].append(scanning(one, batch))
    as_rows: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(REPEATS):
        for name, one in sides.items():
            one.take(batch, rows=True)
            as_rows[name].append(one.cpu[-1])
    read = {name: statistics.median(spent) for name, spent in as_rows.items()}
    scans = {name: statistics.median(spent) for name, spent in scan.items()}
    for scope, spent in (("scan", scans), ("end_to_end", whole), ("rows", read)):
        for name, one in sides.items():
            parameters: dict[str, Value] = {
                "experiment": "construction",
                "scope": scope,
                "variant": name,
                "V1": domain,
                "window": window,
                "types": table.types,
            }
            figures: dict[str, Value] = {
                "events_per_s": batch / spent[name],
                "milliseconds": 1_000 * spent[name],
                "matches": one.matches - before[name],
                "ratio": spent[name] / spent["ais"],
            }
            if scope == "end_to_end":
                figures["cpu_ratio"] = busy[name] / busy["ais"]
            if scope == "rows":
                figures["cpu_ratio"] = figures["ratio"]
            yield Row(NAME, parameters, figures)


def growth(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the exponents of the cost of scan and construction against the window."""
    for variant in ("ais", "basic", "basic, own types"):
        points = [
            (row.parameters["window"], row.figures["milliseconds"])
            for row in rows
            if (row.parameters["variant"], row.parameters["scope"]) == (variant, "scan")
        ]
        windows = [float(window) for window, _ in points if isinstance(window, int)]
        costs = [cost for _, cost in points if isinstance(cost, float)]
        if len(windows) > 1:
            parameters: dict[str, Value] = {"experiment": "growth", "variant": variant}
            yield Row(NAME, parameters, {"exponent": exponent(windows, costs)})


def profile(batch: int) -> Iterator[Row]:
    """Yield the profile of a sequence of three: shares by stage."""
    table = Table1(TYPES, (100, 20))
    taken = events(table, WINDOW + batch)
    one = side(table, query(3, WINDOW, ("attr1",)), taken)
    one.take(WINDOW)
    shares = stage_shares(one, batch)
    yield Row(NAME, {"experiment": "profile", "length": 3, "V1": 100}, dict(shares))


def lengths(plan: Plan) -> Iterator[Row]:
    """Yield the rate by length of the sequence (Figure 11)."""
    for what in ("V1 = 100", "equal matches"):
        sides: dict[str, Side] = {}
        chosen: dict[str, tuple[int, int]] = {}
        for length in plan.lengths:
            domain = 100 if what == "V1 = 100" else domain_for(plan.equal, length)
            if length > 4 and what == "V1 = 100":
                continue  # millions of results in a window: their delivery would be measured
            table = Table1(TYPES, (domain, 20))
            taken = events(table, WINDOW + REPEATS * plan.batch)
            name = f"L = {length}"
            chosen[name] = (length, domain)
            sides[name] = side(table, query(length, WINDOW, ("attr1",)), taken)
        for one in sides.values():
            one.take(WINDOW)
        matches = {name: one.matches for name, one in sides.items()}
        spent = medians(sides, plan.batch)
        shortest = spent[f"L = {plan.lengths[0]}"]
        for name, one in sides.items():
            length, domain = chosen[name]
            yield Row(
                NAME,
                {"experiment": "length", "variant": what, "length": length, "V1": domain},
                {
                    **rates(one, plan.batch, spent[name]),
                    "matches_per_event": (one.matches - matches[name]) / (REPEATS * plan.batch),
                    "ratio": shortest / spent[name],
                },
            )


def domains(domain: int, batch: int) -> Iterator[Row]:
    """Yield the rate with one test and with two (Figure 12)."""
    table = Table1(TYPES, (domain, 20))
    taken = events(table, WINDOW + REPEATS * batch)
    sides = {
        "1 test": side(table, query(3, WINDOW, ("attr1",)), taken),
        "2 tests": side(table, query(3, WINDOW, ("attr1", "attr2")), taken),
    }
    for one in sides.values():
        one.take(WINDOW)
    matches = {name: one.matches for name, one in sides.items()}
    spent = medians(sides, batch)
    for name, one in sides.items():
        yield Row(
            NAME,
            {"experiment": "domain", "variant": name, "V1": domain},
            {
                **rates(one, batch, spent[name]),
                "matches_per_event": (one.matches - matches[name]) / (REPEATS * batch),
                "ratio": spent["1 test"] / spent[name],
            },
        )


def memory(windows: int, window: int = WINDOW) -> Iterator[Row]:
    """Yield the kept rows after each of some windows."""
    table = Table1(TYPES, (100, 20))
    one = side(table, query(3, window, ("attr1",)), events(table, windows * window))
    for number in range(1, windows + 1):
        one.take(window)
        yield Row(
            NAME,
            {"experiment": "memory", "window": window, "windows": number},
            {"instances": one.engine.stats()["instances"], "matches": one.matches},
        )


def rates(one: Side, batch: int, seconds: float) -> dict[str, Value]:
    """Return the rate by wall time, and by processor time, which excludes other processes."""
    busy = statistics.median(one.cpu[-REPEATS:])
    return {"events_per_s": batch / seconds, "cpu_events_per_s": batch / busy}


def medians(sides: Mapping[str, Side], batch: int) -> dict[str, float]:
    """Return the median seconds of a batch, the sides taking turns."""
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for name, seconds in alternating(sides, batch, REPEATS):
        spent[name].append(seconds)
    return {name: statistics.median(found) for name, found in spent.items()}
