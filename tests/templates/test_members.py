"""Indexes of the rows of R_T against all rows, while rows come and go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from templates.columns.columns import pack
from templates.model.join_graph import JOIN, minor
from templates.registry import members
from templates.registry.members import JoinRow
from templates.registry.registry import Registry
from tests.examples import examples
from tests.templates.graphs import graph
from tests.templates.memory_storage import MemoryStorage

EXAMPLE, _ = minor(graph((0, 1), (0, 1), ((0, 0), (1, 1))))
STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(st.sampled_from("uvw"), min_size=len(EXAMPLE.nodes), max_size=len(EXAMPLE.nodes)),
        st.sampled_from((0, 3, 7, None)),
    ),
    max_size=25,
)


@pytest.mark.parametrize("few", [0, members.FEW])
@pytest.mark.parametrize("back", [False, True])
@examples(40)
@given(STEPS, st.lists(st.integers(0, 9), min_size=9, max_size=9), st.integers(1, 5))
def test_joins_are_driven_by_the_lightest_pairs(
    few: int,
    back: bool,
    steps: list[tuple[bool, list[str], int | None]],
    numbers: list[int],
    often: int,
) -> None:
    """`numbers` are those of kept links by pair; a pair with 0 has not come."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "FEW", few)
        _play(steps, numbers, often, back)


def _play(
    steps: list[tuple[bool, list[str], int | None]], numbers: list[int], often: int, back: bool
) -> None:
    registry, qids = Registry(MemoryStorage()), dict[tuple[str, ...], int]()
    weights = {pair: number for pair, number in enumerate(numbers, 1) if number}
    for at, (adds, variables, window) in enumerate(steps):
        key = (*variables, str(window))
        if adds and key not in qids:
            relation = JOIN.within(window)
            qids[key] = registry.add(EXAMPLE, variables, relation).qid
        elif not adds and qids:
            event("removed")
            registry.remove(qids.pop(key if key in qids else next(iter(qids))))
        if at % often == 0:
            _compare(registry, weights, back)
    _compare(registry, weights, back)


def _compare(registry: Registry, weights: dict[int, int], back: bool) -> None:
    registry.take_changed()  # settles what was added
    leads, others = set[int](), set[tuple[int, int]]()
    for row in registry.rows().values():
        ends = _ends(registry, row)
        near = [left if back else right for left, right in ends]
        if all(pair in weights for pair in near):
            lightest = min(range(len(near)), key=lambda place: weights[near[place]])
            lead = pack(*ends[lightest])
            leads.add(lead)
            others |= {(lead, pack(*end)) for at, end in enumerate(ends) if at != lightest}
    driver = registry.firing.driving(weights, back)
    assert driver.edges.tolist() == sorted(leads)
    present = np.array(sorted(leads), np.int64)
    places, edges = driver.others(present)
    assert set(zip(present[places].tolist(), edges.tolist(), strict=True)) == others


def _ends(registry: Registry, row: JoinRow) -> Sequence[tuple[int, int]]:
    joins = registry.members[row.template].template.graph.value_joins
    return [(row.pairs[left], row.pairs[right]) for left, right in joins]


@examples(60)
@given(STEPS)
def test_pairs_are_kept_as_long_as_their_longest_row(
    steps: list[tuple[bool, list[str], int | None]],
) -> None:
    registry, qids = Registry(MemoryStorage()), dict[tuple[str, ...], int]()
    retention = registry.retention
    for adds, variables, window in steps:
        before = retention.keeps.tolist()
        key = (*variables, str(window))
        if adds and key not in qids:
            qids[key] = registry.add(EXAMPLE, variables, JOIN.within(window)).qid
        elif not adds and key in qids:
            event("removed")
            registry.remove(qids.pop(key))
        registry.take_changed()  # settles what was added
        rows = registry.rows().values()
        longest = [
            max((row.keep for row in rows if pair in row.pairs), default=-1)
            for pair, _ in enumerate(retention.keeps)
        ]
        assert retention.keeps.tolist() == longest
        pairs = zip(before, longest, strict=False)
        assert retention.take_changed() == any(old >= 0 and old != new for old, new in pairs)
        assert retention.horizon().keep == max(0, *longest)
