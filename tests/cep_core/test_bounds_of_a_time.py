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
from tests.cep_core.engines import engine_of

SCHEMA = Schema(("v",), (int,))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the bounds small: 100 results, 1,000 rows that are tried."""
    monkeypatch.setattr("cep_core.algebra.function_bounds._given_up", {})
    monkeypatch.setattr(mop, "RUNS", 100)
    monkeypatch.setattr(mop, "WORK", 1_000)
    monkeypatch.setattr(state, "_FEW", 10)


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
    monkeypatch.setattr(mop, "RUNS", 1 << 60)
    monkeypatch.setattr(mop, "WORK", 1 << 60)
    monkeypatch.setattr(mop, "KEPT", 500)
    core = engine()
    core.register("q", f"EVENT {KEEPS[kind]} WITHIN 1000", "sase")
    most = 0
    for at in range(60):
        core.push([Event("A", (at,), at)])
        most = max(most, core.stats()["instances"])
    assert "left them out" in core.explain("q")
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
    monkeypatch.setattr(mop, "WORK", 300)
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
            for bound in ("RUNS", "WORK"):
                unbounded.setattr(mop, bound, 1 << 60)
            wanted = matches()
        assert not found - wanted
        few, all_of_them = few + found, all_of_them + wanted
    assert 0 < few.total() < all_of_them.total()


def test_what_a_query_has_too_many_of_takes_nothing_from_others() -> None:
    """They share a join, and its rows."""

    def matches(*least: int) -> Counter[str]:
        core = engine()
        for one in least:
            right = f"(FILTER{{v >= {one}}} A)"  # each event comes from the left first
            text = f"SELECT * FROM {renamed('A', 'w')} JOIN{{$2.v < $1.w + 50, 1 day}} {right}"
            core.register(str(one), text, "cel")
        got = core.push([Event("A", (at,), 0) for at in range(120)]) + core.close()
        return Counter(match.query for match in got)

    assert matches(0, 119) == matches(0) + matches(119)
    assert matches(119) == {"119": 49}


ROWS_OF_OTHERS = {
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
}


@pytest.mark.parametrize("kind", ROWS_OF_OTHERS)
def test_rows_of_others_are_no_work_of_a_query(kind: str) -> None:
    """They share an operator, and what it keeps."""
    text, (own, other), events = ROWS_OF_OTHERS[kind]

    def matches(*constants: int) -> list[Match]:
        core = engine()
        for one in constants:
            core.register(str(one), text.replace("@", str(one)), "cel")
        found = [*core.push(events), *core.close()]
        assert other not in constants or "left them out" in core.explain(str(other))
        return [match for match in found if match.query == str(own)]

    assert matches(own, other) == matches(own) != []


@pytest.mark.parametrize("kind", ["JOIN", "NEXT"])
def test_rows_of_several_events_that_are_kept_are_bounded(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event makes a row with each that came before; cuts and restarts make no difference."""
    monkeypatch.setattr(mop, "RUNS", 1 << 60)
    monkeypatch.setattr(mop, "WORK", 1 << 60)
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
        assert restored or "left them out" in core.explain("q")
        return Counter(str(match.event) for match in [*found, *core.close()])

    assert matches(True) == matches(False) != Counter()


def test_a_late_event_has_a_bound_of_its_own() -> None:
    """The clock stands still while late events come."""
    core = engine_of("A", SCHEMA, lateness=100)
    core.register("q", f"SELECT * FROM {JOIN}", "cel")
    found = core.push([Event("A", (0,), 99), *[Event("A", (at,), at) for at in range(40)]])
    assert len(found) == 40 * 41
