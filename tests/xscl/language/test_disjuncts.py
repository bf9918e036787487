"""Disjunctive normal form: its limit; `test_residual` has its truth."""

from __future__ import annotations

import pytest

from cep_core.algebra.normal_form import MOST_DISJUNCTS
from tests.xscl.shredding.test_residual import parsed
from xscl.errors import QueryError
from xscl.language.unparse import unparse
from xscl.language.valuejoin import disjuncts


def query(predicate: str) -> str:
    return f"S//a->x JOIN{{{predicate}, 5}} S//b->y"


def printed(predicate: str) -> list[str]:
    """Return each disjunct on a line; a complement has a minus in front."""
    return [
        ", ".join(("" if one.positive else "-") + unparse(one.atom) for one in disjunct)
        for disjunct in disjuncts(parsed(predicate), query(predicate))
    ]


# -- The limit -------------------------------------------------------------------------------


def alternatives(number: int) -> str:
    return "(" + " OR ".join(f"x = y{i}" for i in range(number)) + ")"


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
