"""The formats of feeds, each declared once.

A new format is a reader in this package and a row of `FORMATS`.  What is asked of servers, which
answers are feeds, the feeds that web pages announce, and parsing follow from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from lxml import etree

from feeds.formats import jsonfeed, trees
from feeds.formats.entries import FeedChannel


class TreeFormat(NamedTuple):
    """A format that is XML: `read` takes (root, address, native), and returns None of others."""

    media_types: tuple[str, ...]
    read: Callable[[etree._Element, str, bool], FeedChannel | None]


class TextFormat(NamedTuple):
    """A format of its own: `read` takes (bytes, address), if they begin so that it `claims` them.

    It reads web pages, too, if it claims them.
    """

    media_types: tuple[str, ...]
    claims: Callable[[bytes], bool]
    read: Callable[[bytes, str], FeedChannel]


FeedFormat: TypeAlias = TreeFormat | TextFormat

FORMATS: tuple[FeedFormat, ...] = (
    TreeFormat(("application/atom+xml", "application/rss+xml", "application/rdf+xml"), trees.read),
    TextFormat(("application/feed+json",), jsonfeed.claims, jsonfeed.read),
)

MEDIA_TYPES = tuple(media_type for one in FORMATS for media_type in one.media_types)


def claiming(body: bytes) -> TextFormat | None:
    """Return the format that claims the bytes; None: they are read as XML."""
    texts = (one for one in FORMATS if isinstance(one, TextFormat))
    return next((one for one in texts if one.claims(body)), None)


def of_tree(root: etree._Element, url: str, native: bool) -> FeedChannel | None:
    """Return the feed of a tree; None if it is none."""
    trees = (one for one in FORMATS if isinstance(one, TreeFormat))
    return next(filter(None, (one.read(root, url, native) for one in trees)), None)
