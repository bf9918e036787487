"""The output of the format readers: a feed's header and its entries, as published.

Texts are XPath string values, untouched; HTML in them is text.  Links are
absolute where the feed or its address says to what they are relative, and a
link that runs a program (`javascript:`, `data:`) is no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from typing import NamedTuple, TypeAlias
from urllib.parse import urljoin, urlsplit

from lxml import etree

from feeds.formats.namespaces import XML

Frame: TypeAlias = tuple[bytes, bytes]
"""The texts before and after an entry in its native document."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A file that belongs to an entry; `length` is in bytes."""

    url: str
    type: str = ""
    length: str = ""


class Category(NamedTuple):
    """A category: its name, the vocabulary that it is from, and its label for people."""

    term: str
    label: str = ""
    domain: str = ""


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry of a feed; None and empty values mean that the feed has no such thing.

    `article` is the address of the article, where a redirector stands before it; `source` is the
    title and address of the feed that the entry was taken from; `duration` is in seconds.  `texts`
    names those of title, description and content whose type says that they are text, not HTML.
    """

    guid: str | None = None
    link: str | None = None
    title: str | None = None
    description: str | None = None
    content: str | None = None
    authors: tuple[str, ...] = ()
    categories: tuple[Category, ...] = ()
    published: str | None = None
    updated: str | None = None
    enclosures: tuple[Enclosure, ...] = ()
    article: str | None = None
    comments: str | None = None
    source: str | None = None
    source_url: str | None = None
    rights: str | None = None
    image: str | None = None
    duration: int | None = None
    texts: frozenset[str] = frozenset()
    native: bytes = b""

    @property
    def is_empty(self) -> bool:
        """True if nothing is known of the entry."""
        return not any(getattr(self, name) for name in _TELLING)


_TELLING = tuple(each.name for each in fields_of(FeedEntry) if each.name not in ("texts", "native"))


@dataclass(frozen=True, slots=True)
class FeedHeader:
    """The header of a feed; `ttl` in seconds, hours and days in UTC.

    `format` is `rss090` ... `rss20`, `rss10`, `atom03`, `atom10`, `json10`, `json11` or
    what feedparser calls it; `self_url` and `hub` are the feed's own address, as it gives it, and
    its WebSub hub.
    """

    format: str
    title: str = ""
    id: str = ""
    self_url: str = ""
    hub: str = ""
    site_url: str = ""
    ttl: int | None = None
    skip_hours: frozenset[int] = frozenset()
    skip_days: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FeedChannel(FeedHeader):
    """A feed's header with all its entries."""

    entries: tuple[FeedEntry, ...] = ()
    frame: Frame = field(default=(b"", b""), repr=False)


# --- texts ---

BLANKS = " \t\n\r"
_LAYOUT = re.compile("[ \t\n\r]+")


def plain(text: str) -> str:
    """Return a text as one line: each run of white space is one blank."""
    if text.isprintable() and "  " not in text and text[:1] != " " != text[-1:]:
        return text
    return _LAYOUT.sub(" ", text).strip(BLANKS)


# --- reading elements ---

_string = etree.XPath("string()", smart_strings=False)


def split(tag: str) -> tuple[str, str]:
    """Return namespace and local name of a tag as lxml writes it, `{namespace}name`."""
    namespace, _, name = tag.rpartition("}")
    return namespace[1:], name


def local_name(element: etree._Element) -> str:
    """Return the local name in small letters, empty for a comment: some write `<OPML>`."""
    return split(element.tag)[1].lower() if isinstance(element.tag, str) else ""


def tag_of(namespace: str, name: str) -> str:
    """Return a tag as lxml writes it, `{namespace}name`."""
    return f"{{{namespace}}}{name}" if namespace else name


def text(element: etree._Element) -> str:
    """Return the XPath string value of an element: all texts in it."""
    if len(element) == 0:
        return element.text or ""
    return str(_string(element))


def relation(element: etree._Element) -> str:
    """Return the relation of an Atom link, its `rel`; `alternate` if it has none."""
    rel = (element.get("rel") or "alternate").strip()
    return rel.removeprefix("http://www.iana.org/assignments/relation/")


def texts(elements: Iterable[etree._Element]) -> Iterator[str]:
    """Yield the string values of the elements whose value is not blank."""
    return (value for value in map(text, elements) if value and not value.isspace())


# --- links ---

_PROGRAMS = ("javascript:", "data:", "vbscript:")

_PLAIN = re.compile(
    r"https?://[A-Za-z0-9.-]+/[\w./~%+,:@&=-]*(?:\?[\w./~%+,:@&=-]+)?(?:#[\w./~%+,:@&=-]+)?",
    re.ASCII,
)
"""A usual absolute address: `urljoin` would return the same text."""


def link(reference: str | None, base: str) -> str | None:
    """Return the absolute form of a reference; None without one, or if it runs a program."""
    if not reference or _PLAIN.fullmatch(reference):
        return reference or None
    reference = "".join(reference.split("\n")).strip()
    squeezed = "".join(character for character in reference[:40] if character > " ")
    if not reference or squeezed.lower().startswith(_PROGRAMS):
        return None
    if not base.lower().startswith(("http://", "https://")):
        return reference
    try:
        return urljoin(base, reference)
    except ValueError:  # such as http://[half-an-address
        return reference


def without_user(url: str) -> str:
    """Return an address without user name and password; raises ValueError if it is not valid."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host).geturl() if parts.netloc else url


def base_of(element: etree._Element, url: str) -> str:
    """Return the base of relative links in the element: `xml:base`, else the feed's address."""
    base = element.base
    return (link(base, url) or url) if base else url


def linked(links: Sequence[etree._Element], rel: str, base: str) -> str | None:
    """Return the address of the links with a relation, of HTML before other types; None without
    one.

    A link without `href` may have its address as text.
    """
    of_relation = [each for each in links if relation(each) == rel]
    of_relation.sort(key=lambda each: "html" not in (each.get("type") or "html"))
    for each in of_relation:
        own = base_of(each, base) if each.get(f"{{{XML}}}base") else base
        if (address := link(each.get("href") or text(each), own)) is not None:
            return address
    return None


# --- numbers ---


def number(text: str | None) -> int | None:
    """Return the number that a text of digits is; None for any other text."""
    digits = (text or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None
