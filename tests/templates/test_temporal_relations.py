"""Temporal relations: NumPy and SQL find exactly the sides that the definitions allow."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from templates.evaluators import in_memory
from templates.model.conjunctive_query import in_time, in_time_sql
from templates.model.join_graph import FOLLOWED_BY, INFINITE, JOIN, SYMMETRIC_JOIN, TemporalRelation
from templates.state.value_joins import measures_of

SPANS = [(start, end) for start in range(5) for end in range(start, 5)]
RELATIONS = [
    *(operator.within(upper) for operator in (FOLLOWED_BY, JOIN) for upper in (1, 2, None)),
    *(TemporalRelation(FOLLOWED_BY, lower, 3) for lower in (1, 2, 3)),
    *(TemporalRelation(JOIN, lower, 2) for lower in (-1, 0, 1)),
    *(TemporalRelation(JOIN, lower, -1) for lower in (-3, -2)),
    *(TemporalRelation(SYMMETRIC_JOIN, lower, 2) for lower in (0, 1)),
]
LATE = 1


def allowed(relation: TemporalRelation, left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Return True if two intervals are in a relation, by its definition."""
    gap = right[1] - left[1]
    if relation.operator is FOLLOWED_BY:
        return left[1] + relation.lower <= right[0] and gap <= relation.upper
    return relation.lower <= gap <= relation.upper


NUMBERS = {"left": (5, 4), "right": (4, 5), "both": (4, 5)}
"""The numbers of the documents: the newer one has the larger one."""


@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
@pytest.mark.parametrize("newer", ["left", "right", "both"])
def test_numpy_and_sql_find_the_sides_in_a_relation(relation: TemporalRelation, newer: str) -> None:
    clock = 6
    ranks = {"left": (2, 1), "right": (1, 2), "both": (1, 1)}[newer]
    pairs = list(product(SPANS, SPANS))
    sides = [
        {
            "start": np.array([one[side][0] for one in pairs]),
            "ts": np.array([one[side][1] for one in pairs]),
            "clock": np.full(len(pairs), clock),
            "rank": np.full(len(pairs), ranks[side]),
        }
        for side in (0, 1)
    ]
    numbers = NUMBERS[newer]
    docs = {f"doc{side + 1}": np.full(len(pairs), numbers[side]) for side in (0, 1)}
    measures = {**measures_of(*sides), **docs}
    oldest = {"left": 1, "right": 0}.get(newer)
    keep = relation.keep(LATE)
    once = relation.operator is SYMMETRIC_JOIN and numbers[0] > numbers[1]
    expected = [
        allowed(relation, *one)
        and not (once and one[0][1] == one[1][1])
        and clock - (min(one[0][1], one[1][1]) if oldest is None else one[oldest][1]) <= keep
        for one in pairs
    ]
    row = {
        "op": relation.operator.number,
        "lower": relation.lower,
        "wl": relation.upper,
        "keep": keep,
    }
    rows = {name: np.full(len(pairs), value) for name, value in row.items()}
    assert in_time(rows, measures).tolist() == expected
    table = pa.table(dict(rows) | measures)
    condition = in_time_sql({name: f"t.{name}" for name in measures}, "t")
    with in_memory() as database:
        database.register("given", table)
        found = database.execute(f"SELECT {condition} AS holds FROM given t").fetchnumpy()
    assert found["holds"].tolist() == expected


@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
def test_a_side_that_is_late_by_less_misses_no_partner(relation: TemporalRelation) -> None:
    """Later than `delays` says there is a partner that is kept no more; up to it there is none."""
    keep = relation.keep(LATE)
    if keep >= INFINITE:
        return
    left, right = relation.delays(keep)
    assert min(left, right) >= LATE
    times = range(-10, 11)
    for delay in range(10):
        # The newcomer is at 0, the clock at `delay`; partners are documents.
        missed = (
            any(allowed(relation, (0, 0), (t, t)) and delay - t > keep for t in times),
            any(allowed(relation, (t, t), (0, 0)) and delay - t > keep for t in times),
        )
        assert missed == (delay > left, delay > right)
