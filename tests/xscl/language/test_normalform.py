"""Value-join normal form: derived nodes, pushed conditions, and what is refused."""

from __future__ import annotations

import pytest

from templates.model.join_graph import FOLLOWED_BY
from tests.golden import messages
from tests.xscl.language.queries import TABLE_6_2
from xscl.errors import QueryError
from xscl.language.normalform import (
    Joined,
    NormalQuery,
    Scan,
    normalise,
)
from xscl.language.parser import parse
from xscl.language.scope import bound_steps
from xscl.language.syntax import Join, Predicate
from xscl.language.unparse import unparse
from xscl.language.valuejoin import Disjunct


def normal(text: str) -> NormalQuery:
    return normalise(parse(text), text)


def joined(text: str) -> tuple[Joined, tuple[Disjunct, ...]]:
    """Return a form, and the disjuncts of its outermost join."""
    query = normal(text)
    assert isinstance(query.form, Joined)
    return query.form, tuple(disjunct(query, number) for number in query.form.joins)


def disjunct(query: NormalQuery, number: int) -> Disjunct:
    found = query.joins[number]
    assert isinstance(found, Disjunct)
    return found


def disjuncts(predicate: str) -> tuple[Disjunct, ...]:
    return joined(f"S//a->x[./c->z] JOIN{{{predicate}, 10}} S//b->y[./d->w]")[1]


def conjunction(predicate: str) -> Disjunct:
    (only,) = disjuncts(predicate)
    return only


def printed(disjunct: Disjunct) -> tuple[str, ...]:
    return tuple("composite" if block is None else unparse(block) for block in disjunct.blocks)


def residual(disjunct: Disjunct) -> str | None:
    return None if disjunct.residual is None else unparse(disjunct.residual)


def compared(disjunct: Disjunct, sign: str = "=") -> list[tuple[str, str]]:
    """Return the nodes that are compared by an operator."""
    return [(left, right) for left, right, operator in disjunct.edges if operator == sign]


def test_q1_is_in_normal_form_already() -> None:
    query = normal(TABLE_6_2["Q1"])
    assert isinstance(query.form, Joined)
    (number,) = query.form.joins
    only = disjunct(query, number)
    assert printed(only) == (
        "S//book->x1[./author->x2][./title->x3]",
        "S//blog->x4[./author->x5][./title->x6]",
    )
    assert query.form.relation == FOLLOWED_BY.within(600_000_000)
    assert compared(only) == [("x2", "x5"), ("x3", "x6")]
    assert (compared(only, "!="), only.residual, only.crossed) == ([], None, False)
    assert query.outputs == ("x2", "x5", "x3", "x6")
    assert query.variables == ("x1", "x2", "x3", "x4", "x5", "x6")


def test_a_single_block() -> None:
    query = normal("SELECT DISTINCT * FROM S//a->x PUBLISH T")
    assert query.form == Scan(0, 0)
    assert (query.variables, query.outputs) == (("x",), ())
    assert (query.select, query.distinct, query.publish) == (None, True, "T")


LEFT, RIGHT = "S//a->x[./c->z]", "S//b->y[./d->w]"


@pytest.mark.parametrize(
    ("predicate", "left", "right", "equalities", "inequalities"),
    [
        ("x/e = y//f/@g", "[./e->$1]", "[.//f/@g->$2]", [("$1", "$2")], []),
        # two comparisons of one path are two nodes
        ("x/e = y AND x/e = w", "[./e->$1][./e->$2]", "", [("$1", "y"), ("$2", "w")], []),
        # what is said twice is one
        ("x=y AND x=y", "", "", [("x", "y")], []),
        ("x=y AND y=x", "", "", [("x", "y")], []),
        ("x/e = y/e AND y/e = x/e", "[./e->$1]", "[./e->$2]", [("$1", "$2")], []),
        # sides are put right
        ("w = z AND y != x AND y/e != z", "", "[./e->$1]", [("z", "w")], [("x", "y"), ("z", "$1")]),
        # a comparison with a constant goes to its block
        ("x = 'k' AND z = y", '[. = "k"]', "", [("z", "y")], []),
        ("5 < x/p AND z = y", "[./p > 5]", "", [("z", "y")], []),
        ("x/p/text() != 'k' AND z = y", '[./p/text() != "k"]', "", [("z", "y")], []),
        ("contains(x, 'k') AND z = y", '[contains(., "k")]', "", [("z", "y")], []),
        ("starts-with(x//p, 'k') AND z = y", '[starts-with(.//p, "k")]', "", [("z", "y")], []),
    ],
)
def test_a_conjunction_is_put_into_its_blocks(
    predicate: str,
    left: str,
    right: str,
    equalities: list[tuple[str, str]],
    inequalities: list[tuple[str, str]],
) -> None:
    found = conjunction(predicate)
    assert printed(found) == (LEFT + left, RIGHT + right)
    assert (compared(found), compared(found, "!=")) == (equalities, inequalities)


def test_a_nested_variable_gets_its_derived_node() -> None:
    assert printed(conjunction("z/e = y"))[0] == "S//a->x[./c->z[./e->$1]]"


@pytest.mark.parametrize(
    ("predicate", "outputs"),
    [("x/e = y//f/@g", ("x", "y")), ("w = z AND y != x", ("w", "z", "y", "x"))],
)
def test_the_variables_of_a_predicate_are_its_outputs(
    predicate: str, outputs: tuple[str, ...]
) -> None:
    query = normal(f"{LEFT} JOIN{{{predicate}, 10}} {RIGHT}")
    assert query.outputs == outputs
    assert query.variables == ("x", "z", "y", "w")


def test_both_sides_may_read_one_stream_and_stand_in_parentheses() -> None:
    text = "S//a->x JOIN{x=y} S//a->y"
    grouped = "(S//a->x) JOIN{x=y} (S//a->y)"
    assert normal(grouped) == normal(text)


@pytest.mark.parametrize(
    ("predicate", "derived"),
    [
        ("number(x) = y", ["number(.)", "compared-number(.)"]),
        ("x + 1 = y", ["(. + 1)", "compared-number(.)"]),
        ("string-length(x) = w * 2", ["string-length(.)", "(. * 2)"]),
        ("x/text() = y", ["./text()"]),
    ],
)
def test_a_number_on_one_side_makes_the_other_one(predicate: str, derived: list[str]) -> None:
    found = conjunction(predicate)
    below = [step for block in found.blocks if block for step in bound_steps(block.steps)]
    assert [unparse(step.derived) for step in below if step.derived is not None] == derived


@pytest.mark.parametrize(
    "rest",
    [
        "x < y",
        "contains(x, y)",
        "x + y = 3",
        "not(x/e = y)",
        "z = x",
        "lower-case(x) = 'k'",
        "not(contains(x, 'k'))",
    ],
)
def test_what_no_stage_answers_is_residual(rest: str) -> None:
    found = conjunction(f"z = w AND {rest}")
    assert compared(found) == [("z", "w")]
    assert residual(found) == unparse(predicate_of(rest))


def predicate_of(text: str) -> Predicate:
    query = parse(f"S//a->x[./c->z] JOIN{{{text}, 10}} S//b->y[./d->w]")
    assert isinstance(query.expression, Join)
    assert query.expression.predicate is not None
    return query.expression.predicate


def test_each_disjunct_has_its_own_joins_and_conditions() -> None:
    one, other = disjuncts("x = y AND z = 'k' OR z != w AND x = w")
    assert printed(one)[0] == 'S//a->x[./c->z[. = "k"]]'
    assert compared(one) == [("x", "y")]
    assert printed(other)[0] == "S//a->x[./c->z]"
    assert (compared(other), compared(other, "!=")) == ([("x", "w")], [("z", "w")])


def test_without_an_equality_everything_within_the_window_is_a_candidate() -> None:
    found = conjunction("x < y")
    assert found.crossed
    assert compared(found) == [("$1", "$2")]


def test_a_chain_compares_composites_by_their_leaves() -> None:
    text = "A//a->x JOIN{x=y, 1 d} B//b->y JOIN{lower-case(x)=z AND y=z, 1 d} C//c->z"
    form, (outer,) = joined(text)
    assert isinstance(form.left, Joined)
    assert printed(outer) == ("composite", "C//c->z")
    left, right = outer.leaves
    assert [(name, unparse(operand)) for name, operand in left] == [
        ("$1", "lower-case(x)"),
        ("$2", "y"),
    ]
    assert right == ()
    assert compared(outer) == [("$1", "z"), ("$2", "z")]


@pytest.mark.parametrize(("query", "message"), messages("normal_form_errors"))
def test_messages(query: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        normal(query)
    assert str(caught.value) == message
