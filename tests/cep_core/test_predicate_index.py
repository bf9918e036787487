"""The predicate index finds what trying each predicate finds."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from cep_core.algebra.expressions import (
    FUNCTIONS,
    And,
    Column,
    Compare,
    Constant,
    Expression,
    Or,
)
from cep_core.algebra.normal_form import MOST_DISJUNCTS
from cep_core.dataflow import code
from cep_core.dataflow.predicate_index import PredicateIndex
from cep_core.dataflow.predicates import BoundPredicate, PredicateShapes, normal_form
from tests.cep_core.strategies import VALUES_OF, predicates
from tests.examples import tried

VALUES = st.sampled_from(VALUES_OF[float])
ROWS = st.tuples(VALUES, VALUES).map(lambda values: (0, 0, 0, *values))


def defined(shapes: PredicateShapes, node: Expression, binary: bool) -> BoundPredicate:
    shape, constants = shapes.of(node, binary)
    return BoundPredicate(shape, constants(()))


def by_atoms(node: Expression, binary: bool) -> code.CompiledCondition:
    """Return a condition of which each atom that fails is false."""
    writer = code.Writer(FUNCTIONS, binary, lambda slot: f"k[{slot}]")
    holds: code.CompiledCondition = code.returning(writer.by_atoms(node), writer)
    return holds


@settings(max_examples=tried(160))
@given(binary=st.booleans(), data=st.data())
def test_finds_what_trying_each_finds(binary: bool, data: st.DataObject) -> None:
    shapes = PredicateShapes(FUNCTIONS)
    nodes = data.draw(st.lists(predicates(binary), min_size=1, max_size=24))
    removed = data.draw(st.sets(st.integers(0, len(nodes) - 1)))
    index: PredicateIndex[int] = PredicateIndex()
    for number, node in enumerate(nodes):
        index.add(defined(shapes, node, binary), number)
    for number in sorted(removed):
        index.remove(number)
    for older, newer in data.draw(st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=4)):
        expected = [
            number
            for number, node in enumerate(nodes)
            if number not in removed and by_atoms(node, binary)(older, newer, ())
        ]
        assert sorted(index.find(older if binary else None, newer)) == expected
    for number in range(len(nodes)):
        if number not in removed:
            index.remove(number)
    assert len(index) == 0
    assert index.find(None, (0, 0, 0, 1, 1)) == []


@given(node=predicates(True), older=ROWS, newer=ROWS)
def test_quick_and_careful_conditions_agree(node: Expression, older: Any, newer: Any) -> None:
    quick = code.condition(node, FUNCTIONS, True)
    assert quick(older, newer, ()) is by_atoms(node, True)(older, newer, ())


def test_a_predicate_of_too_many_disjuncts_stays_whole() -> None:
    pair = Or((Compare("=", Column(2, 0), Constant(0)), Compare("=", Column(2, 1), Constant(1))))
    assert len(normal_form(And((pair,) * 6))) <= MOST_DISJUNCTS
    wide = And(
        tuple(
            Or(tuple(Compare("=", Column(2, i), Constant(10 * i + j)) for j in range(3)))
            for i in range(4)
        )
    )
    assert normal_form(wide) == [(wide,)]
