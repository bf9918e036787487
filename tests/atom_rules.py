"""The rules of Atom 1.0, written from RFC 4287: what a feed document has to have, and may have.

Those of HTML in a feed are the W3C feed validator's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from lxml import etree

from tests.html_rules import faults_of_html

NAMESPACE = "{http://www.w3.org/2005/Atom}"
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")

_ONCE = {"generator", "icon", "id", "logo", "rights", "subtitle", "title", "updated"}
_ENTRY_ONCE = {"content", "id", "published", "rights", "source", "summary", "title", "updated"}
_MANY = {"author", "category", "contributor", "link"}


def faults(document: bytes) -> list[str]:
    """Return the faults of a feed document."""
    root = etree.fromstring(document)
    if root.tag != f"{NAMESPACE}feed":
        return [f"the root is {root.tag}"]
    return list(_of_feed(root))


def _of_feed(root: etree._Element) -> Iterator[str]:
    yield from _children(root, _ONCE, _MANY | {"entry"}, ("id", "title", "updated"))
    if root.find(f"{NAMESPACE}author") is None:  # section 4.1.1
        yield "a feed without author"
    if not any(link.get("rel") == "self" for link in root.iterfind(f"{NAMESPACE}link")):
        yield "a feed without a link to itself"
    entries = list(root.iterfind(f"{NAMESPACE}entry"))
    stamps = [
        (entry.findtext(f"{NAMESPACE}id"), entry.findtext(f"{NAMESPACE}updated"))
        for entry in entries
    ]
    if len(set(stamps)) < len(stamps):  # section 4.1.1
        yield "two entries with one id and one time"
    for entry in entries:
        yield from _of_entry(entry)


def _of_entry(entry: etree._Element) -> Iterator[str]:
    yield from _children(entry, _ENTRY_ONCE, _MANY, ("id", "title", "updated"))
    times = [entry.findtext(f"{NAMESPACE}{name}") or "" for name in ("published", "updated")]
    if times[0] > times[1]:
        yield "an entry that was updated before it was published"
    alternates = Counter(
        (link.get("type"), link.get("hreflang"))
        for link in entry.iterfind(f"{NAMESPACE}link")
        if link.get("rel", "alternate") == "alternate"
    )
    if any(count > 1 for count in alternates.values()):  # section 4.1.2
        yield "two alternates of one type and language"
    if not alternates and entry.find(f"{NAMESPACE}content") is None:
        yield "an entry with neither content nor alternate"


def _children(
    parent: etree._Element, once: set[str], many: set[str], wanted: tuple[str, ...]
) -> Iterator[str]:
    found = Counter[str]()
    for child in parent:
        name = str(child.tag).removeprefix(NAMESPACE)
        found[name] += 1
        if name not in once | many:
            yield f"a {name} in a {parent.tag}"
        if name in once and found[name] > 1:
            yield f"two elements {name}"
        yield from _content(name, child)
    yield from (f"no {name} in a {parent.tag}" for name in wanted if not found[name])


def _content(name: str, element: etree._Element) -> Iterator[str]:
    """Yield what is wrong in one element (sections 3 and 4.2)."""
    text = element.text or ""
    match name:
        case "id" if not _IRI.fullmatch(text):
            yield f"{text!r} is no IRI"
        case "updated" | "published" if not _DATE.fullmatch(text):
            yield f"{text!r} is no date"
        case "link" if not _IRI.fullmatch(element.get("href", "")):
            yield f"{element.get('href')!r} is no IRI"
        case "author" if not element.findtext(f"{NAMESPACE}name"):
            yield "an author without name"
        case "title" | "content" if element.get("type", "text") == "text" and len(element):
            yield f"markup in a {name} that is text"
        case "title" | "content" if element.get("type") == "html":
            yield from faults_of_html(text)
