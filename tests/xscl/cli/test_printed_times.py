"""Times at the ends of the calendar, in the zone of a command."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from xscl.cli.printed_times import choose_zone, ticks_to_second, to_second

FIRST, LAST = (one.replace(tzinfo=UTC) for one in (datetime.min, datetime.max))


@pytest.fixture(autouse=True)
def _in_utc_again() -> Iterator[None]:
    yield
    choose_zone("UTC")


@pytest.mark.parametrize(
    ("zone", "first", "last"),
    [
        ("UTC", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
        ("America/New_York", "0001-01-01T00:00:00Z", "9999-12-31T18:59:59-05:00"),
        ("Asia/Kolkata", "0001-01-01T05:53:28+05:53:28", "9999-12-31T23:59:59Z"),
    ],
)
def test_a_time_that_the_zone_does_not_have_is_in_utc(zone: str, first: str, last: str) -> None:
    choose_zone(zone)
    assert (to_second(FIRST), to_second(LAST)) == (first, last)
    assert ticks_to_second(1 << 62) == str(1 << 62)
