"""Times as texts: what is written can be read again, and no text makes an error of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from xscl.client.bodies import ticks_of, time_of
from xscl.time_format import EARLIEST, LATEST, SECOND, moment, ticks_of_time, written


@given(st.integers(EARLIEST, LATEST) | st.sampled_from((EARLIEST, -1, 0, LATEST)))
@examples(200)
def test_every_time_is_read_as_it_is_written(ticks: int) -> None:
    assert ticks_of_time(written(ticks)) == ticks == ticks_of(time_of(ticks))
    assert ticks_of_time(moment(ticks)) == ticks // SECOND * SECOND


@given(st.text("-+0123456789:TZ.W ٣²_e", max_size=24) | st.text(max_size=8))
@examples(500)
def test_a_text_is_a_time_or_none(text: str) -> None:
    found = ticks_of_time(text)
    assert found is None or EARLIEST <= found <= LATEST or int(text) == found


@pytest.mark.parametrize("text", ["--5", "-", "٣", "²", "5_0", "+5", "1e9", "2026-12-31T23:59:60Z"])
def test_numbers_of_other_programs_are_no_times(text: str) -> None:
    assert ticks_of_time(text) is None
