"""Events that are pushed together are taken in as if they came one by one, unusual ones too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_core import Engine, Event, Function
from tests.cep_core.engines import engine_of

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


def taken(parts: Sequence[Sequence[Any]], lateness: int) -> tuple[Any, ...]:
    """The matches, reports and state of an engine after it has taken in batches."""
    core = engine_of("ST", {"v": int, "w": str}, lateness=lateness, channel="ST")
    core.stream("U", {"f": float}, lateness=lateness)
    for number, (query, language) in enumerate(QUERIES):
        core.register(f"q{number}", query, language)
    found = [match for part in parts for match in core.push(part)]
    return found, list(core.rejected), list(core.late), core.stats(), core.rates, core.snapshot()


@pytest.mark.parametrize("lateness", [0, 4])
def test_batches_change_nothing(lateness: int) -> None:
    seen: Counter[str] = Counter()

    @given(batches())
    @settings(max_examples=20, deadline=None)
    def same(parts: list[list[Any]]) -> None:
        together, each = (
            taken(parts, lateness),
            taken([[e] for part in parts for e in part], lateness),
        )
        assert together[1:] == each[1:]
        assert Counter(map(repr, together[0])) == Counter(map(repr, each[0]))
        found, rejected, late, *_ = together
        seen.update(cases=1, found=any(found), rejected=bool(rejected), late=bool(late))

    same()
    assert 3 * seen["found"] >= seen["cases"]
    assert seen["rejected"]
    assert seen["late"]


def test_an_interrupt_leaves_the_rest_of_a_batch_untaken() -> None:
    """Only accepted events are counted."""
    core = Engine(1, functions={"odd": _odd()})
    core.stream("S", {"v": int})
    core.register("q", "SELECT odd(v) AS o FROM S")
    with pytest.raises(KeyboardInterrupt):
        core.push([Event("S", (number,), number) for number in range(6)])
    assert core.counts["events"] == core.clock.arrivals == 4
    assert core.clock.now == 2
    assert len(core.push([])) == 3


def _odd() -> Function:
    def odd(value: int) -> bool:
        if value == 3:
            raise KeyboardInterrupt
        return value % 2 == 1

    return Function(odd, (int,), bool)
