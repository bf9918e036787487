"""An enumeration has all answers of a conjunctive query, or as many as were asked for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import templates.bounded_answers as bound
import templates.columns as columns
from templates.bounded_answers import Enumeration, RowsByVariable
from tests.examples import examples

VARIABLES = ("a", "b", "c", "d")


def brute_force(relations: list[dict[str, list[int]]], query: Enumeration) -> set[tuple[int, ...]]:
    """Return the answers by trying every combination of rows."""
    found = set()
    for rows in product(*(range(len(next(iter(one.values())))) for one in relations)):
        bound: dict[str, int] = {}
        agree = True
        for one, row in zip(relations, rows, strict=True):
            for name, column in one.items():
                agree &= bound.setdefault(name, column[row]) == column[row]
        if agree and all(bound[one] != bound[other] for one, other in query.unequal):
            found.add(tuple(bound[name] for name in query.outputs))
    return found


@st.composite
def queries(draw: st.DrawFn) -> tuple[list[dict[str, list[int]]], Enumeration]:
    relations = []
    for _ in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from(VARIABLES), min_size=1, max_size=3, unique=True))
        size = draw(st.integers(0, 5))
        columns = st.lists(st.integers(0, 4), min_size=size, max_size=size)
        relations.append({name: draw(columns) for name in names})
    present = sorted({name for one in relations for name in one})
    outputs = draw(st.lists(st.sampled_from(present), min_size=1, unique=True))
    pairs = st.tuples(st.sampled_from(present), st.sampled_from(present))
    return relations, Enumeration(outputs, draw(st.lists(pairs, max_size=1)))


@pytest.mark.parametrize("chunk", [1, 7, 100_000])
@given(case=queries(), most=st.integers(1, 6))
@examples(40)
def test_there_are_all_answers_or_as_many_as_were_asked_for(
    case: tuple[list[dict[str, list[int]]], Enumeration], most: int, chunk: int
) -> None:
    relations, query = case
    given: list[RowsByVariable] = [
        {name: np.array(column, np.int64) for name, column in one.items()} for one in relations
    ]
    before, columns.MOST = columns.MOST, chunk
    try:
        found = query.answer(given, most)
    finally:
        columns.MOST = before
    assert not query.gave_up
    rows, every = [tuple(row) for row in found.tolist()], brute_force(relations, query)
    assert len(rows) == min(len(every), most)
    assert len(set(rows)) == len(rows)
    assert every.issuperset(rows)


def test_answers_without_end_cost_what_is_asked_for() -> None:
    size = 2_000  # 1.6 * 10**13 answers
    nodes, key = np.arange(size), np.zeros(size, np.int64)
    relations = [{f"n{at}": nodes, "k": key} for at in range(4)]
    query = Enumeration(["n0", "n1", "n2", "n3"])
    found = query.answer(relations, 10_000)
    assert len(np.unique(found, axis=0)) == 10_000
    assert query.work > bound.WORK // 2


@pytest.mark.parametrize("seed", range(8))
def test_a_cyclic_query_in_parts_is_not_given_up(seed: int) -> None:
    # The leaves of two trees agree in three places, at random: few answers, many ways to none.
    random, size = np.random.default_rng(seed), 360
    relations: list[RowsByVariable] = []
    for at in range(3):
        values = random.integers(0, 300, (2, size))
        one, other = np.nonzero(values[0][:, None] == values[1])
        relations.append({f"l{at}": one, f"r{at}": other})
        for side in "lr":
            top = random.integers(0, 10, size)
            relations.append({f"{side}{at}": np.arange(size), f"{side}p": top})
    every = Enumeration(["l0", "r1"], work=10**7).answer(relations, 10**6)
    query, before = Enumeration(["l0", "r1"], work=800_000), columns.MOST
    columns.MOST = 2_000
    try:
        found = query.answer(relations, 10**6)
    finally:
        columns.MOST = before
    assert not query.gave_up
    assert sorted(found.tolist()) == sorted(every.tolist())


def test_a_cyclic_query_without_answers_is_given_up() -> None:
    # No two values of a triangle's corners agree all the way round, which no semi-join shows.
    size = 300
    ring = np.arange(size)
    relations = []
    for one, other, shift in (("a", "b", 0), ("b", "c", 0), ("c", "a", 1)):
        left = np.repeat(ring, size // 2)
        right = (2 * np.tile(np.arange(size // 2), size) + left % 2 + shift) % size
        relations.append({one: left, other: right})
    query = Enumeration(["a", "b", "c"], work=200_000)
    assert not len(query.answer(relations, 10))
    assert query.gave_up
