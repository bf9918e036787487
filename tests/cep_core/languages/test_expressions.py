"""The expressions of docs/languages/expressions.md: examples, tests of SQL, errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_core import EDGE_RULES, Event
from cep_core.algebra.functions import FUNCTIONS, like
from cep_core.errors import QueryError
from cep_core.languages.tokens import UNITS
from tests.cep_core.engines import engine_of, values_found
from tests.project import ROOT

PAGES = ROOT / "docs" / "languages"
GUIDE = (PAGES / "expressions.md").read_text("utf-8")
EVENTS = re.findall(r"^k=(\S+) +v=(\S+) +n=(\S+)$", GUIDE, re.MULTILINE)
QUERIES = re.findall(r"^\| `((?:SELECT|EVENT) .+)` \| (.*) \|$", GUIDE, re.MULTILINE)


def found(query: str) -> list[tuple[Any, ...]]:
    """Return the values that a query finds in the events of the guide."""
    language = "sase" if query.startswith("EVENT") else "eql" if " ; " in query else "cel"
    events = [
        Event(
            "s",
            tuple(
                None if text == "-" else of(text)
                for of, text in zip((str, float, int), texts, strict=True)
            ),
            second,
        )
        for second, texts in enumerate(EVENTS)
    ]
    core = engine_of(["s"], {"k": str, "v": float, "n": int})
    return values_found(core, query, events, language)


def test_there_are_examples() -> None:
    assert (len(EVENTS), len(QUERIES)) == (3, 11)


@pytest.mark.parametrize(("query", "results"), QUERIES)
def test_an_example_finds_what_it_says(query: str, results: str) -> None:
    shown = ["null" if value is None else str(value) for row in found(query) for value in row]
    assert shown == re.findall(r"[^(), ]+", results)


def test_the_functions_are_those_of_the_guide() -> None:
    text = GUIDE.partition("In the service")[0]
    assert set(re.findall(r"[`\s](\w+)(?=[(`])", text.partition("## Functions")[2])) >= set(
        FUNCTIONS
    )


def test_the_units_are_those_of_the_guide() -> None:
    table = GUIDE.partition("| unit | also written |")[2].partition("\n\n")[0]
    listed = [word for cell in re.findall(r"`([a-z ]+)`", table) for word in cell.split()]
    assert sorted(listed) == sorted(UNITS)


@pytest.mark.parametrize("language", ["cel", "sase", "eql"])
def test_ties_and_edges_are_those_that_explain_prints(language: str) -> None:
    page = (PAGES / f"{language}.md").read_text("utf-8")
    table = page.partition("## Ties and edges")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `?(.+?)`? \| (.+) \| (.+) \|$", table, re.MULTILINE)
    rows = rows[1:]  # below the heading
    assert len(rows) >= 2
    assert {tuple(row) for row in rows} <= {
        (one.operator, one.condition, one.meaning) for one in EDGE_RULES.values()
    }


@pytest.mark.parametrize(
    ("condition", "message", "hint"),
    [
        ("v = NULL", "a comparison with NULL never holds", "write IS NULL"),
        ("NULL != v", "a comparison with NULL never holds", "write IS NOT NULL"),
        ("n IN (1, NULL)", "a comparison with NULL never holds", "write IS NULL"),
        ("v BETWEEN NULL AND 1", "a comparison with NULL never holds", "write IS NULL"),
        ("n IN ()", "a value is expected here, not ')'", None),
        ("n IN 3", "'(' and the values is expected here, not '3'", None),
        ("n IS 3", "NULL or NOT NULL is expected here, not '3'", None),
        ("n BETWEEN 1", "AND and the greatest value is expected here, not '}'", None),
        ("n LIKE 'a'", "like takes a value of type str here, not int", None),
        ("CASE WHEN n = 1 THEN 1", "WHEN, ELSE or END is expected here, not '}'", None),
        ("CASE WHEN n = 1 THEN 'a' ELSE 2 END = 1", "the values of CASE are str and int", None),
        ("COALESCE(n, k) = 1", "the values of COALESCE are int and str", None),
        ("COALESCE() = 1", "there is no function COALESCE", None),
    ],
)
def test_what_is_wrong_is_refused(condition: str, message: str, hint: str | None) -> None:
    with pytest.raises(QueryError) as caught:
        found(f"SELECT k FROM FILTER{{{condition}}} s")
    assert str(caught.value).splitlines()[0].partition(": ")[2] == message
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        (
            "EVENT SEQ(s a, s b) WHERE a.n > 1 AND skip_till_next_match(a, b) {[k]}",
            "a strategy stands right behind WHERE",
            "write WHERE skip_till_next_match(a, b) { all conditions }",
        ),
        (
            "EVENT SEQ(s+ a[], s b) strict_contiguity(a[], b) {[k]}",
            "a strategy stands right behind WHERE",
            "write WHERE strict_contiguity(a[], b) { all conditions }",
        ),
        (
            "EVENT SEQ(s+ a[], s b) WHERE AVG(AVG(a[].v)) > 1",
            "an aggregate cannot be inside an aggregate",
            "write the run and its attribute, such as b[].x",
        ),
        (
            "SELECT AVG(1 + MAX(v)) AS x FROM s WINDOW 5 s",
            "MAX cannot be inside another aggregate",
            "compute it in a sub-query: (SELECT ... FROM ... WINDOW 5 s)",
        ),
        (
            "EVENT SEQ(s a, SEQ(s b, s c))",
            "a sequence cannot be inside a sequence",
            "write the components of both one after the other",
        ),
        (
            "EVENT SEQ(s event, s b)",
            "')' or a comma is expected here, not 'event'",
            "event is a word of the language: a variable needs another name",
        ),
        (
            "SELECT v AS next FROM s",
            "a name is expected here, not 'next'",
            "next is a word of the language: take another name",
        ),
        (
            "SELECT * FROM s from ; s B",
            "; | \\ @ AND, a quantifier, a clause or the end is expected here, not 'from'",
            "from is a word of the language: an alias needs another name",
        ),
        (
            "EVENT SEQ(s a, s b) WITHIN 1 month",
            "there is no unit month",
            "units are us, ms, s, min, h, days and weeks",
        ),
        (
            "SELECT * FROM s A ; s B WHERE (A, B) OCCURS WITHIN 5 mon",
            "there is no unit mon",
            "units are us, ms, s, min, h, days and weeks",
        ),
        ("SELECT n FROM s /* WINDOW", "this comment does not end", "it ends with */"),
        ("SELECT s.n FROM s NEXT s", "there is no attribute s.n", "write n_1 or n"),
        ("SELECT n FROM s NEXT{s.n = n} s", "there is no attribute s.n", "write $1.n or $2.n"),
        (
            "SELECT $1.n FROM s NEXT s",
            "decorators belong into the predicates of FILTER, NEXT, FOLD and JOIN",
            "the first stream's is called n_1 here, the second's n",
        ),
    ],
)
def test_what_is_meant_is_said(query: str, message: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        found(query)
    assert str(caught.value).splitlines()[0].partition(": ")[2] == message
    assert caught.value.hint == hint


def test_words_of_operators_are_names_of_attributes() -> None:
    core = engine_of(["s"], {"in": int, "case": int, "is": int, "like": str, "between": int})
    core.register(
        "q",
        "SELECT case FROM FILTER{in IN (1) AND is IS NOT NULL AND like LIKE 'a'"
        " AND between BETWEEN case AND 2} s",
    )
    assert len(core.push([Event("s", (1, 1, 1, "a", 2), 1)])) == 1


@pytest.mark.parametrize("language", ["cel", "sase", "eql"])
def test_comments_say_nothing(language: str) -> None:
    text = {
        "cel": "SELECT n /* PUBLISH a */ FROM s -- PUBLISH b\nPUBLISH c -- 'd",
        "sase": "EVENT s x -- y\nRETURN x.n /* it's */ PUBLISH c -- PUBLISH d",
        "eql": "SELECT x.n FROM s x /* ; s y */ PUBLISH c -- -- d",
    }[language]
    core = engine_of(["s"], {"n": int})
    core.register("q", text, language)
    assert core.query("q").publishes == "c"
    assert [event.values for _, event in core.push([Event("s", (7,), 1)])] == [(7,)]


def test_a_dash_in_a_text_begins_no_comment() -> None:
    assert found("SELECT n FROM FILTER{k != 'a--b'} s") == [(1,), (3,)]


@pytest.mark.parametrize("window", ["(A, B) OCCURS WITHIN 5", "(A, B) OCCURS WITHIN 5 s"])
def test_durations_of_eql_are_ticks_or_have_units(window: str) -> None:
    assert len(found(f"SELECT A.n, B.n AS m FROM s A ; s B WHERE {window}")) == 2


# -- LIKE ------------------------------------------------------------------------------------

TEXTS = st.text("ab%_\\\n", max_size=8)


def by_recursion(text: str, pattern: str) -> bool:
    """Return the result of LIKE, by its definition."""
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first == "%":
        return any(by_recursion(text[at:], rest) for at in range(len(text) + 1))
    if first == "\\" and rest[:1] in ("%", "_", "\\") and rest:
        first, rest = rest[0], rest[1:]
    elif first == "_":
        first = text[:1]
    return text[:1] == first != "" and by_recursion(text[1:], rest)


@given(TEXTS, TEXTS)
def test_like_is_its_definition(text: str, pattern: str) -> None:
    assert like(text, pattern) == by_recursion(text, pattern)


def test_a_pattern_of_like_takes_linear_time() -> None:
    assert not like("a" * 20_000, "%a" * 200 + "%b%")
