"""AIR: what its automata show, and that expressions go there and back."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given

import cep_core
from cep_core import algebra as al
from cep_core.algebra.expressions import (
    TRUE,
    And,
    Arithmetic,
    Column,
    Compare,
    Constant,
    Duration,
    Expression,
)
from cep_core.errors import AlgebraError
from cep_core.events import Event, Schema
from cep_core.views import air
from tests.cep_core.engines import engine_of
from tests.cep_core.strategies import predicates, without_times

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
    root = ElementTree.fromstring(air.to_xml(example_9()))
    states = root.findall("state")
    assert [(state.attrib["name"], len(state.findall("schema/attribute"))) for state in states] == [
        ("q0", 3),  # B: waits for the rise
        ("q1", 4),  # A: the fall, with the first and the last quote
        ("q2", 2),  # the start
        ("end", 2),
    ]
    assert [(edge.attrib["from"], edge.attrib["to"]) for edge in root.findall("forward")] == [
        *(("q0", "end"), ("q1", "q0"), ("q2", "q1"))
    ]
    assert [state.find("rebind") is not None for state in states] == [False, True, False, False]
    assert [state.find("filter") is not None for state in states] == [True, True, False, False]
    inputs = [state.find("input") for state in states]
    assert [one is not None and one.attrib["stream"] == "Stock" for one in inputs] == [
        *(True, True, True, False)
    ]


def test_there_and_back() -> None:
    node = example_9()
    assert air.from_xml(air.to_xml(node)) == node
    union = al.union(al.select(STREAM, Compare(">", Column(2, 1), Constant(1.0))), STREAM)
    both = al.sequence(union, al.select(STREAM, Compare("=", Column(2, 0), Constant("A"))), TRUE)
    assert air.from_xml(air.to_xml(both)) == both


@given(predicates(True).map(without_times))
def test_every_predicate_goes_through_xml(predicate: Expression) -> None:
    numbers = al.stream("S", Schema(("x", "y"), (float, float)))
    node = al.sequence(numbers, numbers, predicate)
    assert air.from_xml(air.to_xml(node)) == node


def test_a_right_side_that_is_no_stream_is_not_linear_plus() -> None:
    names = [("N", Column(2, 0)), ("P", Column(2, 3))]
    inner = al.project(al.sequence(STREAM, STREAM), names)
    with pytest.raises(AlgebraError, match="not linear-plus: its right side is no stream"):
        air.to_xml(al.sequence(STREAM, inner))
    windowed = al.group_aggregate(STREAM, (), (("n", al.Aggregate("COUNT", None)),), Constant(5))
    with pytest.raises(AlgebraError, match="GroupAggregate is not part of an automaton"):
        air.to_xml(windowed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<automaton", "this is no XML document"),
        ("<!DOCTYPE a []><automaton/>", "without DOCTYPE"),
        ("<automaton/>", "at least two states"),
        ('<automaton><state name="a"/><forward from="a" to="b"/></automaton>', "the state b"),
        ("<automaton><state/></automaton>", "not well-formed: 'name'"),
        ('<automaton><state name="a"/><state name="a"/></automaton>', "have the same name"),
        *[
            (
                '<automaton><state name="a"/><forward from="a" to="a"><predicate>'
                f"{inner}</predicate></forward></automaton>",
                message,
            )
            for inner, message in (
                ("", "not well-formed"),
                ("<negative/>", "<negative> has one operand, not 0"),
                ("<not/>", "<not> has one operand, not 0"),
                ("<not><duration/><duration/></not>", "<not> has one operand, not 2"),
                (
                    '<compare operator="="><duration/></compare>',
                    "<compare> has two operands, not 1",
                ),
                ('<compare operator="~"><duration/><duration/></compare>', "operator='~'"),
                ('<constant type="date">1</constant>', "'date'"),
                ('<constant type="int">x</constant>', "invalid literal"),
            )
        ],
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
    core = engine_of(["Stock"], STOCK)
    core.register("given", example_9())
    core.import_air("again", core.export("given"))
    prices = [90.0, 85.0, 81.0, 91.0]
    core.push([Event("Stock", ("IBM", p), 400 * t) for t, p in enumerate(prices)])
    out = core.close()
    assert [(m.query, m.event.values) for m in out] == [
        ("given", ("IBM", 91.0)),
        ("again", ("IBM", 91.0)),
    ]
    assert core.stats()["operators"] == 6  # the two are one


def linked(pairs: list[tuple[str, str]], names: list[str]) -> str:
    """Return a document of states that wait for a quote each, and the edges between them."""
    schema = "".join(
        f'<attribute name="{name}" type="{kind}"/>'
        for name, kind in (("Name", "str"), ("Price", "float"))
    )
    first = "".join(
        f'<attribute name="{name}"><column side="2" index="{place}"/></attribute>'
        for place, name in enumerate(("Name", "Price"))
    )
    input = f'<input stream="Stock"><schema>{schema}</schema></input>'
    always = '<constant type="bool">True</constant>'
    states = "".join(
        f'<state name="{name}">{input}'
        + (f"<filter>{always}</filter>" * (name != "start"))
        + "</state>"
        for name in names
    )
    edges = "".join(
        f'<forward from="{source}" to="{target}"><predicate>{always}</predicate>'
        f"<map>{first}</map></forward>"
        for source, target in pairs
    )
    end = f'<state name="end"><schema>{schema}</schema></state>'
    return f"<automaton>{states}{end}{edges}</automaton>"


def engine() -> cep_core.Engine:
    return engine_of(["Stock"], STOCK)


def test_many_ways_through_an_automaton() -> None:
    """Two edges lead from each state to the next."""

    def levels(number: int) -> str:
        names = ["start", *(f"q{level}" for level in range(number))]
        pairs = [pair for pair in zip(names, [*names[1:], "end"], strict=True) for _ in range(2)]
        return linked(pairs, names)

    core = engine()
    core.import_air("few", levels(2))
    out = core.push([Event("Stock", (str(t), 1.0), t) for t in range(3)])
    assert len([*out, *core.close()]) == 8
    with pytest.raises(AlgebraError, match="more than 10000 operators"):
        engine().import_air("many", levels(30))
    with pytest.raises(AlgebraError, match="at most 200 states"):
        engine().import_air("more", levels(300))


@pytest.mark.parametrize(
    "pairs",
    [
        [("start", "end"), ("a", "a"), ("a", "end")],
        [("start", "a"), ("a", "b"), ("b", "a"), ("b", "end")],
        [("start", "end"), ("end", "a"), ("a", "end")],
    ],
)
def test_an_automaton_that_leads_to_itself(pairs: list[tuple[str, str]]) -> None:
    text = linked(pairs, ["start", "a", "b"])
    with pytest.raises(AlgebraError, match=r"leads to itself|reads no stream"):
        engine().import_air("q", text)


def equal_to(value: str | int) -> cep_core.Engine:
    """Return an engine with one query: what equals a constant."""
    schema = Schema(("v",), (type(value),))
    core = engine_of(["V"], schema)
    is_it = Compare("=", Column(2, 0), Constant(value))
    core.register("given", al.select(al.stream("V", schema), is_it))
    return core


@pytest.mark.parametrize(
    "value",
    ["", "a\nb\t<&>", "  x ", "\x85", 1 << 64, -(1 << 63), -(10**5000)],
    ids=lambda value: ascii(value) if isinstance(value, str) else hex(value)[:20],
)
def test_a_constant_goes_through_air(value: str | int) -> None:
    core = equal_to(value)
    core.import_air("again", core.export("given"))
    assert [m.query for m in core.push([Event("V", (value,), 1)])] == ["given", "again"]


@pytest.mark.parametrize("value", ["a\rb", "a\x01", "\ud800", "\ufffe"])
def test_a_constant_that_xml_cannot_have(value: str) -> None:
    with pytest.raises(AlgebraError, match="an XML document cannot have the constant"):
        equal_to(value).export("given")


def test_functions_of_the_user_go_through_air() -> None:
    half = cep_core.Function(lambda price: price / 2, (float,), float)
    core = cep_core.Engine(ticks_per_second=1, functions={"half": half})
    core.stream("Stock", STOCK)
    core.register("given", "SELECT half(Price) AS h FROM FILTER{half(Price) > 1}(Stock)")
    core.import_air("again", core.export("given"))
    out = core.push([Event("Stock", ("A", 4.0), 1)])
    assert [m.event.values for m in out] == [(2.0,), (2.0,)]
    with pytest.raises(AlgebraError, match="there is no function half"):
        engine().import_air("again", core.export("given"))
