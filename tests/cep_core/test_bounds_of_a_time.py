"""Every operator that multiplies its inputs has a bound for one time, and for what it keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from cep_core import Engine, Event, Match, Schema, algebra
from cep_core.algebra.expressions import TRUE, Column, Compare, Constant, Or
from cep_core.dataflow import mop
from cep_core.operators.cayuga import state
from cep_core.operators.pattern import absences, matching, stacks
from tests.cep_core.engines import engine_of
from tests.cep_core.pattern_strategies import TYPES

SCHEMA = Schema(("v",), (int,))
USUAL = mop.RUNS, mop.WORK
NONE = 1 << 60, 1 << 60


def limit(patch: pytest.MonkeyPatch, runs: int, work: int) -> None:
    """Set how many results, and how many rows that are tried, a query may have at one time."""
    for module in (mop, matching, stacks, absences):
        for name, bound in (("RUNS", runs), ("WORK", work)):
            if hasattr(module, name):
                patch.setattr(module, name, bound)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the bounds small: 100 results, 1,000 rows that are tried; none was reached before."""
    monkeypatch.setattr("cep_core.algebra.function_bounds._given_up", {})
    monkeypatch.setattr(state, "_FEW", 10)
    limit(monkeypatch, 100, 1_000)


def engine() -> Engine:
    """Return an engine with some streams of one attribute."""
    return engine_of("ABCD", SCHEMA)


def renamed(stream: str, name: str) -> str:
    return f"(SELECT v AS {name} FROM {stream})"


JOIN = f"A JOIN{{v >= 0, 1 day}} {renamed('A', 'w')}"
TRIPLE = f"{JOIN} JOIN{{v >= 0, 1 day}} {renamed('A', 'x')}"
SIMULTANEOUS = [Event("ABCD"[number // 30], (number % 30,), number // 30) for number in range(120)]
ONE_BY_ONE = [Event("A", (at,), at) for at in range(30)]
MULTIPLY = {
    "JOIN": (f"SELECT * FROM {JOIN}", [Event("A", (at,), 0) for at in range(120)]),
    "JOIN of JOIN": (f"SELECT * FROM {TRIPLE}", ONE_BY_ONE),
    "JOIN of JOIN of JOIN": (
        f"SELECT * FROM {TRIPLE} JOIN{{v >= 0, 1 day}} {renamed('A', 'y')}",
        ONE_BY_ONE,
    ),
    "JOIN of two of JOIN": (
        f"SELECT * FROM ({JOIN}) JOIN{{v >= 0, 1 day}} (SELECT v AS x, w AS y FROM {JOIN})",
        ONE_BY_ONE,
    ),
    "JOIN without a match": (
        f"SELECT * FROM ({JOIN}) JOIN{{v + w + x = -1, 1 day}} {renamed('A', 'x')}",
        ONE_BY_ONE,
    ),
    "NEXT": (f"SELECT * FROM A NEXT{{v >= 0}} {renamed('B', 'w')}", SIMULTANEOUS),
    "NEXT of NEXT": (
        f"SELECT * FROM A NEXT{{v >= 0}} {renamed('B', 'w')} NEXT{{v >= 0}} {renamed('C', 'x')}",
        SIMULTANEOUS,
    ),
    "NEXT of JOIN without a match": (
        f"SELECT * FROM ({JOIN}) NEXT{{$1.v + $2.x = -1}} {renamed('B', 'x')}",
        [*ONE_BY_ONE, *[Event("B", (at,), 40) for at in range(30)], Event("C", (0,), 41)],
    ),
    "FOLD": (
        "SELECT * FROM (SELECT v, 0 AS n FROM A) FOLD{$2.v >= 0, $2.v >= 0, $.n + 1 AS n} B",
        [Event("A", (0,), 0), *[Event("B", (at,), 1 + at // 2) for at in range(40)]],
    ),
    "FOLD of JOIN": (
        f"SELECT * FROM (SELECT v, w, 0 AS n FROM {JOIN})"
        " FOLD{$2.v >= 0, $2.v >= 0, $.n + 1 AS n} (SELECT v, v AS w FROM B)",
        [*ONE_BY_ONE, *[Event("B", (at,), 40 + at // 3) for at in range(40)]],
    ),
}


@pytest.mark.parametrize("kind", MULTIPLY)
def test_what_multiplies_is_bounded(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """No event adds more than the bound, to the query or to what operators keep."""
    text, events = MULTIPLY[kind]
    core = engine()
    core.register("q", text, "cel")
    found, kept = Counter[int](), 0
    for at, event in enumerate(events):
        found[event.t0 if "JOIN" not in kind else at] += len(core.push([event]))
        now = core.stats()["instances"]
        assert now - kept <= 3 * 101
        kept = now
    found[-1] += len(core.close())
    assert max(found.values()) <= 100
    assert "over 100 runs or 1,000 steps at one time" in caplog.text
    assert "left them out" in core.explain("q")
    assert Engine.restore(core.snapshot()).explain("q") == core.explain("q")


KEEPS = {
    "an absence": "SEQ(A a, !(C z), A b, B c)",
    "the next one": "SEQ(A a, A b, next B c)",
    "matches that wait": "SEQ(A a, A b, !(C z))",
    "a silence": "SEQ(A a, A b, !(C z) FOR 900)",
    "a silence inside": "SEQ(A a, A b, !(C z) FOR 900, B c)",
    "runs of any": "SEQ(A a, any A+ b[], B c)",
    "runs of the nearest": "SEQ(A a, nearest A+ nearest b[], B c)",
    "AND": "SEQ((A a AND A b), B c)",
    "OR": "SEQ((A a OR B b), A c, !(C z), B d)",
    "EVERY": "SEQ(A a, every (A b, A c), B d)",
}


@pytest.mark.parametrize("kind", KEEPS)
def test_what_is_kept_is_bounded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many events at many times keep no more than their number explains."""
    limit(monkeypatch, *USUAL)
    monkeypatch.setattr(mop, "KEPT", 500)
    core = engine()
    core.register("q", f"EVENT {KEEPS[kind]} WITHIN 1000", "sase")
    most = 0
    for at in range(60):
        core.push([Event("A", (at,), at)])
        most = max(most, core.stats()["instances"])
    assert "left them out" in core.explain("q")
    assert Engine.restore(core.snapshot()).explain("q") == core.explain("q")
    assert 50 < most <= 60 * 11 + 500 / 10


def test_an_outer_join_with_too_many_pairs_says_of_none_that_it_is_alone() -> None:
    core = engine()
    right = algebra.project(algebra.stream("B", SCHEMA), [("w", Column(2, 0))])
    within = Constant(0), Constant(5)
    both = algebra.outer_join(algebra.stream("A", SCHEMA), right, TRUE, within, (True, True))
    core.register("q", both)
    core.push([Event("A", (at,), 0) for at in range(60)])
    core.push([Event("B", (at,), 1) for at in range(60)])
    found = [match.event.values for match in core.push([Event("C", (0,), 100)]) + core.close()]
    assert 0 < len(found) <= 100
    assert all(None not in values for values in found)


A, B = algebra.stream("A", SCHEMA), algebra.stream("B", SCHEMA)
EQUAL = Compare("=", Column(1, 0), Column(2, 0))
THETA = Or((EQUAL, Compare("=", Column(1, 0), Constant(-1))))  # no index answers it
RISES = Compare("<", Column(1, 0), Column(2, 0))
GOES_ON = Compare("<", Column(1, 1), Column(2, 0))
OF_ORDER: dict[str, algebra.Node] = {
    "NEXT": algebra.sequence(A, B, THETA),
    "NEXT of the least rank": algebra.sequence(A, B, RISES, rank=0),
    "FOLD": algebra.iterate(A, B, RISES, GOES_ON),
    "longest FOLD": replace(algebra.iterate(A, B, RISES, GOES_ON), longest=True),
}


@pytest.mark.parametrize("kind", OF_ORDER)
def test_what_is_left_out_makes_no_other_match(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that was left out stands against later rows, as the next one, in rank and as an end."""
    limit(monkeypatch, 100, 300)
    draw = Random(kind)

    def matches() -> Counter[str]:
        core = engine()
        for query in ("q", "again"):
            core.register(query, OF_ORDER[kind])
        found = [*core.push(events), *core.close()]
        return Counter(f"{match.query} {match.event}" for match in found)

    few, all_of_them = Counter[str](), Counter[str]()
    for number in range(10):
        begun = [Event("A", (draw.randrange(40),), at) for at in range(30)]
        times = [50] * (4 + 4 * number) + [60] * 9 + [70] * 3
        events = [*begun, *[Event("B", (draw.randrange(45),), at) for at in times]]
        found = matches()
        with monkeypatch.context() as unbounded:
            limit(unbounded, *NONE)
            wanted = matches()
        assert not found - wanted
        few, all_of_them = few + found, all_of_them + wanted
    assert 0 < few.total() < all_of_them.total()


# -- Queries that share ----------------------------------------------------------------------


def at(stream: str, *times: int, v: int = 0) -> list[Event]:
    return [Event(stream, (v,), time) for time in times]


ALTERNATING = [
    one
    for time in range(0, 80, 2)
    for one in (*at("A", time, v=10 * (time % 40 == 0)), *at("B", time + 1))
]
KEPT_FOR_OTHERS = {
    "runs in a longer window": (
        "EVENT SEQ(A a, A b, !C z, B c) WHERE b.v >= 0 WITHIN @",
        (9, 1_000),
        ALTERNATING,
    ),
    "runs of more events": (
        "EVENT SEQ(A a, A b, !C z, B c) WHERE a.v > @ AND b.v >= 0 WITHIN 20",
        (9, -1),
        ALTERNATING,
    ),
}
OTHERS = {
    **KEPT_FOR_OTHERS,
    "JOIN of too many": (
        f"SELECT * FROM {renamed('A', 'w')}"
        " JOIN{$2.v < $1.w + 50, 1 day} (FILTER{v >= @} A)",  # each event comes from the left first
        (119, 0),
        [Event("A", (number,), 0) for number in range(120)],
    ),
    "too many runs": (
        "EVENT SEQ(A a, any A+ b[], A c) WHERE a.v > @ AND c.v > @ WITHIN 1000",
        (12, 0),
        ONE_BY_ONE[:19],
    ),
    "too many sequences": (
        "EVENT SEQ(A a, A b, A c, A d, A e) WHERE a.v > @ AND e.v > @ WITHIN 1000",
        (12, 0),
        ONE_BY_ONE[:19],
    ),
    "JOIN": (
        f"SELECT * FROM (FILTER{{v < @}} A) JOIN{{v + w = 30, 1 day}} {renamed('B', 'w')}",
        (30, 5_000),
        [*[Event("A", (at,), 0) for at in range(2_000)], *[Event("B", (1,), 1)] * 3],
    ),
    "JOIN in a shorter window": (
        f"SELECT * FROM A JOIN{{v + w = 30, @ s}} {renamed('B', 'w')}",
        (30, 5_000),
        [*[Event("A", (at % 40,), at) for at in range(1_500)], *[Event("B", (20,), 1_500)] * 3],
    ),
    "NEXT": (
        f"SELECT * FROM (FILTER{{v < @}} A) NEXT{{v + w = 30}} {renamed('B', 'w')}",
        (30, 5_000),
        [*[Event("A", (at,), 0) for at in range(2_000)], *[Event("B", (1,), 1)] * 3],
    ),
    "tried runs in a longer window": (
        "EVENT SEQ(A a, B{1,2} b[], C c) WITHIN @",
        (5, 1_000),
        [*at("A", *range(60)), *at("B", *[60] * 20), *at("C", 62)],
    ),
    "events that others select": (
        "EVENT SEQ(A a, B+ b[], A c) WHERE c.v > @ WITHIN 1000",
        (9, -1),
        [*at("A", *range(13)), *at("B", 13), *at("A", *[20] * 79), *at("A", 20, v=10)],
    ),
    "absent events in a longer window": (
        "EVENT SEQ(!C x, A a, B b) WITHIN @",
        (8, 1_000),
        [*at("C", *sorted([*range(100)] * 2)), *at("A", *range(100, 120)), *at("B", 120)],
    ),
    "absent events that others select": (
        "EVENT SEQ(A a, !C x, B b) WHERE x.v > @ WITHIN 1000",
        (9, -1),
        [*at("A", *range(20)), *at("C", *range(20, 80)), *at("B", 80)],
    ),
}
"""Texts with a constant of two queries, the one with few results first, and events."""


@pytest.mark.parametrize("kind", OTHERS)
def test_what_another_query_has_too_many_of_takes_nothing_from_a_query(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share an operator, and the rows or runs that it tries and keeps."""
    text, (own, other), events = OTHERS[kind]
    if kind in KEPT_FOR_OTHERS:
        limit(monkeypatch, *USUAL)
        monkeypatch.setattr(mop, "KEPT", 200)
        monkeypatch.setattr(mop, "FREE", 0)

    def matches(*constants: int) -> list[list[Match]]:
        core = engine()
        for one in constants:
            language = "sase" if text.startswith("EVENT") else "cel"
            core.register(str(one), text.replace("@", str(one)), language)
        found = [*core.push(events), *core.close()]
        assert other not in constants or "left them out" in core.explain(str(other))
        return [[match for match in found if match.query == str(one)] for one in constants]

    both = matches(own, other)
    assert both == [*matches(own), *matches(other)]
    assert both[0]


@pytest.mark.parametrize("kind", ["JOIN", "NEXT"])
def test_rows_of_several_events_that_are_kept_are_bounded(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event makes a row with each that came before; cuts and restarts make no difference."""
    limit(monkeypatch, *NONE)
    monkeypatch.setattr(mop, "KEPT", 1_000)
    monkeypatch.setattr(mop, "FREE", 20)
    text = f"SELECT * FROM ({JOIN}) {kind}{{v + w = x@}} {renamed('B', 'x')}"
    text = text.replace("@", ", 1 day" if kind == "JOIN" else "")
    events = [Event("AB"[at % 5 == 4], (at,), at) for at in range(100)]

    def matches(restored: bool) -> Counter[str]:
        core = engine()
        core.register("q", text, "cel")
        found: list[Match] = []
        for at in range(len(events)) if restored else ():
            found += core.push(events[at : at + 1])
            assert core.stats()["instances"] < 1_000
            core = Engine.restore(core.snapshot())
        found += core.push(() if restored else events)
        assert "left them out" in core.explain("q")
        return Counter(str(match.event) for match in [*found, *core.close()])

    assert matches(True) == matches(False) != Counter()


def test_a_late_event_has_a_bound_of_its_own() -> None:
    """The clock stands still while late events come."""
    core = engine_of("A", SCHEMA, lateness=100)
    core.register("q", f"SELECT * FROM {JOIN}", "cel")
    found = core.push([Event("A", (0,), 99), *[Event("A", (at,), at) for at in range(40)]])
    assert len(found) == 40 * 41


# -- Patterns --------------------------------------------------------------------------------

MANY = {
    "runs of any": "SEQ(A a, any A+ b[], A c)",
    "runs of any, twice": "SEQ(A a, any A+ b[], any A+ c[], A d)",
    "sequences": f"SEQ({', '.join(f'A a{at}' for at in range(20))})",
    "sequences without a match": f"SEQ({', '.join(f'A a{at}' for at in range(20))})",
    "in any order": "(A a AND A b AND A c AND A d AND A e AND A f WITHIN 900)",
}
WITHOUT = {"sequences without a match": "WHERE a0.v + a19.v = -1"}


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("kind", MANY)
def test_a_pattern_with_very_many_matches_ends(
    kind: str, together: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Also of simultaneous events; with the definition this would take years."""
    core = engine_of("A", {"v": int})
    core.register("q", f"EVENT {MANY[kind]} {WITHOUT.get(kind, '')} WITHIN 1000", "sase")
    found, most = Counter[int | None](), 0
    for at in range(60):
        for match in core.push([Event("A", (at,), 1 if together else at)]):
            found[match.event.t1] += 1
        most = max(most, core.stats()["instances"])
    explained = core.explain("q")
    for match in core.close():
        found[match.event.t1] += 1
    assert max(found.values(), default=0) <= 100
    assert most <= 60 * 200
    if not together or kind == "in any order":  # others take none of simultaneous events twice
        assert "over 100 runs" in caplog.text
        assert together or "too many matches" in explained


A_TIME = {
    "matches of simultaneous events": ("SEQ(A a, B b)", "", 10),
    "matches with an absence": ("SEQ(A a, !C c, B b)", "", 10),
    "runs": ("SEQ(A a, B{1,2} b[], C c)", "", 10),
    "rows that are tried": ("SEQ(A a, B b)", "a.v + b.v = -1", 50),
    "rows that are tried with care": ("SEQ(A a, B b)", "a.v + b.v / 0 = -1", 50),
    "rows of three": ("SEQ(A a, A c, B b)", "a.v + b.v = -1", 3),
    "runs that are tried": ("SEQ(A a, !C c, B b)", "a.v + b.v = -1", 50),
    "runs that are tried, by key": ("SEQ(A a, !C c, B b)", "[k] AND a.v + b.v = -1", 50),
    "absent events": ("SEQ(A a, !A c, B b)", "c.v + a.v = -1", 3),
}


@pytest.mark.parametrize("kind", A_TIME)
def test_a_bound_is_that_of_one_time(kind: str) -> None:
    """A pattern over its bound has no match with any event of that time, and begins anew."""
    pattern, condition, simultaneous = A_TIME[kind]
    core = engine_of(TYPES, {"v": int, "k": int})
    where = f"WHERE {condition}" if condition else ""
    core.register("q", f"EVENT {pattern} {where} WITHIN 1000", "sase")
    begun = [Event("A", (at, 1), at) for at in range(30 if condition else 15)]
    assert not core.push([*begun, *[Event("B", (at, 1), 100) for at in range(simultaneous)]])
    assert not core.push([Event("A", (2, 1), 101), Event("A", (2, 1), 102)])
    assert "left them out (1 time)" in core.explain("q")
    assert core.stats()["instances"] <= 5 + 30 * (kind == "absent events")


@pytest.mark.parametrize("kind", A_TIME)
def test_a_pattern_within_its_bounds_has_left_out_nothing(
    kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its explanation nor the log says so, after a restart, either."""
    limit(monkeypatch, *USUAL)
    pattern, condition, _ = A_TIME[kind]
    core = engine_of(TYPES, {"v": int, "k": int})
    where = f"WHERE {condition}" if condition else ""
    core.register("q", f"EVENT {pattern} {where} WITHIN 1000", "sase")
    for at in range(12):
        core.push([Event("AAB"[at % 3], (at, 1), at)])
        assert not any("left them out" in core.explain(query) for query in core.queries)
        if at % 4 == 3:
            core = Engine.restore(core.snapshot())
            core.register(f"q{at}", f"EVENT {pattern} {where} WITHIN {at}", "sase")
    assert not caplog.records


@pytest.mark.parametrize("pattern", ["A+ longest next a[]", "SEQ(B b, A+ longest next a[])"])
def test_no_run_is_the_longest_one_after_a_pattern_gave_up(pattern: str) -> None:
    """Those that wait would have got longer: 101 simultaneous events make too many runs."""
    core = engine_of(TYPES, {"v": int, "k": int})
    core.register("q", f"EVENT {pattern} WITHIN 100 RETURN LIST(a[].v) AS run", "sase")
    begun = [Event("B", (0, 1), 0), Event("A", (1, 1), 1), Event("A", (2, 1), 2)]
    found = core.push([*begun, *[Event("A", (at, 1), 3) for at in range(3, 104)]])
    found += core.push([Event("B", (0, 1), 4), Event("A", (200, 1), 5)])
    assert "left them out (1 time)" in core.explain("q")
    assert [match.event.values for match in [*found, *core.advance(1_000)]] == [((200,),)]


def test_rows_of_other_queries_are_no_work_of_a_query() -> None:
    """Queries of one shape share stacks; one with few rows among very many has its matches."""
    core = engine_of("AB", {"v": int, "k": int})
    for key in range(40):
        text = f"EVENT SEQ(A a, A b, B c) WHERE a.k = {key} AND b.k = {key} AND c.v > {key}"
        core.register(str(key), f"{text} WITHIN 1000", "sase")
    core.push([Event("A", (at, at % 40), at) for at in range(400)])
    found = Counter(match.query for match in core.push([Event("B", (100, 0), 400)]) + core.close())
    assert found == {str(key): 45 for key in range(40)}


@pytest.mark.parametrize(
    ("condition", "null", "number"),
    [
        ("b.v + 1 = c.v AND a.v = b.v", "A", 1),
        ("b.v + 1 = c.v AND a.v = b.v", "B", 1),
        ("b.v < c.v AND a.v < b.v AND c.v < 4", "A", 1),
        ("b.v < c.v AND a.v < b.v AND c.v < 4", "B", 3),
    ],
)
def test_a_null_takes_no_match_from_others(condition: str, null: str, number: int) -> None:
    """Sequences are searched with care then: of 40 times 40 rows a few are a match."""
    values = {name: [None if name == null and n == 0 else n for n in range(40)] for name in "AB"}
    values["C"] = [3]
    arrivals = [(name, value) for name in "ABC" for value in values[name]]
    engine = engine_of("ABC", {"v": int})
    engine.register("q", f"EVENT SEQ(A a, B b, C c) WHERE {condition} WITHIN 1 day", "sase")
    events = [Event(name, (value,), time) for time, (name, value) in enumerate(arrivals)]
    assert len([*engine.push(events), *engine.close()]) == number
