"""The rules of HTML in a feed, as the W3C feed validator checks them.

Elements are balanced, none of them or of their attributes is a security risk, none belongs to the
document around the entry, and all references are absolute.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "col", "wbr"}
RISKY = {
    *("applet", "base", "body", "embed", "form", "frame", "frameset", "head", "html", "iframe"),
    *("input", "link", "math", "meta", "object", "plaintext", "script", "style", "svg", "title"),
}
REFERENCES = {"href", "src", "cite"}
ABSOLUTE = ("http://", "https://", "mailto:")


def faults_of_html(text: str) -> Iterator[str]:
    """Yield the faults of a fragment."""
    reader = FragmentReader()
    reader.feed(text)
    reader.close()
    yield from reader.faults
    yield from (f"<{tag}> is not closed" for tag in reader.open)


class FragmentReader(HTMLParser):
    """Collects the faults of a fragment, its elements and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag in RISKY:
            self.faults.append(f"<{tag}> is a risk")
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "id", "class"):
                self.faults.append(f"{name} in a <{tag}>")
            if name in REFERENCES:
                self.links.append(value or "")
                if not (value or "").lower().startswith(ABSOLUTE):
                    self.faults.append(f"{value!r} is not absolute")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes another element")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        self.faults.append(f"a declaration: {decl}")
