"""Feeds as the command line prints them: rows of JSON values, in which nothing is secret."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xscl.cli.output import one_line
from xscl.language.names import EVERYTHING
from xscl.plurals import counted
from xscl.polling.feed import SECOND, FeedsError, feed_key, shown, without_user
from xscl.time_format import duration, moment, ticks_of_time

Row: TypeAlias = dict[str, Any]

HEADINGS = ("STREAM", "TAGS", "STATE", "ITEMS", "QUALITY", "NEXT POLL", "ADDRESS", "LAST ERROR")
TIMES = ("added", "polled", "next_poll", "failing_since", "push_until", "pushed")
"""Fields that are times, None if there is none."""


@dataclass(frozen=True, slots=True)
class PollOutcome:
    """A feed after a poll, and how many of its items are new or changed.

    `held_until` is set if its server asked for a pause until then; `asked` is false if the feed was
    not requested for that reason.
    """

    row: Row
    new: int
    held_until: str | None = None
    asked: bool = True


def find(rows: Sequence[Row], name: str) -> Row:
    """Return a feed by its address or key, or by its stream if that has one feed only."""
    try:
        address, keys = shown(without_user(name)), (name, feed_key(name))
    except ValueError:
        address, keys = name, (name, name)
    found = (
        [one for one in rows if one["key"] in keys]
        or [one for one in rows if one["url"] == address]
        or [one for one in rows if one["stream"] == name]
    )
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} feeds are on the stream" if found else "there is no feed"
    streams = [one["stream"] for one in rows]
    near = [] if found else [one for one in streams if name in one]
    near = near or difflib.get_close_matches(name, streams, n=1)
    hint = f"did you mean {near[0]!r}? " if near and not found else ""
    raise FeedsError(
        f"{what} {address!r}", hint=f"{hint}'xscl feeds list' shows addresses and streams"
    )


def cells(one: Row) -> tuple[object, ...]:
    """Return a feed as a line of a table, below `HEADINGS`."""
    named = (one[name] for name in ("state", "items", "quality"))
    polled, error = to_second(one["next_poll"]), one["error"] or one["note"]
    return one["stream"], ", ".join(one["tags"]), *named, polled, one["url"], error


def described(one: Row) -> Iterator[str]:
    """Yield all fields of a feed, a line each."""
    for name, value in one.items():
        if name in TIMES:
            value = to_second(value)
        elif isinstance(value, list):
            value = ", ".join(value)
        text = "" if value is None else one_line(str(value))
        yield f"{name.replace('_', ' '):14} {text}".rstrip()


def to_second(time: str | None) -> str:
    """Return a written time to the second, "" for None."""
    return "" if time is None else moment(ticks_of_time(time) or 0)


def followed(one: Row) -> str:
    """Return the message about a feed that was added."""
    late = duration(one["lateness"] * SECOND)
    return f"following {one['url']} on {', '.join(streams(one))}; items may come {late} late"


def first_poll(one: Row, *, is_served: bool) -> str:
    """Return the message about the first poll of a feed that was added."""
    if one["error"] is not None:
        return (
            f"the feed is followed, but its first poll failed: {one['error']}; it is asked again"
            f" ('xscl feeds remove {one['stream']}' stops that)"
        )
    if one["polls"]:
        return f"it has {counted(one['items'], 'item')}: new subscriptions begin with their matches"
    if is_served:
        return f"it is being polled: 'xscl feeds show {one['stream']}' says how that went"
    return "'xscl feeds poll' polls it, and 'xscl serve' polls whatever is due"


def streams(one: Row) -> list[str]:
    """Return the streams of a feed."""
    return list(dict.fromkeys((one["stream"], *one["tags"], EVERYTHING)))
