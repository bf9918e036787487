"""JSON Feed 1.1: a page of matches, each with its ids under `_xscl`."""

from __future__ import annotations

import json
from typing import Any

from xscl.delivery.syndication.syndicated_feed import FeedPage, MatchEntry
from xscl.time_format import written

MEDIA_TYPE = "application/feed+json"


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
