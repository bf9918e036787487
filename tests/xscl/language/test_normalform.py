"""Value-join normal form: derived nodes, pushed conditions, and what is refused."""

from __future__ import annotations

from pathlib import Path as File

import pytest

from tests.xscl.language.queries import TABLE_6_2
from xscl.errors import QueryError
from xscl.language.normalform import NormalQuery, normalise
from xscl.language.parser import parse
from xscl.language.unparse import unparse

GOLDEN = File(__file__).resolve().parents[2] / "golden" / "language"


def normal(text: str) -> NormalQuery:
    return normalise(parse(text), text)


def joined(predicate: str) -> NormalQuery:
    return normal(f"S//a->x[./c->z] JOIN{{{predicate}, 10}} S//b->y[./d->w]")


def printed(query: NormalQuery) -> tuple[str, ...]:
    return tuple(map(unparse, query.blocks))


def test_q1_is_in_normal_form_already() -> None:
    query = normal(TABLE_6_2["Q1"])
    assert printed(query) == (
        "S//book->x1[./author->x2][./title->x3]",
        "S//blog->x4[./author->x5][./title->x6]",
    )
    assert (query.operator, query.window) == ("FOLLOWED BY", 600_000_000)
    assert query.equalities == (("x2", "x5"), ("x3", "x6"))
    assert query.residuals == ()
    assert query.outputs == ("x2", "x5", "x3", "x6")
    assert query.variables == ("x1", "x2", "x3", "x4", "x5", "x6")


def test_a_single_block() -> None:
    query = normal("SELECT DISTINCT * FROM S//a->x PUBLISH T")
    assert (query.operator, query.window, query.equalities) == (None, None, ())
    assert (query.variables, query.outputs) == (("x",), ())
    assert (query.select, query.distinct, query.publish) == (None, True, "T")


def test_paths_become_derived_nodes() -> None:
    query = joined("x/e = y//f/@g")
    assert printed(query) == ("S//a->x[./c->z][./e->$1]", "S//b->y[./d->w][.//f/@g->$2]")
    assert query.equalities == (("$1", "$2"),)
    assert query.outputs == ("x", "y")
    assert query.variables == ("x", "z", "y", "w")


def test_two_comparisons_of_one_path_are_two_nodes() -> None:
    query = joined("x/e = y AND x/e = w")
    assert printed(query)[0] == "S//a->x[./c->z][./e->$1][./e->$2]"
    assert query.equalities == (("$1", "y"), ("$2", "w"))


def test_a_nested_variable_gets_its_derived_node() -> None:
    assert printed(joined("z/e = y"))[0] == "S//a->x[./c->z[./e->$1]]"


@pytest.mark.parametrize("predicate", ["x=y AND x=y", "x=y AND y=x"])
def test_an_equality_said_twice_is_one(predicate: str) -> None:
    assert joined(predicate).equalities == (("x", "y"),)


def test_a_comparison_of_paths_said_twice_is_one() -> None:
    query = joined("x/e = y/e AND y/e = x/e")
    assert query == joined("x/e = y/e")


def test_sides_are_put_right() -> None:
    query = joined("w = z AND y != x AND y/e != z")
    assert query.equalities == (("z", "w"),)
    assert query.residuals == (("x", "!=", "y"), ("z", "!=", "$1"))
    assert query.outputs == ("w", "z", "y", "x")


@pytest.mark.parametrize(
    ("restriction", "condition"),
    [
        ("x = 'k'", '[. = "k"]'),
        ("5 < x/p", "[./p > 5]"),
        ("x/p/text() != 'k'", '[./p/text() != "k"]'),
        ("contains(x, 'k')", '[contains(., "k")]'),
        ("starts-with(x//p, 'k')", '[starts-with(.//p, "k")]'),
    ],
)
def test_a_comparison_with_a_constant_goes_to_its_block(restriction: str, condition: str) -> None:
    query = joined(f"{restriction} AND z = y")
    assert printed(query)[0] == f"S//a->x[./c->z]{condition}"
    assert query.equalities == (("z", "y"),)
    assert query.outputs == ("x", "z", "y")


def test_both_sides_may_read_one_stream_and_stand_in_parentheses() -> None:
    text = "S//a->x JOIN{x=y} S//a->y"
    grouped = "(S//a->x) JOIN{x=y} (S//a->y)"
    assert normal(grouped) == normal(text)


def cases() -> list[tuple[str, str]]:
    """Return queries and their messages: blocks of a golden file, parted by lines of dashes."""
    text = (GOLDEN / "normal_form_errors.txt").read_text("utf-8")
    parted = (case.strip("\n").split("\n\n", 1) for case in text.split("\n----\n"))
    return [(query, message) for query, message in parted]


@pytest.mark.parametrize(("query", "message"), cases())
def test_messages(query: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        normal(query)
    assert str(caught.value) == message
