"""The benchmark `next`: both sides find the same, and each step of placement carries more."""

from __future__ import annotations

import pytest

from benchmarks import next_cep
from benchmarks.next_cep import KINDS, MANY, PLACEMENTS, Kind

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", KINDS)
def test_rewriting_finds_the_same(kind: Kind) -> None:
    assert next_cep.verify(kind, 5, 4, 3.0) > 0


@pytest.mark.parametrize("kind", MANY)
def test_each_step_of_placement_carries_more(kind: Kind) -> None:
    """Round robin, greedy, with reuse, with rewriting: on five nodes never less, at last more."""
    carried = [next_cep.carried(name, kind, 5, 1) for name in PLACEMENTS]
    assert carried == sorted(carried)
    assert carried[-1] > 2 * carried[0]
