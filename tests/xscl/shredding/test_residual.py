"""Residual predicates: worked cases, and equal to the oracle's definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

import pytest
from hypothesis import given
from lxml import etree

from tests.examples import examples, until
from tests.oracle import formulas as oracle
from tests.oracle.queries import Formula
from tests.strategies.language import Side, predicates
from xscl.language.parser import parse
from xscl.language.syntax import Call, Comparison, Constant, Join, Operand, Predicate, VariablePath
from xscl.shredding.conditions.residual import compiled
from xscl.shredding.nodes.tree import AttributeNode, Item, number_nodes

Row: TypeAlias = "Mapping[str, Item | None]"


def element(text: str) -> etree._Element:
    return etree.fromstring(f"<a>{text}</a>")


def parsed(predicate: str) -> Predicate:
    expression = parse(f"S//a->x JOIN{{{predicate}, 5}} S//b->y").expression
    assert isinstance(expression, Join)
    assert expression.predicate is not None
    return expression.predicate


def holds(predicate: str, x: str, y: str = "") -> bool:
    return compiled(parsed(predicate)).holds({"x": element(x), "y": element(y)})


# -- Worked cases ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("predicate", "x", "y", "expected"),
    [
        # string values; order by code point
        ("x = y", "Wro<b>x</b>", "Wrox", True),
        ("x = y", "3.0", "3", False),
        ("x != y", "3.0", "3", True),
        ("x < y", "Z", "a", True),
        ("x < y", "\uffee", "\U0001f600", True),
        ("x <= y", "a", "a", True),
        ("x > y", "a", "a", False),
        ("x >= '3'", "10", "", False),
        # two values of documents are ordered as what both of them are
        ("x < y", "9", "10", True),
        ("x < y", "100", "30", False),
        ("x > y", "40", "40.00", False),
        ("x >= y", "40", " 4.0E1\n", True),
        ("x < y", "007", "8", True),
        ("x/b > y/b", "<b>9</b><b>a</b>", "<b>b</b><b>10</b>", False),
        ("x/b < y/b", "<b>9</b><b>a</b>", "<b>b</b><b>10</b>", True),
        ("x < y", "9", "a", False),
        ("x >= y", "9", "a", False),
        ("NOT x < y", "9", "a", True),
        ("x > y", "", "5", False),
        ("x < y", "", "5", False),
        ("x < y", "NaN", "5", False),
        ("NOT x >= y", "NaN", "5", True),
        ("x < y", "2026-01-02T00:00:00+02:00", "2026-01-01T23:00:00Z", True),
        ("x < y", "Mon, 05 Jan 2026 00:00:00 GMT", "Fri, 09 Jan 2026 00:00:00 GMT", True),
        ("x <= y", "2026-01-02", "2026-01-02T00:00:00Z", True),
        ("x < y", "2026-01-02", "soon", True),
        ("x < y", "2026-01-02", "2027", False),
        # what a function of texts returns is a text, as is a literal in quotes
        ("string(x) < y", "9", "10", False),
        ("x < '10'", "9", "", False),
        # = and != compare texts: they are keys
        ("x = y", "007", "7", False),
        ("x != y", "40", "40.00", True),
        ("number(x) != number(y)", "40", "40.00", False),
        ("number(x) = number(y)", "1E3", "1000", True),
        # numbers, if one side is one
        ("x = 3", " 3.0\n", "", True),
        ("3 = x", "3.0", "", True),
        ("number(x) = y", "3.0", "3", True),
        ("number(x) < y", "9", "10", True),
        ("string-length(x) = y", "abc", "3.0", True),
        ("x + 1 = y", "1", "2.0", True),
        ("x = 3", "three", "", False),
        ("x != 3", "three", "", True),
        ("x < 3", "three", "", False),
        ("x >= 3", "three", "", False),
        ("NOT x < 3", "three", "", True),
        # functions without a value
        ("number(x) = number(y)", "a", "a", False),
        ("number(x) != number(y)", "a", "a", True),
        ("number(x) <= y", "a", "3", False),
        ("lower-case(number(x)) = '3'", "3.0", "", True),
        ("lower-case(number(x)) = 'nan'", "a", "", False),
        # functions see the string value
        ("lower-case(x) = lower-case(y)", "<b>A</b>b", "aB", True),
        ("substring-before(x, '@') = y", "ann@example", "ann", True),
        ("substring-after(x, '@') = y", "ann", "", True),
        ("normalize-space(lower-case(x)) = y", " A  b ", "a b", True),
        # arithmetic
        ("x - 1 - 1 = y", "5", "3", True),
        ("-x = y", "5", "-5", True),
        ("x * y = 1", "0.5", "2", True),
        ("x div y = 2.5", "5", "2", True),
        ("x mod y = 1", "5", "2", True),
        ("x mod y = -1", "-5", "2", True),
        ("x mod y = 1", "5", "-2", True),
        ("x mod y = 1.5", "5.5", "2", True),
        ("x div y > 1000", "1", "0", True),
        ("x div y < -1000", "-1", "0", True),
        ("x div y = x div y", "0", "0", False),
        ("x mod y = x mod y", "1", "0", False),
        ("1 div x = 1 div y", "0", "0", True),
        ("(1 div x) mod 2 = y", "0", "0", False),
        ("2 mod (1 div x) = 2", "0", "", True),
        ("x + y != x + y", "a", "1", True),
        # a choice of nodes
        ("x/b = y", "<b>1</b><b>2</b>", "2", True),
        ("x/b != y", "<b>1</b><b>2</b>", "2", True),
        ("x/b != y", "<b>2</b><b>2</b>", "2", False),
        ("NOT x/b = y", "<b>1</b><b>2</b>", "2", False),
        ("x/b = y", "", "", False),
        ("x/b != y", "", "", False),
        ("NOT x/b != y", "", "", True),
        ("x/b = y/c", "<b>1</b><b>2</b>", "<c>3</c><c>2</c>", True),
        ("x//c/@d = y", "<b><c d='1'/></b>", "1", True),
        ("x/text() = y", "1<b>2</b>3", "3", True),
        ("x/b + x/b = 3", "<b>1</b><b>2</b>", "", True),
        ("x/b + y/b = 3", "<b>1</b>", "", False),
        ("lower-case(x/b) = y", "<b>P</b><b>Q</b>", "q", True),
        ("substring-before(x/b, '-') = y", "<b>p</b><b>q-r</b>", "q", True),
        # contains() and starts-with() take the first node
        ("contains(x, 'b')", "abc", "", True),
        ("contains(x, y)", "abc", "bc", True),
        ("starts-with(x, y)", "abc", "bc", False),
        ("starts-with(x, 'ab')", "abc", "", True),
        ("contains(x/b, 'q')", "<b>p</b><b>q</b>", "", False),
        ("contains(x/b, 'p')", "<b>p</b><b>q</b>", "", True),
        ("contains(x/b, '')", "", "", True),
        ("starts-with(x/b, 'p')", "", "", False),
        ("contains(lower-case(x), lower-case(y))", "ABC", "Bc", True),
        ("contains(number(x), '3')", "3.0", "", True),
        ("starts-with(x, number(y))", "3", "three", True),
        # formulas
        ("x = y AND contains(x, 'a')", "b", "b", False),
        ("x = y OR contains(x, 'a')", "b", "b", True),
        ("NOT (x = y OR contains(x, 'a'))", "b", "c", True),
        ("'a' = 'a' AND 1 < 2", "", "", True),
    ],
)
def test_worked_cases(predicate: str, x: str, y: str, expected: bool) -> None:
    assert holds(predicate, x, y) is expected


X, Y = VariablePath("x"), VariablePath("y")


def url(operand: Operand) -> Call:
    return Call("canonical-url", (operand,))


def year(operand: Operand) -> Call:
    return Call("year-from-date", (operand,))


@pytest.mark.parametrize(
    ("predicate", "x", "y", "expected"),
    [
        (Comparison("=", year(X), Y), "Tue, 19 Mar 2013 10:00:00 GMT", "2013.0", True),
        (Comparison(">", year(X), year(Y)), "2013-01-01", "2012-12-31T23:00:00Z", True),
        (Comparison("=", year(X), year(Y)), "soon", "soon", False),
        (Comparison("!=", year(X), year(Y)), "soon", "soon", True),
        (Comparison("=", url(X), url(Y)), "HTTP://A.example", "http://a.example/#b", True),
        (Comparison("=", url(X), url(Y)), "a", "a", False),
        (Comparison("<=", url(X), Y), "a", "a", False),
        (Comparison("!=", url(X), url(Y)), "a", "a", True),
        (Comparison("!=", Y, url(X)), "a", "a", True),
        (Comparison("=", Call("string-length", (url(X),)), Constant(0.0)), "a", "", False),
        (Call("contains", (url(X), Constant("a"))), "a", "", False),
        (Call("starts-with", (url(X), Constant("http:"))), "HTTP://a.example", "", True),
        # a number of the tree may be written as an int
        (Comparison("=", X, Constant(3)), "3.0", "", True),
        (Comparison("=", Call("lower-case", (Constant(3),)), X), "3", "", True),
    ],
)
def test_functions_without_a_value(predicate: Predicate, x: str, y: str, expected: bool) -> None:
    assert compiled(predicate).holds({"x": element(x), "y": element(y)}) is expected


def test_a_variable_may_be_an_attribute_or_a_text() -> None:
    owner = etree.fromstring("<a b='3.0'/>")
    row: Row = {"x": AttributeNode(owner, "b", "3.0"), "y": "3"}
    assert compiled(parsed("x = 3 AND number(x) = y AND y = '3'")).holds(row)
    assert not compiled(parsed("x/b = y")).holds(row)


def test_a_decorated_operand_is_looked_up_under_its_text() -> None:
    row: Row = {"$1.p": element("3"), "$2.p": element("4"), "$.n": "12"}
    assert compiled(parsed("$1.p < $2.p AND $.n = $1.p * $2.p")).holds(row)
    assert not compiled(parsed("$1.p > $2.p")).holds(row)


def test_a_variable_bound_to_nothing_compares_with_nothing() -> None:
    row: Row = {"x": None, "y": element("1")}
    for operator in ("=", "!=", "<", ">="):
        assert not compiled(parsed(f"x {operator} y")).holds(row)
        assert not compiled(parsed(f"number(x) {operator} 1")).holds(row)
    assert compiled(parsed("NOT x = y AND NOT contains(x, 'a')")).holds(row)


def test_a_variable_that_no_one_knows_is_an_error() -> None:
    with pytest.raises(KeyError):
        compiled(parsed("x = z")).holds({"x": "1", "y": "1"})


# -- Equal to the oracle ---------------------------------------------------------------------


def nodes_of(sides: list[Side]) -> Row:
    """Return the engine's nodes of the variables of both sides."""
    found: dict[str, Item | None] = {}
    for xml, nodes in sides:
        items = number_nodes(etree.fromstring(xml)).items
        found |= {name: items[node.number] for name, node in nodes.items()}
    return found


@pytest.mark.hypothesis
def test_it_equals_the_oracle() -> None:
    seen: Counter[str] = Counter()

    @given(predicates())
    @examples(100, all_of_them=True)
    def check(drawn: tuple[Formula, list[Side]]) -> None:
        formula, sides = drawn
        scope = {name: node for _, nodes in sides for name, node in nodes.items()}
        expected = oracle.holds(formula, scope)
        assert compiled(parsed(formula.text())).holds(nodes_of(sides)) is expected
        seen[str(expected)] += 1
        seen.update({word for word in FEATURES if word in formula.text()})

    check()
    until(lambda: all(seen[word] for word in FEATURES), check)
    assert min(seen["True"], seen["False"]) > sum((seen["True"], seen["False"])) / 4
    assert {word for word in FEATURES if seen[word]} == set(FEATURES)


FEATURES = (
    *(" AND ", " OR ", "not(", " = ", " != ", " < ", " <= ", " > ", " >= ", " + ", " - ", " * "),
    *(" div ", " mod ", "string(", "lower-case", "upper-case", "normalize-space", "number("),
    *("string-length", "substring-before", "substring-after", "contains", "starts-with"),
)
