"""Feeds as the command line shows them, whether a data directory has them or a service told them.

A row is what JSON shows of a feed; nothing in it is secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from xscl.cli.output import instant, one_line, table
from xscl.cli.remote import Remote
from xscl.feed import SECOND, Feed, FeedsError, feed_key, shown, without_user
from xscl.followed import Count
from xscl.language.names import EVERYTHING
from xscl.time_format import ticks_of_time, written
from xscl.why.intervals import duration

Row: TypeAlias = dict[str, Any]

_HEADINGS = (
    "STREAM",
    "TAGS",
    "STATE",
    "ITEMS",
    "QUALITY",
    "NEXT POLL",
    "ADDRESS",
    "LAST ERROR",
)
_TIMES = ("added", "polled", "next_poll", "failing_since")


def row(feed: Feed, counts: Mapping[str, Count]) -> Row:
    """Return a feed as a value for JSON."""
    count = counts.get(feed.key, Count())
    return {
        "url": feed.shown_url,
        "key": feed.key,
        "stream": feed.stream,
        "tags": list(feed.tags),
        "title": feed.title,
        "site_url": feed.site_url,
        "format": feed.format,
        "quality": feed.quality,
        "every": feed.every,
        "lateness": feed.lateness // SECOND,
        "ttl": feed.ttl,
        "headers": [name for name, _ in feed.headers],
        "state": feed.state,
        "items": count.items,
        "versions": count.versions,
        "skipped": count.skipped,
        "clipped": count.clipped,
        "undated": count.undated,
        "added": _told(feed.added),
        "polled": _told(feed.polled),
        "next_poll": None if feed.gone else _told(feed.next_poll),
        "polls": feed.polls,
        "failures": feed.failures,
        "failing_since": _told(feed.failing_since),
        "code": feed.code,
        "error": feed.error,
        "note": feed.note,
        "moved_to": None if feed.moved_to is None else shown(feed.moved_to),
    }


def _told(ticks: int | None) -> str | None:
    return None if ticks is None else written(ticks)


def told(answer: Mapping[str, Any]) -> Row:
    """Return the row of a feed that a service told."""
    return {name: answer[name] for name in _NAMES}


_NAMES = (
    *("url", "key", "stream", "tags", "title", "site_url", "format", "quality", "every"),
    *("lateness", "ttl", "headers", "state", "items", "versions", "skipped", "clipped", "undated"),
    *(
        "added",
        "polled",
        "next_poll",
        "polls",
        "failures",
        "failing_since",
        "code",
        "error",
        "note",
        "moved_to",
    ),
)


def all_told(service: Remote) -> list[Row]:
    """Return the feeds of a service in the order in which they were added."""
    found = [told(one) for one in service.all_of("/v1/feeds")]
    return sorted(found, key=lambda one: (one["added"], one["key"]))


def find(rows: Sequence[Row], name: str) -> Row:
    """Return a feed by its address or key, or by its stream if that has one feed only."""
    address = shown(without_user(name))
    keys = (name, feed_key(name))
    found = [one for one in rows if one["key"] in keys or one["url"] == address]
    found = found or [one for one in rows if one["stream"] == name]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} feeds are on the stream" if found else "there is no feed"
    raise FeedsError(f"{what} {address!r}", hint="'xscl feeds list' shows addresses and streams")


def listed(rows: Sequence[Row]) -> Iterator[str]:
    """Yield feeds as the lines of a table."""
    cells = (
        (
            one["stream"],
            ", ".join(one["tags"]),
            one["state"],
            one["items"],
            one["quality"],
            _second(one["next_poll"]),
            one["url"],
            one["error"] or one["note"],
        )
        for one in rows
    )
    yield from table(_HEADINGS, cells)


def described(one: Row) -> Iterator[str]:
    """Yield all that is known of a feed, a line each."""
    for name, value in one.items():
        if name in _TIMES:
            value = _second(value)
        elif isinstance(value, list):
            value = ", ".join(value)
        text = "" if value is None else one_line(str(value))
        yield f"{name.replace('_', ' '):14} {text}".rstrip()


def _second(time: str | None) -> str:
    """Return a time for people, without the fraction of its second."""
    return "" if time is None else instant(ticks_of_time(time))


def followed(one: Row) -> str:
    """Return what is said of a feed that was added."""
    late = duration(one["lateness"] * SECOND)
    return f"following {one['url']} on {', '.join(streams(one))}; items may come {late} late"


def first_poll(one: Row, *, is_served: bool) -> str:
    """Return what is said of the first poll of a feed that was added."""
    if one["error"] is not None:
        return (
            f"its first poll failed: {one['error']}; it is asked again"
            f" ('xscl feeds remove {one['stream']}' stops that)"
        )
    if one["polls"]:
        return (
            f"it has {one['items']} items now, which are history: subscriptions that are there join"
            " what comes with them, later ones if made with --since; 'xscl try' finds matches among"
            " them, which are not announced"
        )
    if is_served:
        return f"it is being polled: 'xscl feeds show {one['stream']}' says how that went"
    return "'xscl feeds poll' polls it, and 'xscl serve' polls whatever is due"


def streams(one: Row) -> list[str]:
    """Return the streams of a feed."""
    return list(dict.fromkeys((one["stream"], *one["tags"], EVERYTHING)))
