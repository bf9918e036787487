"""When to ask again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.formats.times import parse_time, rfc3339
from feeds.http.schedule import PollHints, PollPolicy, next_poll

NOW = 1_363_687_200_000_000  # Tuesday, 2013-03-19T10:00:00Z
STEADY = PollPolicy(jitter=0)
HOUR = 3600


@pytest.mark.parametrize(
    ("wishes", "seconds"),
    [
        (PollHints(), HOUR),
        (PollHints(ttl=60), HOUR),
        (PollHints(ttl=2 * HOUR), 2 * HOUR),
        (PollHints(max_age=3 * HOUR, ttl=2 * HOUR), 3 * HOUR),
        (PollHints(expires=NOW + 5 * HOUR * 1_000_000), 5 * HOUR),
        (PollHints(expires=NOW - HOUR * 1_000_000), HOUR),
        (PollHints(retry_after=7 * HOUR), 7 * HOUR),
        (PollHints(errors=1), 2 * HOUR),
        (PollHints(errors=3), 8 * HOUR),
        (PollHints(errors=10_000), 24 * HOUR),
        (PollHints(ttl=10**9), 24 * HOUR),
        (PollHints(retry_after=10**9), 24 * HOUR),
        (PollHints(retry_after=-5, errors=-1), HOUR),
    ],
)
def test_interval(wishes: PollHints, seconds: int) -> None:
    assert next_poll("u", NOW, wishes, STEADY) - NOW == seconds * 1_000_000


def test_floor() -> None:
    assert next_poll("u", NOW, PollHints(), PollPolicy(base=1, jitter=0)) - NOW == 300 * 1_000_000


def test_skipped_hours_and_days_are_jumped_over() -> None:
    hours = PollHints(skip_hours=frozenset({11, 12}))
    days = PollHints(skip_days=frozenset({"tue", "wed"}))
    assert next_poll("u", NOW, hours, STEADY) == parse_time("2013-03-19T13:00:00Z")
    assert next_poll("u", NOW, days, STEADY) == parse_time("2013-03-21T00:00:00Z")


def test_a_feed_that_never_wants_visitors_is_asked_all_the_same() -> None:
    never = PollHints(skip_hours=frozenset(range(24)))
    assert rfc3339(next_poll("u", NOW, never, STEADY)) == "2013-03-19T11:00:00Z"


def test_jitter_spreads_feeds_and_is_fixed_for_each() -> None:
    times = [next_poll(f"http://example.org/{n}", NOW, PollHints()) for n in range(1_000)]
    assert times == [next_poll(f"http://example.org/{n}", NOW, PollHints()) for n in range(1_000)]
    late = [(time - NOW) / 1e6 - HOUR for time in times]
    assert min(late) >= 0
    assert max(late) <= 360
    for tenth in range(10):  # no tenth of the range has more than twice its share
        assert sum(tenth * 36 <= each < tenth * 36 + 36 for each in late) < 200


@pytest.mark.parametrize(
    "wishes", [PollHints(ttl=24 * HOUR), PollHints(errors=6), PollHints(ttl=23 * HOUR)]
)
def test_jitter_spreads_feeds_at_the_longest_interval_too(wishes: PollHints) -> None:
    times = [next_poll(f"http://example.org/{n}", NOW, wishes) for n in range(1_000)]
    late = [(time - NOW) / 1e6 / HOUR for time in times]
    assert min(late) >= 24 / 1.1
    assert max(late) <= 24
    for tenth in range(10):
        begin = 24 / 1.1 + tenth * (24 - 24 / 1.1) / 10
        assert sum(begin <= each < begin + (24 - 24 / 1.1) / 10 for each in late) < 200


@pytest.mark.parametrize("hours", [23, 24])
def test_f11_jitter_brings_no_feed_before_the_time_that_its_server_asked_for(hours: int) -> None:
    wishes = PollHints(retry_after=hours * HOUR, errors=1)
    times = [next_poll(f"http://example.org/{n}", NOW, wishes) for n in range(100)]
    assert min(times) >= NOW + hours * HOUR * 1_000_000


SECONDS = st.none() | st.integers(-(10**12), 10**12)


@given(st.text(), SECONDS, SECONDS, SECONDS, SECONDS, st.integers(0, 10**6))
def test_bounds_hold_whatever_servers_say(
    url: str, ttl: int | None, age: int | None, expires: int | None, retry: int | None, errors: int
) -> None:
    time = next_poll(url, NOW, PollHints(ttl, age, expires, retry, errors))
    assert 300 <= (time - NOW) / 1e6 <= 24 * HOUR
