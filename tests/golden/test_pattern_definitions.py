"""Published examples of patterns against their definition (docs/internals/patterns.md).

Flink: the documentation of its CEP library, docs/libs/cep (contiguity, looping patterns, after
match skip strategies).  Esper: the reference, chapter "EPL Reference: Patterns", every and until.
An event is written as its type and a number; one happens every second.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

import pytest

from cep_core import Engine, Event
from tests.cep_core.pattern_reference import (
    Chain,
    Choice,
    Pattern,
    Policy,
    Query,
    Repeat,
    Step,
    matches,
)
from tests.cep_core.sase_reference import Happened


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


SASE = {
    "strict contiguity": "SEQ(A a, strict B b)",
    "relaxed contiguity": "SEQ(A a, next B b)",
    "non-deterministic": "SEQ(A a, B b)",
    "loop, strict": "SEQ(A a, B+ strict b[], strict C c)",
    "loop, relaxed": "SEQ(A a, B+ next b[], next C c)",
    "loop, non-deterministic": "SEQ(A a, B+ any b[], next C c)",
    "consecutive": "SEQ(C c, next A+ strict a[], next B b)",
    "not consecutive": "SEQ(C c, next A+ next a[], next B b)",
    "combinations": "SEQ(C c, A+ any a[], next B b)",
    "no skip": "SEQ(next B+ greedy next b[], next C c)",
    "skip to next": "SEQ(next B+ greedy next b[], next C c) AFTER MATCH SKIP TO NEXT",
    "skip past last": "SEQ(next B+ greedy next b[], next C c) AFTER MATCH SKIP PAST LAST",
    "skip to first": "SEQ(next B+ greedy next b[], next C c) AFTER MATCH SKIP TO FIRST b",
    "skip to last": "SEQ(next B+ greedy next b[], next C c) AFTER MATCH SKIP TO LAST b",
    "nested, no skip": "SEQ(ABC f, strict BC g, strict C+ greedy strict t[], strict D d)",
    "nested, to first": "SEQ(ABC f, strict BC g, strict C+ greedy strict t[], strict D d)"
    " AFTER MATCH SKIP TO FIRST t",
    "open, no skip": "SEQ(A a, next B+ next b[])",
    "open, to next": "SEQ(A a, next B+ next b[]) AFTER MATCH SKIP TO NEXT",
    "until": "A+ next a[] UNTIL B z",
    "every (A -> B)": "SEQ(A a, next B b) AFTER MATCH RESTART",
    "every A -> B": "SEQ(A a, next B b)",
    "A -> every B": "SEQ(A a, B b) WHERE a.label = 'a1'",
    "every A -> every B": "SEQ(A a, B b)",
    "[2] A": "next A{2} next a[] AFTER MATCH FIRST ONLY",
}
"""The published patterns as one query of SASE; ABC stands for an event of one of three kinds."""
_COMPONENT = re.compile(r"\b([A-F]+)([^,()]*?) ([a-z])(\[\])?(?=[,)]| UNTIL| AFTER| WHERE|$)")


def in_sase(pattern: str) -> str:
    """Return a pattern over one stream s, as in Flink: the kind of an event is a condition."""
    pattern, _, policy = pattern.partition(" AFTER MATCH ")
    pattern, _, condition = pattern.partition(" WHERE ")
    conditions, items = [condition] if condition else [], []
    for kinds, _, name, run in _COMPONENT.findall(pattern):
        known = ", ".join(f"'{kind.lower()}'" for kind in kinds)
        conditions.append(f"{name}{'[i]' * bool(run)}.kind IN ({known})")
        if name != "z":
            items.append(f"LIST({name}[].label) AS {name}" if run else f"{name}.label AS {name}")
    text = _COMPONENT.sub(r"s\2 \3\4", pattern)
    after = f" AFTER MATCH {policy}" if policy else ""
    return f"EVENT {text} WHERE {' AND '.join(conditions)}{after} RETURN {', '.join(items)}"


@pytest.mark.parametrize("name", SASE)
def test_one_query_of_sase_finds_what_is_published(name: str) -> None:
    case = {**FLINK, **ESPER}[name]
    core = Engine(1)
    core.stream("s", {"kind": str, "label": str})
    core.register("q", in_sase(SASE[name]), "sase")
    events = [Event("s", (one[0], one), at) for at, one in enumerate(case.events.split())]
    found = []
    for _, event in [*core.push(events), *core.close()]:
        labels = [
            label for one in event.values for label in ([one] if isinstance(one, str) else one)
        ]
        found.append(" ".join(labels))
    assert sorted(found) == sorted(filter(None, case.found.split(", ")))


@pytest.mark.parametrize("case", FLINK.values(), ids=FLINK)
def test_flink_documentation(case: Case) -> None:
    assert ", ".join(said(case.query, case.events)) == case.found


@pytest.mark.parametrize("case", ESPER.values(), ids=ESPER)
def test_esper_reference(case: Case) -> None:
    assert ", ".join(said(case.query, case.events)) == case.found
