"""The relations of stage 2 in a store: the same rows in the same order as in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates.columns import Column, table_of
from templates.storage import KEYS, RELATIONS, Mask, scan
from tests.examples import examples
from tests.templates.memory_storage import MemoryStorage
from xscl.store.queries.join_storage import JoinStorage
from xscl.store.store import Store

Row = tuple[int, int, int, int, int | None]
ROWS = st.lists(
    st.tuples(
        *(st.integers(0, most) for most in (6, 3, 2, 2)), st.none() | st.integers(0, 1 << 63)
    ),
    min_size=1,
    max_size=8,
)
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "discard", "pairs", "keep"]), ROWS),
    max_size=8,
)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with closing(Store(None)) as made:
        yield made


def other_pairs(pair: int) -> Mask:
    return lambda rows: rows["pair"].to_numpy() != pair


def of_documents(docs: Column) -> Mask:
    return lambda rows: np.isin(rows["doc"].to_numpy(), docs)


def young(times: Column, bounds: Column) -> Mask:
    return lambda rows: times[rows["doc"].to_numpy()] >= bounds[rows["pair"].to_numpy() - 1]


@examples(60)
@given(ACTIONS)
def test_rows_are_those_of_memory(store: Store, actions: list[tuple[str, list[Row]]]) -> None:
    memory, stored = MemoryStorage(), JoinStorage(store)
    with store.transaction():
        stored.keep("binding", lambda rows: np.zeros(rows.num_rows, np.bool_))
    for action, some in actions:
        rows, (_, pair, *_) = table_of(some, RELATIONS["binding"]), some[0]
        with store.transaction():
            gone = []
            for one in (memory, stored):
                if action == "append":
                    one.append("binding", rows)
                elif action == "discard":
                    one.discard("binding", rows.select(KEYS["binding"]))
                elif action == "pairs":
                    one.discard("binding", pa.table({"pair": [pair]}))
                elif action == "keep":
                    gone.append(one.keep("binding", other_pairs(pair)))
            assert all(one.equals(gone[0]) for one in gone), gone
            assert scan(stored, "binding").equals(memory.relations["binding"])
        docs = np.arange(3, 5)
        found = scan(stored, "binding", ("doc", "key"), docs=docs)
        assert found.equals(scan(memory, "binding", ("doc", "key"), where=of_documents(docs)))


def test_all_relations_have_their_schemas(store: Store) -> None:
    rows: dict[str, list[tuple[object, ...]]] = {
        "times": [(1, 2, 3, 4, 5, 6)],
        "value": [(1 << 63, "text")],
        "variable": [(1, "definition")],
        "pair": [(1, 2, 3)],
        "template": [(1, "graph")],
        "r_t": [
            (1, 2, (3, 4), 1, 1, 1 << 62, 6, 0),
            (1, 3, (), 0, -5, 5, 6, -1),
        ],
    }
    stored = JoinStorage(store)
    with store.transaction():
        for relation, some in rows.items():
            stored.append(relation, table_of(some, RELATIONS[relation]))
    for relation, some in rows.items():
        found = scan(stored, relation)
        assert found.schema.equals(RELATIONS[relation])
        assert found.equals(table_of(some, RELATIONS[relation]))


@pytest.mark.parametrize("size", [30, 3000])
def test_what_has_aged_leaves_the_rest_as_it_was(size: int) -> None:
    """Documents leave by their time, in no order, those that came in the same transaction too."""
    random, pairs, times = np.random.default_rng(size), np.arange(1, 4), np.empty(0, np.int64)
    left = np.empty((0, 2), np.int64)
    with closing(Store(None)) as store:
        stored = JoinStorage(store)
        for turn in range(20):
            docs = np.arange(turn * size, (turn + 1) * size)
            times = np.concatenate((times, random.integers(0, 1000, size) + 100 * turn))
            new = np.stack((np.repeat(docs, len(pairs)), np.tile(pairs, size)), axis=1)
            left = np.concatenate((left, new))
            bounds = 100 * turn + random.integers(300, 600, len(pairs))
            came = [(doc, pair, pair, pair, doc) for doc, pair in new.tolist()]
            with store.transaction():
                stored.append("binding", table_of(came, RELATIONS["binding"]))
                stored.keep("binding", young(times, bounds))
            left = left[times[left[:, 0]] >= bounds[left[:, 1] - 1]]
            rows = store.scan("binding").select(["doc", "pair", "key"]).to_pylist()
            assert [tuple(row.values()) for row in rows] == [(d, p, d) for d, p in left.tolist()]
