"""Windows with two bounds: a relation of times is declared once, and each surface follows it.

The tests walk `OPERATORS`, so a new one without a surface fails here.
"""

from __future__ import annotations

import re

import pytest

import xscl
from templates.model.join_graph import OPERATORS, SYMMETRIC_JOIN, TemporalOperator
from tests.joining import in_database
from xscl.drawing.queries import draw_query
from xscl.language.sentence import sentence
from xscl.planning.compile import compile_query
from xscl.time_format import UNITS

H = UNITS["h"]
LEFT = 1000 * H
DISTANCES = (-49, -48, -47, -13, -12, -11, -1, 0, 1, 11, 12, 13, 47, 48, 49)
"""Hours from a left to a right document."""
WINDOWS = ("12 h TO 2 d", "1 h TO INF", "12 h", "-2 d TO -12 h", "-1 h TO 2 d", "0 h TO 12 h")
EDGES = {"12 h TO 2 d": (12, 48), "1 h TO INF": (1, 10**6), "-2 d TO -12 h": (-48, -12)}
EDGES |= {"-1 h TO 2 d": (-1, 48), "0 h TO 12 h": (0, 12)}


def within(operator: TemporalOperator, window: str) -> list[int]:
    """Return the distances that are in a window, by the definition."""
    lowest, highest = EDGES.get(window, (1 if operator.follows else -12, 12))
    return [hours for hours in DISTANCES if lowest <= hours <= highest]


CASES = [
    pytest.param(operator, window, id=f"{operator.name} {window}")
    for operator in OPERATORS
    if operator is not SYMMETRIC_JOIN  # of one block: test_symmetric_joins.py
    for window in WINDOWS
    if not (operator.follows and window[0] in "-0")
]


def query(operator: TemporalOperator, window: str) -> str:
    """Return a join of every left with every right document of the window, or of any two."""
    if operator is SYMMETRIC_JOIN:
        return f"S//*[./k->k] {operator.name}{{k = m, {window}}} S//*[./k->m]"
    return f"L//a[./k->k] {operator.name}{{k = m, {window}}} R//b[./k->m]"


def documents() -> list[xscl.Document]:
    """Return a left document and right ones at all distances, in order of time."""
    right = [
        xscl.Document(("R", "S"), f"at{hours}", LEFT + hours * H, b"<b><k>1</k></b>")
        for hours in DISTANCES
    ]
    left = xscl.Document(("L", "S"), "left", LEFT, b"<a><k>1</k></a>")
    return sorted([left, *right], key=lambda one: one.timestamp)


def found(engine: xscl.Engine, name: str = "q") -> list[int]:
    """Return the distances of the right documents of matches."""
    return sorted(int(match.documents[1][2:]) for match in engine.matches(name))


@pytest.mark.parametrize(("operator", "window"), CASES)
@pytest.mark.parametrize("large", [False, True])
def test_a_window_has_exactly_its_pairs(
    operator: TemporalOperator, window: str, large: bool
) -> None:
    with in_database(large), xscl.Engine() as engine:
        engine.subscribe("q", query(operator, window))
        engine.push(documents())
        assert found(engine) == within(operator, window)


@pytest.mark.parametrize(("operator", "window"), CASES)
def test_why_agrees_with_the_matches(operator: TemporalOperator, window: str) -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", query(operator, window))
        engine.push(documents())
        for hours in DISTANCES:
            answer = engine.why("q", "left", f"R/at{hours}")
            failing = {one.kind for one in answer.edges if not one.holds}
            assert answer.matched == (hours in within(operator, window)), hours
            assert failing <= {"time", "order"}


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.name)
def test_each_surface_names_both_bounds(operator: TemporalOperator) -> None:
    text = query(operator, "12 h TO 2 d")
    said = sentence(text)
    assert "12 hours" in said
    assert "2 days" in said
    with xscl.Engine() as engine:
        engine.subscribe("q", text)
        explained = engine.explain("q")
        assert "window 12 h TO 2 d" in explained
        assert re.search(rf"^{operator.name}: S <= .* <= T", explained, re.MULTILINE)
        picture = draw_query(compile_query(text))
        assert "12 h TO 2 d" in [one.text for one in picture.elements]
        edges = engine.why("q", *_one_of_each(engine)).edges
    told = [one.text for one in edges if one.kind == "time"]
    assert any("12 h" in one for one in told)
    assert any("2 d" in one for one in told)


def _one_of_each(engine: xscl.Engine) -> tuple[str, str]:
    engine.push(documents())
    return "left", "R/at0"


def test_a_document_before_the_lower_bound_ends_no_silence() -> None:
    with xscl.Engine() as engine:
        operator = "FOLLOWED BY{k = m, 12 h TO 2 d} R//b[./k->m]"
        engine.subscribe("none", f"L//a[./k->k] NOT {operator}")
        engine.subscribe("either", f"L//a[./k->k] {operator} ELSE")
        early = [one for one in documents() if LEFT <= one.timestamp <= LEFT + 11 * H]
        engine.push(early)
        assert list(engine.matches("none")) == []
        engine.advance(LEFT + 48 * H + 1)
        assert [one.documents for one in engine.matches("none")] == [("left",)]
        assert [one.t1 for one in engine.matches("none")] == [LEFT + 48 * H]
        assert [one.documents for one in engine.matches("either")] == [("left",)]


@pytest.mark.parametrize("hours", [12, 48])
def test_a_document_at_a_bound_answers(hours: int) -> None:
    with xscl.Engine() as engine:
        operator = "FOLLOWED BY{k = m, 12 h TO 2 d} R//b[./k->m]"
        engine.subscribe("none", f"L//a[./k->k] NOT {operator}")
        wanted = {LEFT, LEFT + hours * H}
        engine.push([one for one in documents() if one.timestamp in wanted and one.id != "at0"])
        engine.flush()
        assert list(engine.matches("none")) == []


def test_a_left_document_is_kept_for_the_upper_bound() -> None:
    """A document beyond the window and the lateness has no result, and `late` lists it."""
    with xscl.Engine() as engine:
        engine.subscribe("q", query(OPERATORS[0], "12 h TO 2 d"))
        last = documents()[-1]
        engine.push(xscl.Document("L", "left", LEFT, b"<a><k>1</k></a>"))
        engine.push([last])
        engine.push([xscl.Document("R", "late", LEFT + 20 * H, b"<b><k>1</k></b>")])
        assert found(engine) == []
        assert engine.sql("SELECT docid FROM late").to_pylist() == [{"docid": "R/late"}]
