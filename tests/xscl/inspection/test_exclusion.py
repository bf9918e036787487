"""Exclusions: the match fails the condition, others meet it, and the query keeps its form."""

from __future__ import annotations

import pytest
from lxml import etree

from xscl import Document, Engine
from xscl.inspection.by_example import MOST_EXCLUSIONS, Exclusion, exclusions
from xscl.shredding.nodes import DocumentTree, number_nodes

ONE = "<item><title>One</title><category>sea</category><category>it's</category></item>"
TWO = "<item><title>One</title><by>bob</by><x y='7'/><long>{}</long></item>".format("w" * 300)
OTHER = "<item><title>Two</title><category>land</category><by>ann</by><x y='8'/></item>"


def tree(xml: str) -> DocumentTree:
    return number_nodes(etree.fromstring(xml))


def of(query: str, *documents: str) -> list[list[Exclusion]]:
    return exclusions(query, [tree(one) for one in documents])


@pytest.mark.parametrize(
    ("query", "written"),
    [
        (
            "S//item->a[./title->t]\n  JOIN{t=u, 2 d} S//item->b[./title->u]",
            "S//item[{}]->a[./title->t]\n  JOIN{{t=u, 2 d}} S//item->b[./title->u]",
        ),
        ("S FOLLOWED BY{2 d} S", "S/*[{}] FOLLOWED BY{{2 d}} S"),
        ("S AS a FOLLOWED BY{2 d} S -> b", "S/*[{}] AS a FOLLOWED BY{{2 d}} S -> b"),
        (
            "SELECT <r>{a}</r> FROM (S//item->a JOIN{2 d} S//item->b) PUBLISH P",
            "SELECT <r>{{a}}</r> FROM (S//item[{}]->a JOIN{{2 d}} S//item->b) PUBLISH P",
        ),
        (  # the sides of a symmetric join are one block
            "S//item->a[./title->t]\n  SYMMETRIC JOIN{t=u, 2 d} S//item->b[./title->u]",
            "S//item[{0}]->a[./title->t]\n  SYMMETRIC JOIN{{t=u, 2 d}} S//item[{0}]->b[./title->u]",
        ),
        (  # the position counts all items, so the condition comes after it
            "S//item[1]->a FOLLOWED BY{2 d} S//item->b",
            "S//item->a[{}][. intersect (../item[1])] FOLLOWED BY{{, 2 d}} S//item->b",
        ),
    ],
)
def test_a_condition_is_written_into_the_query_as_it_is(query: str, written: str) -> None:
    first, _ = of(query, ONE, TWO)
    assert [one.condition for one in first] == [
        *('not(./title = "One")', 'not(./category = "sea")', 'not(./category = "it\'s")')
    ]
    assert first[0].query == written.format(first[0].condition)


def test_the_excluded_match_fails_and_others_stay(engine: Engine) -> None:
    query = "S//item->a[./title->t] FOLLOWED BY{2 d} S//item->b[./title->u]"
    engine.subscribe("all", "S//item->a FOLLOWED BY{2 d} S//item->b")
    pushed = [
        Document("S", f"d{number}", number * 1_000_000, xml.encode())
        for number, xml in enumerate((ONE, TWO, OTHER, OTHER))
    ]
    engine.push(pushed)
    assert engine.why(query, "d0", "d1").matched
    found = [one for part in of(query, ONE, TWO) for one in part]
    assert {one.leaf[-1] for one in found} == {"title", "category", "by", "@y"}
    for one in found:
        assert not engine.why(one.query, "d0", "d1").matched, one
        assert engine.why(one.query, "d2", "d3").matched, one


def test_a_leaf_outside_of_the_block_gives_no_condition() -> None:
    first, second = of("S//by->a FOLLOWED BY{2 d} S//item/@id->b", TWO, "<item id='1'/>")
    assert [one.condition for one in first] == ['not(. = "bob")']
    assert second == []
    assert of("S//item->a NOT FOLLOWED BY{2 d} S//item->b", ONE, TWO) == [[], []]
    assert of("S//item->a", ONE)[0][0].leaf == ("item", "title")


def test_conditions_are_bounded_and_values_with_both_quotes_have_none() -> None:
    many = "".join(f"<v>{number}</v>" for number in range(2 * MOST_EXCLUSIONS))
    (found,) = of("S//item->a", f"<item><v>'\"</v>{many}</item>")
    assert len(found) == MOST_EXCLUSIONS
    assert found[0].value == "0"
