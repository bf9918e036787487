"""Feeds as the command line prints them: answers of the API, in which nothing is secret."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from xscl.cli.output import one_line
from xscl.cli.printed_times import to_second
from xscl.client import Feed
from xscl.language.names import EVERYTHING
from xscl.plurals import counted
from xscl.polling.feed import SECOND, FeedsError, feed_key, shown, without_user
from xscl.time_format import duration

WIDTH = 40
"""Characters of the title of a feed in a table."""
HEADINGS = (
    "STREAM",
    "TITLE",
    "TAGS",
    "STATE",
    "ITEMS",
    "QUALITY",
    "NEXT POLL",
    "ADDRESS",
    "LAST ERROR",
)


def find(feeds: Sequence[Feed], name: str) -> Feed:
    """Return a feed by its address or key, or by its stream or title if one feed has it."""
    try:
        address, keys = shown(without_user(name)), (name, feed_key(name))
    except ValueError:
        address, keys = name, (name, name)
    found = (
        [one for one in feeds if one.key in keys]
        or [one for one in feeds if one.url == address]
        or [one for one in feeds if one.stream == name]
        or [one for one in feeds if one.title == name]
    )
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} feeds are on the stream" if found else "there is no feed"
    names = [one.stream for one in feeds]
    near = [] if found else [one for one in names if name in one]
    near = near or difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near and not found else ""
    raise FeedsError(
        f"{what} {address!r}", hint=f"{hint}'xscl feeds list' shows addresses and streams"
    )


def cells(one: Feed) -> tuple[object, ...]:
    """Return a feed as a line of a table, below `HEADINGS`."""
    return (
        one.stream,
        one_line(one.title, WIDTH),
        ", ".join(one.tags),
        one.state,
        one.items,
        one.quality,
        to_second(one.next_poll),
        one.url,
        one.error or one.note,
    )


def row(one: Feed) -> dict[str, Any]:
    """Return a feed as JSON values, without the warnings about a change."""
    return one.model_dump(mode="json", exclude={"warnings"})


def described(one: Feed) -> Iterator[str]:
    """Yield all fields of a feed, a line each, but its warnings."""
    for name, value in one:
        if isinstance(value, datetime):
            value = to_second(value)
        elif isinstance(value, tuple):
            value = ", ".join(value)
        text = "" if value is None else one_line(str(value))
        if name != "warnings":
            yield f"{name.replace('_', ' '):14} {text}".rstrip()


def followed(one: Feed) -> str:
    """Return the message about a feed that was added."""
    late = duration(one.lateness * SECOND)
    return f"following {one.url} on {', '.join(streams(one))}; items may come {late} late"


def first_poll(one: Feed, *, is_served: bool) -> str:
    """Return the message about the first poll of a feed that was added."""
    if one.error is not None:
        return (
            f"the feed is followed, but its first poll failed: {one.error}; it is asked again"
            f" ('xscl feeds remove {one.stream}' stops that)"
        )
    if one.polls:
        return f"it has {counted(one.items, 'item')}: new subscriptions begin with their matches"
    if is_served:
        return f"it is being polled: 'xscl feeds show {one.stream}' says how that went"
    return "'xscl feeds poll' polls it, and 'xscl serve' polls whatever is due"


def streams(one: Feed) -> list[str]:
    """Return the streams of a feed."""
    return list(dict.fromkeys((one.stream, *one.tags, EVERYTHING)))
