"""Neither sharing nor the order of matches depends on Python's equality."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

import cep_core
from cep_core import algebra as al
from cep_core.algebra.expressions import (
    TRUE,
    And,
    Arithmetic,
    Column,
    Compare,
    Constant,
    Expression,
    Or,
)
from cep_core.dataflow.predicates import normal_form
from cep_core.errors import SnapshotError
from cep_core.events import Event, Schema
from tests.cep_core.absences import absence
from tests.cep_core.engines import engine_of

ANY = Schema(("a", "n"), (float, int))
S = al.stream("S", ANY)
NUMBERS = (1, 1.0, True, 0.0, -0.0, 0, False)


def engine(**options: Any) -> cep_core.Engine:
    core = cep_core.Engine(1, **options)
    core.stream("S", ANY)
    return core


# -- constants -----------------------------------------------------------------------------


def projected(value: Any) -> al.Node:
    return al.project(S, (("v", Constant(value)), ("w", Arithmetic("*", TWO, Column(2, 1)))))


TWO = Constant(2)


@pytest.mark.parametrize("make", [projected])
def test_queries_whose_constants_are_equal_but_not_the_same(make: Callable[[Any], al.Node]) -> None:
    for order in permutations(range(len(NUMBERS)), 2):
        core = engine()
        for place in order:
            core.register(f"q{place}", make(NUMBERS[place]))
        out = core.push([Event("S", (1.5, 1), 1)])
        assert [repr(m.event.values[0]) for m in out] == [repr(NUMBERS[place]) for place in order]


def test_predicates_whose_constants_are_equal_but_not_the_same() -> None:
    """1 / x of 0.0 and -0.0 differ, and so does what a function makes of 1, 1.0 and True."""
    word = cep_core.Function(repr, (float,), str)
    core = engine(functions={"word": word})
    texts = ("1", "1.0", "0.0", "-0.0")
    for text in texts:
        core.register(text, f"SELECT word({text}) AS w FROM FILTER{{word({text}) = '{text}'}}(S)")
    out = core.push([Event("S", (1.0, 1), 1)])
    assert [(m.query, m.event.values) for m in out] == [(text, (text,)) for text in texts]


# -- normal form ---------------------------------------------------------------------------


def equal(column: int, value: int) -> Expression:
    return Compare("=", Column(2, column), Constant(value))


def test_a_long_conjunction_is_read_once() -> None:
    many = tuple(equal(number, number) for number in range(20_000))
    assert normal_form(And(many)) == [many]
    either = Or((equal(0, -1), equal(1, -1)))
    assert normal_form(And((*many, either))) == [(*many, equal(0, -1)), (*many, equal(1, -1))]
    assert normal_form(And((many[0], either, many[0], many[1]))) == [
        (many[0], equal(0, -1), many[1]),
        (many[0], equal(1, -1), many[1]),
    ]
    assert normal_form(And((*many, Or(())))) == []
    assert normal_form(And(())) == [()]


# -- the order of matches ------------------------------------------------------------------


class Word:
    """A type of a user's whose values have long names."""

    def __init__(self, last: str) -> None:
        self.last = last

    def __repr__(self) -> str:
        return "x" * 100 + self.last


def test_values_without_an_order_are_ordered_by_all_that_they_say() -> None:
    words = Schema(("w",), (Word,))
    core = engine_of(["W"], words)
    core.register("all", al.stream("W", words))
    out = core.push([Event("W", (Word(last),), 5) for last in "cab"])
    assert [m.event.values[0].last for m in out] == ["a", "b", "c"]


# -- which streams, which states -----------------------------------------------------------


def test_a_stream_that_is_named_twice_is_one() -> None:
    core = cep_core.Engine(1)
    names = [f"S{number}" for number in range(70)]
    for name in names:
        core.stream(name, ANY, channel="S")
        core.register(f"of {name}", al.stream(name, ANY))
    for name in ("S1", "S64", "S69"):
        out = core.push([Event((name, name), (1.0, 1), 1), Event((name, "S0", name), (1.0, 1), 1)])
        assert [m.query for m in out] == sorted(["of S0", f"of {name}", f"of {name}"])


@pytest.mark.parametrize("value", [None, float("nan")])
@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("two", [True, False])
def test_nothing_equals_null_in_a_state(value: Any, indexed: bool, two: bool) -> None:
    core = engine(options=cep_core.Options(active_node_index=indexed))
    parts = (Compare("=", Column(2, 0), Constant(value)), Compare("=", Column(2, 1), Constant(1)))
    predicate = And(parts) if two else parts[0]
    core.register("next", al.sequence(S, S, predicate))
    core.register("silent", absence(S, S, predicate, Constant(1)))
    out = core.push([Event("S", (value, 1), t) for t in (1, 2)]) + core.close()
    assert [(m.query, m.event.t1) for m in out] == [("silent", 2), ("silent", 3)]


def test_absences_over_the_streams_of_a_channel_share_by_their_right_side() -> None:
    core = engine_of(("L1", "L2"), ANY, channel="L")
    for name in ("R1", "R2"):
        core.stream(name, ANY)
    for right in ("R1", "R2"):
        for left in ("L1", "L2"):
            node = absence(al.stream(left, ANY), al.stream(right, ANY), TRUE, Constant(1))
            core.register(f"{left} {right}", node)
    assert core.stats()["mops"] == 2


# -- snapshots -----------------------------------------------------------------------------

WORDS = Schema(("t", "n"), (str, int))


def kept(values: list[tuple[Any, ...]]) -> cep_core.Engine:
    core = engine_of(["W"], WORDS)
    core.register("next", al.sequence(al.stream("W", WORDS), al.stream("W", WORDS)))
    core.push([Event("W", value, 1) for value in values])
    core.advance(2)
    return core


def test_every_value_goes_through_a_snapshot() -> None:
    values: list[tuple[Any, ...]] = [
        ("\ud800", 10**5000),
        ("a", -(10**5000)),
        ("\udfff", 1 << 63),
        ("", -(1 << 63) - 1),
    ]
    values += [(None, (1 << 64) - 1), ("é\U0001f600", -1), ("x", 255), ("y", -128), ("z", 1 << 71)]
    again = cep_core.Engine.restore(kept(values).snapshot())
    again.push([Event("W", ("end", 0), 2)])
    out = again.close()
    assert sorted(map(repr_of, out)) == sorted(map(hexed, values))


def repr_of(match: cep_core.Match) -> str:
    return hexed(match.event.values[:2])


def hexed(values: tuple[Any, ...]) -> str:
    return f"{values[0]!r} {values[1]:x}"


def test_bytes_that_are_damaged() -> None:
    """Any changed byte yields an engine or a SnapshotError."""
    data = kept([("a", 10**30)]).snapshot()
    refused = 0
    for place in range(len(data)):
        for change in (1, 0x80):
            damaged = bytearray(data)
            damaged[place] ^= change
            try:
                cep_core.Engine.restore(bytes(damaged))
            except SnapshotError:
                refused += 1
        with pytest.raises(SnapshotError):
            cep_core.Engine.restore(data[:place])
    assert refused > len(data) // 2
    for odd in (None, 5, "text", b""):
        with pytest.raises(SnapshotError):
            cep_core.Engine.restore(odd)  # type: ignore[arg-type]  # wrong on purpose


def test_a_restored_engine_is_as_exact() -> None:
    for exact in (True, False):
        core = cep_core.Engine(1, exact=exact)
        core.stream("S", ANY, lateness=5)
        for number in range(2):
            core.register(f"q{number}", al.sequence(S, S))
            core.push([Event("S", (1.0, 1), number)])
        again = cep_core.Engine.restore(core.snapshot())
        assert again.stats() == core.stats()
        assert again.stats()["mops"] == (2 if exact else 1)
