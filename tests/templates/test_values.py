"""Interned values: keys stay exact even where the hash collides all the time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from templates.columns import InternedValues, Keys, keys_of
from tests.templates.memory_storage import MemoryStorage


def weak(texts: Sequence[str], salt: int) -> Keys:
    """A hash with two values for every salt."""
    return np.array([2 * salt + len(text) % 2 for text in texts], dtype=np.uint64)


def stored(storage: MemoryStorage) -> dict[str, int]:
    keys, texts = storage.relations["value"].columns
    return dict(zip(texts.to_pylist(), keys.to_pylist(), strict=True))


@given(
    st.lists(
        st.tuples(st.lists(st.text("ab", max_size=3), unique=True, max_size=6), st.booleans()),
        max_size=4,
    )
)
def test_equal_keys_mean_equal_texts(batches: list[tuple[list[str], bool]]) -> None:
    """Also where what is stored is read again between two batches."""
    storage = MemoryStorage()
    values = InternedValues(storage, weak)
    keys: dict[str, int] = {}
    for batch, read_again in batches:
        interned = values.intern(batch)
        for text, key, known in zip(batch, interned.keys.tolist(), interned.known, strict=True):
            assert known == (text in keys)
            assert keys.setdefault(text, key) == key
        if read_again:
            values = InternedValues(storage, weak)
    assert len(set(keys.values())) == len(keys)
    assert stored(storage) == keys


def test_a_key_that_was_swept_stands_for_the_next_text() -> None:
    values = InternedValues(MemoryStorage(), weak)
    for text in ("a", "b"):
        first, again = values.intern([text]), values.intern([text])
        assert (first.known.tolist(), again.known.tolist()) == ([False], [True])
        assert first.keys.tolist() == again.keys.tolist() == [1]
        values.sweep(np.empty(0, np.uint64))


def test_texts_of_other_keys_leave() -> None:
    storage = MemoryStorage()
    values = InternedValues(storage)
    left, stays = values.intern(["left", "stays"]).keys
    values.sweep(np.array([stays]))
    assert stored(storage) == {"stays": stays}
    again = values.intern(["left", "stays"])
    assert again.known.tolist() == [False, True]
    assert again.keys.tolist() == [left, stays]


def test_keys_are_the_same_in_every_process() -> None:
    assert keys_of(["Danny Ayers"]).tolist() == [10546532991596268068]
    assert keys_of(["Danny Ayers"], 1) != keys_of(["Danny Ayers"])
