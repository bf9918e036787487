"""A grid delivers what the single engine delivers, whatever lies where and by what value.

Subscriptions that may lie on the grid are dealt to groups and slices at random, and by any of their
value joins; the others lie in a slice.  Documents bind several nodes, and values repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples, until, usually
from tests.oracle.queries import Case
from tests.xscl.cluster.histories import (
    Delivered,
    by_single_engine,
    cluster,
    delivered,
    no_edit,
    play,
)
from tests.xscl.cluster.test_cells_properties import KINDS
from tests.xscl.cluster.test_edits import Editor, assert_edits_agree
from tests.xscl.engine.player import CUTS
from xscl.cluster.designated_joins import Designated, Equality
from xscl.documents.results import Subscription

GROUPS, WIDTH = 2, 2
DEALS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=4, max_size=4)


class DealToGrid:
    """Deals subscriptions to groups, and designates their joins, as drawn; `placed` counts both."""

    def __init__(self, deals: Sequence[tuple[int, int]], first: int = 1) -> None:
        self._deals = deals
        self._first = first
        self.placed: list[str] = []

    def __call__(self, one: Subscription, among: Sequence[Equality]) -> Designated | None:
        group, join = self._deals[len(self.placed) % len(self._deals)]
        if not among or group == 2 * GROUPS:
            self.placed.append("")
            return None
        self.placed.append(one.key)
        chosen = among[join % len(among)]
        return Designated(self._first + group % GROUPS * WIDTH, chosen.first, chosen.second)


def by_grid(
    case: Case,
    cuts: Sequence[bool],
    deal: DealToGrid,
    after_batch: Callable[[xscl.Engine], None] = no_edit,
    since: int | None = None,
) -> Delivered:
    """Return the matches of a slice and a grid together."""
    with cluster(1, lambda _: 0, deal, groups=GROUPS, width=WIDTH) as driver:
        play(driver, case, cuts, after_batch, since)
        return delivered(driver.engine)


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "histories", "mixes", "published"))
def test_a_grid_delivers_what_the_single_engine_delivers(kind: str) -> None:
    matched = Counter[str]()

    @examples(5)
    @given(KINDS[kind], CUTS, DEALS)
    def property_holds(case: Case, cuts: list[bool], deals: list[tuple[int, int]]) -> None:
        deal = DealToGrid(deals)
        expected = by_single_engine(case, cuts)
        assert by_grid(case, cuts, deal) == expected
        matched.update(key for key in deal.placed if expected.get(key))

    property_holds()
    if kind in ("joins", "histories"):
        until(lambda: bool(matched), property_holds)
        assert matched


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "histories"))
def test_edited_subscriptions_of_a_grid_have_the_matches_of_one_engine(kind: str) -> None:
    def by_groups(
        case: Case, cuts: list[bool], deals: list[tuple[int, int]], edit: Editor
    ) -> Delivered:
        return by_grid(case, cuts, DealToGrid(deals), edit)

    assert_edits_agree(kind, by_groups, DEALS)
