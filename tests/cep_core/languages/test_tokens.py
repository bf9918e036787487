"""Shapes: texts that differ in literals only are one shape, and are the same query."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cep_core.errors import QueryError
from cep_core.languages.tokens import split, tokens

WORDS = st.sampled_from(
    ["Price_1", "$1.x2", "$.cnt", "FILTER{", "}", "(", "<=", "s", "min", "h2", "AND", "x", "\n"]
)
LITERALS = st.sampled_from(
    ["5", "5.25", "1e3", "'a b'", "'5 min'", '"it\'s"', "'don''t'", "10min", "10 min", "3 weeks"]
)


@given(st.lists(WORDS | LITERALS, max_size=12))
def test_literals_are_numbered_alike(pieces: list[str]) -> None:
    text = " ".join(pieces)
    _, values, _ = split(text, 1_000_000)
    found = [token for token in tokens(text, 1_000_000) if token.kind == "literal"]
    assert [token.value for token in found] == list(values)
    assert [token.literal for token in found] == list(range(len(values)))


@pytest.mark.parametrize("before", ["WITHIN ", "window  ", "@", "@ "])
@pytest.mark.parametrize("unit", ["", " s"])
def test_a_window_of_nothing_is_a_shape_of_its_own(before: str, unit: str) -> None:
    """So it is refused where it stands, whichever shapes are known; other zeros are numbers."""
    shapes = [split(f"x {before}{number}{unit}", 1)[0] for number in (0, 1, 2)]
    assert shapes[0] != shapes[1] == shapes[2]
    assert split(f"x > 0{unit}", 1)[0] == split(f"x > 1{unit}", 1)[0]


def test_quotes_as_papers_print_them() -> None:
    text = 'a = \u2018it\'s\u2019 AND b = \u201cx "y"\u201d'
    assert split(text, 1)[:2] == (split("a = '' AND b = ''", 1)[0], ("it's", 'x "y"'))
    assert [token.value for token in tokens(text, 1) if token.literal >= 0] == ["it's", 'x "y"']
    for unended in ("\u2018a'", "\u201ca", "\u2018"):
        with pytest.raises(QueryError, match="line 1, column 1: this string does not end"):
            tokens(unended, 1)


@pytest.mark.parametrize("end", ["", ";", " ;", ";  ", "\n ; \n"])
def test_what_may_follow_the_published_name(end: str) -> None:
    assert split(f"SELECT * FROM S PUBLISH first{end}", 1)[2] == "first"
    assert split(f"SELECT * FROM S PUBLISH first{end} x", 1)[2] is None


def test_long_texts() -> None:
    """Many words like PUBLISH, each far from the end, are skipped quickly."""
    spaces = " " * 90_000
    assert split(f"PUBLISH a{spaces}x", 1) == ("PUBLISH a x", (), None)
    assert split(f"PUBLISH{spaces}", 1) == ("PUBLISH", (), None)
    assert split(f"PUBLISH{spaces}a{spaces[:9_000]};", 1) == ("", (), "a")
    many = "PUBLISH a " * 9_000
    assert split(f"{many};", 1)[2] == "a"
    assert split(f"{many}!", 1)[2] is None
    with pytest.raises(QueryError, match="at most 100000 characters"):
        split("x" * 100_001, 1)


@pytest.mark.parametrize(
    ("text", "ticks", "value"),
    [
        ("1 s", 1_000_000, 1_000_000),
        ("0.5 ms", 1_000_000, 500),
        ("52 weeks", 1, 31_449_600),
        ("10MIN", 1, 600),
        ("2 days", 1, 172_800),
        ("3 us", 1_000_000, 3),
        ("1.5h", 1, 5_400),
    ],
)
def test_durations_are_ticks(text: str, ticks: int, value: int) -> None:
    assert split(text, ticks)[1] == (value,)


def test_a_marker_in_the_text_is_refused() -> None:
    with pytest.raises(QueryError, match="not part of the language"):
        list(tokens("x = \0i", 1))
    with pytest.raises(QueryError, match=r"line 1, column 7: .* is not part of the language"):
        split("'\0' = \0i PUBLISH x", 1)
    assert split("x = '\0'", 1)[1] == ("\0",)
