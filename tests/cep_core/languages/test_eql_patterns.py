"""Queries of EQL that are one pattern: their conditions, values and what they share."""

from __future__ import annotations

from typing import Any

import pytest

from cep_core import Engine, Event
from tests.cep_core.engines import engine_of, values_found

NUMBERS = (1, 5, 3, 2, 6)  # one a second; even ones have k = a, odd ones k = b


def engine() -> Engine:
    return engine_of(("s", "u", "strict"), {"v": int, "k": str})


def events() -> list[Event]:
    return [Event("s", (number, "ab"[number % 2]), at) for at, number in enumerate(NUMBERS)]


FOUND: list[tuple[str, list[tuple[Any, ...]]]] = [
    # what fails a filter is skipped; what fails another condition ends the match
    (
        "SELECT A.v, B.v FROM s A ; s B WHERE FILTER(B.v > 5) WITHIN 9",
        [(1, 6), (2, 6), (3, 6), (5, 6)],
    ),
    ("SELECT A.v, B.v FROM s A ; s B WHERE B.v > 4 WITHIN 9", [(1, 5), (2, 6)]),
    ("SELECT A.v, B.v FROM s A ; s B WHERE A.k <> B.k", [(3, 2)]),
    ("SELECT A.v, D.v FROM (s A @ 1 s \\ (s B ; s C)) ; s D WHERE D.v > 2", [(1, 3), (3, 6)]),
    ("SELECT A.v, B.v FROM s A ; any s B WHERE A.v = 1, B.v > 4", [(1, 5), (1, 6)]),
    ("SELECT ALL(A.v) AS run FROM s A{3} WHERE FILTER(A.v > 2)", [((5, 3, 6),)]),
    ("SELECT ALL(A.v) AS run FROM s A{2,} WHERE A.v > 2", [((5, 3),)]),
    (
        "SELECT ALL(B.v) AS run FROM s A ; s B+ ; s C"
        " WHERE A.v = 1, C.v = 6, COUNT(B[]) > 1 WITHIN 9",
        [((5, 3, 2),)],
    ),
    # an attribute of a run is that of each event, or of the last one
    (
        "SELECT ALL(A.v) AS run, B.v FROM s A{1,} ; s B WHERE A.v > B.v, A[1].v = 1",
        [((1, 5), 3), ((1, 5, 3), 2)],
    ),
    (
        "SELECT ALL(A.v) AS run, B.v FROM s A{1,} ; s B WHERE A[i].v > 2, A.v > B.v",
        [((3,), 2), ((5,), 3), ((5, 3), 2)],
    ),
    (
        "SELECT ALL(A.v) AS a, ALL(B.v) AS b FROM (s A ; s B){2} WHERE FILTER(B.v > PREV(B.v))",
        [((1, 3), (5, 6)), ((5, 2), (3, 6))],
    ),
    # times, lists, names
    (
        "SELECT A.v, ALL(B.v) AS b FROM s A ; any s B{1,2} WHERE A.v = 1, (A, B) OCCURS WITHIN 2 s",
        [(1, (3,)), (1, (5,)), (1, (5, 3))],
    ),
    ("SELECT B.v FROM (s A AND s B) WHERE A.v = 3, (B, A) OCCURS WITHIN 1 s", [(2,), (5,)]),
    ("SELECT A.v, B.v FROM s A ; (s B @ 2 s) WHERE A.v = 1, (A, B) OCCURS WITHIN 2 s", [(1, 1)]),
    ("SELECT A.v, B.v FROM s A ; (s B @ 2 s) WHERE A.v = 1, (A, B) OCCURS WITHIN 1 s", []),
    ("SELECT * FROM s A{2} strict ; s B WHERE A[1].v = 5", [((5, 3), ("b", "b"), 2, "a")]),
    ("SELECT time(A[last]) AS at, A.v FROM s A{2} strict WHERE A[1].v = 3", [(3, 2)]),
    ("SELECT A.k FROM ANY(s, u) A ; !s Z ; u B? WHERE Z.v < 3, A.v > 4 WITHIN 9", [("a",)]),
    ("SELECT v FROM s A{2} strict WHERE k CONTAINS 'b'", [(3,), (5,)]),
]


@pytest.mark.parametrize(("query", "finds"), FOUND)
def test_what_a_pattern_finds(query: str, finds: list[tuple[Any, ...]]) -> None:
    assert sorted(values_found(engine(), query, events(), "eql")) == finds


@pytest.mark.parametrize(
    "pattern",
    [
        "s A ; s B WHERE A.v * 2 > B.v",
        "s A ; s B WHERE FILTER(A.v > B.v), (A, B) OCCURS WITHIN 9 s AND A.v > 1",
        "s next ; u any",
        "strict A ; strict greedy",
        "s A ; u B ;",
        "s A ; s B WHERE B.v > 1 WITHIN 9 s",
        "s A ; (s B | u B) ; (s C ; u D | s E)",
        "(s A @ 2 s) ; u B",
    ],
)
def test_sequences_of_single_events_are_those_of_cayuga(pattern: str) -> None:
    core = engine()
    core.register("q", f"SELECT * FROM {pattern}", "eql")
    kinds = [mop.kind for mop in core.plan.mops]
    assert "pattern_match" not in kinds
    assert "sequence" in kinds


def test_conditions_that_differ_in_constants_share_the_runs_and_survive_a_snapshot() -> None:
    core = engine()
    for least in (3, 6):
        text = f"SELECT A.v, B.v FROM s A ; s B? ; s C WHERE A.v = 1, B.v >= {least}"
        core.register(f"from {least}", text, "eql")
    assert [len(mop.operators) for mop in core.plan.mops if mop.kind == "pattern_match"] == [2]
    assert "ended unless {1.v = 1 AND 2.v >= 3}" in core.explain("from 3")
    first, *rest = events()
    matches = core.push([first])
    core = Engine.restore(core.snapshot())
    matches += [*core.push(rest), *core.close()]
    assert sorted((query, event.values) for query, event in matches if event.values[1]) == [
        ("from 3", (1, 5))
    ]


def test_a_pattern_publishes_and_reads_other_queries() -> None:
    core = engine()
    core.register("moments", "SELECT * FROM s A @ 2 s WHERE A.v = 5 PUBLISH later", "eql")
    text = "SELECT A.v, B.v FROM s A ; next s B ; !u Z ; later L WHERE A.v = 5"
    core.register("q", text, "eql")
    found = [event.values for query, event in [*core.push(events()), *core.close()] if query == "q"]
    assert found == [(5, 3)]


@pytest.mark.parametrize("filters", ["FILTER({})", "{}"])
def test_a_time_constraint_of_the_first_and_the_last_event_bounds_what_is_kept(
    filters: str,
) -> None:
    bound = filters.format("(A, C) OCCURS WITHIN 2 s")
    found, kept = [], []
    for within in ("", " WITHIN 1 day"):
        core = engine()
        text = f"SELECT A.v, B.v, C.v FROM s A ; s B? ; any s C WHERE {bound}{within}"
        core.register("q", text, "eql")
        matches = [*core.push(events()), *core.advance(10)]
        found.append(sorted((str(event.values) for _, event in matches)))
        kept.append(core.stats()["instances"])
    assert found[0] == found[1]
    assert kept[0] == 0 < kept[1]
