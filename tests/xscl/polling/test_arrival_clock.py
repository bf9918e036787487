"""The clock of arrivals follows the wall clock only as far as the monotonic clock agrees."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.waiting import beside
from xscl.polling.arrival_clock import BOUND, DAY, FURTHEST, RELEASED, SETTLED, ArrivalClock
from xscl.time_format import SECOND

MINUTE = 60 * SECOND
START = RELEASED + 300 * DAY


@dataclass
class Machine:
    """The clocks of a machine: time passes for both, and one is set by hand."""

    wall: int = START
    steady: int = 0
    clock: ArrivalClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = self.started()

    def started(self) -> ArrivalClock:
        return ArrivalClock(lambda: self.wall, lambda: self.steady)

    def passes(self, ticks: int, *, looks: int = 10) -> None:
        """Advance both clocks, with so many reads on the way."""
        for _ in range(looks):
            self.wall += ticks // looks
            self.steady += ticks // looks
            self.clock.now()

    def jumps(self, ticks: int) -> None:
        self.wall += ticks

    @property
    def ahead(self) -> int:
        """By how much the wall clock is ahead of the clock of arrivals."""
        return self.wall - self.clock.now()

    @property
    def state(self) -> str:
        return self.clock.agreement().state


@pytest.mark.parametrize("step", [0, 1, -1, BOUND, -BOUND])
def test_small_steps_are_followed(step: int) -> None:
    machine = Machine()
    machine.passes(MINUTE)
    machine.jumps(step)
    machine.passes(MINUTE)
    assert (machine.ahead, machine.state) == (0, "ok")


@pytest.mark.parametrize("step", [BOUND + 1, MINUTE, DAY, 30 * DAY, -BOUND - 1, -30 * DAY])
def test_a_step_and_back_leaves_no_trace(step: int, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.passes(MINUTE)
    before = machine.clock.now()
    with caplog.at_level(logging.WARNING, "xscl.polling.arrival_clock"):
        machine.jumps(step)
        assert (machine.clock.now(), machine.state, machine.ahead) == (before, "stepped", step)
        machine.passes(MINUTE)
        assert machine.clock.now() == before + MINUTE
        machine.jumps(-step)
        machine.passes(MINUTE)
        assert (machine.ahead, machine.state) == (0, "ok")
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith("the wall clock has jumped by ")
    assert last == "the wall clock is followed again"


@pytest.mark.parametrize("step", [BOUND + 1, MINUTE, FURTHEST - MINUTE])
def test_a_step_ahead_that_lasts_is_followed(step: int) -> None:
    machine = Machine()
    machine.jumps(step)
    machine.passes(SETTLED - MINUTE, looks=99)
    assert (machine.state, machine.ahead) == ("stepped", step)
    machine.passes(2 * MINUTE)
    assert (machine.state, machine.ahead) == ("ok", 0)
    machine.passes(DAY)
    assert machine.ahead == 0


def test_a_step_of_more_than_a_day_is_followed_by_a_restart_only() -> None:
    machine = Machine()
    machine.jumps(30 * DAY)
    machine.passes(3 * DAY, looks=1000)
    assert (machine.state, machine.ahead) == ("stepped", 30 * DAY)
    last = machine.clock.now()
    machine.clock = machine.started()
    machine.clock.continue_after(last)
    assert (machine.state, machine.ahead) == ("ok", 0)


@pytest.mark.parametrize("step", [MINUTE, 3 * DAY])
def test_a_step_back_that_lasts_holds_time_until_the_wall_clock_has_caught_up(step: int) -> None:
    machine = Machine()
    machine.jumps(-step)
    machine.passes(SETTLED + MINUTE, looks=11)
    assert machine.state == "held" if step > SETTLED + MINUTE else "ok"
    before, behind = machine.clock.now(), -machine.ahead
    machine.passes(behind)
    assert (machine.state, machine.clock.now(), machine.ahead) == ("ok", before, 0)
    machine.passes(MINUTE)
    assert (machine.clock.now(), machine.ahead) == (before + MINUTE, 0)


@pytest.mark.parametrize("ahead", [1, MINUTE, FURTHEST])
def test_a_restart_goes_on_after_what_was_told_before(ahead: int) -> None:
    machine = Machine()
    machine.clock.continue_after(START + ahead)
    assert machine.clock.stamp() > START + ahead
    machine.passes(3 * ahead, looks=100)
    machine.passes(100)
    assert (machine.state, machine.ahead) == ("ok", 0)


Steps = st.one_of(
    st.tuples(st.just("passes"), st.integers(1, 3 * SETTLED)),
    st.tuples(st.just("jumps"), st.integers(-60 * DAY, 60 * DAY)),
    st.tuples(st.just("jumps"), st.integers(-2 * SECOND, 2 * SECOND)),
    st.tuples(st.just("stamp"), st.integers(1, 5)),
)


@examples(100)
@given(st.lists(Steps, max_size=30))
def test_times_rise_and_never_run_ahead(steps: list[tuple[str, int]]) -> None:
    """They are at most the anchor, plus what has passed, plus what was followed.

    That are steps of up to a day, and a second every ten minutes.
    """
    machine = Machine()
    last, stamps, followed = START, 0, 0
    for what, ticks in steps:
        before = machine.clock.now()
        if what == "passes":
            machine.passes(ticks, looks=1)
            passed = machine.clock.now() - before
            if passed > ticks + BOUND:
                assert passed - ticks <= FURTHEST + BOUND
                followed += passed - ticks
        elif what == "jumps":
            machine.jumps(ticks)
            assert 0 <= machine.clock.now() - before <= BOUND
        else:
            for _ in range(ticks):
                stamp = machine.clock.stamp()
                assert stamp > last
                last, stamps = stamp, stamps + 1
        assert machine.clock.now() >= last
        last = machine.clock.now()
        corrected = BOUND * (1 + machine.steady // SETTLED)
        assert last <= START + machine.steady + followed + stamps + corrected


def test_stamps_of_many_threads_are_distinct() -> None:
    machine = Machine()
    stamps = [lambda: [machine.clock.stamp() for _ in range(1_000)]] * 4
    with beside(*stamps) as threads:
        pass
    found = [one.result() for one in threads]
    assert len({one for own in found for one in own}) == 4_000
    assert all(own == sorted(own) for own in found)
