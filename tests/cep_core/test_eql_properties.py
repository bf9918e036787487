r"""EQL's constructs beyond SASE's (`\`, `@`, parentheses, rates) and their definition.

Random patterns of single events and their meaning by `pattern_reference` are made side by side.
They are what the engine evaluates as Cayuga's sequences, in parentheses that the rates decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_core import ALL_RULES, Engine, Event, Rule
from tests.cep_core.pattern_conditions import SIGNS, Condition, Operand
from tests.cep_core.pattern_reference import (
    Chain,
    Choice,
    Happened,
    Pattern,
    Query,
    Repeat,
    Step,
    Taken,
    reported,
)
from tests.cep_core.strategies import Choice as Choose
from tests.cep_core.test_engine_properties import CONFIGURATIONS, holding
from tests.examples import demand

STREAMS = ("A", "B", "C")


@dataclass(frozen=True)
class Within(Condition):
    """(left, right) OCCURS WITHIN number."""

    number: int = 0

    def written(self, left: str, right: str) -> str:
        return f"({self.left.name}, {self.operands[1].name}) OCCURS WITHIN {self.number}"

    def holds(self, taken: Taken, name: str = "", event: Happened | None = None) -> bool:
        before = next((one for other, one in taken if other == self.left.name), None)
        return before is not None and event is not None and event.t1 - before.t0 <= self.number


@dataclass(frozen=True)
class Moment:
    """The events of a type, so long after those of a stream, unless something prevents them."""

    name: str
    stream: str
    time: int
    guard: Step | None


@dataclass
class Case:
    """A pattern with its meaning, events in order, where they are cut, and a snapshot."""

    choose: Choose
    runs: bool
    names: list[str] = field(default_factory=list)
    aside: dict[str, str] = field(default_factory=dict)  # what ends a part, with what comes before
    moments: list[Moment] = field(default_factory=list)
    conditions: list[tuple[str, Condition]] = field(default_factory=list)
    """Each with the step at which it is tested."""
    seen: set[str] = field(default_factory=set)
    text: str = ""
    pattern: Pattern = field(default_factory=lambda: Chain(()))
    events: tuple[Event, ...] = ()

    def __repr__(self) -> str:
        shown = [f"{e.stream}{e.values}@[{e.t0}, {e.t1}]" for e in self.events]
        return f"{self.text}\n  {' '.join(shown)}"

    # -- the pattern -----------------------------------------------------------------------

    def part(self, depth: int) -> tuple[str, Pattern]:
        kind = self.choose.number(0, 9) if depth else self.choose.of(0, 0, 0, 9)
        if kind < 5 and depth:
            parts = [self.part(depth - 1) for _ in range(self.choose.of(2, 2, 3))]
            said, made = " ; ".join(text for text, _ in parts), [one for _, one in parts]
            if self.choose.seldom(4):
                other = self.other(self.names[0])
                self.seen.add("\\")
                said += f" \\ {other.types[0]} {other.name}"
                made[-1] = _ended(made[-1], other)
            return f"({said})", Chain(tuple(made))
        if kind < 7 and depth:
            self.seen.add("|")
            (one, left), (other_, right) = (self.part(depth - 1) for _ in range(2))
            return f"({one} | {other_})", Choice((left, right))
        if kind == 9 and self.choose.often(2):
            return self.moment()
        if self.runs and self.choose.seldom(3):
            said, step = self.step()
            self.seen.add("+")
            return f"{said}+", Repeat(step, 1)
        return self.step()

    def step(self) -> tuple[str, Step]:
        name, stream = f"x{len(self.names)}", self.choose.of("A", *STREAMS)
        self.names.append(name)
        return f"{stream} {name}", self.named(name, stream)

    def named(self, name: str, stream: str) -> Step:
        return Step(
            *(name, (stream,), None),
            lambda taken, event: self.hold(name, taken, event, False),
            lambda taken, event: self.hold(name, taken, event, True),
        )

    def other(self, before: str) -> Step:
        name, stream = f"z{len(self.aside)}", self.choose.of(*STREAMS)
        self.aside[name] = before
        return self.named(name, stream)

    def moment(self) -> tuple[str, Step]:
        said, step = self.step()
        time, guard = self.choose.number(1, 4), None
        said = f"{said} @ {time}"
        self.seen.add("@")
        if self.choose.seldom(3):
            self.seen.add("@ \\")
            guard = self.other(step.name)
            said += f" \\ {guard.types[0]} {guard.name}"
        self.moments.append(Moment(step.name, step.types[0], time, guard))
        return f"({said})", replace(step, types=(f"@{step.name}",))

    # -- conditions ------------------------------------------------------------------------

    def condition(self) -> tuple[str, Condition]:
        choose, ends = self.choose, self.choose.seldom(2)
        if self.aside and choose.seldom(3):
            name = choose.of(*self.aside)
            left = Operand(self.aside[name])
            return name, Condition(left, choose.of(*SIGNS), Operand(name))
        at = choose.number(0, len(self.names) - 1)
        name = self.names[at]
        if not at or self.runs or choose.seldom(4):
            return name, Condition(Operand(name), choose.of("=", ">="), choose.of(0, 1), ends)
        left = Operand(choose.of(self.names[0], self.names[at - 1]))
        if choose.seldom(2):
            name = choose.of(name, self.names[-1])
            return name, Within(left, "", Operand(name), ends, number=choose.number(3, 9))
        return name, Condition(left, choose.of(*SIGNS), Operand(name), ends)

    def hold(self, name: str, taken: Taken, event: Happened, ends: bool) -> bool:
        own = [one for at, one in self.conditions if (at, one.ends) == (name, ends)]
        return all(one.holds(taken, name, event) for one in own)

    # -- what is expected ------------------------------------------------------------------

    def expected(self) -> Counter[Any]:
        """Return the matches by the definition; a moment is an event of a type of its own."""
        happened = [
            Happened(str(e.stream), e.t0, e.t1 or 0, {"n": e.values[0], "v": e.values[1]})
            for e in self.events
        ]
        found = list(happened)
        for one in self.moments:
            single = [c for at, c in self.conditions if at == one.name and len(c.operands) == 1]
            for event in happened:
                end = event.t1 + one.time
                prevented = one.guard is not None and any(
                    event.t1 < z.t0
                    and z.t1 <= end
                    and z.type in one.guard.types
                    and one.guard.test(((one.name, event),), z)
                    for z in happened
                )
                holds = all(c.holds((), one.name, event) for c in single)
                if event.type == one.stream and holds and not prevented:
                    found.append(Happened(f"@{one.name}", end, end, event.values))
        rows: Counter[Any] = Counter()
        for time, taken in reported(Query(self.pattern, mark="next"), found):
            values: list[Any] = []
            for name in self.names:
                own = [event.values["n"] for other, event in taken if other == name]
                values.append(own[-1] if own else None)
            rows[min(event.t0 for _, event in taken), time, tuple(values)] += 1
        return rows


def _ended(part: Pattern, other: Step) -> Pattern:
    match part:
        case Step(until=stops):
            return replace(part, until=(*stops, other))
        case Repeat(inner):
            return replace(part, pattern=_ended(inner, other))
        case Chain(parts) | Choice(parts):
            return type(part)(tuple([_ended(one, other) for one in parts]))
        case _:
            raise AssertionError(part)


@st.composite
def cases(draw: st.DrawFn, runs: bool = True) -> Case:
    """Return a pattern over streams that are dense enough for it to be found."""
    choose = Choose(draw)
    case = Case(choose, runs and choose.seldom(2))
    said, case.pattern = case.part(choose.of(1, 2, 2))
    case.conditions = [case.condition() for _ in range(choose.of(0, 1, 1, 2))]
    tests = [str(one) if one.ends else f"FILTER({one})" for _, one in case.conditions]
    where = f" WHERE {', '.join(tests)}" if tests else ""
    case.text = f"SELECT {', '.join(f'{one}.n AS {one}' for one in case.names)} FROM {said}{where}"
    events = []
    for number in range(choose.number(6, 12)):
        t1 = choose.number(0, 12)
        t0 = t1 - choose.of(0, 0, 0, 1, 2)
        events.append(Event(choose.of("A", *STREAMS), (number, choose.of(0, 1, 2, None)), t0, t1))
    case.events = tuple(sorted(events, key=lambda one: one.t1 or 0))
    return case


def engine(rates: Sequence[float] = (), rules: tuple[Rule, ...] = ALL_RULES) -> Engine:
    core = Engine(ticks_per_second=1, rules=rules)
    for place, name in enumerate(STREAMS):
        core.stream(name, {"n": int, "v": int}, rate=rates[place] if rates else None)
    return core


def found(case: Case, core: Engine, rules: tuple[Rule, ...] = ALL_RULES) -> Counter[Any]:
    """Return the matches of an engine that is restored after each of three parts."""
    core.register("q", case.text, language="eql")
    matches, size = [], len(case.events)
    for start, stop in pairwise((0, size // 3, size // 2, size)):
        matches += core.push(case.events[start:stop])
        core = Engine.restore(core.snapshot(), rules=rules)
    matches += core.close()
    return Counter((e.t0, e.t1, e.values) for _, e in matches)


@pytest.mark.hypothesis
def test_patterns_are_found_as_the_definitions_say() -> None:
    tried: Counter[str] = Counter()

    @holding(40)
    @given(cases(), st.sampled_from(list(CONFIGURATIONS.values())))
    def agrees(case: Case, rules: tuple[Rule, ...]) -> None:
        wanted = case.expected()
        tried.update(["cases", *["found" for _ in wanted][:1], *(case.seen if wanted else ())])
        assert found(case, engine(rules=rules), rules) == wanted

    agrees()
    demand(lambda: {*tried} >= {"\\", "|", "@", "+", "@ \\"}, agrees)
    demand(lambda: 3 * tried["found"] >= tried["cases"], agrees)


@pytest.mark.hypothesis
def test_rewriting_changes_no_result() -> None:
    """For all rates, with filters, tests and time constraints."""
    tried: Counter[str] = Counter()

    @holding(40)
    @given(cases(False), st.lists(st.sampled_from([1.0, 8.0, 64.0]), min_size=3, max_size=3))
    def agrees(case: Case, rates: list[float]) -> None:
        wanted, core = case.expected(), engine(rates)
        assert found(case, core) == wanted
        tried.update(["cases", *["found" for _ in wanted][:1]])
        tried["rewritten"] += "NEXT FIRST" in core.explain("q")
        tried["sequences"] += "PATTERN" not in core.explain("q")

    agrees()
    demand(lambda: tried["rewritten"] > 2, agrees)
    demand(lambda: 3 * tried["found"] >= tried["cases"] <= 2 * tried["sequences"], agrees)
