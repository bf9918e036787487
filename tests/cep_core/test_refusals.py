"""Refused input leaves the engine unchanged."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import cep_core
from cep_core import algebra as al
from cep_core.algebra.expressions import (
    FUNCTIONS,
    TRUE,
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Constant,
    Expression,
    Negative,
)
from cep_core.errors import AlgebraError, CepError
from cep_core.events import Event, Schema
from tests.cep_core.absences import absence
from tests.cep_core.engines import engine_of

NUMBERS = Schema(("x", "y"), (int, int))
S = al.stream("S", NUMBERS)
S_Y = Column(2, 1)
KEPT = ("queries", "operators", "mops", "channels", "instances", "index_entries", "waiting")


def engine(**options: Any) -> cep_core.Engine:
    core = cep_core.Engine(1, **options)
    core.stream("S", NUMBERS)
    return core


def nested(levels: int) -> Expression:
    node: Expression = Column(2, 0)
    for _ in range(levels):
        node = Negative(node)
    return Compare(">", Column(2, 0), node)


def above(number: int) -> Expression:
    return Compare(">", Column(2, 0), Constant(number))


# -- what cannot be compiled ---------------------------------------------------------------


@pytest.mark.parametrize("levels", [119, 250, 5000])
def test_an_expression_that_is_nested_too_deeply(levels: int) -> None:
    core = engine()
    for number in range(3):
        core.register(f"q{number}", al.select(S, above(number)))
    before = core.stats()
    with pytest.raises(AlgebraError, match="nested too deeply"):
        al.select(S, nested(levels))
    with pytest.raises(CepError, match="nested too deeply"):
        core.register("deep", al.Select(S, nested(levels), NUMBERS))
    assert core.stats() == before
    assert {lane.uses for lane in core.plan.lanes.values()} == {3}
    assert [m.query for m in core.push([Event("S", (9, 0), 1)])] == ["q0", "q1", "q2"]


def test_an_expression_that_grows_without_end() -> None:
    node: Expression = Column(2, 0)
    for _ in range(60):
        node = Arithmetic("+", node, node)
    with pytest.raises(AlgebraError, match="more than 100000 parts"):
        al.select(S, Compare(">", node, Constant(0)))


@pytest.mark.parametrize("present", [0, 1, 20])
@pytest.mark.parametrize("shared", [True, False])
def test_a_selection_that_fails_leaves_a_shared_index_as_it_was(
    monkeypatch: pytest.MonkeyPatch, present: int, shared: bool
) -> None:
    rules = tuple(rule for rule in cep_core.ALL_RULES if shared or rule.name != "share_channels")
    core = engine(rules=rules)
    for number in range(present):
        core.register(f"q{number}", al.select(S, above(number)))
    before = {name: core.stats()[name] for name in KEPT}

    def fails(*arguments: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("cep_core.dataflow.code.entry_scan", fails)
        with pytest.raises(MemoryError):
            core.register("fails", al.select(S, And((above(1), Compare("=", S_Y, Constant(3))))))
    assert {name: core.stats()[name] for name in KEPT} == before
    assert len(core.push([Event("S", (99, 0), 1)])) == present
    core.register("again", al.select(S, And((above(1), Compare("=", S_Y, Constant(3))))))
    assert len(core.push([Event("S", (99, 3), 2)])) == present + 1
    for name in core.queries:
        core.unregister(name)
    assert {name: core.stats()[name] for name in KEPT} == dict.fromkeys(KEPT, 0)


# -- nodes that were built by hand ---------------------------------------------------------

COUNT = al.Aggregate("COUNT", None)
NO_WINDOW = al.group_aggregate(S, (), (), Constant(0))
PAIR = Schema(("x_1", "y_1", "x", "y"), (int, int, int, int))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (al.Select(S, Column(2, 0), NUMBERS), "a condition is expected here"),
        (al.Select(S, Compare("=", Column(2, 7), Constant(1)), NUMBERS), "no column 7"),
        (al.Select(S, Compare("; 1 if", Column(2, 0), Constant(1)), NUMBERS), "no comparison"),  # type: ignore[arg-type]  # wrong on purpose
        (al.Select(S, above(1), Schema(("x",), (int,))), "Select makes"),
        (al.Select(S, And([above(1)]), NUMBERS), "a tuple, not list"),  # type: ignore[arg-type]  # wrong on purpose
        (al.Select(S, "x > 1", NUMBERS), "str is no expression"),  # type: ignore[arg-type]  # wrong on purpose
        (al.Select("S", TRUE, NUMBERS), "str is no operator"),  # type: ignore[arg-type]  # wrong on purpose
        (al.Stream(5, NUMBERS), "the name of a stream is a str, not 5"),  # type: ignore[arg-type]  # wrong on purpose
        (al.Stream([], NUMBERS), r"is a str, not \[\]"),  # type: ignore[arg-type]  # wrong on purpose
        (
            al.GroupAggregate(S, (0,), (al.Aggregate("ARGMAX", S_Y),), None, NUMBERS),
            "two arguments",
        ),
        (
            al.GroupAggregate(S, (0,), (al.Aggregate("MAX", S_Y, S_Y),), None, NUMBERS),
            "one argument",
        ),
        (al.Select(S, Compare("=", Column(2, 0), Constant([])), NUMBERS), "that can be hashed"),  # type: ignore[arg-type]  # wrong on purpose
        (al.Project(S, (Column(2, 0),), NUMBERS), "not well-formed"),
        (al.Project(S, (Column(2, 0), Constant("a")), NUMBERS), "Project makes"),
        (al.Union(S, al.project(S, (("x", Column(2, 0)),)), NUMBERS), "the same attributes"),
        (al.Sequence(S, S, TRUE, NUMBERS), "Sequence makes"),
        (al.WindowJoin(S, S, TRUE, Column(2, 0), PAIR), "a window is a constant"),
        (al.WindowJoin(S, S, TRUE, Constant(1.5), PAIR), "a whole number of ticks, not a float"),
        (al.WindowJoin(S, S, TRUE, Constant(True), PAIR), "a whole number of ticks, not a bool"),
        (replace(absence(S, S, TRUE, Constant(1)), upper=Constant(None)), "ticks, not null"),
        (replace(absence(S, S, TRUE, Constant(1)), alone=(True, True)), "left rows only"),
        (replace(absence(S, S, TRUE, Constant(1)), lower=Constant(0)), "left rows only"),
        (al.GroupAggregate(S, (9,), (COUNT,), Constant(1), NUMBERS), "no column 9"),
        (al.GroupAggregate(S, (0,), (COUNT,), Column(1, 0), NUMBERS), "a window is a constant"),
        (
            al.GroupAggregate(S, (0,), (al.Aggregate("MEDIAN", None),), None, NUMBERS),
            "no aggregate 'MEDIAN'",
        ),
        (al.GroupAggregate(S, (0,), (al.Aggregate("MIN", None),), None, NUMBERS), "an argument"),
        (al.Iterate(S, S, TRUE, TRUE, (), (1, 0), PAIR), r"begins with \(0, 1\)"),
        (5, "int is no operator"),
    ],
)
def test_a_node_that_no_constructor_makes(node: Any, message: str) -> None:
    core = engine()
    with pytest.raises(AlgebraError, match=message):
        core.register("q", node)
    assert core.stats()["operators"] == 0


def test_an_expression_that_names_its_parts_too_often() -> None:
    node: al.Node = S
    for _ in range(20):
        node = al.union(node, node)
    with pytest.raises(AlgebraError, match="more than 10000 operators"):
        engine().register("q", node)
    deep: al.Node = S
    for _ in range(300):
        deep = al.select(deep, above(1))
    with pytest.raises(AlgebraError, match="150 operators above one another are the most"):
        engine().register("q", deep)


class Tag:
    """A type of a user's without an order; some of its values cannot be hashed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tag) and self.name == other.name

    def __hash__(self) -> int:
        if self.name == "none":
            raise TypeError("this one has no hash")
        return hash(self.name)


@pytest.mark.parametrize(
    "value",
    [10**5000, -(10**5000), 1 << 64, float("inf"), -0.0, 1e300, "\ud800'", Tag("a"), 1j],
    ids=lambda value: hex(value)[:20] if isinstance(value, int) else type(value).__name__,
)
def test_constants_that_python_does_not_read_as_it_writes_them(value: Any) -> None:
    values = Schema(("v",), (type(value),))
    core = engine_of(["V"], values)
    stream = al.stream("V", values)
    is_it = Compare("=", Column(2, 0), Constant(value))
    core.register("is", al.select(stream, is_it))
    core.register("makes", al.project(stream, (("w", Constant(value)), ("is", is_it))))
    core.register("next", al.sequence(stream, stream, Compare("=", Column(1, 0), Constant(value))))
    out = core.push([Event("V", (value,), t) for t in (1, 2)]) + core.close()
    assert [m.query for m in out].count("is") == 2
    assert [m.event.values for m in out if m.query == "makes"] == [(value, True)] * 2
    assert [m.event.values for m in out if m.query == "next"] == [(value, value)]
    assert "FILTER{v = " in core.explain("is")


# -- values without order or hash ----------------------------------------------------------


@pytest.mark.parametrize("kind", [complex, Tag])
@pytest.mark.parametrize("function", ["MIN", "MAX", "ARGMIN", "ARGMAX"])
def test_what_has_no_order_has_no_least(kind: type, function: str) -> None:
    stream = al.stream("T", Schema(("t", "n"), (kind, int)))
    column, number = Column(2, 0), Column(2, 1)
    with pytest.raises(AlgebraError, match="values that have an order"):
        al.group_aggregate(stream, (), (("best", al.Aggregate(function, column, number)),))
    with pytest.raises(AlgebraError, match="values that have an order"):
        al.group_aggregate(stream, (), (("best", al.Aggregate(function, number, column)),))
    with pytest.raises(AlgebraError, match="have no order"):
        al.select(stream, Compare("<", column, column))
    al.select(stream, Compare("=", column, column))


def test_a_value_without_hash_is_rejected() -> None:
    core = engine()
    tags = Schema(("t",), (Tag,))
    core.stream("T", tags)
    stream = al.stream("T", tags)
    core.register("n", al.group_aggregate(stream, (0,), (("n", COUNT),)))
    core.push([Event("T", (Tag(name),), 1) for name in ("a", "none", "a")])
    assert [one.event.values[0].name for one in core.rejected] == ["none"]
    assert [m.event.values[1] for m in core.close()] == [2]


def test_a_function_with_a_wrong_result_makes_its_atom_false() -> None:
    odd = cep_core.Function(lambda x: "a" if x == 2 else ([] if x == 3 else x), (int,), int)
    core = engine(functions={"odd": odd})
    value = (("v", Call("odd", (Column(2, 0),))),)
    values = al.project(S, value, core.functions)
    core.register("least", al.group_aggregate(values, (), (("v", MIN_V),)))
    for number in range(12):
        core.register(f"q{number}", al.select(values, Compare("=", Column(2, 0), Constant(number))))
    core.push([Event("S", (x, 0), 1) for x in (1, 2, 3, 4)])
    assert [m.event.values for m in core.close()] == [(1,)]
    assert core.stats()["matches"] == 3


MIN_V = al.Aggregate("MIN", Column(2, 0))


class Moody:
    """A type of a user's whose order fails for some values."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __lt__(self, other: Moody) -> bool:
        if self.value < 0 or other.value < 0:
            raise ValueError("not in this mood")
        return self.value < other.value


def test_a_value_that_cannot_be_compared_is_passed_over() -> None:
    core = cep_core.Engine(1)
    moods = Schema(("m", "n"), (Moody, int))
    core.stream("M", moods)
    least = (("m", MIN_V),)
    core.register("least", al.group_aggregate(al.stream("M", moods), (), least))
    core.register("window", al.group_aggregate(al.stream("M", moods), (), least, Constant(9)))
    core.push([Event("M", (Moody(n), n), 1) for n in (3, -1, 2)])
    assert [m.event.values[0].value for m in core.advance(2)] == [2] * 4
    core.push([Event("M", (Moody(n), n), 2) for n in (-5, 4)])
    assert [m.event.values[0].value for m in core.advance(3) if m.query == "window"] == [2, 2]


def test_an_engine_goes_on_after_an_epoch_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    core = engine()
    core.register("count", al.group_aggregate(S, (), (("n", COUNT),)))
    core.register("next", al.sequence(S, S))
    core.register("silent", absence(S, al.select(S, above(99)), TRUE, Constant(1)))
    core.push([Event("S", (n, 0), 1) for n in range(3)])

    def fails(*arguments: Any) -> Any:
        raise ValueError("once")

    with monkeypatch.context() as patched:
        patched.setattr("cep_core.operators.cayuga.aggregate.Share.put", fails)
        with pytest.raises(ValueError, match="once"):
            core.advance(2)
    out = core.push([Event("S", (n, 0), 2) for n in range(2)])
    with monkeypatch.context() as patched:
        patched.setattr("cep_core.operators.cayuga.state.StateMOp.install", fails)
        with pytest.raises(ValueError, match="once"):
            core.advance(3)
    out += core.push([Event("S", (7, 0), 3), Event("S", (8, 0), 4)])
    out += core.close()
    assert [(m.event.t1, m.event.values[0]) for m in out if m.query == "count"] == [
        *((2, 2), (3, 1), (4, 1))
    ]
    assert [m.event.values for m in out if m.query == "next"] == [
        *((n, 0, later, 0) for n in range(3) for later in range(2)),
        (7, 0, 8, 0),
    ]
    assert [m.event.values[0] for m in out if m.query == "silent"] == [0, 1, 2, 0, 1, 7, 8]


@pytest.mark.parametrize("kind", [tuple, list])
def test_an_epoch_that_failed_loses_no_event(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """A push may go on with the first event that was not counted."""
    core = engine()
    core.register("each", S)
    core.register("count", al.group_aggregate(S, (), (("n", COUNT),)))
    events = [Event("S", kind((n, 0)), n) for n in range(4)]

    def fails(*arguments: Any) -> Any:
        raise ValueError("once")

    with monkeypatch.context() as patched:
        patched.setattr("cep_core.operators.cayuga.aggregate.Share.put", fails)
        with pytest.raises(ValueError, match="once"):
            core.push(events)
    out = core.push(events[core.counts["events"] :])
    assert [m.event.values[0] for m in out if m.query == "each"] == [0, 1, 2, 3]


@pytest.mark.parametrize("fails_in", ["close", "advance"])
def test_the_end_can_be_asked_for_again_after_an_epoch_that_failed(
    monkeypatch: pytest.MonkeyPatch, fails_in: str
) -> None:
    core = engine()
    core.register("count", al.group_aggregate(S, (), (("n", COUNT),)))
    core.push([Event("S", (1, 0), 1)])

    def fails(*arguments: Any) -> Any:
        raise ValueError("once")

    with monkeypatch.context() as patched:
        patched.setattr("cep_core.operators.cayuga.aggregate.Share.results", fails)
        with pytest.raises(ValueError, match="once"):
            core.close() if fails_in == "close" else core.advance(2)
    assert [m.event.t1 for m in core.push([Event("S", (1, 0), t) for t in (2, 3)])] == [2]
    assert [m.event.t1 for m in core.close()] == [3]
    with pytest.raises(CepError, match="the input has ended"):
        core.close()


# -- the clock -----------------------------------------------------------------------------


@pytest.mark.parametrize("to", [2**62, 2**63, 1.5, float("inf"), True, "5", None])
def test_a_clock_that_cannot_be_set(to: Any) -> None:
    core = engine()
    core.register("last", absence(S, S, TRUE, Constant(1 << 62)))
    core.push([Event("S", (1, 1), 1)])
    with pytest.raises(CepError, match="an int below 2"):
        core.advance(to)
    assert core.clock.now == 1
    assert core.advance((1 << 62) - 1) == core.close() == []


# -- events --------------------------------------------------------------------------------


class Shy(str):
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (Event("S", (1, 10**5000, 1.0), 1), "3 values for the 2 attributes (x int, y int)"),
        (Event("SS", (1, 1), 1), "there is no stream SS; did you mean S?"),
        (Event("S", (1, True), 1), "y is True, not of type int"),
        (Event("S", (1, 1), 5, 4), "its interval [5, 4] is none"),
        (Event("S", (1, 1), 1.5), "its times are not integers"),  # type: ignore[arg-type]  # wrong on purpose
        (Event((), (1, 1), 1), "it names no stream"),
        (Event("S", (1, [10**5000]), 1), "y is a value of type list, not of type int"),
        (Event("S", ("a" * 500, 1), 1), f"x is '{'a' * 79}..., not of type int"),
        (Event("S", (Shy("a"), 1), 1), "x is a value of type Shy, not of type int"),
        (Event("S", (1, 1), 10**5000), "its interval [a value of type int, "),
        (Event(5, (1, 1), 1), "it names no stream"),  # type: ignore[arg-type]  # wrong on purpose
        (Event((5,), (1, 1), 1), "there is no stream 5"),  # type: ignore[arg-type]  # wrong on purpose
        (Event(("S", "S"), (1, 1), 1), None),
        (Event("S", 5, 1), "its values are no tuple"),  # type: ignore[arg-type]  # wrong on purpose
        (Event(Shy("T"), (1, 1), 1), "there is no stream a value of type Shy"),
        ("S", "it is no event but a str"),
        (("S", (1, 1), 1), "it is no event but a tuple"),
        (None, "it is no event but a NoneType"),
    ],
)
def test_no_event_makes_push_raise(event: Any, reason: str | None) -> None:
    core = engine()
    core.register("all", S)
    core.push([Event("S", (2, None), 1), event, Event("S", (2, 2), 2)])
    assert core.counts["events"] == (2 if reason else 3)
    assert core.stats()["rejected"] == bool(reason)
    assert [one.reason.startswith(reason or "") for one in core.rejected] == [True] * bool(reason)


@pytest.mark.parametrize(
    ("names", "types", "message"),
    [
        (("a", "b"), (int,), "2 names and 1 types"),
        (("a", "a"), (int, int), "the attribute 'a' twice"),
        (("a", 5), (int, int), "a str, not 5"),
        (("a",), (5,), "the type of .a. is 5, which is no hashable class"),
        (("a",), (list,), "no hashable class"),
        (["a"], (int,), "are tuples"),
    ],
)
def test_what_is_no_schema(names: Any, types: Any, message: str) -> None:
    with pytest.raises(CepError, match=message):
        Schema(names, types)


# -- odd arguments -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda core: core.register("q", 5), "int is no operator"),
        (lambda core: core.register(5, S), "the name of a query is a str, not 5"),
        (lambda core: core.register("q", "SELECT * FROM S", language=None), "no language None"),
        (lambda core: core.register("q", "SELECT * FROM S", language="xyz"), "no language xyz"),
        (lambda core: core.stream("T", {"x": list}), "no hashable class"),
        (lambda core: al.select(S, Compare("=", Column(2, 7), Constant(1))), "no column 7 here"),
        (lambda core: core.register("q", NO_WINDOW), "a window has at least 1 tick, not 0"),
        (lambda core: core.register("q", "SELECT * FROM S", language=["cel"]), "no language"),
        (lambda core: core.register("q", S, publish="a b"), "a word of letters, digits and _"),
        (lambda core: core.register("q", S, publish=""), "a word of letters"),
        (lambda core: core.register("q", S, publish=5), "a word of letters"),
        (lambda core: core.register("q", S, publish="From"), "it is a word of the language"),
        (lambda core: core.stream(5, {"x": int}), "a word of letters, .* not 5"),
        (lambda core: core.stream("1a", {"x": int}), "that begins with no digit"),
        (lambda core: core.stream("SELECT", {"x": int}), "it is a word of the language"),
        (lambda core: core.stream("T", {"x": int}, lateness=1.5), "at least 0 ticks, not 1.5"),
        (lambda core: core.stream("T", {"x": int}, lateness=-1), "at least 0 ticks, not -1"),
        (lambda core: core.stream("T", {"x": int}, lateness=1 << 63), "at least 0 ticks"),
        (lambda core: core.stream("T", {"x": int}, channel=5), "label of a channel is a str"),
        (lambda core: core.stream("T", {5: int}), "name of an attribute is a str, not 5"),
        (lambda core: core.stream("T", ["x"]), "a mapping of names to types"),
        (lambda core: core.unregister(5), "there is no query 5"),
        (lambda core: core.explain(None), "there is no query None"),
        (lambda core: cep_core.Engine(0), "at least 1 tick per second, not 0"),
        (lambda core: cep_core.Engine(-1), "at least 1 tick per second, not -1"),
        (lambda core: cep_core.Engine(1.5), "at least 1 tick per second, not 1.5"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda core: engine(functions={"a b": FUNCTIONS["abs"]}), "no name with a"),
        (lambda core: engine(functions={"f": abs}), "no name with a cep_core.Function"),
    ],
)
def test_an_odd_argument(call: Callable[[Any], object], message: str) -> None:
    core = engine()
    before = core.stats()
    with pytest.raises(CepError, match=message):
        call(core)
    assert core.stats() == before
    core.register("q", "SELECT * FROM S")
    assert len(core.push([Event("S", (1, 1), 1)])) == 1


# -- published streams ---------------------------------------------------------------------


def test_a_name_is_published_once() -> None:
    core = engine()
    text = "SELECT * FROM (SELECT * FROM S PUBLISH P)"
    with pytest.raises(CepError, match="q would publish P twice"):
        core.register("q", text, publish="P")
    assert {name: core.stats()[name] for name in KEPT} == dict.fromkeys(KEPT, 0)
    core.register("q", text, publish="Q")
    core.unregister("q")
    assert core.queries == ()


def test_chains_of_published_streams_have_an_end() -> None:
    core = engine()
    core.register("q0", "SELECT * FROM S PUBLISH P0")
    for level in range(1, 101):
        core.register(f"q{level}", f"SELECT * FROM P{level - 1} PUBLISH P{level}")
    with pytest.raises(CepError, match="reads 100 published streams above one another"):
        core.register("more", "SELECT * FROM P100")
    assert len(core.push([Event("S", (1, 1), 1)])) == 101


@pytest.mark.parametrize(
    "above_it", ["FILTER{x > 0}(P)", "(SELECT y AS x, x AS y FROM P)", "(P UNION FILTER{x < 0} P)"]
)
def test_operators_above_one_another_have_an_end(above_it: str) -> None:
    core = engine()
    core.register("q0", "SELECT * FROM S PUBLISH P0")
    two = above_it.replace("P", f"({above_it})")

    def register_all() -> None:
        for level in range(1, 100):
            text = two.replace("P", f"P{level - 1}")
            core.register(f"q{level}", f"SELECT * FROM {text} PUBLISH P{level}")

    with pytest.raises(CepError, match="150 operators above one another are the most"):
        register_all()
    before = core.stats()["operators"]
    assert before >= 50
    assert len(core.push([Event("S", (1, 1), 1)])) == len(core.queries)
    for name in reversed(core.queries):
        core.unregister(name)
    assert {name: core.stats()[name] for name in KEPT} == dict.fromkeys(KEPT, 0)


@pytest.mark.parametrize("merged", [True, False])
def test_what_is_published_is_planned_once_for_a_reader(merged: bool) -> None:
    """Each stream is read twice by the next: 2 ** 30 ways lead to the first."""
    rules = cep_core.ALL_RULES if merged else ()
    core = engine(rules=rules)
    core.register("q0", "SELECT * FROM S PUBLISH P0 ")
    for level in range(1, 31):
        one = f"FILTER{{x = {level}}} P{level - 1}"
        other = f"FILTER{{x = {-level}}} P{level - 1}"
        core.register(f"q{level}", f"SELECT * FROM {one} UNION {other} PUBLISH P{level}")
    assert core.stats()["operators"] == (90 if merged else 3 * 30 * 31 // 2)
    assert [m.query for m in core.push([Event("S", (1, 1), 1)])] == ["q0", "q1"]
    assert core.explain("q3").count("UNION") == 3


def test_shapes_that_nobody_has_any_more_are_forgotten() -> None:
    core = engine()
    core.register("base", "SELECT * FROM S PUBLISH P")
    for number in range(20):
        core.register("q", f"SELECT x AS x{number} FROM P")
        core.unregister("q")
    gc.collect()
    assert len(core._queries._compiled) == 1
    core.register("q", "SELECT x AS v FROM P")
    core.unregister("q")
    core.unregister("base")
    core.register("base", S, publish="Q")
    core.stream("P", {"x": str})
    core.register("q", "SELECT x AS v FROM P")
    assert core.explain("q").endswith("output  q(v str)")
