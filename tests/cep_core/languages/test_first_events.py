"""The first event of a run: it has none before it, so `b[i-1]` and PREV are null there.

A condition that compares neighbours is tested from the second event on.  One that handles null
says what holds of the first event, too.
"""

from __future__ import annotations

from typing import Any

import pytest

import cep_core
from tests.cep_core.engines import engine_of, values_found

EVENTS = (("a", 5.0), ("b", 1.0), ("b", 7.0))
RISING = "b[i].p > b[i-1].p"
FROM_A = "(b[i-1].p IS NULL AND b[i].p > a.p)"


def found(language: str, query: str, events: tuple[tuple[str, float], ...] = EVENTS) -> list[Any]:
    given = [cep_core.Event("T", values, time) for time, values in enumerate(events, 1)]
    return values_found(engine_of(["T"], {"k": str, "p": float}), query, given, language)


def runs(condition: str, quantifier: str, strategy: str = "") -> list[Any]:
    """Return the runs of b after a, in SASE, as their first and last values."""
    where = f"a.k = 'a' AND b[i].k = 'b' AND {condition}"
    where = f"{strategy}(a, b[]) {{{where}}}" if strategy else where
    query = f"EVENT SEQ(T a, {quantifier} b[]) WHERE {where} RETURN b[1].p AS one, b[last].p AS two"
    return found("sase", query)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (RISING, [(1, 1), (1, 7), (7, 7)]),
        (f"({FROM_A} OR (b[i-1].p IS NOT NULL AND {RISING}))", [(7, 7)]),
        (f"({FROM_A} OR {RISING})", [(7, 7)]),
        ("COALESCE(b[i-1].p, a.p) < b[i].p", [(7, 7)]),
        ("b[i-1].p IS NULL", [(1, 1), (7, 7)]),
        ("b[i-1].p IS NOT NULL", []),
        ("NOT b[i-1].p IS NULL", []),
        ("CASE WHEN b[i].p > b[i-1].p THEN 1 ELSE 0 END = 1", []),
        ("b[i].p > MAX(b[..i-1].p)", [(1, 1), (1, 7), (7, 7)]),
        ("b[i].p > COALESCE(MAX(b[..i-1].p), a.p)", [(7, 7)]),
        ("COALESCE(SUM(b[..i-1].p), 0) + b[i].p < 7", [(1, 1)]),
        ("AVG(b[..i-1].p) IS NULL", [(1, 1), (7, 7)]),
        ("COUNT(b[..i-1]) < 1", [(1, 1), (7, 7)]),
        ("COUNT(b[..i-1].p) >= 1", []),
        ("b[i].p > COUNT(b[..i-1])", [(1, 1), (1, 7), (7, 7)]),
    ],
)
@pytest.mark.parametrize(
    ("quantifier", "strategy"),
    [("T+", "skip_till_any_match"), ("any T+ any", ""), ("any T{1,} any", "")],
    ids=["sequence", "marks", "braces"],
)
def test_the_first_event_of_a_run_of_sase(
    condition: str, expected: list[Any], quantifier: str, strategy: str
) -> None:
    assert sorted(runs(condition, quantifier, strategy)) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("PREV(B.p) < B.p", [((1,),), ((1, 7),), ((5,),), ((7,),)]),
        ("PREV(B.p) IS NULL", [((1,),), ((5,),), ((7,),)]),
        ("PREV(B.p) IS NOT NULL", []),
        ("COALESCE(PREV(B.p), 5.0) < B.p", [((7,),)]),
        ("(PREV(B.p) IS NULL AND B.p > 5) OR PREV(B.p) < B.p", [((7,),)]),
        ("CASE WHEN PREV(B.p) < B.p THEN 1 ELSE 0 END = 1", []),
    ],
)
@pytest.mark.parametrize("run", ["B+", "B{1,}"], ids=["operator", "pattern"])
def test_the_first_event_of_a_run_of_eql(condition: str, expected: list[Any], run: str) -> None:
    query = f"SELECT ALL(B.p) AS run FROM T {run} WHERE {condition}"
    assert sorted(found("eql", query)) == expected


@pytest.mark.parametrize(
    ("going", "expected"),
    [
        ("$2.p > $.p", []),  # before the first iteration `$.p` is that of the first stream
        ("$.n IS NULL", [("a", 5.0, "b", 1.0, 1)]),
        ("$.n IS NOT NULL", []),
        ("COALESCE($.n, 0) < 1", [("a", 5.0, "b", 1.0, 1)]),
    ],
)
def test_the_first_iteration_of_a_fold(going: str, expected: list[Any]) -> None:
    """An aggregate that the first stream does not have is null before it."""
    fold = f"FOLD{{$2.k = 'b', {going}, COALESCE($.n, 0) + 1 AS n}}"
    assert found("cel", f"FROM FILTER{{k = 'a'}} T {fold} T") == expected


UNTIL = (("c", 1.0), ("a", 2.0), ("a", 4.0), ("d", 3.0))
GREEDY = (
    "EVENT SEQ(T x, next T+ {} next y[] UNTIL T u, {} T z)"
    " WHERE x.k = 'c' AND y[i].k = 'a' AND z.k = 'd' AND u.p > 3 RETURN LIST(y[].p) AS ys"
)


@pytest.mark.parametrize("pace", ["", "greedy", "reluctant"])
@pytest.mark.parametrize("mark", ["next", "any"])
def test_a_run_that_until_has_ended_blocks_nothing(pace: str, mark: str) -> None:
    """Greedy waits for what the run could take: no event that satisfies UNTIL, and none after."""
    assert found("sase", GREEDY.format(pace, mark), UNTIL) == [((2.0,),)]
    later = (*UNTIL[:3], ("a", 1.0), UNTIL[3])
    assert found("sase", GREEDY.format(pace, mark), later) == [((2.0,),)]
