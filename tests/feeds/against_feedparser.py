"""The fields of items that feedparser reads otherwise.

Entries are compared in their order, field by field, as text without HTML and with single blanks.
Most differences have a reason (`REASONS`).
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urljoin

import feedparser
from lxml import etree

from feeds.errors import FeedError
from feeds.formats.display import plain_text
from feeds.formats.parse import parse_feed
from feeds.formats.times import parse_time, rfc3339

Entry: TypeAlias = Mapping[str, Any]

URL = "http://feed.example/feed"


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of an entry that is not equal; `number` is the place of the entry in its feed."""

    file: str
    number: int
    field: str
    reason: str
    ours: str
    theirs: str


def _time(entry: Entry, *names: str) -> str:
    for name in names:
        if (moment := parse_time(entry.get(name))) is not None:
            return rfc3339(moment)
    return ""


def _has(entry: Entry, name: str) -> bool:
    """Return True if the entry has the field; asking for a missing one gives another."""
    return any(each == name for each in entry)


def _each(entry: Entry, name: str, key: str) -> str:
    return " ".join(str(each.get(key) or "") for each in entry.get(name) or ())


def _content(entry: Entry) -> str:
    return str(next((each.get("value") or "" for each in entry.get("content") or ()), ""))


def _seconds(duration: str) -> str:
    parts = [part.partition(".")[0] for part in duration.split(":")]
    if not all(part.isdigit() for part in parts):
        return ""
    return str(sum(int(part) * 60**at for at, part in enumerate(reversed(parts))))


def _files(entry: Entry) -> str:
    linked = [each.get("href") or "" for each in entry.get("enclosures") or ()]
    media = [each.get("url") or "" for each in entry.get("media_content") or ()]
    return " ".join(dict.fromkeys(linked + media))


FIELDS: Mapping[str, tuple[str, Callable[[Entry], str]]] = {
    "title": ("title", lambda e: e.get("title") or ""),
    "link": ("item_url", lambda e: e.get("feedburner_origlink") or e.get("link") or ""),
    "id": ("id", lambda e: e.get("id") or ""),
    "author": ("author", lambda e: e.get("author") or ""),
    "published": ("published", lambda e: _time(e, "published", "created")),
    "updated": ("updated", lambda e: _time(e, "updated") if _has(e, "updated") else ""),
    "summary": ("description", lambda e: e.get("summary") or ""),
    "content": ("content", _content),
    "categories": ("category", lambda e: _each(e, "tags", "term")),
    "enclosures": ("enclosure/@url", _files),
    "lengths": ("enclosure/@length", lambda e: _each(e, "enclosures", "length")),
    "media": ("image", lambda e: _each(e, "media_thumbnail", "url").partition(" ")[0]),
    "itunes": ("duration", lambda e: _seconds(e.get("itunes_duration") or "")),
    "comments": ("comments", lambda e: e.get("comments") or ""),
    "source": ("source", lambda e: (e.get("source") or {}).get("title") or ""),
    "rights": ("rights", lambda e: e.get("rights") or ""),
}
"""For each field the path of our leaves, and the value that feedparser has."""


REASONS: Mapping[str, tuple[frozenset[str], Callable[[str, str, Mapping[str, str]], bool]]] = {
    "only we have it": (frozenset(FIELDS), lambda ours, theirs, _: not theirs),
    "feedparser repeats content and summary, the media's or iTunes' text": (
        frozenset({"summary", "content"}),
        lambda ours, theirs, all_: any(
            _forms(theirs) & _forms(all_[name]) for name in ("summary", "content")
        ),
    ),
    "feedparser calls dc:date the update, we call it the publication": (
        frozenset({"updated"}),
        lambda ours, theirs, all_: theirs == all_["published"],
    ),
    "the name alone, without the address": (
        frozenset({"author"}),
        lambda ours, theirs, _: theirs.startswith(f"{ours} ("),
    ),
    "feedparser calls a second description the content": (
        frozenset({"content"}),
        lambda ours, theirs, all_: not ours and bool(all_["summary"]),
    ),
    "all of several, feedparser has one": (
        frozenset({"author", "rights", "summary"}),
        lambda ours, theirs, _: bool(theirs) and theirs in ours,
    ),
    "we resolve addresses, and leave ids as they are": (
        frozenset({"link", "id", "enclosures"}),
        lambda ours, theirs, _: _absolute(ours) == _absolute(theirs),
    ),
    "an id that repeats in its feed is made unique": (
        frozenset({"id"}),
        lambda ours, theirs, _: "sha256:" in ours or bool(_absolute(theirs) & _absolute(ours)),
    ),
}
"""Why a field differs: the fields, and the condition on our value, theirs, and all of ours."""


def differences(file: str, body: bytes, equal: Counter[str]) -> Iterator[Difference]:
    """Yield the differences of a feed's entries, and count the fields that are equal."""
    theirs = feedparser.parse(
        io.BytesIO(body), sanitize_html=False, response_headers={"content-location": URL}
    )
    try:
        items = parse_feed(body, url=URL, seen_at=4 * 10**15).items
    except FeedError as error:
        yield Difference(file, -1, "feed", "", str(error), f"{len(theirs.entries)} entries")
        return
    if len(items) != len(theirs.entries):
        reason = "" if items else "only feedparser reads it"
        reason = "only we have it" if not theirs.entries else reason
        count = f"{len(theirs.entries)} entries"
        yield Difference(file, -1, "feed", reason, f"{len(items)} entries", count)
        return
    for number, (item, entry) in enumerate(zip(items, theirs.entries, strict=True)):
        root = etree.fromstring(item.canonical)
        ours = {field: _ours(root, path) for field, (path, _) in FIELDS.items()}
        for field, (_, read) in FIELDS.items():
            other = _plain(read(entry))
            if _is_equal(field, ours[field], other):
                equal[field] += bool(other)
            else:
                reason = _reason(field, ours[field], other, ours)
                yield Difference(file, number, field, reason, ours[field], other)


def _ours(root: etree._Element, path: str) -> str:
    found = root.xpath(path)
    assert isinstance(found, list)
    return _plain(
        " ".join(e.text or "" if isinstance(e, etree._Element) else str(e) for e in found)
    )


def _plain(text: str) -> str:
    """The text with single blanks, without HTML unless that was escaped twice."""
    return " ".join(plain_text(text).split())


def _forms(text: str) -> set[str]:
    """The text as it is, and less the HTML that was escaped once more: both sides vary in that."""
    return {" ".join(each.split()) for each in (text, plain_text(text))}


def _absolute(addresses: str) -> set[str]:
    return {unquote(urljoin(URL, each)).rstrip("/") for each in addresses.split()}


def _is_equal(field: str, ours: str, theirs: str) -> bool:
    if field in ("categories", "enclosures", "lengths"):
        return set(theirs.split()) - {"0"} <= set(ours.split()) and bool(theirs or not ours)
    same = unquote(ours).rstrip("/") == unquote(theirs).rstrip("/")
    return same or bool(_forms(ours) & _forms(theirs))


def _reason(field: str, ours: str, theirs: str, all_: Mapping[str, str]) -> str:
    for reason, (fields, holds) in REASONS.items():
        if field in fields and holds(ours, theirs, all_):
            return reason
    return ""


def feeds_in(folders: Iterable[Path]) -> list[Path]:
    """The files of feeds in folders and below."""
    endings = {".xml", ".rdf", ".json", ".rss", ".atom"}
    return sorted(f for each in folders for f in each.rglob("*") if f.suffix in endings)
