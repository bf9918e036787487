"""Feeds as publishers write them: RSS and Atom, with markup, people, categories and media."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape

from benchmarks.feed_items import SECOND, Item, items

_WORDS = 120
_EXTENSIONS = (
    'xmlns:content="http://purl.org/rss/1.0/modules/content/" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:media="http://search.yahoo.com/mrss/"'
)


def bodies(feeds: int, entries: int, seed: int) -> list[bytes]:
    """Return the bodies of so many feeds of so many entries each, RSS and Atom in turns."""
    stream = items(feeds * entries, seed)
    return [
        (_atom if at % 2 else _rss)(at, stream[at * entries : (at + 1) * entries])
        for at in range(feeds)
    ]


def _rss(feed: int, entries: list[Item]) -> bytes:
    written = "".join(
        f"<item><title>{title}</title><link>https://f{feed}.example/{item.number}</link>"
        f'<guid isPermaLink="false">f{feed}-{item.number}</guid><dc:creator>A. Writer</dc:creator>'
        f"<pubDate>{format_datetime(_time(item), usegmt=True)}</pubDate>"
        f"<category>news</category><category>{title.split()[0]}</category>"
        f"<description>{escape(text[:200])}</description>"
        f"<content:encoded><![CDATA[{_html(feed, item, text)}]]></content:encoded>"
        f'<media:thumbnail url="https://f{feed}.example/{item.number}.jpg"/></item>'
        for item, title, text in _texts(entries)
    )
    header = f"<title>Feed {feed}</title><link>https://f{feed}.example/</link>"
    return f'<rss version="2.0" {_EXTENSIONS}><channel>{header}{written}</channel></rss>'.encode()


def _atom(feed: int, entries: list[Item]) -> bytes:
    written = "".join(
        f"<entry><id>tag:f{feed}.example,2006:{item.number}</id><title>{title}</title>"
        f'<link rel="alternate" href="https://f{feed}.example/{item.number}"/>'
        f"<author><name>A. Writer</name></author><published>{_time(item):%Y-%m-%dT%H:%M:%SZ}"
        f"</published><updated>{_time(item):%Y-%m-%dT%H:%M:%SZ}</updated>"
        f'<category term="news"/><category term="{title.split()[0]}"/>'
        f"<summary>{escape(text[:200])}</summary>"
        f'<content type="html">{escape(_html(feed, item, text))}</content></entry>'
        for item, title, text in _texts(entries)
    )
    header = f"<id>tag:f{feed}.example,2006:feed</id><title>Feed {feed}</title>"
    return f'<feed xmlns="http://www.w3.org/2005/Atom">{header}{written}</feed>'.encode()


def _texts(entries: list[Item]) -> list[tuple[Item, str, str]]:
    """Each item with its title and its description."""
    return [(item, item.values[2] or "untitled", item.values[4]) for item in entries]


def _html(feed: int, item: Item, text: str) -> str:
    words = ((text or "text") + " ") * (_WORDS // len((text or "text").split()) + 1)
    link = f'<a href="https://f{feed}.example/{item.number}/more">more</a>'
    return f'<p>{words}</p><p>{link} <img src="https://f{feed}.example/{item.number}.png"></p>'


def _time(item: Item) -> datetime:
    return datetime.fromtimestamp(item.ts // SECOND, UTC)
