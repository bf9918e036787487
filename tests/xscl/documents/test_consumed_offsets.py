"""The ledger: a batch is entered once, whatever the order, and what is long ago was seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.documents.composite_ids import CompositeIds
from xscl.documents.consumed_offsets import KNOWN, BatchKey, ConsumedOffsets
from xscl.store.store import Store


@pytest.fixture(scope="module")
def shared() -> Iterator[Store]:
    """A store for all cases of the property, each of which has queries of its own."""
    with closing(Store(None)) as opened:
        yield opened


NUMBERS = count()


@given(st.lists(st.tuples(st.sampled_from("pq"), st.integers(0, 20)), max_size=30))
def test_each_batch_is_new_once_in_whatever_order(
    shared: Store, batches: list[tuple[str, int]]
) -> None:
    ledger, case, seen = ConsumedOffsets(shared), next(NUMBERS), set[tuple[str, int]]()
    for name, number in batches:
        query = f"{name}{case}"
        assert ledger.enter(BatchKey(query, number)) == ((query, number) not in seen)
        seen.add((query, number))
    for query in (f"p{case}", f"q{case}"):
        assert ledger.last(query) == max((n for q, n in seen if q == query), default=None)


def test_what_is_far_below_the_last_was_seen_and_its_rows_go(store: Store) -> None:
    ledger = ConsumedOffsets(store)
    for number in (0, 5, KNOWN - 1, KNOWN + 5, 3 * KNOWN):
        assert ledger.enter(BatchKey("q", number))
    assert not ledger.enter(BatchKey("q", 2 * KNOWN))
    assert ledger.enter(BatchKey("q", 2 * KNOWN + 1))
    rows = store.fetch("SELECT batch_id FROM state.ledger ORDER BY batch_id")
    assert rows == [(2 * KNOWN + 1,), (3 * KNOWN,)]


def test_the_segment_only_moves_on_and_survives(store: Store) -> None:
    ledger = ConsumedOffsets(store)
    for number, segment in ((1, 7), (2, 4), (3, 0)):
        ledger.enter(BatchKey("q", number, segment))
    store.set_progress(segment=ledger.segment)  # as every push does
    assert (ledger.segment, ConsumedOffsets(store).segment) == (7, 7)


def test_a_restart_changes_no_number_to_come(path: Path) -> None:
    with closing(Store(path)) as store:
        streams = CompositeIds(store)
        with store.transaction():
            first, second, third = map(streams.acquire, ("a", "b", "c"))
            streams.save()
        with store.transaction():
            streams.release(third)
            streams.release(first)
        running = streams.acquire("d")
    with closing(Store(path)) as store:
        assert CompositeIds(store).acquire("d") == running == third
        assert second == running + 1
