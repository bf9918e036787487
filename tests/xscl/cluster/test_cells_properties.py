"""The cells together deliver what the single engine delivers, however subscriptions are dealt.

Histories are those of the engine's own properties: all operators, lateness, versions, duplicates,
published streams, subscriptions that come and go.  Compared are the matches of each subscription,
in their order, with ids, documents, times and output documents.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples, until, usually
from tests.oracle.queries import Case
from tests.strategies import joins
from tests.strategies import language as drawn
from tests.xscl.cluster.histories import by_cells, by_single_engine
from tests.xscl.engine.player import CUTS
from xscl.documents.results import Subscription

KINDS = {"joins": joins.cases(), "histories": joins.histories(), **drawn.KINDS}
CELLS = 3
DEALS = st.lists(st.integers(0, CELLS - 1), min_size=4, max_size=4)


class Deal:
    """Deals subscriptions to cells as drawn, one after the other."""

    def __init__(self, cells: Sequence[int]) -> None:
        self._cells = cells
        self._dealt = 0

    def __call__(self, subscription: Subscription) -> int:
        self._dealt += 1
        return self._cells[self._dealt % len(self._cells)]


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "histories", "published in time"))
def test_cells_deliver_what_the_single_engine_delivers(kind: str) -> None:
    matched: list[str] = []

    @examples(5)
    @given(KINDS[kind], CUTS, DEALS)
    def property_holds(case: Case, cuts: list[bool], deal: list[int]) -> None:
        expected = by_single_engine(case, cuts)
        assert by_cells(case, cuts, CELLS, Deal(deal)) == expected
        matched.extend(expected)

    property_holds()
    until(lambda: bool(matched), property_holds)
    assert matched
