"""Disjunctive normal form: worked cases, and equal truth under every assignment."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given

from cep_core.algebra.normal_form import MOST_DISJUNCTS
from tests.examples import examples, until
from tests.oracle.formulas import holds
from tests.oracle.queries import Formula
from tests.strategies.language import Side, predicates
from tests.xscl.shredding.test_residual import nodes_of, parsed
from xscl.errors import QueryError
from xscl.language.unparse import unparse
from xscl.language.valuejoin import disjuncts
from xscl.shredding.conditions.residual import compiled


def query(predicate: str) -> str:
    return f"S//a->x JOIN{{{predicate}, 5}} S//b->y"


def printed(predicate: str) -> list[str]:
    """Return each disjunct on a line; a complement has a minus in front."""
    return [
        ", ".join(("" if one.positive else "-") + unparse(one.atom) for one in disjunct)
        for disjunct in disjuncts(parsed(predicate), query(predicate))
    ]


# -- The limit -------------------------------------------------------------------------------


def alternatives(number: int, left: str = "x") -> str:
    return "(" + " OR ".join(f"{left} = y{i}" for i in range(number)) + ")"


def pairs(number: int) -> str:
    return " AND ".join(f"(x = y{i} OR u = v{i})" for i in range(number))


def test_sixty_four_disjuncts_are_allowed() -> None:
    assert len(printed(alternatives(MOST_DISJUNCTS))) == MOST_DISJUNCTS
    assert len(printed(pairs(6))) == MOST_DISJUNCTS == 64


def test_what_is_absorbed_does_not_count() -> None:
    many = alternatives(MOST_DISJUNCTS)
    assert len(printed(f"{many} AND {many}")) == MOST_DISJUNCTS
    assert len(printed(f"{many} OR {many}")) == MOST_DISJUNCTS


@pytest.mark.parametrize(
    ("predicate", "sign"),
    [
        (alternatives(MOST_DISJUNCTS + 1), "OR x = y1 "),
        (pairs(7), "AND (x = y1 "),
        (f"u = v AND NOT ({' OR '.join(f'(x < y{i} AND u < v{i})' for i in range(7))})", "OR (x"),
    ],
)
def test_more_are_refused_at_the_sign_that_makes_them(predicate: str, sign: str) -> None:
    text = query(predicate)
    with pytest.raises(QueryError) as caught:
        disjuncts(parsed(predicate), text)
    offset = text.index(sign)
    assert (caught.value.line, caught.value.column) == (1, offset + 1)
    assert caught.value.message == (
        "the predicate has more than 64 alternatives once its ORs are multiplied out"
    )
    assert caught.value.hint == (
        "subscribe to the alternatives one by one, "
        "or move conditions on one document into its block"
    )


# -- Equal truth -----------------------------------------------------------------------------


@pytest.mark.hypothesis
def test_the_truth_value_is_kept_and_nothing_is_said_twice() -> None:
    seen: Counter[str] = Counter()

    @given(predicates())
    @examples(100, all_of_them=True)
    def check(drawn: tuple[Formula, list[Side]]) -> None:
        formula, sides = drawn
        form = disjuncts(parsed(formula.text()))
        row = nodes_of(sides)
        literals = {one for disjunct in form for one in disjunct}
        truth = {one: compiled(one.atom).holds(row) is one.positive for one in literals}
        scope = {name: node for _, nodes in sides for name, node in nodes.items()}
        assert any(all(map(truth.get, disjunct)) for disjunct in form) is holds(formula, scope)
        for one, other in permutations(form, 2):
            assert not set(one) <= set(other)
        assert all(len(set(disjunct)) == len(disjunct) for disjunct in form)
        seen["several"] += len(form) > 1
        seen["longer"] += any(len(disjunct) > 1 for disjunct in form)
        seen["complement"] += any(not one.positive for one in literals)

    check()
    until(lambda: min(seen["several"], seen["longer"], seen["complement"]) > 5, check)
    assert min(seen["several"], seen["longer"], seen["complement"]) > 5
