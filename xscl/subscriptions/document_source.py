"""Title, address and publisher of a document that has the form of a feed item."""

from __future__ import annotations

from urllib.parse import urlsplit

from lxml import etree

from feeds.formats.display import safe_link
from xscl.subscriptions.match import DocumentSource, MatchDocument

CUT = 500
"""Maximum number of characters of a title."""
FEED_TITLE = "feed_title"
"""The leaf of an item with the title of its feed."""
_ADDRESSES = ("item_url", "link")


def source_of(part: MatchDocument) -> DocumentSource:
    """Extract title, link and publisher of a document, as far as it has them."""
    title, address, channel, feed_title = "", None, "", part.feed_title
    for item in part.tree.items:
        if not isinstance(item, etree._Element):
            continue
        name = etree.QName(item).localname
        if name == "title" and not title:
            title = " ".join((item.text or "").split())[:CUT]
        elif name in _ADDRESSES and address is None:
            address = safe_link((item.text or item.get("href") or "").strip() or None)
        elif name == "channel_url" and not channel:
            channel = host((item.text or "").strip())
        elif name == FEED_TITLE and not feed_title:
            feed_title = " ".join((item.text or "").split())[:CUT]
    root = part.tree.items[0]
    assert isinstance(root, etree._Element)
    return DocumentSource(
        document=part.document,
        title=title,
        url=address,
        source=channel,
        ts=part.ts,
        id=part.id,
        stream=part.stream,
        root=etree.QName(root).localname,
        version=part.version,
        feed_title=feed_title,
    )


def host(address: str) -> str:
    """Return the host of a URL, or the text if it has none."""
    try:
        return urlsplit(address).hostname or address
    except ValueError:
        return address
