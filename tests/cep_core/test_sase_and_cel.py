"""Equivalent queries of SASE and CEL have equal matches, on random events with ties and intervals.

Skip till next match is the left-deep `;`: each left row with the earliest later right rows.  A run
at the end, put out after each of its events, is μ.  A negated end within T is NOT FOLLOWED BY
within T - 1: the window begins with the same tick, which it counts.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_core import Engine, Event, algebra
from cep_core.algebra import Node
from cep_core.algebra.expressions import Column, Compare, Constant
from cep_core.events import Schema
from tests.examples import tried

SCHEMA = Schema(("id", "v"), (int, int))
PAIRS = {
    "NEXT": (
        "EVENT SEQ(A a, B b) WHERE skip_till_next_match(a, b) {[id] AND a.v <= b.v}",
        "SELECT * FROM A NEXT{$1.id = $2.id AND $1.v <= $2.v} B",
    ),
    "NEXT of anything": (
        "EVENT SEQ(A a, B b) WHERE skip_till_next_match(a, b) {}",
        "SELECT * FROM A NEXT B",
    ),
    "two NEXT": (
        """EVENT SEQ(A a, B b, A c)
        WHERE skip_till_next_match(a, b, c) {a.id >= b.id AND a.id <= c.id}
        RETURN a.id AS id_1_1, a.v AS v_1_1, b.id AS id_1, b.v AS v_1, c.id, c.v""",
        """SELECT * FROM (SELECT id AS ai, v AS av FROM A) NEXT{ai >= id} B
        NEXT{ai <= $2.id} A""",
    ),
    "FOLD": (
        """EVENT SEQ(A a, A+ b[])
        WHERE skip_till_next_match(a, b[]) {a.id = b[i].id AND b[i].v > b[i-1].v AND b[1].v > a.v}
        RETURN a.id AS id_1, a.v AS v_1, b[last].id AS id, b[last].v AS v""",
        "SELECT * FROM A FOLD{$1.id = $2.id AND $2.v > $.v, TRUE} A",
    ),
    "FILTER": ("EVENT A WHERE v > 1 OR id = 2", "SELECT * FROM FILTER{v > 1 OR id = 2}(A)"),
}


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Return events of A and B in order of their end."""
    events = []
    for t1 in sorted(draw(st.lists(st.integers(0, 12), min_size=9, max_size=16))):
        name = draw(st.sampled_from("AAB"))
        values = (draw(st.sampled_from((1, 1, 1, 2))), draw(st.sampled_from((0, 1, 2, 1, 0, None))))
        events.append(Event(name, values, t1 - draw(st.sampled_from((0, 0, 0, 1, 3))), t1))
    return events


def found(query: str | Node, language: str, events: list[Event]) -> Counter[Any]:
    """Return the matches of a query: times and values, each with its number."""
    core = Engine(1)
    for name in "AB":
        core.stream(name, SCHEMA)
    core.register("q", query, language)
    matches = core.push(events) + core.close()
    return Counter((event.t0, event.t1, event.values) for _, event in matches)


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", PAIRS)
def test_sase_and_cel_agree(name: str) -> None:
    sase, cel = PAIRS[name]
    counted = matching = 0

    @given(streams())
    @settings(max_examples=tried(16), deadline=None)
    def agree(events: list[Event]) -> None:
        nonlocal counted, matching
        result = found(sase, "sase", events)
        assert result == found(cel, "cel", events)
        counted += 1
        matching += bool(result)

    agree()
    assert 3 * matching >= counted


@pytest.mark.hypothesis
@pytest.mark.parametrize("window", [2, 3, 6])
def test_a_negated_end_is_not_followed_by_within_a_tick_less(window: int) -> None:
    a, b = (algebra.stream(name, SCHEMA) for name in "AB")
    same = Compare("=", Column(1, 0), Column(2, 0))
    absence = algebra.absence(a, b, same, Constant(window - 1))
    sase = f"EVENT SEQ(A a, !B b) WHERE [id] WITHIN {window}"
    matching = counted = 0

    @given(streams())
    @settings(max_examples=tried(16), deadline=None)
    def agree(events: list[Event]) -> None:
        nonlocal counted, matching
        result = found(sase, "sase", events)
        assert result == found(absence, "cel", events)
        counted += 1
        matching += bool(result)

    agree()
    assert 3 * matching >= counted
