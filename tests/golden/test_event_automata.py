"""SASE's automata of sequences (Wu, Diao and Rizvi 2006, Figure 2).

An automaton is written a line for each transition: from, to, event / add or drop.
"""

from __future__ import annotations

from tests.cep_core.engines import engine_of
from tests.event_automata import automata_of


def written(query: str) -> list[str]:
    """The automata of a query: what each puts out, its transitions."""
    core = engine_of(("E1", "E2", "E3", "Z"), {"id": str, "x": int})
    core.register("q", query, "sase")
    lines = []
    for one in automata_of(core, "q"):
        lines.append(one.output)
        lines += [f"{t.source} {t.target} {t.event} / {t.change}" for t in one.transitions]
    return lines


def test_sase_figure_2() -> None:
    """The sub-sequence (A, B, D) without the negated C, here E1, E2, Z; a wildcard keeps states."""
    query = "EVENT SEQ(E1 a, E2 b, !(E3 c), Z d) WHERE [id] WITHIN 6"
    assert written(query) == [
        "SEQ(E1, E2, Z)",
        "s0 s1 E1 / add",
        *("s1 s1 * / drop", "s1 s2 E2 / add"),
        *("s2 s2 * / drop", "s2 sd Z / add"),
    ]


def test_sase_any_and_runs() -> None:
    query = "EVENT SEQ(ANY(E1, E2) a, E3+ b[]) WITHIN 6"
    assert written(query) == [
        "SEQ(ANY(E1, E2), E3)",
        "s0 s1 ANY(E1, E2) / add",
        *("s1 s1 * / drop", "s1 s1 E3 / add", "s1 sd E3 / add"),
    ]
