"""When to ask a feed again.

The interval is the longest of what is configured and what anybody asks for:

    max(base, ttl, max-age, Expires, Retry-After, base · 2^errors)

at least `floor`, at most `cap`.  To it comes up to a tenth of jitter, fixed for
each feed, so that feeds added together do not stay together; near the cap the
interval is shortened for that, but never below `Retry-After`.  Hours and days
in which the publisher wants no visitors are jumped over (RSS `skipHours`,
`skipDays`; in UTC), the cap notwithstanding, but never by more than a week.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from feeds.formats.times import SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True)
class PollPolicy:
    """The bounds of the interval, in seconds."""

    base: int = 60 * 60
    floor: int = 5 * 60
    cap: int = 24 * 60 * 60
    jitter: float = 0.1


@dataclass(frozen=True, slots=True)
class PollHints:
    """The hints of a feed and its server for the next poll, and the state after the last one.

    `ttl`, `max_age` and `retry_after` in seconds, `expires` in microseconds UTC,
    `errors` the number of failures since the last success.
    """

    ttl: int | None = None
    max_age: int | None = None
    expires: int | None = None
    retry_after: int | None = None
    errors: int = 0
    skip_hours: frozenset[int] = frozenset()
    skip_days: frozenset[str] = frozenset()


DEFAULT = PollPolicy()
NO_WISHES = PollHints()


def next_poll(url: str, now: int, wishes: PollHints, policy: PollPolicy = DEFAULT) -> int:
    """The time of the next poll in microseconds UTC, after a poll at `now`."""
    spread = 1 + policy.jitter
    interval = min(max(_wanted(now, wishes, policy), policy.floor), policy.cap / spread)
    least = min(max(policy.floor, wishes.retry_after or 0), policy.cap)
    jittered = interval * (1 + policy.jitter * _share(url))
    return _allowed(now + int(max(jittered, least) * SECOND), wishes)


def _wanted(now: int, wishes: PollHints, policy: PollPolicy) -> int:
    """The longest interval that anybody asks for, in seconds, without bounds."""
    until_expiry = 0 if wishes.expires is None else (wishes.expires - now) // SECOND
    asked = (wishes.ttl or 0, wishes.max_age or 0, wishes.retry_after or 0, until_expiry)
    return max(policy.base << min(max(wishes.errors, 0), 16), *asked)


def _share(url: str) -> float:
    """A number in [0, 1) that is always the same for a feed."""
    return int.from_bytes(hashlib.sha256(url.encode("utf-8", "replace")).digest()[:4]) / 2**32


def _allowed(time: int, wishes: PollHints) -> int:
    """The time itself, or the first full hour after it in which the publisher wants visitors."""
    moment = _EPOCH + timedelta(microseconds=time)
    for _ in range(7 * 24):
        if moment.hour not in wishes.skip_hours and _DAYS[moment.weekday()] not in wishes.skip_days:
            return (moment - _EPOCH) // timedelta(microseconds=1)
        moment = moment.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return time
