"""Published examples of patterns against their definition (docs/internals/patterns.md).

Flink: the documentation of its CEP library, docs/libs/cep (contiguity, looping patterns, after
match skip strategies).  Esper: the reference, chapter "EPL Reference: Patterns", every and until.
An event is written as its type and a number; one happens every second.  Queries for them are in
`test_published_patterns`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from tests.cep_core.pattern_reference import (
    Chain,
    Choice,
    Happened,
    Pattern,
    Policy,
    Query,
    Repeat,
    Step,
    matches,
)


class Case(NamedTuple):
    """A pattern, the events of a stream, and the matches that are published."""

    query: Query
    events: str
    found: str


def said(query: Query, text: str) -> list[str]:
    """Return the matches of a query over events as text."""
    events = [Happened(word[0], at, at, {"label": word}) for at, word in enumerate(text.split())]
    found = matches(replace(query, reads=tuple(event.type for event in events)), events)
    return [" ".join(event.values["label"] for _, event in one) for one in found]


def step(name: str, mark: str | None = None) -> Step:
    return Step(name, (name,), mark)  # type: ignore[arg-type]  # a mark


def run(name: str, entered: str, inner: str, pace: str = "all", least: int = 1) -> Repeat:
    return Repeat(step(name, entered), least, None, pace, inner)  # type: ignore[arg-type]  # as above


def chain(*parts: Pattern) -> Chain:
    return Chain(parts)


PAIR = "a c b1 b2"
LOOP = "a b1 d1 b2 d2 b3 c"
CONSECUTIVE = "c d a1 a2 a3 d a4 b"
SKIPPED = "b1 b2 b3 c"
NESTED = "a b c1 c2 c3 d"
ALL = "b1 b2 b3 c, b2 b3 c, b3 c"


def between(inner: str, last: str) -> Query:
    return Query(chain(step("a"), run("b", "any", inner), step("c", last)))


def middle(inner: str) -> Query:
    entered = "any" if inner == "any" else "next"
    return Query(chain(step("c"), run("a", entered, inner), step("b", "next")))


def skipped(policy: Policy, target: str = "") -> Query:
    pattern = chain(run("b", "next", "next", "greedy"), step("c", "next"))
    return Query(pattern, policy=policy, target=target)


def nested(policy: Policy, target: str = "") -> Query:
    first = Choice((step("a"), step("b"), step("c")))
    second = Choice((Step("s", ("b",), "strict"), Step("s", ("c",), "strict")))
    third = Repeat(Step("t", ("c",), "strict"), 1, None, "greedy", "strict")
    return Query(chain(first, second, third, step("d", "strict")), policy=policy, target=target)


def open_ended(policy: Policy) -> Query:
    return Query(chain(step("a"), run("b", "next", "next")), policy=policy)


FLINK = {
    "strict contiguity": Case(Query(chain(step("a"), step("b", "strict"))), PAIR, ""),
    "relaxed contiguity": Case(Query(chain(step("a"), step("b", "next"))), PAIR, "a b1"),
    "non-deterministic": Case(Query(chain(step("a"), step("b", "any"))), PAIR, "a b1, a b2"),
    "loop, strict": Case(between("strict", "strict"), LOOP, "a b3 c"),
    "loop, relaxed": Case(
        between("next", "next"),
        LOOP,
        "a b1 b2 b3 c, a b1 b2 c, a b1 c, a b2 b3 c, a b2 c, a b3 c",
    ),
    "loop, non-deterministic": Case(
        between("any", "next"),
        LOOP,
        "a b1 b2 b3 c, a b1 b2 c, a b1 b3 c, a b1 c, a b2 b3 c, a b2 c, a b3 c",
    ),
    "consecutive": Case(middle("strict"), CONSECUTIVE, "c a1 a2 a3 b, c a1 a2 b, c a1 b"),
    "not consecutive": Case(
        middle("next"), CONSECUTIVE, "c a1 a2 a3 a4 b, c a1 a2 a3 b, c a1 a2 b, c a1 b"
    ),
    "combinations": Case(
        middle("any"),
        CONSECUTIVE,
        "c a1 a2 a3 a4 b, c a1 a2 a3 b, c a1 a2 a4 b, c a1 a2 b, c a1 a3 a4 b, c a1 a3 b, c a1 a4 b"
        ", c a1 b, c a2 a3 a4 b, c a2 a3 b, c a2 a4 b, c a2 b, c a3 a4 b, c a3 b, c a4 b",
    ),
    "no skip": Case(skipped("none"), SKIPPED, ALL),
    "skip to next": Case(skipped("to next"), SKIPPED, ALL),
    "skip past last": Case(skipped("past last"), SKIPPED, "b1 b2 b3 c"),
    "skip to first": Case(skipped("to first", "b"), SKIPPED, ALL),
    "skip to last": Case(skipped("to last", "b"), SKIPPED, "b1 b2 b3 c, b3 c"),
    "nested, no skip": Case(nested("none"), NESTED, "a b c1 c2 c3 d, b c1 c2 c3 d, c1 c2 c3 d"),
    "nested, to first": Case(nested("to first", "t"), NESTED, "a b c1 c2 c3 d, c1 c2 c3 d"),
    "open, no skip": Case(open_ended("none"), "a b1 b2 b3", "a b1, a b1 b2, a b1 b2 b3"),
    "open, to next": Case(open_ended("to next"), "a b1 b2 b3", "a b1"),
    "until": Case(
        Query(Repeat(step("a"), 1, None, inner="next", until=step("b"))),
        "a1 c a2 b a3",
        "a1, a1 a2, a2, a3",
    ),
}

EVERY = "a1 b1 c1 b2 a2 d1 a3 b3 e1 a4 f1 b4"
FIRST_A = Step("a", ("a",), test=lambda taken, event: event.values["label"] == "a1")
ESPER = {
    "every (A -> B)": Case(
        Query(chain(step("a"), step("b", "next")), policy="restart"), EVERY, "a1 b1, a2 b3, a4 b4"
    ),
    "every A -> B": Case(
        Query(chain(step("a"), step("b", "next"))), EVERY, "a1 b1, a2 b3, a3 b3, a4 b4"
    ),
    "A -> every B": Case(Query(chain(FIRST_A, step("b"))), EVERY, "a1 b1, a1 b2, a1 b3, a1 b4"),
    "every A -> every B": Case(
        Query(chain(step("a"), step("b"))),
        EVERY,
        "a1 b1, a1 b2, a1 b3, a2 b3, a3 b3, a1 b4, a2 b4, a3 b4, a4 b4",
    ),
    "[2] A": Case(
        Query(Repeat(step("a", "next"), 2, 2, inner="next"), policy="first only"),
        "a1 b1 b2 a2 a3",
        "a1 a2",
    ),
}


@pytest.mark.parametrize("case", FLINK.values(), ids=FLINK)
def test_flink_documentation(case: Case) -> None:
    assert ", ".join(said(case.query, case.events)) == case.found


@pytest.mark.parametrize("case", ESPER.values(), ids=ESPER)
def test_esper_reference(case: Case) -> None:
    assert ", ".join(said(case.query, case.events)) == case.found
