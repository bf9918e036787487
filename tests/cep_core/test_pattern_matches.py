"""Patterns of SASE and EQL against their definition: programs, rules, cuts, lateness, restores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cep_core import ALL_RULES, Engine, Event, Match, QueryError, Rule
from cep_core.dataflow import mop
from cep_core.operators.pattern.matching import PatternMatchMOp
from cep_core.operators.pattern.stacks import ActiveStacks
from cep_core.operators.shared_runs import SharedRuns
from tests.cep_core.engines import engine_of
from tests.cep_core.pattern_reference import reported
from tests.cep_core.pattern_strategies import (
    SCHEMA,
    SCHEMAS,
    TYPES,
    Company,
    Program,
    companies,
    happened,
    programs,
)
from tests.cep_core.test_engine_properties import CONFIGURATIONS, holding
from tests.examples import demand, usually

FEW = holding(40).max_examples
USUAL = settings(
    holding(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def engine_for(case: Program, rules: Sequence[Any] = ALL_RULES) -> Engine:
    core = Engine(1, rules=rules)
    for name, schema in SCHEMAS.items():
        core.stream(name, schema, lateness=case.lateness)
    return core


def rows(found: Sequence[Match]) -> list[tuple[Any, ...]]:
    """Return matches as rows; the order within a run does not count."""
    return [
        (
            *(event.t0, event.t1),
            *(tuple(sorted(one)) if isinstance(one, tuple) else one for one in event.values),
        )
        for _, event in found
    ]


def expected(case: Program, events: Sequence[Event]) -> list[tuple[Any, ...]]:
    found = reported(case.query, [happened(one) for one in events])
    return [case.row(time, taken) for time, taken in found]


def configurations() -> st.SearchStrategy[tuple[Rule, ...]]:
    """Return all rules of sharing, none, or all but one."""
    return st.sampled_from(list(CONFIGURATIONS.values()))


def registered(core: Engine, name: str, case: Program) -> None:
    """Register a pattern; what the language refuses is no case."""
    try:
        core.register(name, case.text, case.language)
    except QueryError as error:
        assume("reads only what comes before it" not in str(error) and "in the" not in str(error))
        raise


FEATURES = {
    "sase": (
        *("skip_till_next", "strict_contiguity", "partition_contiguity", "ANY(", "SEQ(!", "!", "?"),
        *("NOT ", " OR ", " + 1)", "..i-1]", "[i-1]", "SUM(", "AVG(", "COALESCE(", "[k]", "[v]"),
        *("NONSTRICT", "AFTER MATCH", "UNTIL", "interval", "simultaneous", "edge", "timer"),
        *("SEQ(!(B x0) FOR", ") FOR 2", "FOR 1 AND !", "silence", "longest", "every (", "every B"),
        *("[].v * ", "[..i-1].v * "),
    ),
    "eql": ("FOR", "longest", "every"),
}


def features(case: Program, wanted: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """Yield the features of a case with matches, as its text or its events have them."""
    yield from (one for one in FEATURES[case.language] if one in case.text)
    ends = [event.t1 for event in case.events]
    if any(event.t0 != event.t1 for event in case.events):
        yield "interval"
    if len({*ends}) < len(ends):
        yield "simultaneous"
    if case.query.window is None and "FOR" in case.text:
        yield "silence"
    if any(time > max(end or 0 for end in ends) for _, time, *_ in wanted):
        yield "timer"
    if any(time - begin == (case.query.window or 0) - 1 for begin, time, *_ in wanted):
        yield "edge"


@pytest.mark.hypothesis
@pytest.mark.parametrize("cases", usually((FEW, 1_500), FEW))
@pytest.mark.parametrize("language", ["sase", "eql"])
def test_the_engine_agrees_with_the_definitions(language: str, cases: int) -> None:
    tried: Counter[str] = Counter()

    @given(programs(language=language), configurations(), st.booleans())
    @settings(USUAL, max_examples=cases)
    def agrees(case: Program, rules: tuple[Rule, ...], restored: bool) -> None:
        core = engine_for(case, rules)
        registered(core, "q", case)
        wanted = expected(case, case.events)
        ordered = any(
            mop.lane is not None for mop in core.plan.mops
        )  # one event is put out at once
        found: list[tuple[Any, ...]] = []
        clock = -100
        for a, b in pairwise([0, *case.cuts, len(case.events)]):
            batch = case.events[a:b]
            found += rows(core.push(batch))
            clock = max([clock, *[one.t1 for one in batch if one.t1 is not None]])
            due = [row for row in wanted if row[1] < clock - case.lateness]
            assert not ordered or Counter(found) == Counter(due)
            if restored:
                core = Engine.restore(core.snapshot(), rules=rules)
        found += rows(core.advance(clock + 3 + case.lateness))
        assert not ordered or Counter(found) == Counter(r for r in wanted if r[1] < clock + 3)
        found += rows(core.close())
        assert Counter(found) == Counter(wanted)
        tried.update(["cases", *(["found", *features(case, wanted)] if wanted else [])])

    agrees()
    demand(lambda: {*tried} >= {*FEATURES[language]}, agrees)
    assert tried["found"] >= (1 if cases == FEW else tried["cases"] / 3), tried


SHARING = [("sase", False), ("eql", False), ("sase", True)]


@pytest.mark.hypothesis
@pytest.mark.parametrize("cases", usually((FEW, 600), FEW))
@pytest.mark.parametrize(("language", "plain"), SHARING)
def test_patterns_that_share_find_what_each_would_alone(
    language: str, plain: bool, cases: int
) -> None:
    """Patterns of one shape are one m-op; each sees what came since its registration."""
    tried: Counter[str] = Counter()

    @given(companies(language, plain), configurations())
    @settings(USUAL, max_examples=cases)
    def agrees(company: Company, rules: tuple[Rule, ...]) -> None:
        first = company.programs[0]
        core = engine_for(first, rules)
        found: dict[str, list[Match]] = {str(at): [] for at in range(len(company.programs))}
        members = list(enumerate(zip(company.programs, company.lives, strict=True)))
        for at in range(len(first.events) + 1):
            for number, (case, (begin, end)) in members:
                if at == begin < end:
                    registered(core, str(number), case)
                if at == end > begin:
                    core.unregister(str(number))
            if at == company.restored:
                core = Engine.restore(core.snapshot(), rules=rules)
            runs = [mop for mop in core.plan.mops if isinstance(mop, SharedRuns)]
            tried["shared"] += any(len(mop.operators) > 1 for mop in runs)
            tried["apart"] += any(map(_is_split, runs))
            for match in core.push(first.events[at : at + 1]):
                found[match.query].append(match)
        for match in core.close():
            found[match.query].append(match)
        for number, (case, (begin, end)) in members:
            wanted = expected(case, first.events[begin:]) if begin < end else []
            got = rows(found[str(number)])
            if end <= len(first.events):  # what was certain before it was removed
                clock = max([-100, *[one.t1 or 0 for one in first.events[:end]]])
                wanted = [row for row in wanted if row[1] < clock]
                got = [row for row in got if row[1] < clock]
            assert Counter(got) == Counter(wanted)
            tried["found"] += bool(wanted)
        for name in core.queries:
            core.unregister(name)
        left = core.stats()
        assert left["mops"] == left["operators"] == left["instances"] == left["waiting"] == 0

    agrees()
    demand(lambda: min(tried["shared"], tried["found"], tried["apart"]) > 5, agrees)
    if cases > FEW:
        assert min(tried["shared"], tried["found"], 3 * tried["apart"]) > 100, tried
    assert tried["found"]


@pytest.mark.hypothesis
@pytest.mark.parametrize("language", ["sase", "eql"])
def test_what_is_kept_has_a_bound_for_each_query(language: str) -> None:
    """It acts for each as if it were alone, however events are cut, and after a restore."""
    tried: Counter[str] = Counter()

    def matches(cases: Sequence[Program], cuts: Sequence[int], restored: bool) -> list[list[Any]]:
        core = engine_for(cases[0])
        for number, case in enumerate(cases):
            registered(core, str(number), case)
        found: list[Match] = []
        for a, b in pairwise([0, *cuts, len(cases[0].events)]):
            found += core.push(cases[0].events[a:b])
            if restored:
                core = Engine.restore(core.snapshot())
        found += core.close()
        queries = [str(number) for number in range(len(cases))]
        tried["left out"] += any("left them out" in core.explain(query) for query in queries)
        return [rows([one for one in found if one.query == query]) for query in queries]

    @given(companies(language))
    @settings(USUAL, max_examples=holding(25).max_examples)
    def agrees(company: Company) -> None:
        cases = company.programs
        together = [*map(Counter, matches(cases, cases[0].cuts, False))]
        assert together == [Counter(matches([one], (), False)[0]) for one in cases]
        # Of simultaneous events that are matches alone, the order is that of the pushes.
        one_by_one = matches(cases, range(len(cases[0].events)), True)
        assert together == [*map(Counter, one_by_one)]
        for case, found in zip(cases, together, strict=True):
            if case.query.policy == "none":
                assert not found - Counter(expected(case, case.events))
            tried["found"] += bool(found)

    with pytest.MonkeyPatch.context() as small:
        small.setattr(mop, "KEPT", 40)
        small.setattr(mop, "FREE", 20)
        agrees()
        demand(lambda: min(tried["left out"], tried["found"]) > 5, agrees)


def _is_split(mop: SharedRuns) -> bool:
    """Return True if a row or a run stands for some of several queries."""
    match mop:
        case ActiveStacks():
            masks = [mask for _, _, mask in mop._kept()]
        case _:
            masks = [run.mask for run in cast(PatternMatchMOp, mop).runs()]
    return any(mask.bit_count() < len(mop.operators) for mask in masks)


def test_constants_and_windows_share_one_run() -> None:
    core = engine_of("AB", {"v": int})
    for at in range(100):
        text = (
            f"EVENT SEQ(A a, B{{1,2}} b[]) WHERE a.v > {at} WITHIN {at + 2} RETURN COUNT(b[]) AS n"
        )
        core.register(str(at), text, "sase")
    core.push([Event("A", (99,), 0), Event("B", (1,), 1)])
    core.advance(2)
    assert core.stats()["instances"] == 2  # A, and A with B
    assert "shared by 100 queries" in core.explain("0")


WITHIN = "WHERE FILTER(a.k = b.k), (a, b) OCCURS WITHIN 100 s"
BOUNDED = [
    "EVENT SEQ(A a, next B{1,3} greedy next b[], !C c) WHERE [k] WITHIN 100",
    "EVENT SEQ(A a, next B? b, C c) WITHIN 100 AFTER MATCH RESTART",
    "EVENT (A a AND B b AND !C c WITHIN 9) WHERE [k] WITHIN 100",
    "EVENT SEQ(A a, B+ greedy strict b[] UNTIL C c) WITHIN 100 AFTER MATCH NEWEST",
    "EVENT SEQ(A a, B b, C c) WHERE [k] WITHIN 100",
    "EVENT SEQ(!A n, B b, !C c) WHERE [k] WITHIN 100",
    "EVENT SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) {[k]} WITHIN 100",
    "EVENT SEQ(A a, B+ b[]) WHERE partition_contiguity(a, b[]) {[k]} WITHIN 100",
    f"SELECT * FROM A a ; B b {WITHIN}",
    "SELECT * FROM A a ; B b ; C c"
    " WHERE FILTER(a.k = b.k), FILTER(b.k = c.k), (a, c) OCCURS WITHIN 100 s",
    f"SELECT ALL(b.v) AS run FROM A a ; B b+ {WITHIN}",
    "EVENT SEQ(A a, !C z FOR 100) WHERE [k]",
    "EVENT SEQ(!C z FOR 50, A a)",
    "EVENT SEQ(A a, !B z FOR 100, next C c) WITHIN 200",
    "EVENT SEQ(A a, every (next B b, next C c)) WHERE [k] WITHIN 100",
    "EVENT A+ longest next a[] WHERE [k] WITHIN 100 AFTER MATCH SKIP PAST LAST",
    "SELECT * FROM A a @ 100 s",
    "SELECT * FROM (B b ; A a @ 100 s) WHERE FILTER(a.k = b.k)",
    rf"SELECT a.k FROM (A a ; B b @ 50 s) \ C c {WITHIN}",
    r"SELECT a.k FROM A a @ 100 s \ B b WHERE a.k = b.k",
]


@pytest.mark.parametrize("text", BOUNDED)
def test_what_is_kept_is_bounded_over_windows(text: str) -> None:
    """Values that never come again are dropped, too: nobody looks at their partitions."""
    core = engine_of(TYPES, SCHEMA)
    core.register("q", text, "sase" if text.startswith("EVENT") else "eql")
    counts = []
    for window in range(10):
        ticks = range(100 * window, 100 * window + 100)
        core.push([Event("ABC"[tick % 7 % 3], (tick, tick // 5, 1), tick) for tick in ticks])
        counts.append(core.stats()["instances"])
    least = 0 if "AFTER MATCH" in text else 10
    assert least < max(counts[2:]) <= 1.5 * counts[1] + 10, counts
    core.advance(5_000)
    assert core.stats()["instances"] == 0


@pytest.mark.parametrize(
    "items",
    [
        [f"(A? a{at} | !B b{at})" for at in range(30)],
        [f"(!A a{at} | !B b{at} | C c{at})" for at in range(20)],
        ["(" * 12 + "A a" + "){1,3}" * 12],
    ],
)
def test_a_pattern_with_too_many_ways_is_refused_soon(items: list[str]) -> None:
    core = engine_of(TYPES, SCHEMA)
    with pytest.raises(QueryError, match=r"the pattern (may go on in|has) more than"):
        core.register("q", f"EVENT SEQ({', '.join(items)}, B last) WITHIN 5", "sase")


@pytest.mark.parametrize(
    ("condition", "operators"),
    [("a.n = {0}", [3]), ("a.n = {0} AND b.n = {0}", [1, 1, 1]), ("a.n > {0}", [3])],
)
def test_patterns_with_a_wide_input_share_an_operator(condition: str, operators: list[int]) -> None:
    """An operator for each query would be fed with all rows of the wide input."""
    core = engine_of(("A", "B"), {"n": int})
    for number in range(3):
        text = f"EVENT SEQ(A a, B b) WHERE {condition.format(number)} AFTER MATCH SKIP TO NEXT"
        core.register(f"q{number}", text, "sase")
    kinds = [len(mop.operators) for mop in core.plan.mops if mop.kind == "pattern_match"]
    assert kinds == operators
    events = [Event("A", (2,), 1), Event("A", (1,), 2), Event("B", (1,), 3), Event("B", (2,), 4)]
    found = Counter(one.query for one in core.push(events) + core.close())
    wanted = {"a.n = {0}": [0, 1, 1], "a.n = {0} AND b.n = {0}": [0, 1, 1], "a.n > {0}": [2, 1, 0]}
    assert [found[f"q{number}"] for number in range(3)] == wanted[condition]


@pytest.mark.parametrize(
    ("text", "language", "found", "partitioned"),
    [
        # a row of one input would be of another partition as a than as b
        (
            "EVENT SEQ(t a, next t b) WHERE a.k = b.j RETURN a.n, b.n AS m",
            "sase",
            "01 12 25 45",
            False,
        ),
        (
            r"SELECT A.n, B.n AS m FROM (t A ; t B) \ u Z WHERE FILTER(A.k = B.j)",
            "eql",
            "01 12 45",
            False,
        ),
        # what ends a match is of its partition, and ends nothing before there is one
        (
            "EVENT t+ a[] UNTIL t z WHERE [k] RETURN a[1].n, a[last].n AS m",
            "sase",
            "00 11 22 44 55 66",
            True,
        ),
        (
            r"SELECT A.n, B.n AS m FROM (t A ; t B) \ u Z WHERE FILTER(A.k = B.k), Z.k = A.k",
            "eql",
            "24 46",
            True,
        ),
        (
            r"SELECT A.n, B.n AS m FROM (t A ; t B) \ u Z WHERE FILTER(A.k = B.k), Z.j = 0",
            "eql",
            "46",
            False,
        ),
    ],
)
def test_events_meet_the_matches_of_their_partition(
    text: str, language: str, found: str, partitioned: bool
) -> None:
    core = engine_of("tu", {"n": int, "k": int, "j": int})
    core.register("q", text, language)
    assert ("partitioned" in core.explain("q")) is partitioned
    rows = [
        ("t", 1, 9),
        ("t", 2, 1),
        ("t", 3, 2),
        ("u", 1, 0),
        ("t", 3, 1),
        ("t", 1, 3),
        ("t", 3, 3),
    ]
    events = [Event(name, (at, k, j), at) for at, (name, k, j) in enumerate(rows)]
    values = [match.event.values for match in core.push(events) + core.close()]
    assert " ".join(f"{a}{b}" for a, b in sorted(values)) == found


def test_an_event_ends_a_step_only_for_the_queries_that_select_it() -> None:
    core = engine_of("AB", {"v": int})
    for least in (2, 3):
        text = f"EVENT SEQ(A a, next B b) WHERE b.v >= {least} RETURN b.v"
        core.register(f"from {least}", text, "sase")
    assert [len(mop.operators) for mop in core.plan.mops if mop.kind == "pattern_match"] == [2]
    events = [Event("A", (1,), 0), Event("B", (2,), 1), Event("B", (3,), 2)]
    found = [(query, event.values) for query, event in [*core.push(events), *core.close()]]
    assert found == [("from 2", (2,)), ("from 3", (3,))]


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("mark", ["any", "next", "nearest", "strict"])
@pytest.mark.parametrize("together", [False, True])
def test_a_run_that_got_longer_is_not_the_longest(
    mark: str, together: bool, restored: bool
) -> None:
    """Also when UNTIL ends it later; of queries that share it for some only, and at one time."""
    core = engine_of(TYPES, {"v": int})
    for most in (1, 2):
        text = (
            f"EVENT A+ longest {mark} a[] UNTIL B z {'NONSTRICT' if together else ''}"
            f" WHERE a[i].v <= {most} WITHIN 20 RETURN LIST(a[].v) AS run"
        )
        core.register(f"up to {most}", text, "sase")
    found: list[Match] = []
    for type, v, at in (("A", 1, 1), ("A", 2, 1 if together else 2), ("B", 0, 3)):
        found += core.push([Event(type, (v,), at)])
        if restored and not together:
            core = Engine.restore(core.snapshot())
    got = sorted((query, event.values[0]) for query, event in [*found, *core.close()])
    assert got == [("up to 1", (1,)), ("up to 2", (1, 2)), ("up to 2", (2,))]
