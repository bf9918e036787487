"""The engine against the second opinion: random queries over random streams, step by step.

After each step of a program the engine has to have put out exactly the rows that the set
definitions give, whatever the rules share, however the input is cut and in whatever order it came.
The cases have to be worth it: matches in a third of them, every operator and every kind of event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cep_core import ALL_RULES, Engine, Event, Match, Options, Rule, Schema, algebra
from cep_core.algebra import Node
from cep_core.algebra.expressions import TRUE, Column, Compare, Constant, walk
from cep_core.plan.plan import Builder
from tests.cep_core.absences import absence, alternative
from tests.cep_core.reference import Input, results, sources
from tests.cep_core.strategies import (
    Advance,
    Declared,
    Program,
    Push,
    Register,
    Restore,
    Step,
    Unregister,
    programs,
    renamed,
)
from tests.examples import MORE, demand

Found: TypeAlias = Counter[tuple[Any, ...]]  # (query, t0, t1, values)
CONFIGURATIONS: dict[str, tuple[Rule, ...]] = {
    "all": ALL_RULES,
    "none": (),
    **{
        f"without {left_out.name}": tuple(rule for rule in ALL_RULES if rule is not left_out)
        for left_out in ALL_RULES
    },
}


@dataclass(frozen=True, slots=True)
class Setting:
    """The configuration of an engine."""

    rules: tuple[Rule, ...] = ALL_RULES
    options: Options = field(default_factory=Options)
    builders: Mapping[str, Builder] = field(default_factory=dict)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"{[rule.name for rule in self.rules]} {self.options}")


USUAL = Setting()


def settings_of_engines() -> st.SearchStrategy[Setting]:
    """Return any configuration."""
    options = st.builds(Options, st.booleans(), st.booleans())
    return st.builds(Setting, st.sampled_from(list(CONFIGURATIONS.values())), options)


# -- both sides ------------------------------------------------------------------------------


def key(query: str, t0: int, t1: int, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row of a query's output so that equal ones compare equal, NaN included."""
    return (query, t0, t1, tuple("NaN" if one != one else one for one in values))


def of_matches(matches: Sequence[Match]) -> Found:
    """Return matches as a multiset."""
    return Counter(
        key(query, event.t0, event.t0 if event.t1 is None else event.t1, event.values)
        for query, event in matches
    )


class Run:
    """An engine that does the steps of a program."""

    def __init__(self, program: Program, setting: Setting = USUAL) -> None:
        self.setting = setting
        self.engine = Engine(
            1, rules=setting.rules, options=setting.options, builders=setting.builders
        )
        for one in program.streams:
            self.engine.stream(one.name, one.schema, lateness=one.lateness, channel=one.channel)

    def do(self, step: Step) -> list[Match]:
        """Return the matches of a step."""
        engine = self.engine
        match step:
            case Push(events):
                return engine.push(events)
            case Advance(to):
                return engine.advance(to)
            case Register(name, node, publish):
                engine.register(name, node, publish=publish)
            case Unregister(name):
                engine.unregister(name)
            case Restore():
                self.engine = Engine.restore(engine.snapshot(), rules=self.setting.rules)
            case _:
                assert_never(step)
        return []


def outputs(program: Program, setting: Setting = USUAL) -> list[Found]:
    """Return the output of the engine at each step, and at its close."""
    run = Run(program, setting)
    found = [run.do(step) for step in program.steps]
    found.append(run.engine.close())
    for matches in found:
        order = [(event.t1, int(query[1:])) for query, event in matches]
        assert order == sorted(order), "matches come by time and registration"
    return [of_matches(matches) for matches in found]


def resolved(node: Node, published: Mapping[str, Node]) -> Node:
    """Return an expression with what published streams stand for."""
    if isinstance(node, algebra.Stream):
        return published.get(node.name, node)
    parts: dict[str, Any] = {
        name: resolved(getattr(node, name), published)
        for name in ("source", "left", "right")
        if hasattr(node, name)
    }
    if isinstance(node, algebra.PatternMatch):
        parts["inputs"] = tuple([resolved(one, published) for one in node.inputs])
    return replace(node, **parts)


def expected(program: Program) -> list[Found]:
    """Return the output of the reference at each step, and at the close."""
    inputs: list[Input] = []
    steps: list[int] = []  # of each input, where it is pushed
    live: dict[str, tuple[Node, int]] = {}
    ends: dict[str, int] = {}
    published: dict[str, Node] = {}
    arrived = 0
    for number, step in enumerate(program.steps):
        match step:
            case Push(events):
                inputs += events
                steps += [number] * len(events)
                arrived += len(events)
            case Advance(to):
                inputs.append(to)
                steps.append(number)
            case Register(name, node, publish):
                live[name] = (resolved(node, published), arrived)
                if publish:
                    published[publish] = live[name][0]
            case Unregister(name):
                ends[name] = len(inputs)
            case Restore():
                continue
            case _:
                assert_never(step)
    found: list[Found] = [Counter() for _ in range(len(program.steps) + 1)]
    latenesses = {one.name: one.lateness for one in program.streams}
    for name, (node, registered) in live.items():
        for (t0, t1, _, *values), (position, *_), _ in results(
            node, inputs, registered, latenesses
        ):
            if position < ends.get(name, len(inputs)):
                found[steps[int(position)]][key(name, t0, t1, values)] += 1
            elif name not in ends:
                found[-1][key(name, t0, t1, values)] += 1
    return found


# -- what the cases are worth ----------------------------------------------------------------


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield an expression and all below it."""
    yield node
    for source in sources(node):
        yield from nodes_of(source)


def features(program: Program) -> set[str]:
    """Return the features of a program: operators, parts of predicates, kinds of events, steps."""
    found: set[str] = set()
    for number, step in enumerate(program.steps):
        found.add(type(step).__name__)
        if isinstance(step, Register):
            if any(isinstance(earlier, Push) for earlier in program.steps[:number]):
                found.add("registered midway")
            for node in nodes_of(step.node):
                if isinstance(node, algebra.Stream) and node.name.startswith("P"):
                    found.add("published")
                found.add(type(node).__name__)
                if isinstance(node, algebra.OuterJoin) and node.lower is None:
                    found.add(
                        "moment" if node.moment else "otherwise" if node.paired else "Absence"
                    )
                if isinstance(node, algebra.GroupAggregate) and node.window is not None:
                    found.add("windowed")
                if isinstance(node, algebra.Sequence) and node.rank is not None:
                    found.add("ranked")
                for name in ("predicate", "filter", "rebind"):
                    predicate = getattr(node, name, TRUE)
                    found |= {type(part).__name__ for part in walk(predicate)}
        if isinstance(step, Push):
            found |= features_of_events(step.events)
    return found


def features_of_events(events: Sequence[Event]) -> set[str]:
    """Return the kinds of events among some."""
    found: set[str] = set()
    times: Counter[int | None] = Counter(event.t1 for event in events)
    latest = min((event.t0 for event in events), default=0)
    for event in events:
        t1 = event.t0 if event.t1 is None else event.t1
        kinds = {
            "interval": event.t0 < t1,
            "simultaneous": times[t1] > 1,
            "out of order": t1 < latest,
            "null": None in event.values,
            "NaN": any(value != value for value in event.values),
            "of two streams": not isinstance(event.stream, str),
        }
        found |= {kind for kind, holds in kinds.items() if holds}
        latest = max(latest, t1)
    return found


FEATURES = {
    *("Stream", "Select", "Project", "Union", "Sequence", "Iterate"),
    *("GroupAggregate", "windowed", "WindowJoin", "Absence", "otherwise", "moment"),
    *("ranked", "PatternMatch"),
    *("Or", "And", "Not", "Compare", "Call", "Arithmetic", "Duration", "Missing", "Time"),
    *("interval", "simultaneous", "out of order", "null", "NaN", "of two streams"),
    *("Unregister", "Advance", "Restore", "registered midway", "published"),
}


def holding(cases: int, shrink: bool = True) -> settings:
    """Return the settings of a property, of which the usual run tries half of the cases."""
    phases = [Phase.explicit, Phase.reuse, Phase.generate] + [Phase.shrink] * shrink
    return settings(
        max_examples=cases * MORE if MORE > 1 else cases // 2,
        phases=phases,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        report_multiple_bugs=False,
    )


# -- properties ------------------------------------------------------------------------------


@pytest.mark.hypothesis
@pytest.mark.parametrize(
    ("latenesses", "late", "cases"),
    [((0,), 0, 60), ((0, 0, 1, 3), 2, 60)],
    ids=["in order", "late"],
)
def test_the_engine_agrees_with_the_definitions(
    latenesses: tuple[int, ...], late: int, cases: int
) -> None:
    """At every step, whatever is shared, with queries that come and go, and restarts."""
    tried: Counter[str] = Counter()
    features_wanted = FEATURES - ({"out of order"} if latenesses == (0,) else set())

    @holding(cases)
    @given(programs(latenesses=latenesses, late=late), settings_of_engines())
    def agrees(program: Program, setting: Setting) -> None:
        wanted = expected(program)
        tried.update(["cases", *(["found"] if any(wanted) else []), *features(program)])
        assert outputs(program, setting) == wanted

    agrees()
    demand(lambda: 3 * tried["found"] >= tried["cases"] and features_wanted <= {*tried}, agrees)


@holding(12)
@given(programs(latenesses=(0, 2), late=1), settings_of_engines())
def test_nothing_is_left_when_all_queries_are_gone(program: Program, setting: Setting) -> None:
    run = Run(program, setting)
    for step in program.steps:
        run.do(step)
    for name in reversed(list(run.engine.queries)):
        run.engine.unregister(name)
    stats = run.engine.stats()
    left = {name: stats[name] for name in LEFT}
    assert left == dict.fromkeys(LEFT, 0)


LEFT = ("queries", "operators", "mops", "channels", "instances", "index_entries", "waiting")


def edges(lateness: int) -> Program:
    """Return queries of every operator over rows whose times lie at all edges of their windows.

    All are registered twice, restored, and half of them removed.
    """
    stream = algebra.stream("A", Schema(("n", "s"), (int, str)))
    later = renamed(stream, "m")
    same, less = (Compare(sign, Column(1, 0), Column(2, 0)) for sign in ("=", "<"))
    one = algebra.select(stream, Compare("=", Column(2, 0), Constant(1)))
    silent = absence(one, stream, same, Constant(3))
    count = (("c", algebra.Aggregate("COUNT", None)),)
    nodes: list[Node] = [
        *(algebra.sequence(stream, later, predicate) for predicate in (TRUE, same, less)),
        *(algebra.iterate(stream, stream, predicate, TRUE, ()) for predicate in (same, less)),
        *(algebra.window_join(stream, later, same, Constant(window)) for window in (1, 3)),
        *(absence(one, stream, same, Constant(window)) for window in (1, 3)),
        *(alternative(stream, later, same, Constant(window)) for window in (1, 3)),
        absence(stream, silent, TRUE, Constant(4)),
        algebra.group_aggregate(stream, (), count, Constant(3)),
        algebra.group_aggregate(algebra.union(stream, silent), (), count),
    ]
    rows = [(at // 2, at // 2 - (0, 0, 1, 0, 3)[at % 5], at * 5 % 7 % 3) for at in range(28)]
    rows.sort(key=lambda row: row[0] + lateness * (row[2] == 1))
    pushed = [Push((Event("A", (n, "x"), t0, t1),)) for t1, t0, n in rows]
    first, again = (
        [Register(f"q{begin + number}", node) for number, node in enumerate(nodes)]
        for begin in (0, len(nodes))
    )
    gone = [Unregister(f"q{number}") for number in range(0, len(nodes), 2)]
    parts: list[Sequence[Step]] = [
        *(first, pushed[:9], again, pushed[9:15], [Restore()], pushed[15:20], gone),
        *([Advance(10)], pushed[20:], [Advance(30)]),
    ]
    steps = tuple([step for part in parts for step in part])
    return Program((Declared("A", stream.schema, lateness),), steps)


@pytest.mark.parametrize("name", ["all", "none"])
@pytest.mark.parametrize("lateness", [0, 2])
def test_the_edges_of_all_windows_agree(lateness: int, name: str) -> None:
    program = edges(lateness)
    wanted = expected(program)
    assert sum(map(bool, wanted)) > 20
    assert outputs(program, Setting(CONFIGURATIONS[name])) == wanted


def test_absences_of_two_registrations() -> None:
    """An answer may come before both its query and the row that it answers."""
    stream = algebra.stream("A", Schema(("n", "s"), (int, str)))
    query = absence(stream, stream, Compare("=", Column(1, 0), Column(2, 0)), Constant(3))
    answer, row = (Push((Event("A", (1, "x"), time),)) for time in (2, 1))
    steps = (Register("q1", query), answer, Register("q2", query), row)
    program = Program((Declared("A", stream.schema, 4),), steps)
    assert outputs(program) == expected(program)


@pytest.mark.parametrize("alone", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("lower", [-2, 0, 1])
def test_an_operator_that_is_gone_takes_no_rows(lower: int, alone: tuple[bool, bool]) -> None:
    """The index of right rows is shared, and has forgotten an operator that is gone."""
    stream = algebra.stream("A", Schema(("n", "s"), (int, str)))
    bounds = [(Constant(lower), Constant(upper)) for upper in (1, 2)]
    nodes = [algebra.outer_join(stream, renamed(stream, "m"), TRUE, one, alone) for one in bounds]
    registered = [Register(f"q{number}", node) for number, node in enumerate(nodes)]
    pushed = [Push((Event("A", (time, "x"), time),)) for time in (0, 0, 1, 2, 3)]
    steps: tuple[Step, ...] = (*registered, *pushed[:3], Unregister("q1"), *pushed[3:], Advance(9))
    program = Program((Declared("A", stream.schema, 0),), steps)
    assert outputs(program) == expected(program)
