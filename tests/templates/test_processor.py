"""Eviction of a processor: its state beside another thread, and expired rows."""

from __future__ import annotations

from unittest.mock import Mock, PropertyMock, patch

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from templates.columns.arrow_tables import Lender
from templates.registry.registry import SCHEMA
from templates.state.stored_state import _FORGET, StoredState


def test_bytes_are_counted_while_the_state_is_dropped() -> None:
    reads = PropertyMock(side_effect=[Mock(nbytes=7), None])
    with patch.object(StoredState, "_memory", reads, create=True):
        state = object.__new__(StoredState)
        state._texts = None
        assert state.nbytes == 7
        assert state.nbytes == 0


@pytest.mark.parametrize("size", [30, 3000])
def test_what_has_aged_leaves_the_rest_as_it_was(size: int) -> None:
    """Documents leave by their time, in no order, those that came in the same transaction too."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"CREATE SCHEMA state; {SCHEMA}")
    lender, random = Lender(connection), np.random.default_rng(size)
    pairs, times = np.arange(1, 4), np.empty(0, np.int64)
    left = np.empty((0, 2), np.int64)
    for turn in range(20):
        connection.execute("BEGIN TRANSACTION")
        docs = np.arange(turn * size, (turn + 1) * size)
        times = np.concatenate((times, random.integers(0, 1000, size) + 100 * turn))
        new = np.stack((np.repeat(docs, len(pairs)), np.tile(pairs, size)), axis=1)
        ts = times[docs]
        came = pa.table([docs, ts, ts, ts, ts, docs], names=list("abcdef"))
        lender.insert("state.times", came)
        doc, pair = new[:, 0], new[:, 1].astype(np.int32)
        bound = pa.table([doc, pair, pair, pair, doc.astype(np.uint64)], names=list("abcde"))
        lender.insert("state.binding", bound)
        left = np.concatenate((left, new))
        bounds = 100 * turn + random.integers(300, 600, len(pairs))
        lender.lend("bounds", pa.table({"pair": pairs.astype(np.int32), "bound": bounds}))
        connection.execute(_FORGET)
        connection.execute("COMMIT")
        left = left[times[left[:, 0]] >= bounds[left[:, 1] - 1]]
        rows = connection.execute("SELECT doc, pair, key FROM state.binding ORDER BY ALL")
        assert rows.fetchall() == [(doc, pair, doc) for doc, pair in left.tolist()]
