"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

from feeds.times import rfc3339


def ticks_of_time(text: str) -> int | None:
    """Return the ticks of a time: ISO 8601 (UTC unless it says otherwise), or ticks; None if none.

    A year alone is a year.
    """
    if text.lstrip("-").isdecimal() and len(text) != 4 and len(text) < 20:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def written(ticks: int) -> str:
    """Return a time as programs are told it: ISO 8601 in UTC; the nearest one that it can write."""
    return rfc3339(min(max(ticks, 0), LATEST))


LATEST = 253_402_300_799_999_999
"""Ticks of the end of the year 9999, the last time that RFC 3339 can write."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
