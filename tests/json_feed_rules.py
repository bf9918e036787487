"""The rules of JSON Feed 1.1: what a feed has to have, and may have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.html_rules import faults_of_html

_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_FEED = {
    *("version", "title", "home_page_url", "feed_url", "description", "user_comment", "next_url"),
    *("icon", "favicon", "authors", "language", "expired", "hubs", "items"),
}
_ITEM = {
    *("id", "url", "external_url", "title", "content_html", "content_text", "summary", "image"),
    *("banner_image", "date_published", "date_modified", "authors", "tags", "language"),
    "attachments",
}


def faults(feed: Mapping[str, Any]) -> list[str]:
    """Return the faults of a feed."""
    return list(_of_feed(feed))


def _of_feed(feed: Mapping[str, Any]) -> Iterator[str]:
    if feed.get("version") != "https://jsonfeed.org/version/1.1":
        yield f"the version is {feed.get('version')}"
    yield from _fields(feed, _FEED, ("title", "items"))
    if feed.get("next_url") == feed.get("feed_url"):
        yield "the next page is the first"
    items = feed.get("items", [])
    if len({item.get("id") for item in items}) < len(items):
        yield "two items with one id"
    for item in items:
        yield from _of_item(item)


def _of_item(item: Mapping[str, Any]) -> Iterator[str]:
    yield from _fields(item, _ITEM, ("id",))
    if not isinstance(item.get("id"), str):
        yield "an id that is no text"
    if "content_html" not in item and "content_text" not in item:
        yield "an item without content"
    if not _DATE.fullmatch(item.get("date_published", "")):
        yield f"{item.get('date_published')!r} is no date"
    yield from faults_of_html(item.get("content_html", ""))


def _fields(found: Mapping[str, Any], known: set[str], wanted: tuple[str, ...]) -> Iterator[str]:
    yield from (f"no {name}" for name in wanted if name not in found)
    for name, value in found.items():
        if name not in known and not name.startswith("_"):
            yield f"a field {name}"
        if name.endswith("url") and not re.match("https?://[^/]", str(value)):
            yield f"{value!r} is no absolute address"
