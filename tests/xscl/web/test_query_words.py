"""Tables of the language that pages, scripts and documentation show are those of the program."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cep_core.languages.tokens import UNITS as EVENT_UNITS
from tests.project import ROOT
from tests.xscl.web.browser import Browser
from tests.xscl.web.shown import Shop
from xscl.language import xpath_tree
from xscl.language.faults import KEYWORDS
from xscl.language.functions import EVENT_FUNCTIONS, OPERANDS, TESTS
from xscl.time_format import UNITS
from xscl.web.query_words import query_words
from xscl.web.views.state import file

STATIC = ROOT / "xscl/web/static"
PAGES = ROOT / "docs/languages"


def tables() -> dict[str, list[str]]:
    text = query_words().decode()
    found = re.findall(r"^export const (\w+) = (\[.*\]);$", text, re.MULTILINE)
    return {name: json.loads(words) for name, words in found}


def test_the_editor_gets_all_functions_and_keywords() -> None:
    words = tables()
    assert set(words["FUNCTIONS"]) == {*OPERANDS, *TESTS}
    assert len(words["FUNCTIONS"]) >= 32
    known = {word for name, group in words.items() if name != "FUNCTIONS" for word in group}
    assert known == {*KEYWORDS, "DIV", "MOD"}


def test_the_words_are_served_as_a_script() -> None:
    answer = file("query_words.js")
    assert (answer.body, answer.media_type) == (query_words(), "text/javascript")
    for known in (answer.headers["ETag"], f"W/{answer.headers['ETag']}", "*"):  # a proxy weakens it
        assert file("query_words.js", known).status_code == 304


@pytest.mark.parametrize("script", sorted(STATIC.glob("query_*.js")), ids=lambda path: path.name)
def test_a_script_has_no_list_of_its_own(script: Path) -> None:
    text = script.read_text("utf-8")
    quoted = set(re.findall(r"[\"']([\w:-]+)[\"']", text)) - {"string", "number", "replace"}
    assert quoted.isdisjoint({*OPERANDS, *TESTS})
    assert not re.search(r"\b[A-Z]+\|[A-Z]+\|[A-Z]+\b", text)  # alternatives of a pattern
    assert "/static/query_words.js" in text


def section(page: str, title: str) -> str:
    """Return a section of a page of the documentation."""
    text = (PAGES / page).read_text("utf-8")
    _, _, rest = text.partition(f"\n## {title}\n")
    assert rest
    return rest.partition("\n## ")[0]


def test_the_page_of_the_language_names_all_functions() -> None:
    named = set(re.findall(r"[\w:-]+", section("xscl.md", "Functions")))
    assert named.issuperset({*OPERANDS, *TESTS})


def test_the_page_of_expressions_names_all_functions() -> None:
    named = set(re.findall(r"`?(\w+)\(", section("expressions.md", "Functions")))
    more = set(re.findall(r"\w+", section("expressions.md", "Functions")))
    assert (named | more).issuperset(EVENT_FUNCTIONS)


def test_the_pages_name_all_units() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([\w ]+)`", section("expressions.md", "Literals"), re.M)
    assert {word for unit, others in rows for word in (unit, *others.split())} == set(EVENT_UNITS)
    page = (PAGES / "xscl.md").read_text("utf-8")
    listed = re.search(r"a number with a unit \(`([\w ]+)`\)", page)
    assert listed is not None
    assert listed[1].split() == list(UNITS)


def test_the_page_of_xpath_names_all_axes() -> None:
    text = (PAGES / "xpath.md").read_text("utf-8")
    listed = re.search(r"^\| axes \| `([\w -]+)`", text, re.MULTILINE)
    assert listed is not None
    assert set(listed[1].split()) | {"namespace"} >= xpath_tree.AXES


_OFFERED_IN_BRACES = """
const done = arguments[arguments.length - 1];
import("/static/query_completion.js").then(async ({completions}) => {
  const text = "a//b->x[./c->y] JOIN{";
  const state = {doc: {toString: () => text}, sliceDoc: (from, to) => text.slice(from, to)};
  const found = await completions({state, pos: text.length, explicit: true});
  done(found.options.map((each) => each.label));
});
"""


def test_the_editor_offers_all_functions_between_braces(browser: Browser, shop: Shop) -> None:
    browser.open(f"{shop.address}/subscribe")
    offered = browser.run_async(_OFFERED_IN_BRACES)
    assert set(offered).issuperset({*OPERANDS, *TESTS, "AND", "OR", "INF"})
