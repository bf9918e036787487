"""Results and work of functions are bounded in every evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import pytest

from cep_core.algebra.function_bounds import (
    LONGEST,
    STEPS,
    BeyondBounds,
    Budget,
    added,
    spending,
    within_bounds,
)
from xscl import Document, Engine
from xscl.language.functions import FUNCTIONS, OPERANDS
from xscl.language.regex import pieces, replacer

QQ = "Q" * 300
TWICE = f"replace(replace({{0}}, '.', '{QQ}'), '.', '{QQ}')"
TEXT = "<k>" + "a" * 1_000 + "</k>"
LONG_DOCUMENT = f"<r><t>x</t><k>{'a' * 9_000}</k></r>"


def matches(query: str, *texts: str, language: str = "xscl") -> list[bytes]:
    """Return the output documents of a query over documents of a stream S."""
    with closing(Engine()) as engine:
        engine.stream("S", attributes={"k": str, "n": int})
        engine.subscribe("q", query, language=language)
        found = []
        for number, text in enumerate(texts):
            pushed = engine.push([Document("S", f"d{number}", number * 1_000_000, text.encode())])
            found += [match.xml() for match in pushed.matches]
        return found


def test_a_replaced_text_has_a_length() -> None:
    grow = replacer(".", QQ)
    assert len(grow("a" * 1_000)) == 300_000
    with pytest.raises(BeyondBounds, match="a text of over 1,000,000 characters"):
        grow(grow("a" * 1_000))
    # Not longer than the text itself: it may be as long as a document.
    assert len(replacer("ab", "c")("x" * 2 * LONGEST + "ab")) == 2 * LONGEST + 1


def test_parts_of_a_text_are_counted() -> None:
    with pytest.raises(BeyondBounds, match="functions with over 100,000 steps"):
        pieces("a " * (STEPS + 1), "\\s")
    with pytest.raises(BeyondBounds):
        pieces("a " * (STEPS + 1), " ")
    with pytest.raises(BeyondBounds):
        replacer("a", "b")("a" * (STEPS + 1))


def test_matches_that_are_found_behind_a_search_of_the_whole_text_count_as_much() -> None:
    text = "a" * 60_000
    assert replacer("a", "b")(text) == "b" * 60_000
    with pytest.raises(BeyondBounds):
        replacer("a(.*c)?", "b")(text)


def test_functions_inside_one_another_share_a_budget() -> None:
    text = "a" * (STEPS // 2)
    swap = replacer("a", "a")
    with spending(Budget()):
        swap(swap(text))
        with pytest.raises(BeyondBounds):
            swap(text)


@pytest.mark.parametrize("name", ["normalize-space", "tokens", "plain-text", "translate"])
def test_reading_a_long_text_counts(name: str) -> None:
    function = FUNCTIONS[name]
    rest = ["a", "b"][: len(function.arguments) - 1]
    with spending(Budget(10)), pytest.raises(BeyondBounds):
        function.apply("word " * 1_000, *rest)


def test_texts_that_are_joined_have_a_length() -> None:
    half = "a" * (LONGEST // 2 + 1)
    for join in (OPERANDS["concat"].apply, added):
        with pytest.raises(BeyondBounds):
            join(half, half)
    assert added(half, "") == half


def test_numbers_and_lists_that_arithmetic_makes_have_a_size() -> None:
    assert within_bounds(10**999) == 10**999
    assert within_bounds(1e300) == 1e300
    with pytest.raises(BeyondBounds, match="a number of over 1,000 digits"):
        within_bounds(10**1_100)
    with pytest.raises(BeyondBounds, match="a list of over 10,000 items"):
        added((1,) * 6_000, (2,) * 6_000)


WITH_REPLACE: Mapping[str, tuple[str, str]] = {
    "between documents": (
        "xscl",
        f"S//r->a[./t->t][./k->k] FOLLOWED BY{{t = u AND {TWICE.format('k')} != l, 1 d}}"
        " S//r->b[./t->u][./k->l]",
    ),
    "NOT between documents": (
        "xscl",
        f"S//r->a[./t->t][./k->k] FOLLOWED BY{{t = u AND NOT({TWICE.format('k')} = l), 1 d}}"
        " S//r->b[./t->u][./k->l]",
    ),
    "derived": (
        "xscl",
        f"S//r->a[./k->k] JOIN{{{TWICE.format('k')} = {TWICE.format('l')}, 1 d}} S//r->b[./k->l]",
    ),
    "a condition": ("xscl", f"S//r[string-length({TWICE.format('k')}) > 5]"),
    "CEL": ("cel", f"SELECT k FROM FILTER{{length({TWICE.format('k')}) > 5}} S"),
    "SASE": ("sase", f"EVENT S a WHERE string_length({TWICE.format('a.k')}) > 5"),
}


@pytest.mark.parametrize("place", WITH_REPLACE)
def test_a_replace_that_makes_too_much_does_not_hold(place: str) -> None:
    language, query = WITH_REPLACE[place]
    short = LONG_DOCUMENT.replace("a" * 9_000, "a")
    assert matches(query, short, short, language=language)
    assert matches(query, LONG_DOCUMENT, LONG_DOCUMENT, language=language) == []


def test_a_value_that_is_too_large_is_null_in_events() -> None:
    query = f"SELECT {TWICE.format('k')} AS x, lower(k) AS y FROM S"
    (found,) = matches(query, f"<r>{TEXT}</r>", language="cel")
    assert found == b"<result><y>" + b"a" * 1_000 + b"</y></result>"


def test_a_value_that_is_too_large_is_empty_in_a_constructed_document() -> None:
    query = f'SELECT <o x="{{{TWICE.format("k")}}}">{{lower-case(k)}}</o> FROM S//r[./k->k]'
    (found,) = matches(query, f"<r>{TEXT}</r>")
    assert found == b'<o x="">' + b"a" * 1_000 + b"</o>"


@pytest.mark.parametrize(
    ("name", "sign", "text", "longest"),
    [("n", "*", f"<n>{'9' * 18}</n>", 1_100), ("k", "+", TEXT, LONGEST)],
)
def test_a_value_that_doubles_again_and_again_becomes_null(
    name: str, sign: str, text: str, longest: int
) -> None:
    fold = f"FOLD{{TRUE, TRUE, $.z {sign} $.z AS z}}"
    query = f"SELECT z FROM (SELECT k, n, {name} AS z FROM S) {fold} S"
    found = matches(query, *[f"<r>{text}</r>"] * 20, language="cel")
    assert max(map(len, found)) <= longest
    assert b"<result/>" in found


def test_every_choice_of_many_values_is_too_much() -> None:
    block = "S//r->{0}[./t->{1}][./x->{2}]"
    query = (
        f"{block.format('a', 't', 'x')} FOLLOWED BY{{t = u AND a/y + a/y + a/y + b/y = 1, 1 d}}"
        f" {block.format('b', 'u', 'v')}"
    )
    text = f"<r><t>1</t><x/>{'<y>2</y>' * 1_000}</r>"
    assert matches(query, text, text) == []


def test_candidates_of_a_document_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.planning.operators.refine.DOCUMENT", 0.25)  # of what one may take
    query = (
        "S//r->a[./t->t][./k->k] FOLLOWED BY{t = u AND replace(l, 'a', 'b') != k, 1 d}"
        " S//r->b[./t->u][./k->l]"
    )
    texts = [f"<r><t>x</t><k>{number}{'a' * 3_000}</k></r>" for number in range(11)]
    found = matches(query, *texts)  # the last one has ten candidates, and steps for eight
    assert len(found) == sum(range(9)) + 8 + 8
