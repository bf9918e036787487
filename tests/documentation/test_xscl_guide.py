"""The queries of docs/languages/xscl.md have the matches that it says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import xscl
from tests.documentation.blocks import blocks
from tests.project import ROOT
from xscl.language.faults import KEYWORDS
from xscl.language.parser import parse

PAGE = ROOT / "docs" / "languages" / "xscl.md"
GUIDE = PAGE.read_text("utf-8")
BLOCKS = list(blocks(PAGE))
QUERIES = re.findall(r"^\| ([^|`]+) \| `(.+)` \| (.*) \|$", GUIDE, re.MULTILINE)


def _documents() -> Iterator[xscl.Document]:
    """Yield the documents of the page: day, id and text in each line."""
    (listed,) = (block.text for block in BLOCKS if block.text.startswith("1 book-1"))
    for line in listed.splitlines():
        day, name, text = line.split(" ", 2)
        yield xscl.Document("S", name, int(day) * 86_400_000_000, text.encode())


def test_each_query_has_the_matches_that_it_says() -> None:
    assert len(QUERIES) > 15
    with xscl.Engine() as engine:
        engine.subscribe_many((construct, query) for construct, query, _ in QUERIES)
        found = [*engine.push(_documents()), *engine.flush()]
    for construct, _, matches in QUERIES:
        shown = [
            "+".join(one if "-" in one else "hit" for one in match.documents)
            for match in found
            if match.subscription == construct
        ]
        assert (construct, ", ".join(shown)) == (construct, matches)


COMPARED = re.findall(
    r"^\| (\S[^|]*) \| (\S[^|]*) \|" + r" (yes|no) \|" * 4 + r" [^|]+ \|$", GUIDE, re.MULTILINE
)
CONDITIONS = ("p < q", "NOT p < q", "p = q", "number(p) = number(q)")


def test_values_compare_as_the_table_says() -> None:
    assert len(COMPARED) == 8
    for left, right, *expected in COMPARED:
        assert [*map(_compares(left, right).get, CONDITIONS)] == expected, (left, right)


def _compares(left: str, right: str) -> dict[str, str]:
    """Return which conditions hold between two documents with these values."""
    with xscl.Engine() as engine:
        for condition in CONDITIONS:
            query = f"S//p->p FOLLOWED BY{{{condition}, 1 d}} S//q->q"
            engine.subscribe(condition, query)
        for number, text in enumerate((f"<p>{left}</p>", f"<q>{right}</q>")):
            engine.push(xscl.Document("S", f"d{number}", number, text.encode()))
        found = {match.subscription for match in engine.matches()}
    return {one: "yes" if one in found else "no" for one in CONDITIONS}


def test_the_form_of_a_query_has_words_of_the_language_only() -> None:
    (form,) = (block.text for block in BLOCKS if block.text.startswith("query  := "))
    words = set(re.findall(r"\b[A-Z]{2,}\b", form))
    assert words
    assert words <= set(KEYWORDS)


def test_the_other_blocks_are_queries() -> None:
    queries = [block.text for block in BLOCKS if block.language == "xscl"]
    assert queries
    for query in queries:
        parse(query)
    assert len(BLOCKS) == len(queries) + 2
