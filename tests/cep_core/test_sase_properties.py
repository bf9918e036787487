"""SASE against the second opinion: random queries, all rules and strategies, cuts and edges.

After each push the engine has put out exactly the results that end before the watermark, whatever
the rules; so timers and negated ends depend on time, not on the next event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep_core import ALL_RULES, Engine, Event, Match, Rule
from cep_core.dataflow.mop import MOp
from cep_core.operators.pattern.matching import PatternMatchMOp
from cep_core.operators.pattern.stacks import ActiveStacks
from tests.cep_core.sase_reference import (
    Condition,
    Either,
    Opposite,
    Over,
    Query,
    Same,
    matches,
    text,
)
from tests.cep_core.sase_strategies import (
    SCHEMAS,
    TYPES,
    Case,
    Company,
    cases,
    companies,
    happened,
)
from tests.cep_core.test_engine_properties import CONFIGURATIONS
from tests.examples import MORE, tried, until

USUAL = settings(
    max_examples=tried(40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
EDGES = ("at the edge of the window", "simultaneous events", "a result without a further event")
FEATURES = (
    *("any", "next", "strict", "partition", "run", "ANY", "negated start", "negated middle"),
    *("negated end", "several negations", "OR", "NOT", "aggregate", "RETURN", "interval", *EDGES),
    "a lacking equivalence",
)


def engine_for(case: Case, rules: Sequence[Any] = ALL_RULES) -> Engine:
    """Return an engine with the streams of a case."""
    core = Engine(1, rules=rules)
    for name, schema in SCHEMAS.items():
        core.stream(name, schema, lateness=case.lateness)
    return core


def bag(rows: Sequence[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Return rows as a multiset in which NaN equals NaN."""
    return Counter(tuple("NaN" if one != one else one for one in row) for row in rows)


def found_by(found: Sequence[Match]) -> list[tuple[Any, ...]]:
    """Return matches as rows (t0, t1, *values)."""
    return [(event.t0, event.t1, *event.values) for _, event in found]


def batches(case: Case) -> list[list[Event]]:
    """Return the events as they are pushed."""
    ends = [0, *case.cuts, len(case.events)]
    return [list(case.events[a:b]) for a, b in pairwise(ends)]


def features(case: Case, found: Sequence[tuple[Any, ...]]) -> set[str]:
    """Return the features of a case and of its results."""
    query = case.query
    items = query.items
    seen = {query.strategy}
    seen |= {"run"} if any(item.repeated for item in items) else set()
    seen |= {"ANY"} if any(len(item.types) > 1 for item in items) else set()
    seen |= {"negated start"} if items[0].negated else set()
    seen |= {"negated end"} if items[-1].negated else set()
    inner = [item for place, item in enumerate(items) if item.negated and _inside(query, place)]
    seen |= {"negated middle"} if inner else set()
    seen |= {"several negations"} if sum(item.negated for item in items) > 1 else set()
    shown = text(query)
    seen |= {"OR"} if any(isinstance(one, Either) for one in query.conditions) else set()
    seen |= (
        {"a lacking equivalence"} if any(_lacking(query, c) for c in query.conditions) else set()
    )
    seen |= {"NOT"} if any(isinstance(one, Opposite) for one in query.conditions) else set()
    seen |= (
        {"aggregate"}
        if any(f in shown for f in ("SUM(", "AVG(", "COUNT(", "MIN(", "MAX("))
        else set()
    )
    seen |= {"RETURN"} if any(isinstance(term, Over) for _, term in query.returned) else set()
    ends = [event.t1 for event in case.events]
    seen |= {"simultaneous events"} if len(set(ends)) < len(ends) else set()
    seen |= {"interval"} if any(event.t0 != event.t1 for event in case.events) else set()
    last = max((end for end in ends if end is not None), default=0)
    seen |= {EDGES[2]} if any(row[1] > last for row in found) else set()
    if query.window is not None and found:
        edge = [row for row in found if row[1] - row[0] == query.window - 1]
        seen |= {EDGES[0]} if edge else set()
    return seen


def _lacking(query: Query, condition: Condition) -> bool:
    """Return True if an equivalence test begins with events of which some lack the attribute."""
    if not isinstance(condition, Same) or condition.value is not None:
        return False
    has = [[condition.attribute in TYPES[name] for name in item.types] for item in query.positive]
    begins = next((one for one in has if any(one)), [])
    return not all(begins) and sum(map(any, has)) > 1


def _inside(query: Query, place: int) -> bool:
    before, after = query.items[:place], query.items[place + 1 :]
    return any(not one.negated for one in before) and any(not one.negated for one in after)


@pytest.mark.hypothesis
def test_the_engine_agrees_with_the_definitions() -> None:
    seen: Counter[str] = Counter()
    tried = worth = 0

    @given(cases(), st.sampled_from(list(CONFIGURATIONS.values())), st.booleans())
    @USUAL
    def agrees(case: Case, rules: tuple[Rule, ...], restored: bool) -> None:
        nonlocal tried, worth
        expected = matches(case.query, [happened(one) for one in case.events], TYPES)
        core = engine_for(case, rules)
        core.register("q", text(case.query), "sase")
        found: list[tuple[Any, ...]] = []
        clock = -100
        for batch in batches(case):
            found += found_by(core.push(batch))
            clock = max([clock, *[one.t1 for one in batch if one.t1 is not None]])
            due = [row for row in expected if row[1] < clock - case.lateness]
            assert bag(found) == bag(due)
            if restored:
                core = Engine.restore(core.snapshot(), rules=rules)
        middle = clock + 3
        found += found_by(core.advance(middle + case.lateness))
        assert bag(found) == bag([row for row in expected if row[1] < middle])
        found += found_by(core.close())
        assert bag(found) == bag(expected)
        tried += 1
        worth += bool(expected)
        seen.update(features(case, expected))

    agrees()
    until(lambda: all(seen[one] for one in FEATURES), agrees)
    assert worth * 3 >= tried, f"only {worth} of {tried} cases have results"
    assert not [one for one in FEATURES if not seen[one]], seen


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", ["alike", "selects", "runs"])
def test_queries_that_share_find_what_each_would_alone(kind: str) -> None:
    """Queries of one skeleton have the same stacks, and see what came since their registration.

    So have those of one shape with different constants: each sees what it selects.  Runs stand for
    all queries of their shape.
    """
    selects, runs = kind == "selects", kind == "runs"
    tried = worth = sharing = midway = selecting = 0

    @given(companies(selects, runs))
    @settings(USUAL, max_examples={"alike": 20, "selects": 40, "runs": 150}[kind] * MORE)
    def agrees(company: Company) -> None:
        nonlocal tried, worth, sharing, midway, selecting
        core = Engine(1)
        for name, schema in SCHEMAS.items():
            core.stream(name, schema)
        selects_apart = False
        found: list[list[tuple[Any, ...]]] = [[] for _ in company.queries]
        for at in range(len(company.events) + 1):
            for number, (query, (begin, end)) in enumerate(
                zip(company.queries, company.lives, strict=True)
            ):
                if at == begin < end:
                    core.register(str(number), text(query), "sase")
                if at == end > begin:
                    core.unregister(str(number))
            if at == company.restored:
                core = Engine.restore(core.snapshot())
            sharing += any(len(mop.operators) > 1 for mop in core.plan.mops)
            selects_apart |= any(map(_is_split, core.plan.mops))
            for query_name, event in core.push(company.events[at : at + 1]):
                found[int(query_name)].append((event.t0, event.t1, *event.values))
        for query_name, event in core.close():
            found[int(query_name)].append((event.t0, event.t1, *event.values))
        results = 0
        for number, (query, (begin, end)) in enumerate(
            zip(company.queries, company.lives, strict=True)
        ):
            seen = [happened(one) for one in company.events[begin:]]
            expected = matches(query, seen, TYPES)
            if end <= len(company.events):  # what was certain before it was removed
                clock = max([-100, *[one.t1 or 0 for one in company.events[:end]]])
                expected = [row for row in expected if row[1] < clock]
            assert bag(found[number]) == bag(expected if begin < end else [])
            results += len(expected)
            midway += bool(expected) and begin > 0
        tried += 1
        worth += results > 0
        selecting += selects_apart
        for name in core.queries:
            core.unregister(name)
        left = core.stats()
        assert left["mops"] == left["operators"] == left["instances"] == left["waiting"] == 0

    def enough() -> bool:
        return min(worth, worth if kind == "alike" else selecting) >= 8 and min(sharing, midway) > 0

    agrees()
    until(enough, agrees)
    assert enough(), f"of {tried}: {worth} have results, {selecting} share scans"


def _is_split(mop: MOp) -> bool:
    """Return True if a row or a run stands for some of several queries."""
    everyone = len(mop.operators)
    match mop:
        case ActiveStacks():
            masks = [mask for _, _, mask in mop._kept()]
        case PatternMatchMOp():
            masks = [run.mask for run in mop.runs()]
        case _:
            return False
    return any(mask.bit_count() < everyone for mask in masks)


BOUNDED = {
    "stacks": "EVENT SEQ(A a, B b, C c) WHERE [id] WITHIN 100",
    "negation": "EVENT SEQ(!A n, B b, !C c) WHERE [id] WITHIN 100",
    "runs": "EVENT SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) {[id]} WITHIN 100",
    "contiguity": "EVENT SEQ(A a, B+ b[]) WHERE partition_contiguity(a, b[]) {[id]} WITHIN 100",
}


@pytest.mark.parametrize("name", BOUNDED)
def test_what_is_kept_is_bounded_over_ten_windows(name: str) -> None:
    """Values that never come again are dropped, too: nobody looks at their partitions."""
    core = Engine(1)
    for stream, schema in SCHEMAS.items():
        core.stream(stream, schema)
    core.register("q", BOUNDED[name], "sase")
    counts = []
    for window in range(10):
        for tick in range(100 * window, 100 * window + 100):
            kind = "ABC"[tick % 7 % 3]
            value: tuple[Any, ...] = (tick // 5, 1.0, "a")
            core.push([Event(kind, value[: len(SCHEMAS[kind])], tick)])
        counts.append(core.stats()["instances"])
    assert max(counts[2:]) <= 1.5 * counts[1] + 10, counts
    assert core.advance(5_000) is not None
    assert core.stats()["instances"] == 0
