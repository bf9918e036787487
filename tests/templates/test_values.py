"""Interned values: keys stay exact even where the hash collides all the time."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates.columns.arrow_tables import Lender
from templates.columns.values import Keys, Values, keys_of
from templates.registry.registry import SCHEMA


def weak(texts: Sequence[str], salt: int) -> Keys:
    """A hash with two values for every salt."""
    return np.array([2 * salt + len(text) % 2 for text in texts], dtype=np.uint64)


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA state;" + SCHEMA)
    return connection


@given(st.lists(st.lists(st.text("ab", max_size=3), unique=True, max_size=6), max_size=4))
def test_equal_keys_mean_equal_texts(
    connection: duckdb.DuckDBPyConnection, batches: list[list[str]]
) -> None:
    connection.execute("DELETE FROM state.value")
    values = Values(connection, Lender(connection), weak)
    keys: dict[str, int] = {}
    for batch in batches:
        interned = values.intern(batch)
        for text, key, known in zip(batch, interned.keys.tolist(), interned.known, strict=True):
            assert known == (text in keys)
            assert keys.setdefault(text, key) == key
    assert len(set(keys.values())) == len(keys)
    stored = connection.execute("SELECT strVal, key FROM state.value").fetchall()
    assert dict(stored) == keys


def test_a_key_that_was_swept_stands_for_the_next_text(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    connection.execute("DELETE FROM state.value")
    values = Values(connection, Lender(connection), weak)
    for text in ("a", "b"):
        first, again = values.intern([text]), values.intern([text])
        assert (first.known.tolist(), again.known.tolist()) == ([False], [True])
        assert first.keys.tolist() == again.keys.tolist() == [1]
        values.sweep()


def test_keys_are_the_same_in_every_process() -> None:
    assert keys_of(["Danny Ayers"]).tolist() == [10546532991596268068]
    assert keys_of(["Danny Ayers"], 1) != keys_of(["Danny Ayers"])
