"""Feeds that an HTML page announces: `<link rel="alternate" type="application/rss+xml" href>`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from urllib.parse import urljoin

_SEARCHED = 1 << 18
_MOST = 20
_TYPES = frozenset(
    {"application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json"}
)

_HTML = re.compile(rb"<(!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_FEED = re.compile(rb"<([\w.-]{1,30}:)?(rss|feed|rdf)[\s>]", re.IGNORECASE)
_TAG = re.compile(r"<(link|base)\s([^<>]{1,2000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([a-z]{1,20})\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'>]+)", re.IGNORECASE)


def is_html(body: bytes) -> bool:
    """Return True if the bytes begin as a web page does; the content type is wrong too often."""
    head = body[:2000]
    if not head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
        return False
    page, feed = _HTML.search(head), _FEED.search(head)
    return page is not None and (feed is None or page.start() < feed.start())


def discover(body: bytes, url: str) -> tuple[str, ...]:
    """The absolute addresses of the feeds that the page announces, in order."""
    text = body[:_SEARCHED].decode("utf-8", "replace")
    found: dict[str, None] = {}
    base = url
    for tag, attributes in _tags(text):
        if tag == "base":
            base = _join(url, attributes.get("href", "")) or url
        elif _announces(attributes):
            address = _join(base, attributes.get("href", ""))
            if address.lower().startswith(("http://", "https://")):
                found[address] = None
    return tuple(found)[:_MOST]


def _tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The names and attributes of `link` and `base` elements."""
    for tag in _TAG.finditer(text):
        pairs = _ATTRIBUTE.findall(tag[2])
        yield (
            tag[1].lower(),
            {name.lower(): html.unescape(value.strip("\"'")) for name, value in pairs},
        )


def _announces(attributes: dict[str, str]) -> bool:
    media = attributes.get("type", "").partition(";")[0].strip().lower()
    return "alternate" in attributes.get("rel", "").lower().split() and media in _TYPES


def _join(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference.strip())
    except ValueError:
        return ""
