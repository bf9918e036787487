"""Feeds that an HTML page announces: `<link rel="alternate" type="application/rss+xml" href>`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from urllib.parse import urljoin

from feeds.formats.registry import MEDIA_TYPES, claiming
from feeds.xml.encoding import read_text, wide_encoding

_SEARCHED = 1 << 18
_MOST = 20
_PERHAPS = "application/json"
"""The type of JSON Feed 1.0, and of other JSON: addresses with it come after all others."""

_PAGE = (
    rb"!doctype\s*html|(?:html|head|body|title|meta|link|base|script|noscript|style|div|span|p|br|hr"
    rb"|center|font|table|form|img|iframe|frameset|h[1-6]|[uo]l|main|nav|header|section|article)\b"
)
_BEGIN = re.compile(
    rb"(?>(?:[^<]*+(?:<!--.*?(?:-->|\Z)|<\?[^>]*+|<!(?!--|doctype\s*html)[^>]*+))*)[^<]*+<(?=%s)"
    % _PAGE,
    re.IGNORECASE | re.DOTALL,
)
"""A document up to its first tag, one of a page, behind noise: messages of programs, comments."""
_DECISIVE = re.compile(
    rb"<(?:(!doctype\s*html|(?:html|head|body)\b)"
    rb"|(?:[\w.-]{1,30}:)?(?:rss|feed|rdf|channel|item|entry)[\s/>])",
    re.IGNORECASE,
)
"""A tag that only a page has, which is group 1, or one of a feed."""

_TAG = re.compile(r"<(link|base)\s([^<>]{1,2000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([a-z]{1,20})\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'>]+)", re.IGNORECASE)


def is_page(body: bytes) -> bool:
    """Return True for a web page that no format claims, whatever the content type says."""
    return is_html(body) and claiming(body) is None


def is_html(body: bytes) -> bool:
    """Return True if the bytes begin as a web page does, and not as a feed behind a message."""
    head = body[:_SEARCHED]
    wide = wide_encoding(head)
    head = head.decode(wide, "replace").encode() if wide else head
    begin = _BEGIN.match(head)
    if begin is None or head.lstrip().startswith((b"{", b"[")):
        return False
    decisive = _DECISIVE.search(head, begin.end() - 1)
    return decisive is None or decisive[1] is not None


def discover(body: bytes, url: str) -> tuple[str, ...]:
    """The absolute addresses of the feeds that the page announces, in order."""
    text = read_text(body[:_SEARCHED])
    found: dict[str, None] = {}
    perhaps: dict[str, None] = {}
    base = url
    for tag, attributes in _tags(text):
        if tag == "base":
            base = _join(url, attributes.get("href", "")) or url
        elif "alternate" in attributes.get("rel", "").lower().split():
            media = attributes.get("type", "").partition(";")[0].strip().lower()
            address = _join(base, attributes.get("href", ""))
            if address.lower().startswith(("http://", "https://")):
                if media in MEDIA_TYPES:
                    found[address] = None
                elif media == _PERHAPS:
                    perhaps[address] = None
    return tuple(found | perhaps)[:_MOST]


def _tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The names and attributes of `link` and `base` elements."""
    for tag in _TAG.finditer(text):
        pairs = _ATTRIBUTE.findall(tag[2])
        yield (
            tag[1].lower(),
            {name.lower(): html.unescape(value.strip("\"'")) for name, value in pairs},
        )


def _join(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference.strip())
    except ValueError:
        return ""
