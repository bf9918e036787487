"""Patterns built by hand: what is not well-formed, and partitions that conditions make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cep_core import Engine, Event, algebra
from cep_core.algebra import Absent, Chain, Component, One, Part, Rules
from cep_core.algebra.expressions import TRUE, Column, Compare, Constant, Duration, Time
from cep_core.errors import AlgebraError
from cep_core.events import Schema

A, B = (algebra.stream(name, Schema(("n", "s"), (int, str))) for name in "AB")
FOLLOWED = Chain((One(0), One(1)))
RUNNING = {"components": (Component(0), Component(1, True)), "names": ("n",)}


def pattern(window: Any = 5, **changed: Any) -> algebra.PatternMatch:
    """Return A followed by B within 5 ticks, but for what is changed."""
    given: dict[str, Any] = {
        "inputs": (A, B),
        "components": (Component(0), Component(1)),
        "tree": FOLLOWED,
        "parts": (Part(0, "value", 0), Part(0, "end"), Part(1, "start"), Part(1, "value", 0)),
        "names": ("n", "end", "start", "m"),
        "predicate": TRUE,
        "rules": Rules(None if window is None else Constant(window)),
        **changed,
    }
    return algebra.pattern_match(**given)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"components": (), "parts": (), "names": ()}, "each component is in a pattern once"),
        ({"components": (Component(0), Component(2))}, "there is no input 2"),
        ({"tree": Chain((Absent(0), Absent(1)))}, "some component has to occur"),
        ({"tree": Chain((One(0), Absent(1))), "window": None}, "needs a window"),
        ({"parts": (Part(2, "end"),), "names": ()}, "there is no component 2"),
        ({"parts": (Part(0, "value", 2),), "names": ("n",)}, "there is no attribute 2"),
        ({"parts": (Part(0, "value"),), "names": ("n",)}, "value needs an attribute"),
        ({"parts": (Part(0, "last", 0),), "names": ("n",)}, "a single row has no last"),
        ({**RUNNING, "parts": (Part(1, "value", 0),)}, "a run has no value"),
        ({**RUNNING, "parts": (Part(1, "SUM", 1),)}, "SUM takes numbers, not str"),
        ({**RUNNING, "parts": (Part(1, "last", 0, True),)}, "there is no last before"),
        ({**RUNNING, "parts": ()}, "a pattern puts out more than it has"),
        ({"names": ("n", "n", "start", "m")}, "the result would have the attribute n twice"),
        ({"rules": Rules(partition=((0,), (2,)))}, "there is no column 2"),
        ({"rules": Rules(partition=((0,),))}, "a partition names columns of each input"),
        ({"window": "5"}, "a window is a whole number of ticks"),
        ({"rules": Rules(Column(2, 0))}, "a window is a constant"),
        ({"predicate": Compare("<", Column(2, 0), Column(2, 9))}, "side 2 has no column 9 here"),
        ({"predicate": Compare("<", Duration(), Constant(3))}, "DUR has no meaning in a pattern"),
        (
            {"predicate": Compare("<", Time(2, "begin"), Constant(3))},
            "the time of a row has no meaning in a pattern",
        ),
    ],
)
def test_what_is_no_pattern(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(AlgebraError, match=message):
        pattern(**changed)


def core() -> Engine:
    made = Engine(1)
    for one in (A, B):
        made.stream(one.name, one.schema)
    return made


def test_what_was_made_by_hand_is_made_again() -> None:
    """A node whose schema is not what its constructor makes is refused."""
    engine, made = core(), pattern(predicate=Compare("<", Column(2, 0), Column(2, 3)))
    engine.register("right", made)
    with pytest.raises(AlgebraError, match="makes"):
        engine.register("schema", replace(made, schema=A.schema))
    assert engine.queries == ("right",)
    assert Engine.restore(engine.snapshot()).explain("right") == engine.explain("right")


@pytest.mark.parametrize(
    ("equal", "found"),
    [
        ("a.n = b.n AND a.n = c.n", [(1, 4)]),  # B of another n is passed over
        ("c.n = a.n AND c.n = b.n", []),  # each B is taken, and then no A has its n
    ],
)
def test_the_partitions_of_a_condition(equal: str, found: list[tuple[int, int]]) -> None:
    """The conditions of a later component do not choose the nearest event of an earlier one."""
    engine = core()
    text = f"EVENT SEQ(A a, B b, A c) WHERE skip_till_next_match(a, b, c) {{{equal}}} RETURN a.n"
    engine.register("q", text, "sase")
    events = [("A", 1, 1), ("B", 2, 2), ("B", 1, 3), ("A", 1, 4)]
    made = engine.push([Event(name, (n, ""), time) for name, n, time in events]) + engine.close()
    assert [(event.t0, event.t1) for _, event in made] == found


def test_of_a_removed_query_no_partition_is_remembered() -> None:
    text = "EVENT SEQ(A a, B b) WHERE [n] AND b.n < {} AFTER MATCH FIRST ONLY RETURN a.n"
    kept = []
    for names in (["none"], ["none", "all"]):
        engine = core()
        for name in names:
            engine.register(name, text.format({"none": 0, "all": 100}[name]), "sase")
        found = engine.push(
            [Event(name, (n, ""), 2 * n + (name == "B")) for n in range(1, 50) for name in "AB"]
        )
        assert bool(found) == ("all" in names)
        if "all" in names:
            engine.unregister("all")
        kept.append(sum(mop.instances() for mop in engine.plan.mops))
    assert kept[0] == kept[1]
