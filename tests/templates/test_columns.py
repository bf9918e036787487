"""Columns in memory: dense numbers are grouped by position, others by sorting."""

from __future__ import annotations

import numpy as np
import pytest

from templates.columns import distinct, equal_rows

SPREADS = (1, 1 << 20, 1 << 61)
"""How far apart numbers are that come."""


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_distinct_values_are_sorted(spread: int, kind: type[np.int64 | np.uint64]) -> None:
    values = np.array([3, 1, 3, 0, 1], kind) * kind(spread)
    found = distinct(values)
    assert found.dtype == values.dtype
    assert found.tolist() == sorted(set(values.tolist()))
    assert distinct(values[:0]).tolist() == []


@pytest.mark.parametrize("spreads", [SPREADS, SPREADS[::-1], SPREADS[2:] * 3, SPREADS[:1]])
def test_equal_rows_are_those_equal_in_all_columns(spreads: tuple[int, ...]) -> None:
    source = np.random.default_rng(len(spreads))
    left, right = (
        [source.integers(-1, 2, size) * spread for spread in spreads] for size in (40, 60)
    )
    ours, theirs = (list(zip(*(c.tolist() for c in side), strict=True)) for side in (left, right))
    found = zip(*(rows.tolist() for rows in equal_rows(left, right)), strict=True)
    expected = [(i, j) for i, one in enumerate(ours) for j, two in enumerate(theirs) if one == two]
    assert len(expected) > 20
    assert sorted(found) == expected
