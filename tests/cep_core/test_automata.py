"""The automaton view: what it shows, and that it and AIR go there and back."""

from __future__ import annotations

import pytest
from hypothesis import given

import cep_core
from cep_core import air, automata
from cep_core import algebra as al
from cep_core.errors import AlgebraError
from cep_core.events import Event, Schema
from cep_core.expressions import (
    TRUE,
    And,
    Arithmetic,
    Column,
    Compare,
    Constant,
    Duration,
    Expression,
)
from tests.cep_core.test_index import predicates

STOCK = Schema(("Name", "Price"), (str, float))
STREAM = al.stream("Stock", STOCK)


def example_9() -> al.Node:
    """Example 9 of Cayuga: a fall of at least ten minutes, then a rise."""
    same, lower = (
        Compare("=", Column(1, 2), Column(2, 0)),
        Compare("<", Column(2, 1), Column(1, 3)),
    )
    large = al.select(STREAM, Compare(">", Column(2, 1), Constant(10.0)))
    fall = al.iterate(large, STREAM, same, lower)
    long = al.select(fall, Compare(">=", Duration(), Constant(600)))
    bounds = al.project(
        long, [("Name", Column(2, 0)), ("Max", Column(2, 1)), ("Min", Column(2, 3))]
    )
    higher = Compare(">", Column(2, 1), Arithmetic("*", Constant(1.05), Column(1, 2)))
    named = Compare("=", Column(1, 0), Column(2, 0))
    rise = al.sequence(bounds, STREAM, And((named, higher)))
    return al.project(rise, [("Name", Column(2, 0)), ("Final", Column(2, 4))])


def test_the_states_and_edges_of_example_9() -> None:
    view = automata.automaton(example_9())
    assert [(state.name, len(state.schema)) for state in view.states] == [
        ("q0", 3),  # B: waits for the rise
        ("q1", 4),  # A: the fall, with the first and the last quote
        ("q2", 2),  # the start
        ("end", 2),
    ]
    assert [(edge.source, edge.target) for edge in view.edges] == [
        *(("q0", "end"), ("q1", "q0"), ("q2", "q1"))
    ]
    assert view.state("q1").rebind is not None
    assert view.state("q0").rebind is None
    assert all(state.input is None or state.input.stream == "Stock" for state in view.states)


def test_there_and_back() -> None:
    node = example_9()
    assert automata.expression(automata.automaton(node)) == node
    union = al.union(al.select(STREAM, Compare(">", Column(2, 1), Constant(1.0))), STREAM)
    both = al.sequence(union, al.select(STREAM, Compare("=", Column(2, 0), Constant("A"))), TRUE)
    assert automata.expression(automata.automaton(both)) == both


def test_xml_there_and_back() -> None:
    view = automata.automaton(example_9())
    text = air.to_xml(view)
    assert air.from_xml(text) == view
    assert air.to_xml(air.from_xml(text)) == text
    assert 'indexed="yes"' in text


@given(predicates(True))
def test_every_predicate_goes_through_xml(predicate: Expression) -> None:
    numbers = al.stream("S", Schema(("x", "y"), (float, float)))
    view = automata.automaton(al.sequence(numbers, numbers, predicate))
    assert air.from_xml(air.to_xml(view)) == view


def test_a_right_side_that_is_no_stream_is_not_linear_plus() -> None:
    names = [("N", Column(2, 0)), ("P", Column(2, 3))]
    inner = al.project(al.sequence(STREAM, STREAM), names)
    with pytest.raises(AlgebraError, match="not linear-plus: its right side is no stream"):
        automata.automaton(al.sequence(STREAM, inner))
    windowed = al.window_aggregate(STREAM, (), (("n", al.Aggregate("COUNT", None)),), Constant(5))
    with pytest.raises(AlgebraError, match="WindowAggregate is not part of an automaton"):
        automata.automaton(windowed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<automaton", "this is no XML document"),
        ("<!DOCTYPE a []><automaton/>", "without DOCTYPE"),
        ("<automaton/>", "at least two states"),
        ('<automaton><state name="a"/><forward from="a" to="b"/></automaton>', "the state b"),
        ("<automaton><state/></automaton>", "not well-formed: 'name'"),
        (
            '<automaton><state name="a"/><forward from="a" to="a"><predicate><x/></predicate>'
            "</forward></automaton>",
            "<x> is no expression",
        ),
        (
            '<automaton><state name="a"/><forward from="a" to="a"><predicate>'
            + "<not>" * 5000
            + "</not>" * 5000
            + "</predicate></forward></automaton>",
            "nested too deeply",
        ),
    ],
)
def test_documents_that_are_no_automata(text: str, message: str) -> None:
    with pytest.raises(AlgebraError, match=message):
        air.from_xml(text)


def test_export_and_import_give_the_same_matches() -> None:
    core = cep_core.Engine(ticks_per_second=1)
    core.stream("Stock", STOCK)
    core.register("given", example_9())
    core.register("again", core.export("given"), language="air")
    prices = [90.0, 85.0, 81.0, 91.0]
    core.push([Event("Stock", ("IBM", p), 400 * t) for t, p in enumerate(prices)])
    out = core.close()
    assert [(m.query, m.event.values) for m in out] == [
        ("given", ("IBM", 91.0)),
        ("again", ("IBM", 91.0)),
    ]
    assert core.stats()["operators"] == 6  # the two are one
