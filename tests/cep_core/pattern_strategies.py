"""Random patterns of SASE and EQL with their definition, and events for them.

A `Program` is a text and a query of `pattern_reference`, made side by side: conditions are tested
here by what docs/languages says, not by the engine's code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from hypothesis import strategies as st

from cep_core.events import Event, Schema
from tests.cep_core.pattern_conditions import AGGREGATES, SIGNS, Condition, Operand, is_proper
from tests.cep_core.pattern_reference import (
    Absent,
    Chain,
    Choice,
    Happened,
    Mark,
    Pace,
    Pattern,
    Policy,
    Query,
    Repeat,
    Step,
    Taken,
    Unordered,
    finished,
    matches,
    rewritten,
    steps,
)
from tests.cep_core.strategies import NAN, Declared, in_order
from tests.cep_core.strategies import Choice as Choose

SCHEMA = Schema(("n", "k", "v"), (int, int, float))
TYPES = ("A", "B", "C")
LACKING = Schema(("n", "k"), (int, int))
SCHEMAS = {**dict.fromkeys(TYPES, SCHEMA), "D": LACKING}  # D stands in ANY only
_TIMES: tuple[tuple[int, int | None], ...] = (
    *((0, 1), (0, None), (1, None), (2, 2), (1, 2), (2, 3), (0, 2), (1, None)),
)
POLICIES: dict[Policy, str] = {
    "none": "",
    "to next": "SKIP TO NEXT",
    "past last": "SKIP PAST LAST",
    "to first": "SKIP TO FIRST",
    "to last": "SKIP TO LAST",
    "first only": "FIRST ONLY",
    "restart": "RESTART",
    "newest": "NEWEST",
}
_STRATEGIES: dict[Mark, str] = {
    "any": "skip_till_any_match",
    "nearest": "skip_till_next_match",
    "strict": "strict_contiguity",
    "partition": "partition_contiguity",
}


@dataclass
class Variable:
    """A component: whether it occurs, more than once, in which unordered part and group."""

    name: str
    types: tuple[str, ...]
    occurs: bool = True
    repeated: bool = False
    stop: bool = False
    beside: set[str] = field(default_factory=set)
    group: int = 0
    over: str = ""  # the aggregate over its run that is returned, too

    @property
    def returned(self) -> str:
        return f", {Operand(self.name, self.over)} AS {self.name}_over" if self.over else ""


@dataclass(repr=False)
class Program:
    """A text of SASE, its meaning, events in order of arrival, and where they are cut."""

    text: str
    query: Query
    shown: list[Variable]
    writer: _Writer
    events: tuple[Event, ...] = ()
    cuts: tuple[int, ...] = ()
    lateness: int = 0
    language: str = "sase"

    def __repr__(self) -> str:
        shown = [f"{one.stream}{one.values}@[{one.t0}, {one.t1}]" for one in self.events]
        return f"{self.text}\n  lateness {self.lateness}, cuts {self.cuts}: {' '.join(shown)}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def row(self, time: int, taken: Taken) -> tuple[Any, ...]:
        """Return the result of a match: begin, end, and the numbers of its events."""
        begin = min(event.t0 for _, event in taken)
        values: list[Any] = []
        for one in self.shown:
            found = [event.values["n"] for name, event in taken if name == one.name]
            if one.repeated:
                values.append(tuple(sorted(found)) if found else None)
            else:
                values.append(found[0] if found else None)
            if one.over:
                own = [event for name, event in taken if name == one.name]
                values.append(Operand(one.name, one.over).value(own))
        return (begin, time, *values)


@dataclass
class _Writer:
    choose: Choose
    sase: bool = True  # with ANY, NOT, OR, and what is before in a run
    plain: bool = False  # single events, all of them, and what is absent
    variables: list[Variable] = field(default_factory=list)
    groups: int = 0
    tested: str = ""  # [k] or [v]
    conditions: list[Condition] = field(default_factory=list)
    edges: bool = False  # whether something is certain only when the window is over
    paces: set[Pace] = field(default_factory=set)

    # -- the pattern -----------------------------------------------------------------------

    def step(self, occurs: bool = True, stop: bool = False) -> Step:
        name = f"x{len(self.variables)}"
        types: tuple[str, ...] = (self.choose.of("A", "B", "C", "A", "B"),)
        if self.sase and self.choose.seldom(6):
            types = self.choose.of(("A", "B"), ("A", "D"), ("B", "D"), ("A", "B", "D"))
        self.variables.append(Variable(name, types, occurs, stop=stop))
        return Step(name, types, None, self.test_of(name))

    def test_of(self, name: str) -> Callable[[Taken, Happened], bool]:
        return lambda taken, event: self.tests(name, taken, event)

    def mark(self) -> Mark | None:
        marks: tuple[Mark, ...] = ("next", "any", "nearest", "strict")
        return None if self.plain or self.choose.often(3) else self.choose.of(*marks)

    def item(self, room: int, begun: bool, nested: bool = False) -> Pattern:
        """Return a part of a sequence, of at most so many components."""
        choose = self.choose
        if begun and not self.plain and choose.seldom(5):
            return self.every(room)
        kind = choose.of(0, 0, 0, 9) if self.plain else choose.number(0, 9)
        if kind == 9 and not nested:
            return self.absence(choose.of(None, 1, 2, 4))
        if kind == 8 and room > 1 and not nested:
            return self.unordered(room)
        if kind == 7 and room > 1 and not nested:
            return self.choice()
        if kind == 6 and room > 1 and not nested and choose.seldom(4):
            return self.silences()
        if kind in (5, 6) and room > 1 and not nested:
            return self.group()
        return self.component(plain=kind < 2 and not nested)

    def absence(self, time: int | None) -> Absent:
        """Return that something does not occur, for so long."""
        self.edges = self.edges or time is None
        return Absent(self.step(occurs=False), time=time)

    def component(self, plain: bool) -> Pattern:
        choose, mark = self.choose, self.mark()
        step = replace(self.step(), mark=mark)
        variable = self.variables[-1]
        if plain:
            return step
        least, most = choose.of(*_TIMES)
        variable.repeated = most != 1
        pace: Pace = choose.of("all", "all", "greedy", "reluctant", "longest")
        inner = self.mark() if most != 1 else None
        self.paces.add(pace)
        self.edges = self.edges or (pace == "longest" and not (least and inner == "strict"))
        until = None
        if most != 1 and choose.seldom(4):
            until = self.step(occurs=False, stop=True)
        if self.sase and variable.repeated and choose.seldom(3):
            variable.over = choose.of(*AGGREGATES)
        return Repeat(step, least, most, pace, inner, until)

    def group(self) -> Pattern:
        first = len(self.variables)
        parts = [self.component(plain=self.choose.often(3)) for _ in range(2)]
        least, most = self.choose.of(*_TIMES[1:6], (1, 1))
        whole = Chain(tuple(parts))
        if most == 1 or all(isinstance(part, Repeat) and part.least < 1 for part in parts):
            return whole
        self.groups += 1
        for one in self.variables[first:]:
            if one.occurs:
                one.repeated, one.group = True, self.groups
        pace: Pace = self.choose.of("all", "greedy", "reluctant")
        return Repeat(whole, least, most, pace, self.mark())

    def every(self, room: int) -> Pattern:
        """Return each occurrence of a part, one after the other."""
        kind = self.choose.of(0, 1, 1, 2, 3) if room > 1 else self.choose.of(0, 2)
        inner: Pattern
        if kind == 1:
            inner = Chain((self.component(plain=True), self.component(plain=self.choose.often(2))))
        elif kind == 3:
            inner = self.unordered(room)
        else:
            inner = self.component(plain=kind == 0)
        if finished(inner):
            return inner
        self.paces.add("every")
        return Repeat(inner, 1, None, "every")

    def choice(self) -> Pattern:
        one = self.component(plain=self.choose.often(2))
        if self.choose.seldom(3):
            return Choice((one, self.absence(self.choose.of(None, 1, 3))))
        return Choice((one, self.component(plain=True)))

    def unordered(self, room: int) -> Pattern:
        steps = [self.step() for _ in range(self.choose.of(2, 2, min(3, room)))]
        names = {one.name for one in steps}
        for variable in self.variables[-len(steps) :]:
            variable.beside = names
        times = [self.choose.of(None, 1, 3, 4) for _ in range(self.choose.of(0, 0, 1, 1, 2))]
        absent = [self.absence(time) for time in times[: max(0, room - len(steps))]]
        whole: Pattern = Unordered(tuple(steps), self.choose.of(None, 2, 4))
        return Chain((whole, *[replace(one, along=True) for one in absent]))

    def silences(self) -> Pattern:
        """Return absences that begin together."""
        one, other = (self.absence(self.choose.of(1, 2, 4)) for _ in range(2))
        return Chain((one, replace(other, beside=True)))

    # -- conditions ------------------------------------------------------------------------

    def condition(self) -> Condition | None:
        choose = self.choose
        one = choose.of(*self.variables)
        sign = choose.of(*SIGNS)
        if one.repeated and choose.often(2):
            if choose.often(2):
                return self.of_neighbours(one.name, sign)
            index = choose.of("i", "1", "last", "last-1", "2", *AGGREGATES, *AGGREGATES[1:])
            own = Operand(one.name, index, squares=index in AGGREGATES and choose.often(4))
            return Condition(own, choose.of(">=", sign), choose.of(1, 2, 3))
        own = Operand(one.name, "i" if one.repeated else "")
        before = [
            other
            for other in self.variables[: self.variables.index(one)]
            if other.occurs and other is not one
        ]
        if before and choose.often(2):
            other = choose.of(*before)
            index = choose.of("last", "1") if other.repeated else ""
            if one.group and other.group == one.group and choose.often(3):
                index = "i"
            time = one.occurs and choose.seldom(4)
            right = Operand(other.name, index, time)
            if self.sase and not index and not time:
                right = replace(right, plus=choose.of(0, 1))
            made = Condition(Operand(one.name, own.index, time), sign, right)
            if self.sase and not index and not one.repeated and choose.seldom(4):
                alone = Condition(Operand(other.name), choose.of(*SIGNS), choose.of(1, 2, 3))
                return replace(made, either=alone)
        else:
            made = Condition(own, sign, choose.of(1, 2, 3))
        return replace(made, negated=self.sase and choose.seldom(5))

    def of_neighbours(self, name: str, sign: str) -> Condition:
        """Return a condition on an event of a run and the one before it."""
        choose = self.choose
        each, previous = Operand(name, "i"), Operand(name, "i-1")
        if self.sase and choose.seldom(2):
            kind = choose.of(*AGGREGATES)
            previous = Operand(name, kind, before=True, squares=choose.seldom(3))
        if choose.seldom(3):
            return Condition(each, sign, replace(previous, default=choose.of(1, 2, 3)))
        null = choose.of(True, False) if choose.seldom(3) else None
        return Condition(each, sign, previous, null=null)

    def tests(self, name: str, taken: Taken, event: Happened) -> bool:
        """Return True if an event may be taken by a component, or be what is absent or stops."""
        if self.tested and not self._alike(name, taken, event):
            return False
        return self._hold([one for one in self.conditions if not one.ends], name, taken, event)

    def stays(self, name: str, taken: Taken, event: Happened) -> bool:
        """Return True if an event that may be taken does not end the match."""
        return self._hold([one for one in self.conditions if one.ends], name, taken, event)

    def _hold(
        self, conditions: Sequence[Condition], name: str, taken: Taken, event: Happened
    ) -> bool:
        return all(
            one.holds(taken, name, event) for one in conditions if self._at(one, name, taken)
        )

    def _alike(self, name: str, taken: Taken, event: Happened) -> bool:
        if self.tested not in event.values:
            return True
        own = event.values[self.tested]
        if self._named(name).stop:
            run = self.variables[self._order(name) - 1].name
            if not any(each == run for each, _ in taken):
                return False
        others = [one.values[self.tested] for _, one in taken if self.tested in one.values]
        if not is_proper(own) and (self._named(name).repeated or others):
            return False
        return all(other == own for other in others)

    def occurs(self, operand: Operand) -> bool:
        return self._named(operand.name).occurs

    def group_of(self, operand: Operand) -> object:
        """Return the repeated group of an operand's component, or the component."""
        one = self._named(operand.name)
        return one.group or one.name

    def _named(self, name: str) -> Variable:
        return next(one for one in self.variables if one.name == name)

    def _order(self, name: str) -> int:
        return self.variables.index(self._named(name))

    def _at(self, one: Condition, name: str, taken: Taken) -> bool:
        """Return True if a condition is tested with an event of a component."""
        names = [operand.name for operand in one.operands]
        aside = [each for each in names if not self._named(each).occurs]
        if aside:
            return name in aside
        if not self._named(name).occurs:
            return False
        latest = max(names, key=self._order)
        if self.is_whole(one):
            return self._order(latest) < self._order(name)
        together = [each for each in names if each in self._named(latest).beside] or [latest]
        if name not in together:
            return False
        if not any(each == name for each, _ in taken):
            previous = any(o.previous and o.name == name for o in one.operands)
            if previous and not one.handles_null:
                return False
        return all(any(each == other for each, _ in taken) for other in together if other != name)

    def is_whole(self, one: Condition) -> bool:
        """Return True if a condition reads the whole of the last run that it reads."""
        names = [operand.name for operand in one.operands]
        if not all(self._named(each).occurs for each in names):
            return False
        latest = max(names, key=self._order)
        return any(o.whole for o in one.operands if o.name == latest)

    def accepts(self, taken: Taken) -> bool:
        return all(one.holds(taken) for one in self.conditions if self.is_whole(one))


@dataclass(repr=False)
class Company:
    """Patterns of one shape: each is there between two positions of the input."""

    programs: tuple[Program, ...]
    lives: tuple[tuple[int, int], ...]
    restored: int

    def __repr__(self) -> str:
        pairs = zip(self.lives, self.programs, strict=True)
        lines = [f"{life} {one.text}" for life, one in pairs]
        shown = [f"{one.stream}{one.values}@{one.t0}" for one in self.programs[0].events]
        return "\n  ".join(["", *lines, f"restored at {self.restored}", " ".join(shown)])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def companies(draw: st.DrawFn, language: str = "sase", plain: bool = False) -> Company:
    """Return patterns that differ in constants and windows; they come and go."""
    choose = Choose(draw)
    first = program(choose, choose.seldom(2), True, language == "sase", plain)
    if language == "eql":
        first = in_eql(choose, first)
    made = [first, *[_other_constants(choose, first) for _ in range(choose.of(1, 2))]]
    number = choose.number(5, 8) + 4 * plain
    kinds = (*[kind for one in first.shown for kind in one.types], *TYPES)
    events = sorted(
        [event(choose, at, choose.of(*kinds)) for at in range(number)], key=lambda one: one.t1 or 0
    )
    lives = [(0, number + 1)]
    for one in made:
        one.events = tuple(events)
    for _ in made[1:]:
        begin = choose.of(0, 0, choose.number(0, number // 2))
        lives.append((begin, choose.of(number + 1, choose.number(begin, number))))
    return Company(tuple(made), tuple(lives), choose.number(0, number))


def _other_constants(choose: Choose, first: Program) -> Program:
    """Return a pattern with other numbers in its conditions, absences, and window."""
    writer = first.writer
    conditions = [
        replace(one, right=choose.of(1, 2, 3))
        if isinstance(one.right, int)
        else replace(one, right=replace(one.right, plus=one.right.plus and choose.of(1, 2)))
        for one in writer.conditions
    ]
    window = first.query.window
    if window is not None and choose.often(2):
        window = choose.of(3, 4, 5, 8)

    def timed(part: Pattern) -> Pattern:
        if isinstance(part, Absent) and part.time is not None:
            return replace(part, time=choose.of(1, 2, 4))
        return part

    query = replace(first.query, window=window, pattern=rewritten(first.query.pattern, timed))
    write = written_in_eql if first.language == "eql" else written
    return write(replace(writer, conditions=conditions), query)


@st.composite
def programs(draw: st.DrawFn, policies: bool = True, language: str = "sase") -> Program:
    """Return a pattern with events."""
    choose = Choose(draw)
    sase = language == "sase"
    made = program(choose, policies, sase=sase, plain=sase and choose.seldom(4))
    if language == "eql":
        made = in_eql(choose, made)
    made.lateness = choose.of(0, 0, 2)
    streams = [Declared(name, schema, made.lateness) for name, schema in SCHEMAS.items()]
    number = choose.number(5, 9)
    kinds = (*[kind for one in made.shown for kind in one.types] * 3, *TYPES)
    for _ in range(3):  # most often something matches
        events = [event(choose, at, choose.of(*kinds)) for at in range(number)]
        if choose.seldom(6) or matches(made.query, list(map(happened, events))):
            break
    made.events = tuple(in_order(choose, streams, events))
    made.cuts = tuple(sorted({choose.number(0, number) for _ in range(choose.number(0, 3))}))
    return made


def event(choose: Choose, number: int, kind: str) -> Event:
    """Return an event, seldom an interval."""
    t1 = choose.number(0, 9)
    t0 = t1 if choose.often(6) else t1 - choose.number(1, 3)
    value = choose.of(1.0, 2.0, 3.0, 2.0, 1.0, 0.5, 3.0, None, None, NAN)
    values = (number, choose.of(1, 1, 1, 2, None), value)
    return Event(kind, values[: len(SCHEMAS[kind])], t0, t1)


def program(
    choose: Choose,
    policies: bool = True,
    selecting: bool = False,
    sase: bool = True,
    plain: bool = False,
) -> Program:
    """Return a pattern without events; if it is ``selecting`` it compares with a constant."""
    writer = _Writer(choose, sase, plain)
    parts: list[Pattern] = []
    for _ in range(choose.of(2, 2, 3, 1)):
        begun = any(list(steps(one)) for one in parts)
        parts.append(writer.item(4 - len(writer.variables), begun))
        if len(writer.variables) > 3:
            break
    if not any(one.occurs for one in writer.variables):
        parts.append(writer.component(plain=True))
    shown = [one for one in writer.variables if one.occurs]
    for _ in range(choose.of(1, 0, 1, 2, 2)):
        made = writer.condition()
        if made is not None:
            writer.conditions.append(made)
    if selecting:
        one = choose.of(*shown)
        own = Operand(one.name, "i" if one.repeated else "")
        writer.conditions.append(Condition(own, choose.of(">=", "<=", "="), choose.of(1, 2, 3)))
    writer.tested = choose.of("k", "k", "v") if choose.seldom(3) else ""
    mark: Mark = choose.of("any", "any", "any", "nearest", "nearest", "strict")
    if writer.tested == "k" and choose.seldom(3):
        mark = "partition"
    if selecting and choose.often(3):
        mark = "nearest"
    if plain:
        mark, policies = "any", False
    window = choose.of(3, 5, 8) if writer.edges or choose.often(2) else None
    policy: Policy = choose.of(*POLICIES) if policies and choose.often(3) else "none"
    if policy == "newest" and writer.paces & {"longest", "every"}:
        policy = "past last"
    target = choose.of(*shown).name if policy in ("to first", "to last") else ""
    inclusive = window is not None and choose.seldom(3)
    simultaneous = policy != "restart" and not plain and choose.seldom(5)
    simultaneous = simultaneous and "every" not in writer.paces
    reads = tuple(kind for one in writer.variables if not one.occurs for kind in one.types)
    lacking = any(writer.tested not in SCHEMAS[kind].names for one in shown for kind in one.types)
    partition = (writer.tested,) if writer.tested and not lacking else ()
    query = Query(
        Chain(tuple(parts)),
        *(window, inclusive, mark, simultaneous, policy, target, partition, reads),
        writer.accepts,
    )
    return written(writer, query)


def written(writer: _Writer, query: Query) -> Program:
    """Return a pattern as text, its conditions being those of a writer."""
    shown = [one for one in writer.variables if one.occurs]
    query = replace(query, pattern=_bound(query.pattern, writer), accept=writer.accepts)
    said = f"EVENT SEQ{_part(query.pattern, sase=True)}"
    said += " NONSTRICT" if query.simultaneous else ""
    tests = [*([f"[{writer.tested}]"] if writer.tested else []), *map(str, writer.conditions)]
    condition = " AND ".join(tests)
    if query.mark != "any":
        named = ", ".join(one.name for one in shown)
        said += f" WHERE {_STRATEGIES[query.mark]}({named}) {{{condition}}}"
    elif condition:
        said += f" WHERE {condition}"
    said += _clauses(query)
    items = [
        (f"LIST({one.name}[].n)" if one.repeated else f"{one.name}.n")
        + f" AS {one.name}{one.returned}"
        for one in shown
    ]
    return Program(f"{said} RETURN {', '.join(items)}", query, shown, writer)


def _part(part: Pattern, sase: bool) -> str:
    """Return a part of a pattern as text; a sequence is in parentheses."""

    def joined(parts: Sequence[Pattern], between: str) -> str:
        return between.join(_part(one, sase) for one in parts)

    match part:
        case Step():
            return _component(part, sase)
        case Repeat(inner, pace="every"):
            return f"every {_part(inner, sase)}"
        case Repeat(inner, least, most, pace, mark, until):
            times = {(0, 1): "?", (0, None): "*", (1, None): "+", (2, 2): "{2}"}
            how = times.get((least, most), f"{{{least},{most}}}")
            how += "".join(f" {word}" for word in (pace, mark) if word not in ("all", None))
            end = "" if until is None else f" UNTIL {_component(until, sase)}"
            if isinstance(inner, Step):
                return _component(inner, sase, how, is_run=most != 1) + end
            return f"{_part(inner, sase)}{how}{end}"
        case Chain((Unordered(steps, span), *absent)):
            within = "" if span is None else f" WITHIN {span}"
            return f"({joined((*steps, *absent), ' AND ')}{within})"
        case Chain((Absent(), Absent(beside=True))):
            return f"({joined(part.parts, ' AND ')})"
        case Chain(parts):
            return f"({joined(parts, ', ' if sase else ' ; ')})"
        case Choice(parts):
            return f"({joined(parts, ' | ')})"
        case Absent(step, time=time):
            return f"!({_part(step, sase)}){'' if time is None else f' FOR {time}'}"
        case _:
            raise AssertionError(part)


def _component(step: Step, sase: bool, how: str = "", is_run: bool = False) -> str:
    """Return a step as text; `how` says how often it occurs."""
    kind = step.types[0] if len(step.types) == 1 else f"ANY({', '.join(step.types)})"
    kind = kind if step.mark is None else f"{step.mark} {kind}"
    if sase:
        return f"{kind}{how} {step.name}{'[]' * is_run}"
    return f"{kind} {step.name}{how}"


def _clauses(query: Query) -> str:
    """Return WITHIN and AFTER MATCH as both languages write them."""
    said = ""
    if query.window is not None:
        said += f" WITHIN {'<= ' if query.inclusive else ''}{query.window}"
    if query.policy != "none":
        said += f" AFTER MATCH {POLICIES[query.policy]} {query.target}".rstrip()
    return said


def _bound(pattern: Pattern, writer: _Writer) -> Pattern:
    """Return a pattern whose steps test the conditions of a writer."""

    def step(one: Step) -> Step:
        def stay(taken: Taken, event: Happened) -> bool:
            return writer.stays(one.name, taken, event)

        return replace(one, test=writer.test_of(one.name), stay=stay)

    def bound(part: Pattern) -> Pattern:
        match part:
            case Step():
                return step(part)
            case Repeat(until=Step() as until):
                return replace(part, until=step(until))
            case Absent(one):
                return replace(part, step=step(one))
            case _:
                return part

    return rewritten(pattern, bound)


def happened(event: Event) -> Happened:
    """Return an event for the definition."""
    t1 = event.t0 if event.t1 is None else event.t1
    stream = cast(str, event.stream)
    values = dict(zip(SCHEMAS[stream].names, event.values, strict=True))
    return Happened(stream, event.t0, t1, values)


# -- EQL -------------------------------------------------------------------------------------


def in_eql(choose: Choose, made: Program) -> Program:
    """Return a pattern as a query of EQL, where some conditions end a match."""
    writer = made.writer
    conditions = [
        replace(one, ends=all(map(writer.occurs, one.operands)) and choose.often(2))
        for one in writer.conditions
    ]
    query = replace(made.query, mark="next")
    said = _part(query.pattern, sase=False)
    if query.window is None and not any(sign in said for sign in "?*!{"):
        query = replace(query, window=50)  # makes a pattern of it
    return written_in_eql(replace(writer, conditions=conditions), query)


def written_in_eql(writer: _Writer, query: Query) -> Program:
    """Return a pattern as text of EQL, its conditions being those of a writer."""
    shown = [one for one in writer.variables if one.occurs]
    query = replace(query, pattern=_bound(query.pattern, writer), accept=writer.accepts)
    items = [
        f"ALL({one.name}.n) AS {one.name}" if one.repeated else f"{one.name}.n AS {one.name}"
        for one in shown
    ]
    said = f"SELECT {', '.join(items)} FROM {_part(query.pattern, sase=False)[1:-1]}"
    said += " NONSTRICT" if query.simultaneous else ""
    tests = [f"FILTER([{writer.tested}])"] if writer.tested else []
    for one in writer.conditions:
        left, right = (_value_in_eql(side, one, writer) for side in (one.left, one.right))
        condition = one.written(left, right)
        tests.append(condition if one.ends else f"FILTER({condition})")
    said += f" WHERE {', '.join(tests)}" if tests else ""
    return Program(said + _clauses(query), query, shown, writer, language="eql")


def _value_in_eql(side: Operand | int, one: Condition, writer: _Writer) -> str:
    """Return a value in the words of EQL, or in those that it has in common with SASE."""
    if isinstance(side, int) or side.time or one.sign in ("<", "="):
        return str(side)
    if side.index == "i-1":
        previous = f"PREV({side.name}.v)"
        return previous if side.default is None else f"COALESCE({previous}, {side.default})"
    groups = [writer.group_of(operand) for operand in one.operands]
    each = all(group == groups[0] for group in groups)
    return f"{side.name}.v" if side.index == ("i" if each else "last") else str(side)
