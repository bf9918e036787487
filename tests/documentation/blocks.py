"""The fenced blocks of a page of Markdown.

A block that no test can run has the reason in a comment before it:

    <!-- not run: it needs a mail server -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>]+?) -->\n+)?"
    r"```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_MADE = re.compile(r"<!-- generated: (\w+) -->.*?<!-- end: \1 -->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the file that it is, why no test runs it, and its line."""

    language: str
    title: str | None
    reason: str | None
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page in order, but those that are made from the program."""
    text = page.read_text("utf-8")
    text = _MADE.sub(lambda part: "\n" * part[0].count("\n"), text)
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        yield Block(found["language"], found["title"], found["reason"], found["text"], line)


def prose(page: Path) -> str:
    """Return a page without blocks, comments and tables."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
