"""HashFilter numbers are distinguished from others, independent of how they were added."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from templates.columns.columns import HashFilter

NUMBERS = st.lists(st.integers(0, 40) | st.sampled_from([2**63, 2**64 - 1]), max_size=8)


@given(NUMBERS, st.lists(NUMBERS, max_size=8), NUMBERS)
def test_it_is_a_set(first: list[int], added: list[list[int]], asked: list[int]) -> None:
    seen, expected = HashFilter(np.array(first, dtype=np.uint64)), set(first)
    for numbers in added:
        seen.add(np.array(numbers, dtype=np.uint64))
        expected.update(numbers)
        found = seen.among(np.array(asked, dtype=np.uint64))
        assert found.tolist() == [number in expected for number in asked]


def test_runs_stay_few() -> None:
    seen = HashFilter(np.arange(1_000, dtype=np.uint64))
    for number in range(1_000, 3_000):
        seen.add(np.array([number], dtype=np.uint64))
    assert len(seen._runs) < 14
    assert seen.among(np.arange(3_001, dtype=np.uint64)).tolist() == [True] * 3_000 + [False]
