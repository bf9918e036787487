"""The ring buffer of a service's figures."""

from __future__ import annotations

import pytest

from xscl.client.bodies import ticks_of
from xscl.engine import heap_trim
from xscl.service import status
from xscl.service.status import STEP, StatusSeries


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds

    def ticks(self) -> int:
        return int(self.seconds * 1e6)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_sample_has_rates_of_its_interval_and_the_largest_of_what_waited(clock: Clock) -> None:
    series = StatusSeries(clock, clock.ticks)
    series.observe(1_000, 10, 0, 0.0)  # before the first interval
    clock.seconds += STEP / 2
    series.observe(1_000, 10, 7, 4.5)
    for number in range(100):
        series.note_latency(number / 10)
    assert series.since(0) == []
    clock.seconds += STEP / 2
    series.observe(1_030, 25, 2, 0.5)
    (one,) = series.since(0)
    assert ticks_of(one.at) == clock.ticks()
    assert (one.documents, one.matches) == (30 / STEP, 15 / STEP)
    assert (one.waiting, one.lag) == (7, 4.5)
    assert one.memory > 1_000_000
    assert (one.p50, one.p95) == (5.0, 9.5)
    clock.seconds += STEP
    series.observe(1_030, 25, 0, 0.0)
    first, second = series.since(0)
    assert (first, second.documents, second.waiting, second.p95) == (one, 0.0, 0, 0.0)
    assert series.since(ticks_of(one.at)) == [second]


def test_the_ring_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "KEPT", 3)
    series = StatusSeries(clock, clock.ticks)
    for number in range(10):
        series.observe(number, 0, 0, 0.0)
        clock.seconds += STEP
    assert len(series.since(0)) == 3


def test_memory_is_0_where_the_system_does_not_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(heap_trim, "_STATM", tmp_path_factory.mktemp("proc") / "statm")
    assert heap_trim.resident_bytes() == 0
