"""Polling the feeds of a service: it is asked to, and what became of it is waited for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from xscl.cli.feedrows import Row, all_told, find, told
from xscl.cli.output import complain, tracked
from xscl.cli.remote import Remote, place
from xscl.cli.telling import Heard, latest, told_since
from xscl.followed import ticks
from xscl.time_format import ticks_of_time

_PATIENCE = 120.0  # seconds that a poll may take, so long as a server may be slow


_SOON = 3.0
"""Seconds that who adds a feed waits for its first poll."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a poll: the feed as it is now, how many items were new or changed.

    `held_until` is set if its server wants to be left alone until then, `asked` is false if for
    that reason it was.
    """

    row: Row
    new: int
    held_until: str | None = None
    asked: bool = True


def poll_remotely(
    service: Remote, names: Sequence[str], everything: bool, heard: Heard
) -> list[Outcome]:
    """Have a service poll feeds, and return what came of it; tells the matches."""
    before = latest(service)
    chosen = _chosen(all_told(service), names, everything)
    for one in chosen:
        service.ask("POST", f"{place('feeds', one['key'])}:poll")
    until = time.monotonic() + _PATIENCE
    outcomes = [
        _outcome(one, _polled(service, one, until))
        for one in tracked(chosen, "polling", len(chosen), quiet=heard.as_json)
    ]
    if not outcomes:
        return outcomes
    if service.caught_up():
        heard(told_since(service, before))
    else:
        complain("the matches come a little later: 'xscl matches NAME' lists them")
    return outcomes


def first_polled(service: Remote, added: Row) -> Row:
    """Return a feed that was just added as it is after its first poll, if that takes a moment."""
    return _polled(service, added, time.monotonic() + _SOON) or added


def _chosen(rows: Sequence[Row], names: Sequence[str], everything: bool) -> list[Row]:
    if names:
        return [find(rows, name) for name in names]
    alive = [one for one in rows if one["next_poll"] is not None]
    return (
        alive
        if everything
        else [one for one in alive if (ticks_of_time(one["next_poll"]) or 0) <= ticks()]
    )


def _polled(service: Remote, before: Row, until: float) -> Row | None:
    """Return a feed as it is after a poll, None if none was made in time."""
    while True:
        now = told(service.get(place("feeds", before["key"])))
        if _tries(now) != _tries(before):
            return now
        if time.monotonic() > until:
            return None
        time.sleep(0.05)


def _tries(one: Row) -> tuple[object, ...]:
    return one["polls"], one["failures"], one["polled"]


def _outcome(before: Row, after: Row | None) -> Outcome:
    if after is None:
        return Outcome(before, 0, before["next_poll"], asked=False)
    return Outcome(after, after["versions"] - before["versions"])
