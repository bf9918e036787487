"""Residual predicates: worked cases, and equal to the oracle's definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import permutations
from typing import TypeAlias

import pytest
from hypothesis import given
from lxml import etree

from tests.examples import examples, until
from tests.oracle import formulas as oracle
from tests.oracle.queries import Formula
from tests.strategies.language import Side, predicates
from xscl.language.parser import parse
from xscl.language.syntax import Join, Predicate
from xscl.language.valuejoin import disjuncts
from xscl.shredding.conditions.residual import compiled
from xscl.shredding.nodes import AttributeNode, Item, number_nodes

Row: TypeAlias = "Mapping[str, Item | None]"


def element(text: str) -> etree._Element:
    return etree.fromstring(f"<a>{text}</a>")


def parsed(predicate: str) -> Predicate:
    expression = parse(f"S//a->x JOIN{{{predicate}, 5}} S//b->y").expression
    assert isinstance(expression, Join)
    assert expression.predicate is not None
    return expression.predicate


# -- Worked cases ----------------------------------------------------------------------------


def test_a_variable_may_be_an_attribute_or_a_text() -> None:
    owner = etree.fromstring("<a b='3.0'/>")
    row: Row = {"x": AttributeNode(owner, "b", "3.0"), "y": "3"}
    assert compiled(parsed("x = 3 AND number(x) = y AND y = '3'")).holds(row)
    assert not compiled(parsed("x/b = y")).holds(row)


def test_a_decorated_operand_is_looked_up_under_its_text() -> None:
    row: Row = {"$1.p": element("3"), "$2.p": element("4"), "$.n": "12"}
    assert compiled(parsed("$1.p < $2.p AND $.n = $1.p * $2.p")).holds(row)
    assert not compiled(parsed("$1.p > $2.p")).holds(row)


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
    @examples(100)
    def check(drawn: tuple[Formula, list[Side]]) -> None:
        formula, sides = drawn
        scope = {name: node for _, nodes in sides for name, node in nodes.items()}
        expected, row = oracle.holds(formula, scope), nodes_of(sides)
        assert compiled(parsed(formula.text())).holds(row) is expected
        alternatives = disjuncts(parsed(formula.text()))
        assert expected is any(
            all(compiled(one.atom).holds(row) is one.positive for one in alternative)
            for alternative in alternatives
        )
        for one, other in permutations(alternatives, 2):
            assert not set(one) <= set(other), "nothing is said twice"
        seen["several"] += len(alternatives) > 1
        seen["complement"] += any(not one.positive for each in alternatives for one in each)
        seen[str(expected)] += 1
        seen.update({word for word in FEATURES if word in formula.text()})

    check()
    until(lambda: all(seen[word] for word in (*FEATURES, "several", "complement")), check)
    assert min(seen["True"], seen["False"]) > sum((seen["True"], seen["False"])) / 4
    assert [word for word in (*FEATURES, "several", "complement") if not seen[word]] == []


FEATURES = (
    *(" AND ", " OR ", "not(", " = ", " != ", " < ", " <= ", " > ", " >= ", " + ", " - ", " * "),
    *(" div ", " mod ", "string(", "lower-case", "upper-case", "normalize-space", "number("),
    *("string-length", "substring-before", "substring-after", "contains", "starts-with"),
)
