"""Events that are taken in by columns are taken in as if they came one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_core import Engine, Event, Function
from cep_core.runtime import intake

QUERIES = (
    ("SELECT * FROM S NEXT{$1.v = $2.v} T", "cel"),
    ("SELECT COUNT(*) AS n FROM T WINDOW 3 s", "cel"),
    ("EVENT SEQ(S a, !T b) WHERE [v] WITHIN 4", "sase"),
)
UNUSUAL = (
    Event("S", (None, "x"), 5),  # a null
    Event("S", (True, "x"), 5),
    Event("S", (1.5, "x"), 5),
    Event("S", (1,), 5),
    Event("S", [1, "x"], 5),  # type: ignore[arg-type]  # wrong on purpose
    Event("U", (2,), 6),  # an int where floats are
    Event("nowhere", (1, "x"), 5),
    Event(("S", "T"), (1, "x"), 7),  # these share a channel
    Event(("S", "U"), (1, "x"), 7),
    Event("S", (1, "x"), 9, 8),
    Event("S", (1, "x"), 1 << 70),
    Event("S", (1, "x"), 5, 6.0),  # type: ignore[arg-type]  # wrong on purpose
    ("S", (1, "x"), 5, 5, None),
    None,
)


def usual(names: str = "SSTU") -> st.SearchStrategy[Event]:
    """Return events that fit their streams, points and intervals, in no order."""

    def made(name: str, end: int, back: int | None, number: int) -> Event:
        values = (number / 2,) if name == "U" else (number, "xyz"[number])
        return Event(name, values, end - (back or 0), None if back is None else end)

    backs = st.sampled_from((None, None, 0, 0, 1, 3))
    return st.builds(made, st.sampled_from(names), st.integers(0, 30), backs, st.integers(0, 2))


@st.composite
def batches(draw: st.DrawFn) -> list[list[Any]]:
    """Return batches: mostly in order of time, some with something unusual in them."""
    events: list[Any] = draw(st.lists(usual(), min_size=30, max_size=60))
    if draw(st.integers(0, 3)):
        events.sort(key=lambda event: event.t0 if event.t1 is None else event.t1)
    if draw(st.booleans()):
        for one in draw(st.lists(st.sampled_from(UNUSUAL), min_size=1, max_size=3)):
            events.insert(draw(st.integers(0, len(events))), one)
    cut = draw(st.integers(0, len(events)))
    return [events[:cut], events[cut:]]


def taken(parts: Sequence[Sequence[Any]], lateness: int, few: int) -> tuple[Any, ...]:
    """The matches, reports and state of an engine whose batch threshold is so many events."""
    core = Engine(1)
    for name in "ST":
        core.stream(name, {"v": int, "w": str}, lateness=lateness, channel="ST")
    core.stream("U", {"f": float}, lateness=lateness)
    for number, (query, language) in enumerate(QUERIES):
        core.register(f"q{number}", query, language)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake, "_FEW", few)
        patch.setattr(intake, "_TOGETHER", 25)
        found = [core.push(part) for part in parts]
    return found, list(core.rejected), list(core.late), core.stats(), core.rates, core.snapshot()


@pytest.mark.parametrize("lateness", [0, 4])
def test_columns_change_nothing(lateness: int) -> None:
    seen: Counter[str] = Counter()

    @given(batches())
    @settings(max_examples=20, deadline=None)
    def same(parts: list[list[Any]]) -> None:
        columns, each = (taken(parts, lateness, few) for few in (0, 1_000))
        assert columns == each
        found, rejected, late, *_ = columns
        seen.update(cases=1, found=any(found), rejected=bool(rejected), late=bool(late))

    same()
    assert 3 * seen["found"] >= seen["cases"]
    assert seen["rejected"]
    assert seen["late"]


def test_usual_events_are_taken_as_columns() -> None:
    core = Engine(1)
    core.stream("S", {"v": int, "w": str})
    core.stream("U", {"f": float})
    plain = core._streams.plain
    events = [Event("S", (1, "x"), 1), Event("U", (1.5,), 2, 3), Event("S", (2, "y"), 2)]
    columns = intake._columns(events, plain, 9)
    assert columns is not None
    assert columns.ends == (1, 3, 2)
    for one in UNUSUAL:
        assert intake._columns([*events, one], plain, 9) is None  # type: ignore[list-item]  # wrong on purpose


def test_an_interrupt_leaves_the_rest_of_a_batch_untaken() -> None:
    """As it does when events come one by one: what was taken in is counted, and no more."""

    def at(few: int) -> tuple[Any, ...]:
        core = Engine(1, functions={"odd": _odd()})
        core.stream("S", {"v": int})
        core.register("q", "SELECT odd(v) AS o FROM S")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(intake, "_FEW", few)
            with pytest.raises(KeyboardInterrupt):
                core.push([Event("S", (number,), number) for number in range(6)])
        return core.counts, core.clock.now, core.clock.arrivals, core.push([]), core.rates

    assert at(0) == at(1_000)


def _odd() -> Function:
    def odd(value: int) -> bool:
        if value == 3:
            raise KeyboardInterrupt
        return value % 2 == 1

    return Function(odd, (int,), bool)
