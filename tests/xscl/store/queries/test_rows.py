"""Rows that are asked for, and deleted, by few numbers and by many."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from xscl.store.queries.rejected import keep_newest
from xscl.store.queries.rows import _FEW, found_number
from xscl.store.queries.texts import (
    bytes_of_texts,
    delete_texts,
    documents_with_texts,
    sizes_of_texts,
    texts_of,
)
from xscl.store.store import Store

DOCS = range(1, 2_000)


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store(None)
    store.insert("text", {"doc": DOCS, "xml": [b"x" * (doc % 7) for doc in DOCS]})
    yield store
    store.close()


@pytest.mark.parametrize("count", [0, 1, _FEW, _FEW + 1, len(DOCS)])
def test_texts_are_found_and_deleted_by_number(store: Store, count: int) -> None:
    docs = np.array(DOCS[:count], np.int64)
    sizes = [doc % 7 for doc in DOCS[:count]]
    before = bytes_of_texts(store)
    found = {doc: text.xml for doc, text in texts_of(store, docs.tolist()).items()}
    assert found == {doc: b"x" * size for doc, size in zip(DOCS, sizes, strict=False)}
    assert sizes_of_texts(store, docs) == sizes
    assert delete_texts(store, docs) == sum(sizes)
    assert bytes_of_texts(store) == before - sum(sizes)
    assert documents_with_texts(store, before=DOCS.stop).tolist() == list(DOCS[count:])


def test_a_list_of_many_numbers_is_that_of_its_statement(store: Store) -> None:
    for docs in (range(1, 20), range(5, 15), range(1, len(DOCS)), range(7, 30)):
        assert sorted(texts_of(store, docs)) == list(docs)


def test_no_row_and_null_are_no_number(store: Store) -> None:
    assert found_number(store, "SELECT max(doc) FROM state.document") is None
    assert found_number(store, "SELECT doc FROM state.document") is None
    assert found_number(store, "SELECT max(doc) FROM state.text") == DOCS[-1]


def test_the_newest_rows_stay_of_too_many(store: Store) -> None:
    def late() -> list[int]:
        return [doc for (doc,) in store.fetch("SELECT doc FROM state.late ORDER BY doc")]

    store.insert("late", {"doc": range(10), "watermark": range(10)})
    keep_newest(store, 5, tolerated=10)
    assert late() == list(range(10))
    keep_newest(store, 5, tolerated=9)
    assert late() == list(range(5, 10))
