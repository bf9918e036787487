"""Atom 1.0 (RFC 4287): a page of matches.

Titles are text, so nothing in them is ever read as markup.  The content is sanitised HTML.
"""

from __future__ import annotations

from typing import Any

from lxml import etree

from xscl.delivery.syndication.syndicated_feed import FeedPage, MatchEntry
from xscl.time_format import written

MEDIA_TYPE = "application/atom+xml"
_NAMESPACE = "http://www.w3.org/2005/Atom"
_PREFIXES: dict[Any, str] = {None: _NAMESPACE}


def atom(feed: FeedPage) -> bytes:
    """Render a feed page as Atom."""
    root = etree.Element(f"{{{_NAMESPACE}}}feed", nsmap=_PREFIXES)
    _add(root, "id", feed.id)
    _add(root, "title", feed.name)
    _add(root, "updated", written(feed.updated))
    _add(_add(root, "author"), "name", "xscl")
    _add(root, "generator", "xscl")
    _link(root, "alternate", feed.home, "text/html")
    _link(root, "self", feed.url, MEDIA_TYPE)
    _link(root, "first", feed.first, MEDIA_TYPE)
    if feed.older is not None:
        _link(root, "next", feed.older, MEDIA_TYPE)
    for entry in feed.entries:
        _entry(root, entry)
    return etree.tostring(root, xml_declaration=True, encoding="utf-8")


def _entry(root: etree._Element, shown: MatchEntry) -> None:
    message, entry = shown.message, _add(root, "entry")
    _add(entry, "id", shown.id)
    _add(entry, "title", message.title)
    _add(entry, "updated", written(message.time))
    _add(entry, "published", written(shown.published))
    _link(entry, "alternate", shown.url)
    urls = dict.fromkeys(source.url for source in message.sources if source.url)
    for url in urls:
        if url != shown.url:
            _link(entry, "related", url)
    _add(entry, "content", shown.html).set("type", "html")


def _add(parent: etree._Element, name: str, text: str | None = None) -> etree._Element:
    made = etree.SubElement(parent, f"{{{_NAMESPACE}}}{name}")
    made.text = text
    return made


def _link(parent: etree._Element, rel: str, href: str, kind: str | None = None) -> None:
    link = _add(parent, "link")
    link.set("rel", rel)
    link.set("href", href)
    if kind is not None:
        link.set("type", kind)
