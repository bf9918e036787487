"""The absence m-op by its methods: each way in which a deadline comes, from the nearest on."""

from __future__ import annotations

from typing import Any

import pytest

import cep_core
from cep_core import algebra as al
from cep_core.algebra.expressions import Column, Compare, Constant
from cep_core.events import Event, Schema

STOCK = Schema(("Name", "Price"), (str, float))
STREAM = al.stream("Stock", STOCK)
SAME_PRICE = Compare("=", Column(1, 1), Column(2, 1))
FIRST = 5
"""The time of the row that waits."""


def named(name: str) -> Any:
    return al.select(STREAM, Compare("=", Column(2, 0), Constant(name)))


def waiting(window: int, make: Any = al.absence) -> cep_core.Engine:
    """Return an engine in which an alert waits for replies, for some ticks."""
    core = cep_core.Engine(ticks_per_second=1)
    core.stream("Stock", STOCK)
    core.register("silent", make(named("alert"), named("reply"), SAME_PRICE, Constant(window)))
    return core


def row(name: str, time: int, price: float = 1.0) -> Event:
    return Event("Stock", (name, price), time)


def ends(core: cep_core.Engine, *rows: Event) -> list[int | None]:
    """Return the ends of what an engine finds with some rows, and afterwards."""
    found = [*core.push(rows), *core.advance(FIRST + 10)]
    return [match.event.t1 for match in found]


@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_finish_prepares_for_a_deadline_at_the_next_tick_and_install_sets_a_timer_before_it(
    window: int,
) -> None:
    """With a window of one tick the epoch before the deadline is being processed."""
    assert ends(waiting(window), row("alert", FIRST)) == [FIRST + window]
    assert ends(waiting(window, al.alternative), row("alert", FIRST)) == [FIRST + window]


@pytest.mark.parametrize("window", [1, 2])
def test_finish_prepares_in_each_epoch(window: int) -> None:
    rows = [row("alert", FIRST + number, number) for number in range(4)]
    assert ends(waiting(window), *rows) == [FIRST + number + window for number in range(4)]


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("at", [FIRST, FIRST + 1])
def test_load_prepares_for_a_deadline_that_comes_after_a_restart(window: int, at: int) -> None:
    """Also where the epoch before the deadline is over."""
    core = waiting(window)
    core.push([row("alert", FIRST)])
    before = [match.event.t1 for match in core.advance(at)]
    core = cep_core.Engine.restore(core.snapshot())
    assert [*before, *ends(core)] == [FIRST + window]


def test_match_answers_once_and_flush_leaves_out_what_is_answered() -> None:
    replies = [row("reply", FIRST + 1), row("reply", FIRST + 2)]
    alerts = [row("alert", FIRST), row("alert", FIRST, 2.0)]
    assert ends(waiting(3), *alerts, *replies) == [FIRST + 3]
    assert ends(waiting(3, al.alternative), *alerts, *replies) == [FIRST + 1, FIRST + 2, FIRST + 3]


def test_flush_begins_at_the_deadline_if_the_moment_is_wanted() -> None:
    core = waiting(2, al.timer)
    (match,) = [*core.push([row("alert", FIRST)]), *core.close()]
    assert (match.event.t0, match.event.t1) == (FIRST + 2, FIRST + 2)


def test_finish_drops_instances_at_their_deadline() -> None:
    core = waiting(1)
    before = core.stats()["index_entries"]
    core.push([row("alert", FIRST)])
    core.advance(FIRST + 1)
    assert core.stats()["instances"] == 1
    core.advance(FIRST + 2)
    assert (core.stats()["instances"], core.stats()["index_entries"]) == (0, before)
