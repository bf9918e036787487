"""Values without a type: one form of numbers, one of instants, one order."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from elementpath.datatypes import Date10, DateTime10
from hypothesis import given
from hypothesis import strategies as st

from cep_core.algebra.untyped import LONGEST, instant_of, number_of

NUMBERS = {
    "0": 0.0,
    "007": 7.0,
    "40.00": 40.0,
    ".5": 0.5,
    "5.": 5.0,
    "+1": 1.0,
    "-1.5": -1.5,
    "1E3": 1000.0,
    "1e-3": 0.001,
    "1.0E+7": 1e7,
    " \t\r\n12 \n": 12.0,
    "INF": math.inf,
    "+INF": math.inf,
    "-INF": -math.inf,
    "1E999": math.inf,
}
NO_NUMBERS = [
    *("", " ", ".", "-", "e3", "1e", "1e+", "1 2", "--1", "1,5", "$5", "0x10", "1_000", "1e1_0"),
    *("inf", "Infinity", "-Infinity", "nan", "+NaN", "-NaN", "infinity", "1d", "1f", "true"),
    *("١٢", "\uff11\uff12", "\u00a012", "12\u2003", "\x0b1", "1\x0c", "1\x1f", "0b1", "1j"),
]


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_has_the_form_of_a_double_of_xpath(text: str) -> None:
    assert number_of(text) == NUMBERS[text]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_only_looks_like_a_number_is_a_text(text: str) -> None:
    assert number_of(text) is None


def test_a_text_longer_than_the_bound_is_no_number() -> None:
    assert number_of("9" * LONGEST) == math.inf
    assert number_of("9" * (LONGEST + 1)) is None
    assert number_of(" " * (LONGEST + 1) + "9") == 9.0
    assert number_of("1e" + "9" * 1000) == math.inf
    assert instant_of("2026-01-01T00:00:00." + "0" * 1000) is None


SAME_INSTANTS = [
    ("2026-01-02", "2026-01-02T00:00:00Z"),
    ("2026-01-02+01:00", "2026-01-01T23:00:00Z"),
    ("2026-01-02T24:00:00", "2026-01-03"),
    ("2026-01-02T03:04:05-05:00", "2026-01-02T08:04:05.000Z"),
    ("Fri, 02 Jan 2026 03:04:05 GMT", "2026-01-02T03:04:05"),
    ("2 Jan 26 03:04 EST", "2026-01-02T08:04:00Z"),
    ("Fri, 2 Jan 2026 03:04:05 +0530", "2026-01-01T21:34:05Z"),
    ("  2026-01-02\n", "2026-01-02Z"),
    ("02 Jan 70 00:00:00 Z", "1970-01-02"),
]
NO_INSTANTS = [
    *("", "2026", "2026-01", "2026-13-01", "2026-02-29", "2026-1-2", "2026-01-02T25:00:00"),
    *("2026-01-02T24:00:01", "2026-01-02T00:60:00", "2026-01-02 00:00:00", "20260102"),
    *("2026-01-02+15:00", "2026-01-02T00:00", "+2026-01-02", "02026-01-02", "٢٠٢٦-01-02"),
    *("Fri, 02 Foo 2026 03:04:05 GMT", "Fri, 32 Jan 2026 03:04:05 GMT", "03:04:05", "Friday"),
    *("2 Jan 2026 03:04:05 CET", "2 Jan 2026 03:04:05 +9999", "2 Jan 2026"),
]


@pytest.mark.parametrize(("one", "other"), SAME_INSTANTS)
def test_one_instant_may_be_written_in_several_ways(one: str, other: str) -> None:
    assert instant_of(one) == instant_of(other) is not None


@pytest.mark.parametrize("text", NO_INSTANTS)
def test_what_is_no_date_is_no_instant(text: str) -> None:
    assert instant_of(text) is None


@given(st.datetimes(), st.integers(-14 * 60, 14 * 60))
def test_instants_are_the_seconds_since_1970(moment: datetime, east: int) -> None:
    zone = f"{'-' if east < 0 else '+'}{abs(east) // 60:02}:{abs(east) % 60:02}"
    found = instant_of(f"{moment.isoformat()}{zone}")
    expected = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    seconds, fraction = divmod(expected - timedelta(minutes=east), timedelta(seconds=1))
    assert found is not None
    assert found[0] == seconds
    assert int((found[1] + "000000")[:6]) == fraction // timedelta(microseconds=1)


@given(st.integers(1, 20_000), st.integers(1, 12), st.integers(1, 31))
def test_years_of_any_length_follow_the_calendar_of_xpath(year: int, month: int, day: int) -> None:
    text = f"{year:04}-{month:02}-{day:02}"
    try:
        Date10.fromstring(text)
    except ValueError:
        assert instant_of(text) is None
        return
    first = DateTime10.fromstring("1970-01-01T00:00:00Z").todelta()
    days = (DateTime10.fromstring(f"{text}T00:00:00Z").todelta() - first) // timedelta(1)
    assert instant_of(text) == (days * 86_400, "")


def test_parts_of_a_second_are_exact() -> None:
    assert instant_of("2026-01-01T00:00:00.1") < instant_of("2026-01-01T00:00:00.12")  # type: ignore[operator]
    assert instant_of("2026-01-01T00:00:00.5") == instant_of("2026-01-01T00:00:00.500")
