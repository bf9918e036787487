"""Sequences and negation built by hand: what is not well-formed, and what SASE does not name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cep_core import Engine, Event, algebra
from cep_core.algebra import Component, NegativeComponent, Node, Part, patterns
from cep_core.algebra.expressions import TRUE, Column, Compare, Constant, Duration, Expression
from cep_core.errors import AlgebraError
from cep_core.events import Schema

A, B = (algebra.stream(name, Schema(("n", "s"), (int, str))) for name in "AB")
PARTS = (Part(0, "value", 0), Part(0, "end"), Part(1, "start"), Part(1, "value", 0))
RUN = (Component(0), Component(1, True))
RUNNING = {"components": RUN, "parts": (Part(1, "last", 0),), "names": ("n",)}
EACH = (Part(1, "current", 0), Part(1, "MAX", 0), Part(0, "value", 0))


def scan(predicate: Expression = TRUE, **changed: Any) -> algebra.SequenceScan:
    """Return A followed by B within 5 ticks, but for what is changed."""
    given: dict[str, Any] = {
        "inputs": (A, B),
        "components": (Component(0), Component(1)),
        "parts": PARTS,
        "names": ("n", "end", "start", "m"),
        "window": Constant(5),
        **changed,
    }
    return patterns.sequence_scan(predicate=predicate, **given)


def less(one: int, other: int) -> Expression:
    return Compare("<", Column(2, one), Column(2, other))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"components": ()}, "a sequence has at least one component"),
        ({"components": (Component(0), Component(2))}, "there is no input 2"),
        ({"parts": (Part(2, "end"),), "names": ()}, "there is no component 2"),
        ({"parts": (Part(0, "value", 2),), "names": ("n",)}, "there is no attribute 2"),
        ({"parts": (Part(0, "value"),), "names": ("n",)}, "value needs an attribute"),
        ({"parts": (Part(0, "last", 0),), "names": ("n",)}, "a single row has no last"),
        ({**RUNNING, "parts": (Part(1, "value", 0),)}, "a run has no value"),
        ({**RUNNING, "parts": (Part(1, "SUM", 1),)}, "SUM takes numbers, not str"),
        ({**RUNNING, "parts": (Part(1, "last", 0, True),)}, "there is no last before"),
        ({**RUNNING, "parts": (Part(1, "previous", 0),)}, "a result has no part of each row"),
        ({**RUNNING, "names": ("n", "m")}, "a sequence puts out more than it has"),
        ({"names": ("n", "n", "start", "m")}, "the result would have the attribute n twice"),
        ({"strategy": "some"}, "there is no strategy some"),
        ({"strategy": "partition"}, "partition contiguity needs a partition"),
        ({"partition": ((0,), (2,))}, "there is no column 2"),
        ({"partition": ((0,),)}, "a partition names columns of each input"),
        ({"window": Constant("5")}, "a window is a whole number of ticks"),
        ({"window": Column(2, 0)}, "a window is a constant"),
        ({"predicate": less(0, 9)}, "side 2 has no column 9 here"),
        ({"predicate": Compare("<", Duration(), Constant(3))}, "DUR has no meaning in a sequence"),
        (
            {"components": RUN, "parts": EACH, "names": (), "predicate": less(0, 1)},
            "a condition on each row of a run reads only what comes before it",
        ),
    ],
)
def test_what_is_no_sequence(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(AlgebraError, match=message):
        scan(**changed)


BETWEEN = NegativeComponent(TRUE, 1, 2)


@pytest.mark.parametrize(
    ("source", "negatives", "first", "message"),
    [
        (A, (BETWEEN,), 1, "a negation is over a sequence"),
        (scan(), (), 1, "a negation has one input for each negative"),
        (scan(), (BETWEEN,), 0, "the value of a part is not its first_end or end"),
        (scan(), (BETWEEN,), 9, "there is no column 9"),
        (scan(), (replace(BETWEEN, after=2),), 1, "the start of a part is not its end"),
        (scan(), (replace(BETWEEN, before=1),), 1, "the end of a part is not its start"),
        (scan(), (replace(BETWEEN, predicate=Column(1, 0)),), 1, "a condition is expected"),
        (scan(window=None), (replace(BETWEEN, before=None),), 1, "needs a window"),
    ],
)
def test_what_is_no_negation(
    source: Node, negatives: tuple[NegativeComponent, ...], first: int, message: str
) -> None:
    inputs = [B] * len(negatives)
    with pytest.raises(AlgebraError, match=message):
        patterns.negation(source, inputs, negatives, first)


def test_a_window_begins_with_the_first_component() -> None:
    parts = (*PARTS, Part(1, "end"))
    names = ("n", "end", "start", "m", "last")
    with pytest.raises(AlgebraError, match="a window begins with the first component"):
        patterns.negation(scan(parts=parts, names=names), (B,), (BETWEEN,), 4)


def test_what_was_made_by_hand_is_made_again() -> None:
    """A node whose schema or window is not what its constructor makes is refused."""
    core = Engine(1)
    for one in (A, B):
        core.stream(one.name, one.schema)
    made = patterns.negation(scan(less(0, 3)), (B,), (BETWEEN,), 1)
    core.register("right", made)
    with pytest.raises(AlgebraError, match="makes"):
        core.register("schema", replace(made, schema=A.schema))
    with pytest.raises(AlgebraError, match="a negation has the window of its sequence"):
        core.register("window", replace(made, window=Constant(7)))
    assert core.queries == ("right",)
    assert Engine.restore(core.snapshot()).explain("right") == core.explain("right")


def test_the_times_of_a_single_row_are_known_when_it_is_met() -> None:
    """The next B that is a point in time: the interval before it is passed over."""
    parts = (Part(0, "end"), Part(1, "start"), Part(1, "end"))
    point = Compare("=", Column(2, 1), Column(2, 2))
    query = scan(point, parts=parts, names=("first", "start", "end"), strategy="next")
    core = Engine(1)
    for one in (A, B):
        core.stream(one.name, one.schema)
    core.register("q", query)
    events = [Event("A", (1, ""), 1), Event("B", (2, ""), 2, 3), Event("B", (3, ""), 4)]
    found = [event.values for _, event in core.push(events) + core.close()]
    assert found == [(1, 4, 4)]
