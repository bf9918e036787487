"""The formats of feeds, each declared once.

A new format is a reader in this package and a row of `FORMATS`; one that is XML is names in
`vocabulary` and a case of `trees`.  What is asked of servers, which answers are feeds, the feeds
that web pages announce, and parsing follow from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from feeds.formats import jsonfeed
from feeds.formats.entries import FeedChannel


class TextFormat(NamedTuple):
    """A format that is not XML: `read` takes the bytes that the format `claims`, and the address.

    A web page that a format claims counts as its feed (`discovery.is_page`).
    """

    media_types: tuple[str, ...]
    claims: Callable[[bytes], bool]
    read: Callable[[bytes, str], FeedChannel]


XML_TYPES = ("application/atom+xml", "application/rss+xml", "application/rdf+xml")
"""The media types of what `trees` reads: all formats that are XML."""

FORMATS = (TextFormat(("application/feed+json",), jsonfeed.claims, jsonfeed.read),)

MEDIA_TYPES = (*XML_TYPES, *(media_type for one in FORMATS for media_type in one.media_types))


def claiming(body: bytes) -> TextFormat | None:
    """Return the format that claims the bytes; None: they are read as XML."""
    return next((one for one in FORMATS if one.claims(body)), None)
