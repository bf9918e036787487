"""A page of matches as Atom 1.0 (RFC 4287) and as JSON Feed 1.1, with ids under `_xscl`.

Titles are text, so nothing in them is ever read as markup.  The content is sanitised HTML.
"""

from __future__ import annotations

import json
from typing import Any

from lxml import etree

from feeds.formats.mend import allowed
from xscl.delivery.syndication.syndicated_feed import FeedPage, MatchEntry
from xscl.time_format import written

ATOM = "application/atom+xml"
JSON = "application/feed+json"
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
    _link(root, "self", feed.url, ATOM)
    _link(root, "first", feed.first, ATOM)
    if feed.older is not None:
        _link(root, "next", feed.older, ATOM)
    for entry in feed.entries:
        _atom_entry(root, entry)
    return etree.tostring(root, xml_declaration=True, encoding="utf-8")


def _atom_entry(root: etree._Element, shown: MatchEntry) -> None:
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


def _add(parent: etree._Element, name: str, text: str = "") -> etree._Element:
    made = etree.SubElement(parent, f"{{{_NAMESPACE}}}{name}")
    made.text = allowed(text)  # the id of a document may have any character
    return made


def _link(parent: etree._Element, rel: str, href: str, kind: str | None = None) -> None:
    link = _add(parent, "link")
    link.set("rel", rel)
    link.set("href", href)
    if kind is not None:
        link.set("type", kind)


def json_feed(feed: FeedPage) -> bytes:
    """Render a feed page as JSON Feed."""
    page: dict[str, Any] = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": feed.name,
        "home_page_url": feed.home,
        "feed_url": feed.first,
        "authors": [{"name": "xscl"}],
        "items": [_item(entry) for entry in feed.entries],
    }
    if feed.older is not None:
        page["next_url"] = feed.older
    return json.dumps(page).encode()


def _item(entry: MatchEntry) -> dict[str, Any]:
    """Render an entry as an item; `external_url` is the address of the later document."""
    message = entry.message
    item: dict[str, Any] = {
        "id": entry.id,
        "url": entry.url,
        "title": message.title,
        "content_html": entry.html,
        "content_text": "\n".join(message.lines()) or message.title,
        "date_published": written(entry.published),
        "date_modified": written(message.time),
        "_xscl": {
            "about": entry.page,
            "subscription": message.subscription,
            "message": message.id,
            "history": message.history,
            "matches": [
                {
                    "match": match["match"],
                    "documents": match["documents"],
                    "sources": match["sources"],
                }
                for match in message.matches
            ],
        },
    }
    if entry.url != entry.page:
        item["external_url"] = entry.url
    return item
