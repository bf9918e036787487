"""JSON Feed 1.0 and 1.1 (https://www.jsonfeed.org/version/1.1/)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from feeds.errors import MalformedDocument, NotAFeed
from feeds.formats import entries
from feeds.formats.entries import Category, Enclosure, FeedChannel, FeedEntry
from feeds.formats.markup import with_absolute_links
from feeds.xml.encoding import read_text, wide_encoding
from feeds.xml.xmlparse import MAX_BYTES

_START = re.compile(r"[\ufeff\s]*\{")
_VERSION = "https://jsonfeed.org/version/"


def claims(body: bytes) -> bool:
    """Return True if the bytes begin as a JSON object does."""
    return _START.match(body[:100].decode(wide_encoding(body) or "utf-8", "ignore")) is not None


def read(body: bytes, url: str) -> FeedChannel:
    """The feed of a JSON text; raises `MalformedDocument` or `NotAFeed`."""
    if len(body) > MAX_BYTES:
        message = f"the feed has {len(body):,} bytes; the limit is {MAX_BYTES:,}"
        raise MalformedDocument("xml_size", message)
    feed = _load(body)
    version = _text(feed.get("version")) if isinstance(feed, dict) else None
    if version is None or _VERSION not in version.replace("http://", "https://").replace(
        "www.", ""
    ):
        raise NotAFeed('the JSON text is no JSON Feed: it has no "version" of jsonfeed.org')
    authors = _authors(feed)
    return FeedChannel(
        format="json10" if version.rstrip("/").endswith("/1") else "json11",
        title=_text(feed.get("title")) or "",
        self_url=entries.link(_text(feed.get("feed_url")), url) or "",
        hub=next(filter(None, (entries.link(_text(h.get("url")), url) for h in _hubs(feed))), ""),
        site_url=entries.link(_text(feed.get("home_page_url")), url) or "",
        entries=tuple(_entry(item, url, authors) for item in _list(feed, "items")),
    )


def _hubs(feed: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [hub for hub in _list(feed, "hubs") if _text(hub.get("type")) == "WebSub"]


def _load(body: bytes) -> Any:
    try:
        return json.loads(read_text(body).removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise MalformedDocument("json_syntax", error.msg, error.lineno, error.colno) from None
    except RecursionError:
        raise MalformedDocument("json_syntax", "the values are nested too deep") from None
    except ValueError as error:  # a number with thousands of digits
        raise MalformedDocument("json_syntax", str(error)) from None


def _entry(item: Mapping[str, Any], url: str, inherited: tuple[str, ...]) -> FeedEntry:
    address = entries.link(_text(item.get("url")), url)
    attachments = _list(item, "attachments")
    html = _text(item.get("content_html")) or ""
    image = _text(item.get("image")) or _text(item.get("banner_image"))
    seconds = (_text(each.get("duration_in_seconds")) for each in attachments)
    return FeedEntry(
        guid=_text(item.get("id")),
        link=address or entries.link(_text(item.get("external_url")), url),
        title=_text(item.get("title")),
        description=_text(item.get("summary")),
        content=with_absolute_links(html, url) or _text(item.get("content_text")),
        authors=_authors(item) or inherited,
        categories=tuple(Category(text) for tag in _values(item, "tags") if (text := _text(tag))),
        published=_text(item.get("date_published")),
        updated=_text(item.get("date_modified")),
        enclosures=tuple(
            Enclosure(
                file, _text(each.get("mime_type")) or "", _text(each.get("size_in_bytes")) or ""
            )
            for each in attachments
            if (file := entries.link(_text(each.get("url")), url))
        ),
        image=entries.link(image, url),
        duration=next((entries.number(each.partition(".")[0]) for each in seconds if each), None),
        texts=frozenset({"title", "description"} | (set() if html else {"content"})),
    )


def _authors(holder: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the authors; version 1.0 had one `author`."""
    single = holder.get("author")
    people = _list(holder, "authors") or ([single] if isinstance(single, dict) else [])
    names = (_text(person.get("name")) or _text(person.get("url")) for person in people)
    return tuple(name for name in names if name)


def _values(holder: Mapping[str, Any], name: str) -> list[Any]:
    value = holder.get(name)
    return value if isinstance(value, list) else []


def _list(holder: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of a list; whatever else stands in it is passed over."""
    return [value for value in _values(holder, name) if isinstance(value, dict)]


def _text(value: Any) -> str | None:
    """A string, or a number as a string (identifiers are sometimes numbers); else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and value.strip() else None
