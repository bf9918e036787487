"""Databases in memory: each begins empty, on an instance that served another one before."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import duckdb
import pytest

import xscl
from feeds.documents import Document
from xscl.store.database import MemoryDatabase
from xscl.store.store import Store
from xscl.store.store_errors import StoreClosed

PAIRS = "S//a->x FOLLOWED BY{x=y, INF} S//a->y"


def _document(number: int) -> Document:
    return Document("S", f"d{number}", number, b"<a>1</a>")


def test_a_database_begins_empty_and_its_connections_end_with_it() -> None:
    first = MemoryDatabase()
    first.connection.execute("CREATE TABLE t AS SELECT 1 AS a; CREATE TEMP TABLE u AS SELECT 2")
    other = first.connection.cursor()
    last = other.cursor()
    first.connection.close()
    first.release()
    second = MemoryDatabase()
    for one in (first.connection, other, last):
        with pytest.raises(duckdb.ConnectionException):
            one.execute("SELECT 1")
    assert second.connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
    second.connection.close()
    second.release()


def test_databases_at_a_time_are_of_different_instances() -> None:
    made = [MemoryDatabase() for _ in range(4)]
    for number, one in enumerate(made):
        one.connection.execute(f"CREATE TABLE t{number} (a INT)")
        assert one.connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(1,)]
    for one in made:
        one.connection.close()
        one.release()


def test_an_instance_that_was_invalidated_is_not_used_again() -> None:
    broken = MemoryDatabase()
    broken._instance.close()  # all that a fatal error leaves of it
    broken.release()
    good = MemoryDatabase()
    assert good.connection.execute("SELECT 1").fetchall() == [(1,)]
    good.connection.close()
    good.release()


def test_engines_in_many_threads_see_only_their_own() -> None:
    wrong = []

    def use(number: int) -> None:
        for turn in range(5):
            with xscl.Engine() as engine:
                engine.subscribe(f"q{number}", PAIRS)
                engine.push([_document(one) for one in range(number + turn)])
                found = len(engine.push(_document(100)))
                stored = engine.sql("SELECT count(*) AS n FROM state.document").to_pylist()
                if (found, stored) != (number + turn, [{"n": number + turn + 1}]):
                    wrong.append((number, turn, found, stored))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


def test_another_connection_of_a_closed_store_is_closed() -> None:
    store = Store(None)
    other = store.connect_again()
    store.close()
    following = Store(None)
    with pytest.raises(StoreClosed):
        other.fetch("SELECT 1")
    following.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_uses_no_instance_of_its_parent(tmp_path: Path) -> None:
    used = MemoryDatabase()
    used.connection.close()
    used.release()
    child = os.fork()
    if child == 0:  # pragma: no cover
        made = MemoryDatabase()
        is_other = made._instance is not used._instance
        (tmp_path / "child").write_text(str(is_other), "utf-8")
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "child").read_text("utf-8") == "True"
