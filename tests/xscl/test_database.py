"""Databases in memory share one DuckDB and nothing else, and leave it."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from xscl import Document, Engine
from xscl.store import Store


def databases() -> set[str]:
    """Return what the DuckDB that is shared has, asked through a store of its own."""
    with closing(Store(None)) as store:
        rows = store.fetch("SELECT database_name FROM duckdb_databases() WHERE NOT internal")
        (own,) = store.fetch("SELECT current_database()")
    return {name for (name,) in rows} - set(own)


def test_what_one_has_another_has_not() -> None:
    with Engine() as one, Engine() as other:
        for engine, text in ((one, b"<a>1</a>"), (other, b"<a>2</a>")):
            engine.subscribe("q", "S//a->x")
            (match,) = engine.push(Document("S", "d", 1, text))
            assert text in match.xml()
        assert one.sql("SELECT count(*) AS n FROM documents").to_pylist() == [{"n": 1}]
        other.unsubscribe("q")
        assert [each.name for each in one.subscriptions] == ["q"]


def test_a_transaction_that_fails_takes_nothing_of_another_along() -> None:
    def fail(one: Store, other: Store) -> None:
        with one.transaction():
            one.set_progress(clock=7)
            with other.transaction():
                other.set_progress(clock=9)
            raise ZeroDivisionError

    with closing(Store(None)) as one, closing(Store(None)) as other:
        with pytest.raises(ZeroDivisionError):
            fail(one, other)
        assert one.progress("clock") < 0
        assert other.progress("clock") == 9


def test_they_are_made_side_by_side() -> None:
    def told(number: int) -> int:
        with closing(Store(None)) as store:
            store.set_progress(clock=number)
            return store.progress("clock")

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(told, range(12))) == list(range(12))


def test_one_beside_it_sees_the_same() -> None:
    with closing(Store(None)) as store:
        store.set_progress(clock=5)
        with closing(store.beside()) as beside:
            assert beside.progress("clock") == 5
        assert store.progress("clock") == 5


def test_nothing_is_left_of_one_that_is_closed_or_forgotten() -> None:
    before = databases()
    with closing(Store(None)):
        assert len(databases() - before) == 1
    Store(None)
    gc.collect()
    assert databases() <= before


def test_none_reaches_a_file(tmp_path: Path) -> None:
    for _ in range(2):
        with closing(Store(None)) as store, pytest.raises(duckdb.PermissionException):
            store.connection.execute(f"ATTACH '{tmp_path}/other.duckdb'")
