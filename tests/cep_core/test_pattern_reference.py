"""The definition of patterns: ties, nulls and edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.cep_core.pattern_reference import (
    Chain,
    Choice,
    Happened,
    Pattern,
    Query,
    Repeat,
    Step,
    Taken,
    Unordered,
    matches,
)

A, B, C = (Step(name, (name,)) for name in "abc")


def stream(text: str) -> list[Happened]:
    """Return events written as type, number, @ and their time, or times."""
    made = []
    for word in text.split():
        label, _, time = word.partition("@")
        first, _, last = time.partition("-")
        made.append(Happened(label[0], int(first), int(last or first), {"label": label}))
    return made


def said(query: Query | Pattern, text: str) -> str:
    whole = query if isinstance(query, Query) else Query(query)
    events = stream(text)
    return ", ".join(
        " ".join(
            label for _, label in sorted((event.t1, event.values["label"]) for _, event in one)
        )
        for one in matches(whole, events)
    )


def chain(*parts: Pattern) -> Chain:
    return Chain(parts)


def optional(step: Step, pace: Any = "all") -> Repeat:
    return Repeat(step, 0, 1, pace)


@pytest.mark.parametrize(
    ("query", "events", "found"),
    [
        # what may be left out
        (chain(A, optional(B), C), "a@1 b@2 c@3", "a b c, a c"),
        (chain(A, optional(B, "greedy"), C), "a@1 b@2 c@3", "a b c"),
        (chain(A, optional(B, "reluctant"), C), "a@1 b@2 c@3", "a b c, a c"),
        (chain(A, optional(B, "reluctant"), C), "a@1 c@2 b@3 c4@4", "a c, a c4"),
        (chain(optional(A, "greedy"), C), "a@1 c@2", "a c, c"),
        (Repeat(A, 0, 2), "b@1", ""),
        # counts and groups
        (Repeat(A, 2, 2), "a1@1 a2@2 a3@3", "a1 a2, a1 a3, a2 a3"),
        (Repeat(A, 2, 3, inner="next"), "a1@1 a2@2 a3@3", "a1 a2, a1 a2 a3, a2 a3"),
        (Repeat(A, 1, 3, "reluctant"), "a1@1 a2@2", "a1, a2"),
        (Repeat(A, 2, 3, "reluctant"), "a1@1 a2@2 a3@3", "a1 a2, a1 a3, a2 a3"),
        (Repeat(chain(A, B), 2, 2), "a1@1 b1@2 a2@3 b2@4", "a1 b1 a2 b2"),
        (Repeat(Choice((A, B)), 2, 2, inner="strict"), "a@1 b@2 c@3", "a b"),
        # events that end together do not follow one another, and do not block one another
        (chain(A, B), "a@1 b@1", ""),
        (Query(chain(A, B), simultaneous=True), "b@1 a@1", "a b"),
        (Query(chain(A, B), mark="next"), "a@1 b1@2 b2@2 b3@3", "a b1, a b2"),
        (Query(chain(A, B), mark="strict"), "a1@1 a2@2 b@2", "a1 b"),
        (chain(Repeat(A, 1, None, "greedy"), C), "a1@1 a2@2 c@2", "a1 c"),
        (chain(A, B), "a@1-3 b@3-4 b2@4-5", "a b2"),
        # the window counts from the first end to the last one
        (Query(chain(A, B), window=3), "a@1 b1@3 b2@4", "a b1"),
        (Query(chain(A, B), window=3, inclusive=True), "a@1 b1@3 b2@4 b3@5", "a b1, a b2"),
        # unordered
        (Unordered((A, B)), "b@1 c@2 a@3", "b a"),
        (Unordered((A, B)), "a@1 b@1", "a b"),
        (chain(C, Unordered((A, B)), Step("d", ("d",))), "c@1 b@2 a@2 d@2 d2@3", "c a b d2"),
        (Unordered((A, B), span=2), "a@1 b1@2 b2@3", "a b1"),
        (Unordered((A, Step("x", ("a",)))), "a@1", ""),
        # until: neither a later one of the run, nor the event that ends it
        (Repeat(A, 1, None, inner="next", until=B), "b@1 a1@2 a2@3 b@4 a3@5", "a1, a1 a2, a2, a3"),
        (Repeat(A, 1, None, until=replace(A, name="stop")), "a1@1", ""),
        # policies
        (Query(chain(A, B), policy="first only"), "a1@1 a2@2 b1@3 b2@4", "a1 b1"),
        (Query(chain(A, B), policy="newest"), "a1@1 a2@2 b1@3 b2@4", "a2 b1, a2 b2"),
        (Query(chain(A, B), policy="past last"), "a1@1 a2@2 b1@3 b2@4", "a1 b1"),
        (Query(chain(A, B), policy="to last", target="b"), "a1@1 a2@2 b1@3 b2@4", "a1 b1"),
        (Query(chain(A, B), policy="to last", target="z"), "a1@1 b1@2 b2@3", "a1 b1, a1 b2"),
        (Query(chain(A, B), 3, policy="restart"), "a1@1 a2@2 a3@4 b1@5 b2@6", "a3 b1"),
        (Query(chain(A, B), policy="restart"), "a1@1 a2@2 b1@3 b2@4 a3@5 b3@6", "a1 b1, a3 b3"),
    ],
)
def test_edges(query: Query | Pattern, events: str, found: str) -> None:
    assert said(query, events) == found


def test_nulls_neither_hold_nor_end_nor_block() -> None:
    def above(limit: int) -> Any:
        def test(taken: Taken, event: Happened) -> bool | None:
            value = event.values["v"]
            return None if value is None else bool(value > limit)

        return test

    events = [
        Happened(kind, at, at, {"v": value})
        for at, (kind, value) in enumerate([("a", 1), ("b", None), ("b", 1), ("b", 9)])
    ]
    b = Step("b", ("b",), "next", above(0))
    query = Query(chain(A, Repeat(b, 1, None, "greedy", "next", Step("s", ("b",), None, above(5)))))
    found = [[event.t0 for _, event in one] for one in matches(query, events)]
    assert found == [[0, 2]]
