"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime


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


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
