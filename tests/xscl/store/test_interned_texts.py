"""Texts that a store has are known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from templates.columns.values import Keys, Values
from tests.examples import examples
from xscl.store.queries.join_storage import JoinStorage
from xscl.store.store import Store


def weak(texts: Sequence[str], salt: int) -> Keys:
    """A hash with two values for every salt: a text has to be read to be known."""
    return np.array([2 * salt + len(text) % 2 for text in texts], dtype=np.uint64)


def appended(store: Store, values: Values, texts: Sequence[str]) -> Sequence[bool]:
    """Return which texts were known before a transaction that has appended other rows first."""
    with store.transaction():
        late = {"doc": 0, "missed": "", "watermark": 0, "lateness": 0}
        store.insert_rows("state.late", [late])
        known: list[bool] = values.intern(texts).known.tolist()
    return known


@examples(20)
@given(
    transactions=st.lists(
        st.lists(st.text("ab", max_size=2), min_size=1, max_size=4, unique=True), max_size=12
    )
)
def test_texts_are_known_from_the_first_time_on(transactions: list[list[str]]) -> None:
    seen = set[str]()
    with closing(Store(None)) as store:
        values = Values(JoinStorage(store), weak)
        for texts in transactions:
            assert appended(store, values, texts) == [text in seen for text in texts]
            seen.update(texts)
        stored = store.scan("value")["strVal"].to_pylist()
    assert sorted(stored) == sorted(seen)
