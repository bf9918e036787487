"""Disjunctive normal form: worked cases, and equal truth under every assignment."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from xscl.errors import QueryError
from xscl.language.parser import parse
from xscl.language.syntax import (
    And,
    Call,
    Comparison,
    Constant,
    Join,
    Not,
    Operator,
    Or,
    Path,
    Predicate,
    VariablePath,
)
from xscl.language.unparse import unparse
from xscl.language.valuejoin import MAX_DISJUNCTS, Literal, disjuncts


def query(predicate: str) -> str:
    return f"S//a->x JOIN{{{predicate}, 5}} S//b->y"


def parsed(predicate: str) -> Predicate:
    expression = parse(query(predicate)).expression
    assert isinstance(expression, Join)
    assert expression.predicate is not None
    return expression.predicate


def printed(predicate: str) -> list[str]:
    """Return each disjunct on a line; a complement has a minus in front."""
    return [
        ", ".join(("" if one.positive else "-") + unparse(one.atom) for one in disjunct)
        for disjunct in disjuncts(parsed(predicate), query(predicate))
    ]


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        ("x = y", ["x = y"]),
        ("x = y AND u = v", ["x = y, u = v"]),
        ("x = y OR u = v", ["x = y", "u = v"]),
        ("x = y AND (u = v OR u < v)", ["x = y, u = v", "x = y, u < v"]),
        (
            "(x = y OR u = v) AND (x < v OR y < u)",
            ["x = y, x < v", "x = y, y < u", "u = v, x < v", "u = v, y < u"],
        ),
        ("NOT (x = y OR contains(u, 'a'))", ['x != y, -contains(u, "a")']),
        ("NOT (x = y AND u < v)", ["x != y", "-u < v"]),
        ("NOT NOT x = y", ["x = y"]),
        # only of plain variables is != the complement of =
        ("NOT x = y", ["x != y"]),
        ("NOT x != y", ["x = y"]),
        ("NOT x/a = y", ["-x/a = y"]),
        ("NOT x/text() != y", ["-x/text() != y"]),
        ("NOT x = 'a'", ['-x = "a"']),
        ("NOT lower-case(x) = y", ["-lower-case(x) = y"]),
        ("NOT x < y", ["-x < y"]),
        ("x/a = y AND x/a != y", ["x/a = y, x/a != y"]),
        # doubled, absorbed, contradictory
        ("x = y AND x = y", ["x = y"]),
        ("x = y OR y = x", ["x = y"]),
        ("x < y OR y > x", ["x < y"]),
        ("x < y OR x > y", ["x < y", "x > y"]),
        ("x <= y AND y >= x", ["x <= y"]),
        ("x - 1 = y OR 1 - x = y", ["(x - 1) = y", "(1 - x) = y"]),
        ("contains(x, y) OR contains(y, x)", ["contains(x, y)", "contains(y, x)"]),
        ("x = y OR (x = y AND u = v)", ["x = y"]),
        ("(u = v AND x = y) OR x = y", ["x = y"]),
        ("(x = y OR u = v) AND x = y", ["x = y"]),
        ("u = v AND (x = y OR x != y)", ["u = v, x = y", "u = v, x != y"]),
        ("u = v OR (x = y AND y != x)", ["u = v"]),
        ("x = y AND NOT x = y", []),
        ("x < y AND NOT y > x", []),
        # x < y and x >= y are both false where a value is missing
        ("x < y AND x >= y", ["x < y, x >= y"]),
    ],
)
def test_worked_cases(predicate: str, found: list[str]) -> None:
    assert printed(predicate) == found


def test_empty_formulas_are_true_and_false() -> None:
    assert disjuncts(And(())) == ((),)
    assert disjuncts(Or(())) == ()
    assert disjuncts(Not(Or(()))) == ((),)


# -- The limit -------------------------------------------------------------------------------


def alternatives(number: int, left: str = "x") -> str:
    return "(" + " OR ".join(f"{left} = y{i}" for i in range(number)) + ")"


def pairs(number: int) -> str:
    return " AND ".join(f"(x = y{i} OR u = v{i})" for i in range(number))


def test_sixty_four_disjuncts_are_allowed() -> None:
    assert len(printed(alternatives(MAX_DISJUNCTS))) == MAX_DISJUNCTS
    assert len(printed(pairs(6))) == MAX_DISJUNCTS == 64


def test_what_is_absorbed_does_not_count() -> None:
    many = alternatives(MAX_DISJUNCTS)
    assert len(printed(f"{many} AND {many}")) == MAX_DISJUNCTS
    assert len(printed(f"{many} OR {many}")) == MAX_DISJUNCTS


@pytest.mark.parametrize(
    ("predicate", "sign"),
    [
        (alternatives(MAX_DISJUNCTS + 1), "OR x = y1 "),
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


PLAIN, TEXT = Path(), Path(text="child")


def compare(operator: Operator, left: str, right: str, path: Path = PLAIN) -> Comparison:
    return Comparison(operator, VariablePath(left, path), VariablePath(right))


CALL = Call("contains", (VariablePath("x"), Constant("a")))
MEANING: dict[Comparison | Call, tuple[int, bool]] = {
    compare("=", "x", "y"): (0, True),
    compare("=", "y", "x"): (0, True),
    compare("!=", "x", "y"): (0, False),
    compare("!=", "y", "x"): (0, False),
    compare("<", "x", "y"): (1, True),
    compare(">", "y", "x"): (1, True),
    compare(">=", "x", "y"): (2, True),
    compare("=", "x", "y", TEXT): (3, True),
    compare("!=", "x", "y", TEXT): (4, True),
    CALL: (5, True),
    compare("=", "u", "v"): (6, True),
    compare("=", "v", "u"): (6, True),
    compare("!=", "u", "v"): (6, False),
    compare("!=", "v", "u"): (6, False),
    compare("<=", "u", "v"): (7, True),
}
"""Which fact each atom states, and whether it states or denies it."""
ASSIGNMENTS = tuple(product((False, True), repeat=8))

PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    st.sampled_from(tuple(MEANING)),
    lambda parts: st.one_of(
        st.lists(parts, min_size=2, max_size=3).map(lambda them: And(tuple(them))),
        st.lists(parts, min_size=2, max_size=3).map(lambda them: Or(tuple(them))),
        st.tuples(parts, parts).map(lambda them: Not(And(them))),
        parts.map(Not),
    ),
    max_leaves=10,
)


def truth(predicate: Predicate, facts: tuple[bool, ...]) -> bool:
    match predicate:
        case And(parts):
            return all(truth(part, facts) for part in parts)
        case Or(parts):
            return any(truth(part, facts) for part in parts)
        case Not(part):
            return not truth(part, facts)
        case _:
            fact, states = MEANING[predicate]
            return facts[fact] is states


def holds(literal: Literal, facts: tuple[bool, ...]) -> bool:
    return truth(literal.atom, facts) is literal.positive


@pytest.mark.hypothesis
def test_the_truth_value_is_kept() -> None:
    seen: Counter[str] = Counter()

    @given(PREDICATES)
    @examples(120)
    def check(predicate: Predicate) -> None:
        form = disjuncts(predicate)
        results = [
            any(all(holds(literal, facts) for literal in disjunct) for disjunct in form)
            for facts in ASSIGNMENTS
        ]
        assert results == [truth(predicate, facts) for facts in ASSIGNMENTS]
        seen["all"] += 1
        seen["several"] += len(form) > 1
        seen["longer"] += any(len(disjunct) > 1 for disjunct in form)
        seen["complement"] += any(not literal.positive for one in form for literal in one)
        seen["never"] += not form

    check()
    assert min(seen["several"], seen["longer"], seen["complement"]) > seen["all"] / 8
    assert seen["never"] > 0


@given(PREDICATES)
def test_nothing_is_said_twice(predicate: Predicate) -> None:
    form = disjuncts(predicate)
    for one, other in combinations(form, 2):
        assert not set(one) <= set(other)
        assert not set(other) <= set(one)
    for disjunct in form:
        facts = [MEANING[literal.atom][0] for literal in disjunct]
        assert len(set(facts)) == len(facts)
        plain = [one.atom for one in disjunct if MEANING[one.atom][0] in (0, 6)]
        assert all(Literal(atom) in disjunct for atom in plain)
