"""SASE against the second opinion: random queries, all options and strategies, cuts and edges.

After each push the engine has put out exactly the results that end before the watermark, whatever
the options; so timers and negated ends depend on time, not on the next event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep_core import ALL_RULES, Engine, Event, Match, Options
from tests.cep_core.sase_reference import Either, Opposite, Over, Query, matches, text
from tests.cep_core.sase_strategies import SCHEMAS, TYPES, Case, cases, happened

USUAL = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
EDGES = ("at the edge of the window", "simultaneous events", "a result without a further event")
FEATURES = (
    *("any", "next", "strict", "partition", "run", "ANY", "negated start", "negated middle"),
    *("negated end", "several negations", "OR", "NOT", "aggregate", "RETURN", "interval", *EDGES),
)


def options() -> st.SearchStrategy[Options]:
    """Return any options of sequences."""
    scans = st.sampled_from(["auto", "basic", "ais", "pais", "multi-pais"])
    flags = [st.booleans() for _ in range(5)]
    return st.builds(Options, st.just(True), st.just(True), scans, *flags)


def engine_for(case: Case, chosen: Options, rules: Sequence[Any] = ALL_RULES) -> Engine:
    """Return an engine with the streams of a case."""
    core = Engine(1, options=chosen, rules=rules)
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
    """Return what occurs in a case, and what its results are about."""
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


def _inside(query: Query, place: int) -> bool:
    before, after = query.items[:place], query.items[place + 1 :]
    return any(not one.negated for one in before) and any(not one.negated for one in after)


def test_the_engine_agrees_with_the_definitions() -> None:
    seen: Counter[str] = Counter()
    tried = worth = 0

    @given(cases(), options(), st.booleans(), st.booleans())
    @USUAL
    def agrees(case: Case, chosen: Options, shared: bool, restored: bool) -> None:
        nonlocal tried, worth
        expected = matches(case.query, [happened(one) for one in case.events], TYPES)
        core = engine_for(case, chosen, ALL_RULES if shared else ())
        core.register("q", text(case.query), "sase")
        found: list[tuple[Any, ...]] = []
        clock = -100
        for batch in batches(case):
            found += found_by(core.push(batch))
            clock = max([clock, *[one.t1 for one in batch if one.t1 is not None]])
            due = [row for row in expected if row[1] < clock - case.lateness]
            assert bag(found) == bag(due)
            if restored:
                core = Engine.restore(core.snapshot(), rules=ALL_RULES)
        middle = clock + 3
        found += found_by(core.advance(middle + case.lateness))
        assert bag(found) == bag([row for row in expected if row[1] < middle])
        found += found_by(core.close())
        assert bag(found) == bag(expected)
        tried += 1
        if expected:
            worth += 1
            seen.update(features(case, expected))

    agrees()
    assert worth * 3 >= tried, f"only {worth} of {tried} cases have results"
    assert not [one for one in FEATURES if not seen[one]], seen
