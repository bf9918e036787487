"""Regular expressions of XPath on RE2: syntax, factors, and elementpath as a second opinion."""

from __future__ import annotations

import pytest
from elementpath.xpath31 import XPath31Parser
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from xscl.language.regex import LONGEST, WrongExpression, expression, replacer


@pytest.mark.parametrize(
    ("pattern", "flags", "text", "matches"),
    [
        ("R.st", "", "Rust", True),
        ("R.st", "", "R\nst", False),
        ("R.st", "s", "R\nst", True),
        ("^b", "", "a\nb", False),
        ("^b", "m", "a\nb", True),
        ("a$", "", "a\n", False),
        ("RUST", "i", "in rust", True),
        ("a b", "x", "ab", True),
        ("a.b|", "q", "xa.b|x", True),
        ("a.b", "q", "axb", False),
        (r"\d", "", "\u0665", True),
        (r"^\w+$", "", "é1", True),
        (r"^\w+$", "", "a-b", False),
        (r"^\s$", "", "\u00a0", False),
        (r"^\i\c*$", "", "_a-b:c", True),
        (r"^\i\c*$", "", "日本", True),
        (r"^[\i]\c$", "", "a\u203f", True),
        (r"\I|\C", "", "한𐀀", False),
        (r"[^\s]x", "", " x", False),
        (r"\p{Lu}", "i", "a", False),
        (r"\p{Lu}b", "i", "AB", True),
        (r"\P{Lu}", "i", "A", False),
        (r"[\p{L}1]", "i", "a", True),
        (r"[\w\-]{3}", "", "a-b", True),
        (r"\p{Lu}\P{L}", "", "A1", True),
        ("(?:ab)+?c", "", "ababc", True),
        ("x{2,}", "", "axxb", True),
        ("", "", "", True),
    ],
)
def test_expressions(pattern: str, flags: str, text: str, matches: bool) -> None:
    found = expression(pattern, flags)
    assert found.within(text) is matches
    assert not matches or found.factor in text.casefold()


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        *((p, "i") for p in (r"[\p{Lu}]", r"[^a\P{Ll}]")),
        *((p, "") for p in ("(a", "a)", "[a", "*", "a**", r"a\1", "[a-z-[aeiou]]", r"\p{IsGreek}")),
        *(
            (p, "")
            for p in ("(?=a)", "(?i)a", "a{", "a{2,1}", "\\", r"\y", "x" * (LONGEST + 1), "}")
        ),
        *(("a", flags) for flags in ("y", "ii j")),
    ],
)
def test_what_is_refused(pattern: str, flags: str) -> None:
    with pytest.raises(WrongExpression):
        expression(pattern, flags)


@pytest.mark.parametrize(
    ("pattern", "factor"),
    [
        ("^Rust [0-9]+", "rust "),
        ("a(bc)+defg?", "def"),
        ("ab|cd", ""),
        ("(ab|cd)efg", "efg"),
        (r"a\.b\d", "a.b"),
        ("[ab]", ""),
        ("STRASSE ß", "strasse ss"),
    ],
)
def test_the_factor_is_in_each_match(pattern: str, factor: str) -> None:
    assert expression(pattern).factor == factor


ATOMS = st.sampled_from(["a", "b", "AB", "x", ".", "[ab]", "[^x]", r"\d", r"\w", "(a|b)", "(?:ab)"])
PIECES = st.tuples(ATOMS, st.sampled_from(["", "", "", "?", "*", "+", "{2}", "+?"])).map("".join)
PATTERNS = st.lists(PIECES, min_size=1, max_size=4).map("".join)
TEXTS = st.text("abABx1 \u017f\u212aßİΣς\n", max_size=8)


@examples(150)
@given(
    pattern=st.one_of(PATTERNS, st.tuples(PATTERNS, PATTERNS).map("|".join), TEXTS),
    flags=st.sampled_from(["", "i", "s"]),
    text=TEXTS,
)
def test_matches_are_those_of_elementpath_and_contain_the_factor(
    pattern: str, flags: str, text: str
) -> None:
    found = expression(pattern, flags)
    if found.within(text):
        assert found.factor in text.casefold()
    if text.isascii() and pattern.isascii():
        asked = XPath31Parser().parse(f"matches('{text}', '{pattern}', '{flags}')")
        assert found.within(text) is asked.evaluate()


def test_an_expression_takes_linear_time() -> None:
    """A backtracking engine would not end: each further character doubles its steps."""
    assert not expression("(a+)+$").within("a" * 50_000 + "b")


@pytest.mark.parametrize(
    ("pattern", "replacement", "text", "made"),
    [
        ("[0-9]", "", "a1b2", "ab"),
        (r"(\w+) (\w+)", "$2-$1", "a b", "b-a"),
        ("a", r"\$\\", "a", "$\\"),
        ("a", "$0$0", "ba", "baa"),
        ("(a)|b", "[$1]", "ab", "[a][]"),
    ],
)
def test_replacements(pattern: str, replacement: str, text: str, made: str) -> None:
    assert replacer(pattern, replacement)(text) == made


@pytest.mark.parametrize(("pattern", "replacement"), [("a*", "b"), ("a", "$"), ("a", "\\x")])
def test_replacements_that_are_refused(pattern: str, replacement: str) -> None:
    with pytest.raises(WrongExpression):
        replacer(pattern, replacement)
