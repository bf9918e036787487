"""Runs of sequences that stand for several queries: what ends and goes on for each of them."""

from __future__ import annotations

from typing import Any

import pytest

from cep_core import Engine, Event

CASES: dict[str, tuple[str, dict[int, list[float]]]] = {
    "next": (
        "EVENT SEQ(A a, B b) WHERE skip_till_next_match(a, b) {{b.v > a.v + {}}} RETURN b.v",
        {0: [2.0], 4: [6.0], 9: []},
    ),
    "strict": (
        "EVENT SEQ(A a, B b) WHERE strict_contiguity(a, b) {{a.v > 0 AND b.v > a.v + {}}}"
        " RETURN b.v",
        {0: [2.0], 4: []},
    ),
    "strict, of what each query selects": (
        "EVENT SEQ(A a, B b) WHERE strict_contiguity(a, b) {{b.v != {}}} RETURN b.v",
        {2: [], 3: [2.0]},
    ),
    "partition": (
        "EVENT SEQ(A a, B b) WHERE partition_contiguity(a, b) {{[k] AND b.v > a.v + {}}}"
        " RETURN b.v",
        {0: [6.0], 4: [6.0], 5: []},
    ),
    "a run": (
        "EVENT SEQ(A a, B+ b[]) WHERE skip_till_next_match(a, b[]) {{b[i].v > a.v + {}}}"
        " RETURN COUNT(b[]) AS n",
        {0: [1, 2, 3], 4: [1], 9: []},
    ),
    "windows": (
        "EVENT SEQ(A a, B b) WHERE skip_till_next_match(a, b) {{b.v > a.v + 2}} WITHIN {}"
        " RETURN b.v",
        {3: [3.5], 2: []},
    ),
}
EVENTS = [
    Event("A", ("x", 1.0), 1),
    Event("B", ("y", 2.0), 2),
    Event("B", ("x", 3.5), 3),
    Event("B", ("x", 6.0), 4),
]
LATER = {"partition": [EVENTS[0], EVENTS[1], EVENTS[3]]}


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_queries_that_differ_in_constants_share_runs(name: str, restored: bool) -> None:
    text, expected = CASES[name]
    core = Engine(1)
    for stream in "AB":
        core.stream(stream, {"k": str, "v": float})
    for constant in expected:
        core.register(str(constant), text.format(constant), "sase")
    assert sum(mop.kind == "pattern_match" for mop in core.plan.mops) == 1
    found: dict[int, list[Any]] = {constant: [] for constant in expected}
    for event in LATER.get(name, EVENTS):
        for query, match in core.push([event]):
            found[int(query)] += match.values
        if restored:
            core = Engine.restore(core.snapshot())
    for query, match in core.close():
        found[int(query)] += match.values
    assert found == expected


def test_a_run_is_kept_for_the_queries_that_are_left() -> None:
    core = Engine(1)
    for stream in "AB":
        core.stream(stream, {"k": str, "v": float})
    text = "EVENT SEQ(A a, B b) WHERE skip_till_next_match(a, b) {{a.v > {} AND b.v > a.v}}"
    for constant in (0, 5):
        core.register(f"q{constant}", text.format(constant), "sase")
    core.push([Event("A", ("x", 1.0), 1), Event("A", ("x", 7.0), 2), Event("A", ("x", 8.0), 3)])
    core.advance(4)
    assert core.stats()["instances"] == 3
    core.unregister("q0")
    assert core.stats()["instances"] == 2
    core.register("q1", text.format(6), "sase")
    matches = core.push([Event("B", ("x", 9.0), 5)]) + core.close()
    assert [(query, event.t0) for query, event in matches] == [("q5", 2), ("q5", 3)]
