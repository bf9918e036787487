"""Feeds that only feedparser can read: damaged markup, unknown roots, formats of the nineties."""

from __future__ import annotations

import io
from typing import Any

from feeds.errors import MalformedDocument
from feeds.formats import entries
from feeds.formats.entries import Category, Enclosure, FeedChannel, FeedEntry
from feeds.xml.encoding import read_text, without_declared_encoding
from feeds.xml.xmlparse import MAX_ELEMENTS


def read(body: bytes, url: str, charset: str | None = None) -> FeedChannel | None:
    """The feed that feedparser finds in the bytes; None if it finds none.

    It takes seconds for 100,000 tags of damaged markup, so there is a limit of them: the same as
    of elements in all documents.
    """
    if body.count(b"<") - body.count(b"</") > MAX_ELEMENTS:
        message = f"there are more than {MAX_ELEMENTS:,} tags in damaged markup"
        raise MalformedDocument("xml_elements", message, 1, 1)
    text = without_declared_encoding(read_text(body, charset))
    import feedparser  # takes 0.07 s, which well-formed feeds save

    try:  # always a file: feedparser opens a short text as an address or a path
        found = feedparser.parse(
            io.BytesIO(text.encode("utf-8", "replace")),
            response_headers={"content-type": "application/xml; charset=utf-8"},
            sanitize_html=False,
            resolve_relative_uris=False,
        )
    except Exception:  # some damage is too much for it, with a KeyError, say
        return None
    if not found.version and not found.entries:
        return None
    return FeedChannel(
        format=found.version or "unknown",
        title=found.feed.get("title", ""),
        id=found.feed.get("id", ""),
        site_url=entries.link(found.feed.get("link"), url) or "",
        entries=tuple(
            _entry(each, url, str(found.version).startswith("atom")) for each in found.entries
        ),
    )


def _entry(found: dict[str, Any], url: str, is_atom: bool) -> FeedEntry:
    link = found.get("link")
    if found.get("guidislink") and not str(link).lower().startswith(("http://", "https://")):
        link = None  # a guid that is called a permalink, but is no address
    return FeedEntry(
        guid=found.get("id") or None,
        link=entries.link(link, url),
        title=found.get("title") or None,
        description=found.get("summary") or None,
        content=next((each.get("value") for each in found.get("content", ())), None),
        authors=tuple(name for name in [found.get("author")] if name),
        categories=tuple(Category(tag["term"]) for tag in found.get("tags", ()) if tag.get("term")),
        published=found.get("published") or None,
        updated=dict.get(found, "updated") or None,
        enclosures=tuple(
            Enclosure(address, each.get("type") or "")
            for each in found.get("enclosures", ())
            if (address := entries.link(each.get("href"), url))
        ),
        texts=frozenset({"title"} if is_atom and _is_text(found.get("title_detail")) else ()),
        article=entries.link(found.get("feedburner_origlink"), url),
        comments=entries.link(found.get("comments"), url),
        rights=found.get("rights") or None,
    )


def _is_text(detail: Any) -> bool:
    return bool(detail) and detail.get("type") == "text/plain"
