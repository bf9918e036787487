"""The worked examples of Wu, Diao and Rizvi 2006: Q1 to Q3, Figures 1 to 4 and 6, section 2.3.

The drawings of the figures are not part of the paper's text.  Their stream is the one that fits
all that the text says of it: seven sequences, three of which pass the selection, the second of
these outside the window of 6, the next one negated (Figure 1); RIP(b6) = a4, three sequences for d9
(Figures 2 and 3), one with PAIS (Figure 4), and two in all when everything is pushed (Figure 6).
"""

# ruff: noqa: RUF001 - queries have the quotes that the paper prints

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import pytest

from benchmarks.runtime_stack import BASIC, RuntimeStack
from cep_core import Engine, Event
from cep_core.dataflow.mop import MOp
from cep_core.operators.pattern.stacks import ActiveStacks
from cep_core.plan.plan import Builder
from tests.cep_core.engines import engine_of, engine_with, rows_found

Kind = TypeVar("Kind", bound=MOp)
HOUR = 3600

# -- Q1, Q2 and section 2.3: retail and healthcare -------------------------------------------

Q1 = "EVENT SHELF-READING WHERE category = ‘food’ ∧ manufacturer_id = ‘1’"
Q2 = """EVENT SEQ(SHELF-READING x, !(COUNTER-READING y),
EXIT-READING z)
WHERE x.id = y.id ∧ x.id = z.id /* or equivalently, [id] */
WITHIN 12 hours"""
MISPLACED = """EVENT SEQ(SHELF-READING x, SHELF-READING y,
! (ANY(COUNTER-READING, SHELF-READING) z))
WHERE [id] ∧ x.shelf_id ≠ y.shelf_id ∧ x.shelf_id = z.shelf_id
WITHIN 1 hour"""
OVERDOSE = """EVENT SEQ(MEDICINE-TAKEN x, MEDICINE-TAKEN y)
WHERE [name='John'] ∧ [medicine='Antibiotics'] ∧
(x.amount + y.amount) > 1000
WITHIN 4 hours"""


def store() -> Engine:
    """Return an engine with the streams of a store and a ward; a tick is a second."""
    return engine_with(
        {
            "SHELF_READING": {"id": str, "shelf_id": int, "category": str, "manufacturer_id": str},
            "COUNTER_READING": {"id": str},
            "EXIT_READING": {"id": str},
            "MEDICINE_TAKEN": {"name": str, "medicine": str, "amount": int},
        }
    )


def shelf(item: str, number: int, time: int, category: str = "food", maker: str = "1") -> Event:
    return Event("SHELF_READING", (item, number, category, maker), time)


def found(core: Engine, text: str, events: list[Event]) -> list[Any]:
    """Return the results of a query as (t0, t1, values)."""
    return [(e.t0, e.t1, e.values) for e in rows_found(core, text, events, "sase")]


def test_q1_is_a_selection() -> None:
    events = [shelf("a", 1, 1), shelf("b", 1, 2, "tools"), shelf("c", 1, 3, "food", "2")]
    assert found(store(), Q1, events) == [(1, 1, ("a", 1, "food", "1"))]
    assert found(store(), "EVENT SHELF-READING x WHERE [id=‘c’]", events) == [
        (3, 3, ("c", 1, "food", "2"))
    ]


@pytest.mark.parametrize("condition", ["x.id = y.id ∧ x.id = z.id", "[id]"])
def test_q2_reports_what_is_taken_out_without_being_checked_out(condition: str) -> None:
    text = Q2.replace("x.id = y.id ∧ x.id = z.id", condition)
    events = [
        shelf("paid", 1, 0),
        shelf("stolen", 1, 10),
        Event("COUNTER_READING", ("paid",), 20),
        Event("EXIT_READING", ("stolen",), 30),
        Event("EXIT_READING", ("paid",), 40),
        Event("EXIT_READING", ("stolen",), 10 + 12 * HOUR),
    ]
    rows = found(store(), f"{text} RETURN x.id, z.id AS again", events)
    assert rows == [(10, 30, ("stolen", "stolen"))]


def test_misplaced_inventory_is_reported_when_the_window_ends() -> None:
    """One hour after the first reading less a tick: what comes at that tick still cancels."""
    events = [shelf(item, 1, 100) for item in ("lost", "bought", "back", "other")]
    events += [shelf(item, 2, 200) for item in ("lost", "bought", "back", "other")]
    events += [
        Event("COUNTER_READING", ("bought",), 300),
        shelf("other", 3, 400),
        shelf("back", 1, 100 + HOUR - 1),
    ]
    core = store()
    core.register("q", f"{MISPLACED} RETURN x.id, x.shelf_id, y.shelf_id AS on_shelf", "sase")
    assert core.push(events) == []
    assert core.advance(100 + HOUR - 1) == []
    matches = [(event.t0, event.t1, event.values) for _, event in core.advance(100 + HOUR)]
    assert matches == [
        (100, 100 + HOUR - 1, ("lost", 1, 2)),
        (100, 100 + HOUR - 1, ("other", 1, 2)),
        (100, 100 + HOUR - 1, ("other", 1, 3)),
    ]
    assert [event.values for _, event in core.close()] == [("back", 2, 1), ("other", 2, 3)]


def test_an_overdose_is_the_sum_of_two_doses_within_four_hours() -> None:
    def dose(name: str, medicine: str, amount: int, time: int) -> Event:
        return Event("MEDICINE_TAKEN", (name, medicine, amount), time)

    events = [
        dose("John", "Antibiotics", 600, 0),
        dose("Mary", "Antibiotics", 900, 10),
        dose("John", "Aspirin", 900, 20),
        dose("John", "Antibiotics", 400, 30),
        dose("John", "Antibiotics", 401, 4 * HOUR - 1),
        dose("John", "Antibiotics", 900, 4 * HOUR),
    ]
    pairs = [(t0, t1) for t0, t1, _ in found(store(), OVERDOSE, events)]
    assert pairs == [(0, 4 * HOUR - 1), (30, 4 * HOUR), (4 * HOUR - 1, 4 * HOUR)]


# -- negated start and end at the window's edges (section 2.2.2) ------------------------------


def letters(window: int, pattern: str, events: list[tuple[str, int]]) -> list[tuple[int, int]]:
    """Return the times of the results of a pattern over events without attributes."""
    given = [Event(name, (0,), time) for name, time in events]
    text = f"EVENT SEQ({pattern}) WITHIN {window}"
    return [(t0, t1) for t0, t1, _ in found(engine_of("AB", {"n": int}), text, given)]


@pytest.mark.parametrize(("apart", "matches"), [(5, True), (6, False)])
def test_a_window_is_less_than_t(apart: int, matches: bool) -> None:
    assert letters(6, "A, B", [("A", 1), ("B", 1 + apart)]) == ([(1, 1 + apart)] * matches)


# -- Q3 and Figures 1 to 4 and 6 ---------------------------------------------------------------

Q3 = """EVENT SEQ(A x1, B x2, ! (C x3), D x4)
WHERE [attr1, attr2] ∧ x1.attr3 = '1' ∧ x1.attr4 < x4.attr4
WITHIN 6"""
STREAM = [  # type, time, attr1
    *(("A", 1, 1), ("B", 3, 1), ("A", 4, 2), ("D", 5, 1)),
    *(("B", 6, 2), ("C", 7, 2), ("D", 8, 1), ("D", 9, 2)),
]


def figure(
    text: str, builders: Mapping[str, Builder] | None = None
) -> tuple[Engine, list[list[str]]]:
    """Return an engine that has taken Figure 1's stream, and its results as names of events."""
    core = Engine(1, builders=builders)
    for name in "ABCD":
        core.stream(name, {"attr1": int, "attr2": int, "attr3": str, "attr4": int})
    core.register("q", text, "sase")
    matches = core.push([Event(n, (value, 7, "1", time), time) for n, time, value in STREAM])
    schema = matches[0].event.schema
    assert schema is not None
    times = [place for place, name in enumerate(schema.names) if name.endswith("attr4")]
    return core, [
        [f"{kind}{event.values[at]}" for kind, at in zip("abd", times, strict=False)]
        for _, event in [*matches, *core.close()]
    ]


def the(core: Engine, kind: type[Kind]) -> Kind:
    return next(mop for mop in core.plan.mops if isinstance(mop, kind))


SEVEN = [
    ["a1", "b3", "d5"],
    *(["a1", "b3", "d8"], ["a1", "b6", "d8"], ["a4", "b6", "d8"]),
    *(["a1", "b3", "d9"], ["a1", "b6", "d9"], ["a4", "b6", "d9"]),
]


def test_figure_1_the_dataflow_of_the_basic_plan() -> None:
    """SSC makes seven sequences, selection leaves three, the window two, negation one."""
    assert figure("EVENT SEQ(A x1, B x2, D x4)", BASIC)[1] == SEVEN
    positive = Q3.replace("! (C x3), ", "")
    without_window = positive.replace("WITHIN 6", "")
    selected = [SEVEN[0], SEVEN[1], SEVEN[6]]
    assert figure(without_window, BASIC)[1] == selected
    assert figure(positive, BASIC)[1] == [SEVEN[0], SEVEN[6]]
    assert figure(Q3, BASIC)[1] == [SEVEN[0]]


def test_figure_2_the_runtime_stack() -> None:
    """State 1 is active from a1 on, state 2 from b3 on; both loop at every event."""
    core, results = figure("EVENT SEQ(A x1, B x2, D x4)", BASIC)
    assert the(core, RuntimeStack).active() == [
        (1, [1]),
        *[(time, [1, 2]) for time in (3, 4, 5, 6, 8, 9)],  # C is no event of this query
    ]
    assert [one for one in results if one[2] == "d9"] == SEVEN[4:]


def test_figure_3_active_instance_stacks() -> None:
    """RIP(b3) = a1, RIP(b6) = a4: as many instances of A as there were."""
    core, results = figure("EVENT SEQ(A x1, B x2, D x4)")
    assert results == SEVEN
    assert stacks(the(core, ActiveStacks)) == {None: [[("1", 0), ("4", 0)], [("3", 1), ("6", 2)]]}


def test_figure_4_partitioned_active_instance_stacks() -> None:
    """b6 goes to partition 2, where only a4 is; so d9 makes one sequence."""
    core, results = figure("EVENT SEQ(A x1, B x2, D x4) WHERE [attr1]")
    assert [one for one in results if one[2] == "d9"] == [SEVEN[6]]
    assert stacks(the(core, ActiveStacks)) == {
        1: [[("1", 0)], [("3", 1)]],
        2: [[("4", 0)], [("6", 1)]],
    }


def stacks(mop: ActiveStacks) -> dict[Any, list[list[tuple[str, int]]]]:
    """Return the stacks as times with RIPs, by partition."""
    return {
        key: [
            [(str(row[1]), rip) for row, rip in zip(stack.rows, stack.rips, strict=True)]
            for stack in partition
        ]
        for key, partition in mop._partitions.items()
    }


def test_figure_6_the_optimised_plan() -> None:
    """SSC makes two sequences instead of seven; the absence leaves the first."""
    assert figure(Q3.replace("! (C x3), ", ""))[1] == [SEVEN[0], SEVEN[6]]
    core, results = figure(Q3)
    assert results == [SEVEN[0]]
    assert [mop.kind for mop in core.plan.mops] == ["select", "pattern_match"]
