"""One check of a query's text comes before whatever reads it, in every language and way in."""

from __future__ import annotations

from contextlib import closing
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_core
from cep_core.languages.tokens import MOST_REPLACING as MOST_OF_EVENTS
from cep_core.languages.tokens import admit as admit_events
from tests.examples import tried, usually
from tests.fuzz.expressions import UNITS
from xscl import Engine
from xscl.errors import QueryError, TooComplex, XsclError
from xscl.language import grammar
from xscl.language.grammar import LONGEST_WORD, MOST_REPLACING, admit

REPLACES = " and ".join(["replace(., 'a', 'b') = 'c'"] * (MOST_REPLACING + 1))
LONG = {
    "characters": "S//k->x" + " " * 65_536,
    "a name": f"S//{'k' * (LONGEST_WORD + 1)}->x",
    "a number": f"S//k[. = {'1' * (LONGEST_WORD + 1)}]->x",
    "calls": f"S//k[{REPLACES}]->x",
    "nesting": f"S//k[{'(' * 200}1{')' * 200}]->x",
}


PIECES = ("not", "join", "replace", "tokenize", "(", ")", "<a", "</", "/", "//", "+", "-", "*")


@settings(max_examples=tried(300))
@given(st.lists(st.sampled_from((*PIECES, " ", "x", "1", ".", "'")), min_size=60, max_size=250))
def test_a_text_with_few_signs_is_within_the_limits(pieces: list[str]) -> None:
    text = "".join(pieces)
    if grammar.has_few_signs(text):
        grammar._scan(text)


@pytest.mark.parametrize("piece", PIECES)
def test_few_signs_are_judged_alike_of_one_piece_alone(piece: str) -> None:
    """The largest count that passes without a look at the tokens passes with it, too."""
    for gap in ("", " ", ")", "+"):
        for count in range(1, 450):
            text = (piece + gap) * count
            if not grammar.has_few_signs(text):
                break
            grammar._scan(text)


@pytest.mark.parametrize("what", LONG)
def test_xscl_has_limits(engine: Engine, what: str) -> None:
    with pytest.raises(TooComplex, match="the query is too complex"):
        admit(LONG[what])
    for ask in (
        lambda text: engine.subscribe("q", text),
        lambda text: engine.subscribe_many([("q", text)]),
        lambda text: engine.try_query(text),
        lambda text: engine.explain(f"{text} "),
    ):
        with pytest.raises(TooComplex):
            ask(LONG[what])


@pytest.mark.parametrize("language", ["cel", "sase", "eql"])
def test_event_languages_have_limits(engine: Engine, language: str) -> None:
    start = {"cel": "SELECT k FROM FILTER{", "sase": "EVENT S a WHERE ", "eql": "SELECT "}[language]
    replaces = " AND ".join(["replace(k, 'a', 'b') = 'c'"] * (MOST_OF_EVENTS + 1))
    engine.stream("S", attributes={"k": str})
    for text, message in (
        (start + "k " * 60_000, "a query has at most 100000 characters"),
        (start + replaces, "over 32 calls of replace and tokenize"),
        (start + "\u201c" * 90_001, "this string does not end"),
        (start + "\u2018" * 90_001, "this string does not end"),
        (start + "'" * 90_001, "this string does not end"),
        (start + "/*" * 40_000, "this comment does not end"),
    ):
        with pytest.raises(QueryError, match=message):
            engine.subscribe("q", text, language=language)


LANGUAGES = ("xscl", "cel", "sase", "eql")


@pytest.mark.parametrize(
    ("language", "quarter"),
    usually(product(LANGUAGES, range(4)), *zip(LANGUAGES, range(4), strict=True), several=True),
)
def test_a_piece_that_is_repeated_up_to_the_limit_is_answered(language: str, quarter: int) -> None:
    """Each of them was once, or could be, a text of which an expression looks for the end.

    The usual run tries each in one of the languages.
    """
    with closing(Engine()) as engine:
        engine.stream("S", attributes={"k": str})
        for unit in UNITS[quarter::4]:
            text = (unit * 65_000)[:65_000]
            with pytest.raises(XsclError):
                engine.subscribe("q", text, language=language)


def test_strings_and_comments_hide_what_is_counted() -> None:
    admit(f"S//k[. = '{'replace( ' * 60} x']->x -- {'replace(' * 100}")
    admit_events(f"SELECT k FROM S WHERE k = '{'replace(' * 100}' -- {'tokenize(' * 90}")
    admit_events("SELECT 'it''s' /* ' */ FROM S -- it's")


def test_the_core_alone_checks_first() -> None:
    core = cep_core.Engine()
    core.stream("S", {"k": str})
    with pytest.raises(cep_core.QueryError, match="does not end"):
        core.register("q", "SELECT k FROM S " + "\u201c" * 50_000)
