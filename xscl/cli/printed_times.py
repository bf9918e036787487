"""Times as commands print them, in the zone of `--timezone`; JSON has UTC."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import typer

from xscl.time_format import SECOND, moment

_zone: tzinfo | None = UTC
"""The zone of this process's command; None is that of the machine."""


def choose_zone(name: str) -> str:
    """Print times in a zone from now on: `UTC`, `local`, or a name such as `Europe/Berlin`."""
    global _zone
    try:
        _zone = None if name == "local" else UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, no name at all, a folder of zones
        raise typer.BadParameter(
            f"{name!r} is no time zone; write UTC, local, or a name such as Europe/Berlin"
        ) from None
    return name


def to_second(time: datetime | None) -> str:
    """Return a time as text to the second, "" for None."""
    if time is None:
        return ""
    if _zone is not UTC:
        with suppress(OverflowError, ValueError):  # the zone's calendar ends before that of UTC
            return time.astimezone(_zone).isoformat(timespec="seconds")
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def ticks_to_second(ticks: int) -> str:
    """Return ticks as text to the second; those outside the calendar as they are."""
    text = moment(ticks)
    return to_second(datetime.fromtimestamp(ticks // SECOND, UTC)) if text.endswith("Z") else text
