"""SASE as a language: what a text means, names of results, shapes, composition, explanations."""

from __future__ import annotations

from typing import Any

import pytest

from cep_core import Engine, Event
from cep_core.algebra.patterns import MOST_COMPONENTS
from cep_core.dataflow.mop import MOp
from cep_core.errors import QueryError, StreamInUse
from tests.cep_core.engines import engine_with, values_found


def engine() -> Engine:
    pair = {"id": int, "v": float}
    return engine_with({"A": pair, "B": pair, "C": {"id": int, "w": int}, "D": {"w": int}})


def run(text: str, *events: tuple[str, int, tuple[Any, ...]]) -> list[Any]:
    """Return the values of a query's results over (type, time, values)."""
    return values_found(engine(), text, [Event(n, v, t) for n, t, v in events], "sase")


def names(text: str) -> tuple[str, ...]:
    core = engine()
    core.register("q", text, "sase")
    return core.query("q").schema.names


# -- EVENT ---------------------------------------------------------------------------------------


def test_names_of_a_result() -> None:
    assert names("EVENT SEQ(A a, B b)") == ("a_id", "a_v", "b_id", "b_v")
    assert names("EVENT SEQ(A a, D d)") == ("id", "v", "w")
    assert names("EVENT SEQ(A, D)") == ("id", "v", "w")
    assert names("EVENT SEQ(A a, C+ c[])") == ("a_id", "v", "c_id", "w", "c_count")
    assert names("EVENT SEQ(A a, !B b, D d) RETURN a.id, d.w + 1 AS more") == ("id", "more")
    assert names("EVENT SEQ(A a, D d) RETURN *") == ("id", "v", "w")


def test_a_type_serves_as_its_variable() -> None:
    text = "EVENT SEQ(A, !B, D) WHERE A.id = D.w AND B.id = A.id"
    events = (("A", 1, (1, 0.0)), ("A", 2, (2, 0.0)), ("B", 3, (2, 0.0)))
    assert run(text, *events, ("D", 4, (1,)), ("D", 4, (2,))) == [(1, 0.0, 1)]


# -- WHERE ---------------------------------------------------------------------------------------

PAIR = (("A", 1, (1, 5.0)), ("D", 2, (7,)))


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("[id]", True),  # D has no id
        ("[id = 1]", True),
        ("[id = 2]", False),
        ("a.id = 1 ∧ d.w ≥ 7", True),
        ("a.id = 2 ∨ d.w = 7", True),
        ("¬ a.id = 1", False),
        ("d.id = 9", True),  # the predicate is true for an event without id
        ("d.id = 9 AND a.id = 2", False),
        ("NOT d.id = 9", True),  # and so is its opposite
        ("NOT d.id != 9", True),
        ("NOT (d.id = 9 OR a.id = 1)", False),
        ("NOT (d.id = 9 AND a.id = 1)", True),
        ("NOT (NOT (d.id = 9) AND a.id = 2)", True),
        ("a.v + d.w = 12 /* [id = 2] */", True),
        ("1 < a.v < d.w", True),
        ("w = 7 AND v = 5", True),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    assert run(f"EVENT SEQ(A a, D d) WHERE {condition}", *PAIR) == [(1, 5.0, 7)] * holds


@pytest.mark.parametrize("size", [1, 2, 16, 17, 18, 22, 23, 24, 33, 40, MOST_COMPONENTS])
@pytest.mark.parametrize(
    "rest",
    [
        "",
        " WITHIN 1000",
        " WHERE [id] AND a0.v < a{last}.v OR a0.v = a{last}.v WITHIN 1000 RETURN a{last}.v AS v",
        " WHERE skip_till_next_match({names}) {{ [id] }}",
        " WHERE strict_contiguity({names}) {{ a0.v >= 0 }} RETURN a0.v AS v",
    ],
)
def test_a_sequence_of_many_components(size: int, rest: str) -> None:
    names = ", ".join(f"a{place}" for place in range(size))
    components = ", ".join(f"{'AB'[place % 2]} a{place}" for place in range(size))
    text = f"EVENT SEQ({components}){rest.format(names=names, last=size - 1)}"
    events = [Event("AB"[place % 2], (1, float(place)), place) for place in range(size)]
    assert len(values_found(engine(), text, events, "sase")) == 1


@pytest.mark.parametrize("component", ["A a{}", "A+ a{}[]", "!(A a{})", "ANY(A, B) a{}"])
def test_a_sequence_of_too_many_components(component: str) -> None:
    many = ", ".join(component.format(place) for place in range(MOST_COMPONENTS))
    text = f"EVENT SEQ(B b, {many}, B more)"
    with pytest.raises(QueryError, match="a sequence has at most 64 components") as caught:
        engine().register("q", text, "sase")
    last = component.format(MOST_COMPONENTS - 1)
    assert text[caught.value.span.start :].startswith((last, "B more"))


# -- shapes, composition, sharing ----------------------------------------------------------------


def test_queries_read_what_others_publish() -> None:
    core = engine()
    core.register("pairs", "EVENT SEQ(A a, B b) WHERE [id] WITHIN 5 RETURN a.id PUBLISH P", "sase")
    core.register("more", "EVENT SEQ(P p, !C c, D d) WHERE p.id = d.w AND p.id = c.id", "sase")
    core.register("cel", "SELECT id FROM FILTER{id = 2}(P)")
    with pytest.raises(StreamInUse):
        core.unregister("pairs")
    events = [
        *(Event("A", (1, 0.0), 1), Event("A", (2, 0.0), 2), Event("B", (1, 0.0), 3)),
        *(Event("B", (2, 0.0), 4), Event("C", (1, 0), 5), Event("D", (1,), 6), Event("D", (2,), 6)),
    ]
    found = [(match.query, match.event.t0, match.event.t1) for match in core.push(events)]
    found += [(match.query, match.event.t0, match.event.t1) for match in core.close()]
    assert found == [("pairs", 1, 3), ("pairs", 2, 4), ("cel", 2, 4), ("more", 2, 6)]


BOTH = "EVENT SEQ(A a, B b) WHERE [id] AND a.v >= {0} AND b.v > 9 - {0} WITHIN 9"
SELECTING = [
    ("EVENT SEQ(A a, B b) WHERE [id] AND b.v > a.v + {0} AND b.v > {0} WITHIN 9", 1, 4),
    ("EVENT SEQ(A a, B b) WHERE [id] AND a.v = {0} WITHIN 9", 1, 3),
    (BOTH, 1, 3),
    ("EVENT SEQ(A a, B b) WHERE [id] AND a.v = {0} AND b.v > a.v + {0} WITHIN 9", 1, 3),
    # what others keep would be searched in vain
    ("EVENT SEQ(A a, B b) WHERE a.v = {0} AND b.v > {0} - 1 AND b.v < {0} + 1", 6, 3),
]


@pytest.mark.parametrize(("query", "scans", "kept"), SELECTING)
def test_sequences_that_select_different_events_share_a_scan(
    query: str, scans: int, kept: int
) -> None:
    """Each row is kept once, for whoever selects it."""
    core = engine()
    for number in range(6):
        core.register(f"q{number}", query.format(number), "sase")
    assert kinds(core).count("pattern_match") == scans
    rows = [Event("A", (1, v), t) for t, v in enumerate((3.0, 5.0, 0.0, -1.0))]
    core.push([*rows, Event("B", (1, 4.0), 4), Event("D", (0,), 5)])
    assert core.stats()["instances"] == kept


def test_explain_says_what_is_shared() -> None:
    core = engine()
    for number in range(3):
        core.register(f"q{number}", BOTH.format(number), "sase")
    core.register("other", BOTH.format(0).replace("b.v > 9 - 0", "b.v > a.v"), "sase")
    said = core.explain("q1")
    assert "active instance stacks, partitioned by 1 equivalence test; shared by 3 queries" in said
    assert "used by this query only, 2 other operators in pattern_match#" in said
    assert "shared by" not in core.explain("other")


def test_rows_that_nobody_selects_any_more_are_dropped() -> None:
    """Others lose nothing."""
    core = engine()
    text = "EVENT SEQ(A a, B b, A c) WHERE a.v > {} AND b.v = 1 RETURN a.v, b.id, c.id AS last"
    for number in range(4):
        core.register(f"q{number}", text.format(number), "sase")
    core.push([Event("A", (1, v), t) for t, v in enumerate((1.0, 2.0, 3.0, 4.0, 4.0))])
    core.push([Event("B", (1, 1.0), 5), Event("D", (0,), 6)])
    assert core.stats()["instances"] == 6
    core.unregister("q0")
    core.unregister("q1")
    assert core.stats()["instances"] == 4
    core.register("late", text.format(0), "sase")
    found = core.push([Event("A", (9, 0.0), 7)]) + core.close()
    assert [(query, event.values) for query, event in found] == [
        *[("q2", (v, 1, 9)) for v in (3.0, 4.0, 4.0)],
        *[("q3", (v, 1, 9)) for v in (4.0, 4.0)],
    ]


def kinds(core: Engine) -> list[str]:
    found: list[MOp] = list(core.plan.mops)
    return [mop.kind for mop in found]


# -- explanations --------------------------------------------------------------------------------

EXPLAINED = """\
q (query 0, sase) reads A, B, C
  select#1.0  FILTER{v > 0.5}
      reads A; used by this query only
      predicate index: sorted list on an inequality
  pattern_match#2.0  PATTERN(A, B, !C) {1.id = 2.id AND 1.id = 3.id} within 1 min
      reads select#1.0, B, C; used by this query only
      runs of an automaton of 3 states, partitioned
  output  q(id int, v float)
  PATTERN: a.t1 < b.t0, last.t1 - first.t1 < T (simultaneous events neither follow nor block one \
another; T itself counts with <= T, touching intervals with NONSTRICT; null neither holds nor \
blocks)
  !: no z with a.t1 < z.t0 and z.t1 < b.t0 (at the start: with last.t1 - T < z.t1 and z.t1 < \
first.t0; at the end: with last.t1 < z.t0 and z.t1 <= first.t1 + T - 1, when the result comes)"""


def test_explain_says_how_a_sequence_is_computed() -> None:
    core = engine()
    text = "EVENT SEQ(A a, B b, !C c) WHERE [id] AND a.v > 0.5 WITHIN 1 min RETURN a.id, b.v"
    core.register("q", text, "sase")
    assert core.explain("q") == EXPLAINED


def test_explain_of_runs() -> None:
    core = engine()
    text = "EVENT SEQ(A a, B+ b[]) WHERE strict_contiguity(a, b[]) {[id] AND b[i].v > b[i-1].v}"
    core.register("q", text + " RETURN SUM(b[].v) AS total", "sase")
    said = core.explain("q")
    assert "PATTERN(A, B{1,}) {1.id = 2[i].id AND 2[i].v > 2[i-1].v} strict" in said
    assert "runs of an automaton of 3 states\n" in said


def test_a_condition_on_one_event_does_not_make_others_contiguous() -> None:
    text = "EVENT SEQ(A a, A b) WHERE {}(a, b) {{a.v > 4 AND b.v > 4}} RETURN a.v, b.v AS x"
    events = [("A", 1, (1, 5.0)), ("A", 2, (1, 1.0)), ("A", 3, (1, 7.0))]
    assert run(text.format("strict_contiguity"), *events) == []
    assert run(text.format("skip_till_next_match"), *events) == [(5.0, 7.0)]
