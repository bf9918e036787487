"""The examples of docs/languages/eql.md run, and find what it says."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from cep_core.events import Event
from tests.cep_core.engines import engine_of, values_found
from tests.project import ROOT

GUIDE = (ROOT / "docs" / "languages" / "eql.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", GUIDE, re.DOTALL)
EVENTS = [
    Event("s", (key, int(value)), second)
    for second, (key, value) in enumerate(re.findall(r"^k=(\w) v=(\d)$", GUIDE, re.MULTILINE))
]
QUERIES = re.findall(r"^\| ([a-z ,]+) \| `(.+)` \| (\(.+\)) \|$", GUIDE, re.MULTILINE)


@pytest.mark.parametrize(("program", "output"), EXAMPLES)
def test_a_program_prints_what_the_guide_says(program: str, output: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "eql.md", "exec"), {})
    assert printed.getvalue() == output


@pytest.mark.parametrize(("what", "query", "finds"), QUERIES)
def test_a_query_finds_what_the_guide_says(what: str, query: str, finds: str) -> None:
    found = values_found(engine_of(["s"], {"k": str, "v": int}), query, EVENTS, "eql")
    shown = [f"({', '.join(map(repr, values))})" for values in found]
    assert sorted(shown) == sorted(re.split(r"(?<=\)) (?=\()", finds))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 1
    assert len(QUERIES) == 21
    assert len(EVENTS) == 5
