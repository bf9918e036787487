"""The README's examples run and print what it says."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import xscl
from xscl.language.faults import KEYWORDS
from xscl.web.gallery import cases

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")


_CODE = "((?:(?!```).)*)```"
EXAMPLES = re.findall(rf"```python\n{_CODE}\n\n```\n{_CODE}", README, re.DOTALL)
CLIENT = re.findall(r"```python\n(from xscl.client(?:(?!```).)*)```", README, re.DOTALL)
"""Examples of the client, which tests/xscl/service/test_readme_calls.py runs."""
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
TESTED = (
    *(
        "make demo",
        "xscl run -q",
        "xscl run --language",
        'data = "/var/lib',
    ),  # test_readme_commands
    *("curl ", "query  := ", "1 book-1 "),  # test_readme_calls; the grammar; the language section
)


LANGUAGE = README[
    README.index("## The language by example") : README.index("## Languages of events beside XSCL")
]
DOCUMENTS = re.search(r"```\n(.*?)```", LANGUAGE, re.DOTALL)
QUERIES = re.findall(r"^\| ([^|`]+) \| `(.+)` \| (.*) \|$", LANGUAGE, re.MULTILINE)


def _documents() -> Iterator[xscl.Document]:
    """Yield the documents of the language section: day, id and text in each line."""
    assert DOCUMENTS is not None
    for line in DOCUMENTS[1].splitlines():
        day, name, text = line.split(" ", 2)
        yield xscl.Document("S", name, int(day) * 86_400_000_000, text.encode())


def test_each_query_of_the_language_section_has_the_matches_that_it_says() -> None:
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


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_the_python_examples_print_what_they_say(code: str, output: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == output


def test_it_begins_with_a_picture_and_a_query_of_the_gallery() -> None:
    opening = README[: README.index("## ")]
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", opening)
    assert (Path(__file__).parents[1] / picture).stat().st_size < 200_000
    queries = [block.strip() for block in re.findall(r"```xscl\n(.*?)```", README, re.DOTALL)]
    assert len(queries) == 1
    assert queries[0] in {case.query for case in cases()}  # tests/xscl/web/test_gallery.py


def test_every_block_is_run_by_a_test() -> None:
    outputs = {output for _, output in EXAMPLES}
    python = {code for code, _ in EXAMPLES} | set(CLIENT)
    assert {text for language, text in BLOCKS if language == "python"} == python
    untested = [
        text
        for language, text in BLOCKS
        if not language and text not in outputs and not text.startswith(TESTED)
    ]
    assert untested == []


def test_the_grammar_has_words_of_the_language_only() -> None:
    (grammar,) = (text for _, text in BLOCKS if text.startswith("query  := "))
    words = set(re.findall(r"\b[A-Z]{2,}\b", grammar))
    assert words
    assert words <= set(KEYWORDS)


def test_its_opening_fits_two_screens() -> None:
    assert README[: README.index("## In Python")].count("\n") <= 60
