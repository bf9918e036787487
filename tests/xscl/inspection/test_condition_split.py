"""The split of conditions: shared, indexed, residual; the corpus is docs/languages/xpath.md."""

from __future__ import annotations

import re

import pytest

import xscl
from tests.project import ROOT
from xscl.errors import QueryError
from xscl.inspection.explain import placed
from xscl.language.parser import parse
from xscl.language.syntax import Block

ORDER = ("shared", "indexed", "narrowed", "tested", "residual")
_ROW = re.compile(r"\| `(S[^`]*)` \| ([^|]*) \|")


def corpus() -> list[tuple[str, str]]:
    text = (ROOT / "docs" / "languages" / "xpath.md").read_text("utf-8").replace("\\|", "\x00")
    rows = [_ROW.fullmatch(line) for line in text.splitlines()]
    return [
        (row[1].replace("\x00", "|"), row[2]) for row in rows if row and row[1].startswith("S/")
    ]


@pytest.mark.parametrize(("query", "where"), corpus())
def test_the_split_is_as_documented(query: str, where: str) -> None:
    block = parse(query).expression
    assert isinstance(block, Block)
    found = [one.where for one in placed(block)]
    assert max(found, key=ORDER.index, default="shared") == where


def test_half_of_sixty_are_found_without_a_test_of_each() -> None:
    cases = corpus()
    assert len(cases) >= 60
    assert sum(where in ("shared", "indexed") for _, where in cases) >= 30


def test_explain_shows_the_split_and_what_would_be_faster(engine: xscl.Engine) -> None:
    text = engine.explain(
        'S//item[contains(lower-case(title), "rust")][category][a > b]'
        '[compare(c, d) = 2][not(e = "f")]'
    )
    start = text.index("conditions of S")
    assert text[start : text.index("join graph")].splitlines() == [
        "conditions of S",
        "  [./category]: shared",
        "  [a > b]: residual (where the names that it needs exist);"
        " a path, perhaps in functions, compared with a constant would be indexed",
        "  [compare(c, d) = 2]: residual;"
        " a path, perhaps in functions, compared with a constant would be indexed",
        '  [contains(lower-case(./title), "rust")]: indexed (contains)',
        '  [not(./e = "f")]: tested',
    ]


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("//item/title", "begin with a stream, e.g. feeds//item/title"),
        ("/S//item", "begin with a stream, e.g. S//item"),
        ("S//item[title = Rust]", 'write "Rust" for the text, or ./Rust for the element'),
        ("S//item[contains(title, Rust)]", 'write "Rust" for the text, or ./Rust for the element'),
        ('S//item[title contains "x"]', 'write contains(path, "text")'),
        ('S//item[title like "x"]', 'write contains(path, "text"), or matches(path, "expression")'),
        ('S//item[title eq "a"]', "write ="),
        ('S//item[title == "a"]', "write ="),
        ('S//item[title <> "a"]', "write !="),
        ('S//item[title =~ "a"]', 'write matches(path, "expression")'),
        ("S//item[title = 'Rust' && category]", "write and"),
        ("S//item[title = 'a' || title = 'b']", "write or"),
        ("S//item[!category]", "write not(...), and != for unequal"),
        (
            'S//item[contains(title, "it\\"s")]',
            "put the text in the other quotes, or write the quote twice",
        ),
        ("S//item[contain(title, 'x')]", "did you mean contains?"),
        ("S//item[Contains(title, 'x')]", "did you mean contains?"),
        ("S//item[./title/text()->t]", "bind the element that holds the text"),
    ],
)
def test_a_wrong_query_gets_the_right_hint(query: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(query)
    assert caught.value.hint == hint
