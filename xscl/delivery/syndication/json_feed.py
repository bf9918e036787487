"""JSON Feed 1.1: a page of a subscription's matches, each with its bindings under `_xscl`."""

from __future__ import annotations

import json
from typing import Any

from xscl.delivery.message import Message
from xscl.delivery.syndication.syndicated_feed import FeedPage, entry_id
from xscl.time_format import written

MEDIA_TYPE = "application/feed+json"


def json_feed(feed: FeedPage) -> bytes:
    """Render a feed page as JSON Feed."""
    page: dict[str, Any] = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": feed.name,
        "feed_url": feed.first,
        "authors": [{"name": "xscl"}],
        "items": [_item(message) for message in feed.entries],
    }
    if feed.older is not None:
        page["next_url"] = feed.older
    return json.dumps(page).encode()


def _item(message: Message) -> dict[str, Any]:
    """Render a message as an item."""
    urls = [source.url for source in message.sources if source.url]
    item: dict[str, Any] = {
        "id": entry_id(message),
        "title": message.title,
        "content_text": "\n".join(message.lines()) or message.title,
        "date_published": written(message.time),
        "_xscl": {
            "message": message.id,
            "history": message.history,
            "matches": [
                {"match": match["match"], "documents": match["documents"]}
                for match in message.matches
            ],
        },
    }
    if urls:
        item["external_url"] = urls[0]
    return item
