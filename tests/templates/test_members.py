"""Indexes of the rows of R_T against all rows, while rows come and go."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from templates.columns.columns import pack
from templates.registry.members import Drives
from templates.registry.variable_pairs import WitnessRetention
from tests.examples import examples
from tests.templates.graphs import graph

EXAMPLE = graph((0, 1), (0, 1), ((0, 0), (1, 1)))
ENDS = st.tuples(*[st.tuples(st.integers(1, 4), st.integers(1, 4))] * 2)
STEPS = st.lists(st.tuples(st.booleans(), ENDS), max_size=25)


@examples(100)
@given(STEPS, st.dictionaries(st.integers(1, 4), st.integers(1, 9), max_size=4), st.integers(1, 5))
def test_driving_joins_are_those_of_the_lightest_pairs(
    steps: list[tuple[bool, tuple[tuple[int, int], ...]]], weights: dict[int, int], often: int
) -> None:
    drives, rows = Drives(), Counter[tuple[tuple[int, int], ...]]()
    for at, (adds, row) in enumerate(steps):
        near = tuple(pair for pair, _ in row)
        edges = [pack(*ends) for ends in row]
        if adds:
            drives.add([[pair] for pair in near], [[edge] for edge in edges])
            rows[row] += 1
        elif rows[row]:
            event("removed")
            drives.remove(near, edges)
            rows[row] -= 1
        if at % often == 0:
            _compare(drives, +rows, weights)
    _compare(drives, +rows, weights)


def _compare(
    drives: Drives, rows: Counter[tuple[tuple[int, int], ...]], weights: dict[int, int]
) -> None:
    expected = set()
    for row in rows:
        if all(pair in weights for pair, _ in row):
            lightest = min(row, key=lambda ends: weights[ends[0]])
            expected.add(pack(*lightest))
    found = np.concatenate([np.empty(0, np.int64), *drives.driving(weights)])
    assert set(found.tolist()) == expected


@examples(60)
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 5), st.sampled_from((0, 3, 7, 1 << 62))),
        max_size=20,
    )
)
def test_pairs_are_kept_as_long_as_their_longest_row(steps: list[tuple[bool, int, int]]) -> None:
    retention, rows = WitnessRetention(), Counter[tuple[int, int]]()
    retention.take_changed()
    for adds, first, keep in steps:
        if not adds and not rows[first, keep]:
            continue
        places = [[first + at % 3] for at, _ in enumerate(EXAMPLE.pairs)]
        by = 1 if adds else -1
        before = retention.keeps.tolist()
        row = {"lower": [-keep], "keep": [keep]}
        retention.count(EXAMPLE, places, row, by)
        rows[first, keep] += by
        longest = [-1] * len(retention.keeps)
        for (start, kept), count in rows.items():
            for number in range(start, start + 3) if count else ():
                longest[number] = max(longest[number], kept)
        assert retention.keeps.tolist() == longest
        pairs = zip(before, longest, strict=True)
        assert retention.take_changed() == any(old >= 0 and old != new for old, new in pairs)
    assert retention.horizon().keep == max((keep for (_, keep), n in rows.items() if n), default=0)
