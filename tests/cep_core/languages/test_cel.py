"""CEL as algebra, node by node, the extensions, and two properties.

`tests/golden/test_cayuga_examples.py` runs the papers' examples.  Literals are parameters in the
order of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import event, given

from cep_core.algebra import (
    Iterate,
    Node,
    Project,
    Select,
    Sequence,
    Stream,
)
from cep_core.algebra.expressions import (
    FUNCTIONS,
    TRUE,
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Constant,
    Duration,
    Expression,
    Negative,
    Not,
    Or,
    Parameter,
    rewrite,
)
from cep_core.errors import QueryError
from cep_core.events import Schema
from cep_core.languages import LANGUAGES, AlgebraQuery
from cep_core.languages.tokens import split

TICKS = 10  # a second
SCHEMAS: Mapping[str, Schema] = {
    "Stock": Schema(("Name", "Price", "Volume"), (str, float, int)),
    "IBMStock": Schema(("IBMPrice",), (float,)),
    "CPU": Schema(("pid", "load"), (int, float)),
}
STOCK = Stream("Stock", SCHEMAS["Stock"])
NAME, PRICE, VOLUME = (Column(2, place) for place in range(3))
PAIR = (str, float, int, str, float, int)
RENAMED = ("Name_1", "Price_1", "Volume_1", "Name", "Price", "Volume")


class Streams:
    """The catalog of these tests."""

    def schema(self, name: str) -> Schema | None:
        return SCHEMAS.get(name)

    def names(self) -> Iterable[str]:
        return SCHEMAS

    def rate(self, name: str) -> float | None:
        return None


def prepared(text: str) -> AlgebraQuery:
    return LANGUAGES["cel"].prepare(text, Streams(), TICKS, FUNCTIONS)


def node(text: str) -> Node:
    return prepared(text).node


def first(place: int) -> Column:
    return Column(1, place)


def projected(source: Node, **columns: tuple[type, Expression]) -> Project:
    schema = Schema(tuple(columns), tuple(kind for kind, _ in columns.values()))
    return Project(source, tuple(column for _, column in columns.values()), schema)


# -- the extensions ---------------------------------------------------------------------------


# -- forms ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "FROM Stock",
        "SELECT * FROM Stock",
        "select *\tfrom (Stock)",
        "SELECT Name, Price, Volume FROM Stock",
        "SELECT Name AS Name, Price, Volume FROM (SELECT * FROM ((Stock)))",
    ],
)
def test_what_changes_nothing_makes_no_node(text: str) -> None:
    assert node(text) == STOCK


@pytest.mark.parametrize("parts", [",", ", ,", "TRUE, TRUE", ",TRUE,", " , , "])
def test_parts_of_a_fold_may_be_empty(parts: str) -> None:
    expected = Iterate(STOCK, STOCK, TRUE, TRUE, (), (0, 1, 2), Schema(RENAMED, PAIR))
    assert node(f"SELECT * FROM Stock FOLD{{{parts}}} Stock") == expected


def test_filter_takes_the_next_operand_only() -> None:
    bare = node("FROM FILTER{Price > 1} Stock NEXT Stock")
    assert bare == node("FROM (FILTER{Price > 1} (Stock)) NEXT Stock")
    assert bare != node("FROM FILTER{Price > 1} (Stock NEXT Stock)")


def test_an_attribute_wins_over_a_renamed_one() -> None:
    renamed = projected(STOCK, Price_1=(float, PRICE))
    found = node("FROM (SELECT Price AS Price_1 FROM Stock) NEXT{Price > Price_1} Stock")
    schema = Schema(("Price_1", "Name", "Price", "Volume"), (float, str, float, int))
    assert found == Sequence(renamed, STOCK, Compare(">", PRICE, first(0)), schema)


def test_sub_queries_publish_the_innermost_first() -> None:
    text = (
        "FROM ((FROM FILTER{Price > 1} Stock PUBLISH A) NEXT (FROM CPU PUBLISH B) PUBLISH C)"
        " PUBLISH D"
    )
    with pytest.raises(QueryError, match="'\\)' is expected here, not 'PUBLISH'"):
        prepared(text)
    found = prepared(text.replace("((FROM", "(FROM (FROM"))
    assert list(found.inner) == ["A", "B", "C"]
    assert found.publishes == "D"
    sub_a, sub_b, sub_c = found.inner.values()
    assert isinstance(sub_c, Sequence)
    assert sub_c.left is sub_a
    assert sub_c.right is sub_b
    assert found.node is sub_c
    assert found.reads == ("Stock", "CPU")


# -- properties -------------------------------------------------------------------------------

NUMBERS = st.sampled_from([PRICE, VOLUME, Duration()]) | st.builds(
    Constant, st.integers(0, 99) | st.sampled_from([0.5, 1.05, 1e20])
)
STRINGS = st.just(NAME) | st.builds(Constant, st.text("aé'\"{},$1. \n", max_size=6))
TERMS = st.recursive(
    NUMBERS,
    lambda inner: (
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner)
        | st.builds(Negative, inner)
        | st.builds(lambda x: Call("abs", (x,)), inner)
    ),
    max_leaves=5,
)
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
ATOMS = (
    st.builds(Compare, OPERATORS, TERMS, TERMS)
    | st.builds(Compare, OPERATORS, STRINGS, STRINGS)
    | st.builds(lambda x, y: Call("contains", (x, y)), STRINGS, STRINGS)
    | st.sampled_from([Constant(True), Constant(False)])
)
CONDITIONS: st.SearchStrategy[Expression] = st.recursive(
    ATOMS,
    lambda inner: (
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Not, inner)
    ),
    max_leaves=6,
)
_BINDING = {"+": 5, "-": 5, "*": 6, "/": 6, "%": 6}


def shown(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).upper()


def printed(node: Expression, outer: int = 0) -> str:
    """Return an expression as text, in parentheses where something binds tighter around it."""
    match node:
        case Column(_, index):
            return STOCK.schema.names[index]
        case Constant(value):
            return shown(value)
        case Duration():
            return "DUR"
        case Call(name, arguments):
            return f"{name}({', '.join(printed(one) for one in arguments)})"
        case Or(items):
            level, text = 1, " OR ".join(printed(one, 2) for one in items)
        case And(items):
            level, text = 2, "\n AND ".join(printed(one, 3) for one in items)
        case Not(item):
            level, text = 3, f"NOT {printed(item, 3)}"
        case Compare(operator, left, right):
            level, text = 4, f"{printed(left, 5)} {operator} {printed(right, 5)}"
        case Arithmetic(sign, left, right):
            level = _BINDING[sign]
            text = f"{printed(left, level)}{sign} {printed(right, level + 1)}"
        case Negative(operand):
            level, text = 7, f"- {printed(operand, 7)}"
        case _:
            raise AssertionError(node)
    return f"({text})" if level < outer else text


def with_values(node: Expression, values: tuple[Any, ...]) -> Expression:
    """Return an expression with its literals in it."""

    def put(one: Expression) -> Expression:
        if not isinstance(one, Parameter):
            return one
        value = values[one.index]
        return Constant(float(value) if isinstance(value, Decimal) else value)

    return rewrite(node, put)


@given(CONDITIONS)
def test_what_is_printed_is_read_again(condition: Expression) -> None:
    text = f"FROM FILTER{{{printed(condition)}}} Stock"
    _, values, _ = split(text, TICKS)
    found = node(text)
    assert isinstance(found, Select)
    event(f"{len(values)} literals")
    event(type(condition).__name__)
    assert with_values(found.predicate, values) == condition


SHAPES = (
    "FROM FILTER{{Price > {n} AND Name = {s}}} Stock NEXT{{DUR <= {d}}} CPU PUBLISH {p}",
    "SELECT Name, - {n} + {n} AS x, {s} AS y FROM Stock\nPUBLISH {p}",
    "SELECT pid, SUM(load * {n}) AS s FROM CPU GROUP BY pid WINDOW {d} PUBLISH {p}",
    "FROM (SELECT *, {n} AS a FROM Stock) FOLD{{, DUR < {d}, $.a + {n} AS a}} Stock PUBLISH {p}",
)
CHOICES = {
    "n": st.integers(0, 10**30).map(str),
    "s": st.text("ab'\"{}$1. \n\0", max_size=8).map(shown),
    "d": st.builds(
        "{}{}{}".format,
        st.integers(1, 999),
        st.sampled_from(["", "  ", "\n"]),
        st.sampled_from(["s", "min", "HOURS", "weeks"]),
    ),
    "p": st.sampled_from(["Out", "out_2", "Sixty60"]),
}


@given(st.sampled_from(SHAPES), st.data())
def test_queries_of_one_shape_are_one_query(shape: str, data: st.DataObject) -> None:
    def filled() -> str:
        pieces = {name: data.draw(strategy) for name, strategy in CHOICES.items()}
        return shape.format(**pieces)

    one, two = filled(), filled()
    assert split(one, TICKS)[0] == split(two, TICKS)[0]
    first_read, second_read = prepared(one), prepared(two)
    assert first_read.node == second_read.node
    assert first_read.publishes == split(one, TICKS)[2]
    assert second_read.publishes == split(two, TICKS)[2]
