"""The reference of the languages, as pages and their sections, for help in the program.

The pages are those of the documentation, `docs/languages`, which `pages` links to; a wheel has
copies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FOLDER = files(__package__) / "pages"
_FIRST = ("xscl", "xpath", "cel", "sase", "eql")
PAGES = (
    *_FIRST,
    *sorted({path.name.removesuffix(".md") for path in _FOLDER.iterdir()} - set(_FIRST)),
)
"""Names of the pages, those of the languages first."""
_GRAMMAR = "<!-- generated: grammar -->"
_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Topic:
    """A page, or a section of one, in Markdown; a section's `name` is the slug of its heading."""

    page: str
    name: str
    title: str
    text: str

    @property
    def is_page(self) -> bool:
        return self.name == self.page


@cache
def topics() -> tuple[Topic, ...]:
    """Return all pages, each followed by its sections."""
    return tuple(topic for page in PAGES for topic in _topics(page))


def found(name: str) -> tuple[Topic, ...]:
    """Return the page of that name, or else the sections of that heading on all pages."""
    wanted = slug(name)
    named = tuple(topic for topic in topics() if topic.name == wanted)
    return tuple(one for one in named if one.is_page) or named


def slug(heading: str) -> str:
    """Return the name of a heading, as its anchor in the documentation."""
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")


def _topics(page: str) -> Iterator[Topic]:
    text = (_FOLDER / f"{page}.md").read_text("utf-8")
    if _GRAMMAR in text:
        lark = (files(__package__) / "xscl.lark").read_text("utf-8")
        text = text.replace(_GRAMMAR, f"```text\n{lark.rstrip()}\n```")
    text = _COMMENT.sub("", text)
    yield Topic(page, page, _title(text), text)
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]:
        title = _title(section)
        yield Topic(page, slug(title), title, section)


def _title(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ")
