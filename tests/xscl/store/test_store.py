"""Transactions, readers and checkpoints of the store."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pytest

from tests.waiting import PATIENCE, beside, eventually
from xscl.engine.backup import copy_store
from xscl.errors import StoreError
from xscl.store import database, store_file
from xscl.store.store import Store
from xscl.store.store_errors import ReadTooLong, StoreClosed
from xscl.store.store_lock import StoreMark

COUNT = "SELECT count(*) FROM state.late"


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "state.db" if request.param == "file" else None
    with closing(Store(path)) as opened:
        yield opened


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "state.db")) as opened:
        yield opened


@pytest.fixture
def other(filed: Store) -> Iterator[Store]:
    """The same store for another thread."""
    with closing(filed.connect_again()) as connected:
        yield connected


def add(store: Store, doc: int, size: int = 0) -> None:
    row = {"doc": doc, "missed": "x" * size, "watermark": 0, "lateness": 0}
    store.insert_rows("state.late", [row])


def count(store: Store) -> int:
    return int(store.fetch(COUNT)[0][0])


# -- Transactions --------------------------------------------------------------------------


def test_a_transaction_is_whole_or_nothing(store: Store) -> None:
    with store.transaction():
        add(store, 1)
        store.append("value", pa.table({"key": pa.array([1], pa.uint64()), "strVal": ["a"]}))
        store.set_progress(position=5)
    with pytest.raises(KeyError), store.transaction():  # noqa: PT012
        add(store, 2)
        store.append("value", pa.table({"key": pa.array([2], pa.uint64()), "strVal": ["b"]}))
        store.set_progress(position=6)
        assert (count(store), store.progress("position")) == (2, 6)
        raise KeyError
    assert (count(store), store.progress("position")) == (1, 5)
    assert store.scan("value")["strVal"].to_pylist() == ["a"]


def test_a_commit_that_ctrl_c_follows_is_counted(store: Store) -> None:
    """A mirror of that commit must not stand for the next one."""
    database, before = store._database, store.seen().commits
    execute = database.writer.execute

    class Interrupted:
        def execute(self, sql: str, *parameters: Any) -> Any:
            found = execute(sql, *parameters)
            if sql == "COMMIT":
                raise KeyboardInterrupt
            return found

        def __getattr__(self, name: str) -> Any:
            return getattr(writer, name)

    writer, database.writer = database.writer, Interrupted()  # type: ignore[assignment]
    try:
        with pytest.raises(KeyboardInterrupt):
            add(store, 1)
    finally:
        database.writer = writer
    assert store.mirror("late").num_rows == 1
    store.fetch("UPDATE state.late SET missed = 'new'")
    assert store.mirror("late")["missed"].to_pylist() == ["new"]
    assert store.seen().commits == before + 2


def test_threads_write_one_after_the_other(store: Store) -> None:
    """No transaction is lost, and none sees another's half."""

    def write(number: int) -> None:
        other = store.connect_again()
        for _ in range(30):
            with other.transaction():
                before = other.progress("position")
                add(other, number)
                other.set_progress(position=before + 1)
                time.sleep(0.0002)
        other.close()

    def read() -> None:
        other = store.connect_again()
        for _ in range(60):
            with other.reading():
                assert other.progress("position") == count(other)
        other.close()

    before = store.seen().commits
    with beside(*(lambda n=n: write(n) for n in range(3)), read, read):
        pass
    assert store.progress("position") == count(store) == 90
    assert store.seen().commits == before + 90


def test_another_writing_connection_is_found(filed: Store) -> None:
    assert filed.path is not None
    add(filed, 1)
    with closing(store_file.connect(filed.path, ())) as other:
        other.execute("UPDATE state.progress SET position = 7")
        with pytest.raises(StoreError, match="another connection has written"):
            add(filed, 2)
    assert count(filed) == 1


# -- Readers -------------------------------------------------------------------------------


def test_a_reading_sees_one_state(filed: Store, other: Store) -> None:
    add(filed, 1)
    with other.reading():
        assert count(other) == 1
        add(filed, 2)
        assert count(filed) == 2
        with other.reading():
            assert (count(other), other.mirror("late").num_rows) == (1, 1)
    assert count(other) == 2
    with filed.reading():
        assert count(filed) == 2


def test_a_reader_writes_nothing_but_in_a_transaction(filed: Store, other: Store) -> None:
    """Other statements of SQLite are refused, too."""
    with pytest.raises(StoreError, match="readonly"):
        other.fetch("CREATE TABLE state.a(b)")
    with pytest.raises(StoreError, match="readonly"):
        other.fetch("PRAGMA state.user_version = 3")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers are ended soon, and checkpoints are due soon."""
    monkeypatch.setattr(database, "READING", 0.3)
    monkeypatch.setattr(database, "CHECKPOINT", 1 << 16)
    monkeypatch.setattr(database, "RESTART", 1 << 18)


ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n, state"
    ".late"
)


@pytest.mark.usefixtures("impatient")
def test_a_statement_that_does_not_end_is_ended(filed: Store, other: Store) -> None:
    add(filed, 1)
    for _ in range(2):
        with pytest.raises(ReadTooLong, match=r"was ended, since it took longer than 0.3 s"):
            other.fetch(ENDLESS)
        assert count(other) == 1


@pytest.mark.usefixtures("impatient")
def test_a_reader_that_does_not_end_is_ended(filed: Store, other: Store) -> None:
    """It does nothing; the writer ends it, so that the log stays small."""
    add(filed, 0)
    with pytest.raises(ReadTooLong), other.reading():  # noqa: PT012
        assert count(other) == 1
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            add(filed, 1, 10_000)
        for _ in range(100):
            add(filed, 1, 10_000)
        assert log_size(filed) < 1 << 20
        count(other)
    assert count(other) > 100


@pytest.mark.usefixtures("impatient")
def test_an_unlimited_reader_ends_when_the_log_is_large(
    filed: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LARGEST_LOG", 1 << 21)
    add(filed, 0)
    with pytest.raises(ReadTooLong), other.reading(unlimited=True):  # noqa: PT012
        time.sleep(0.4)
        for _ in range(100):
            add(filed, 1, 10_000)
        assert count(other) == 1
        for _ in range(400):
            add(filed, 1, 10_000)
        assert log_size(filed) < 1 << 22
        count(other)


def test_one_reader_at_a_time_is_unlimited(filed: Store) -> None:
    seen = []

    def read() -> None:
        other = filed.connect_again()
        with other.reading(unlimited=True):
            seen.append(count(other))
        other.close()

    other = filed.connect_again()
    with other.reading(unlimited=True):
        thread = threading.Thread(target=read)
        thread.start()
        time.sleep(0.2)
        add(filed, 1)
        assert seen == []
    thread.join()
    assert seen == [1]
    other.close()


# -- Checkpoints ---------------------------------------------------------------------------


def log_size(store: Store) -> int:
    """Return the bytes of the log in use: the file keeps what was once written."""
    return store._database._frames * 4120


@pytest.mark.usefixtures("impatient")
def test_the_log_stays_small_under_readers_that_overlap(
    filed: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """There is always a reader, so that no checkpoint that waits for nobody ever ends."""
    stopping = threading.Event()
    turns = [threading.Event() for _ in range(4)]
    turns[0].set()

    def read(number: int) -> None:
        other = filed.connect_again()
        while not stopping.is_set():
            with suppress(ReadTooLong), other.reading():  # on a busy machine it may be
                count(other)
                turns[(number + 1) % 4].set()  # the next one begins before this one ends
                turns[number].wait(0.02)
                turns[number].clear()
        other.close()

    largest = 0
    with beside(*(lambda n=n: read(n) for n in range(4))):
        for doc in range(70):
            add(filed, doc, 30_000)
            largest = max(largest, log_size(filed))
        stopping.set()
    assert largest < 1 << 20, largest
    assert [one.message for one in caplog.records if "readers keep" in one.message] == []


def test_a_failed_checkpoint_is_no_failed_commit(
    filed: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "CHECKPOINT", 1 << 16)

    def fail(mode: int) -> bool:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(filed._database, "checkpoint", fail)
    with caplog.at_level(logging.WARNING):
        for doc in range(60):
            add(filed, doc, 5_000)
    assert count(filed) == 60
    assert 1 <= len(caplog.records) <= 30


# -- The end -------------------------------------------------------------------------------


def test_a_closed_store_says_so(store: Store) -> None:
    other = store.connect_again()
    count(other)
    store.close()
    for one in (store, other):
        for call in (lambda one=one: count(one), lambda one=one: add(one, 1)):
            with pytest.raises(StoreClosed):
                call()
        with pytest.raises(StoreClosed):
            one.connect_again()
    store.close()


def test_a_closed_store_is_one_file_and_its_lock(filed: Store) -> None:
    assert filed.path is not None
    add(filed, 1)
    other = filed.connect_again()
    count(other)
    filed.close()
    assert sorted(os.listdir(filed.path.parent)) == ["state.db", "state.db.lock"]


def test_a_forked_process_has_no_store(filed: Store, other: Store) -> None:
    """It closes nothing either: the locks of this process stay."""
    add(filed, 1)
    assert count(other) == 1
    gc.collect()  # the child must not destroy what other tests left: its threads are not there
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            for one in (filed, other):
                try:
                    add(one, 2)
                except StoreClosed:
                    status = 0
                one.close()
            vars(filed).clear()
            vars(other).clear()
            gc.collect()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    add(filed, 3)
    assert (count(filed), count(other)) == (2, 2)


# -- Backups -------------------------------------------------------------------------------


def test_a_backup_while_threads_write(filed: Store, tmp_path: Path) -> None:
    stopping = threading.Event()

    def write(number: int) -> None:
        other = filed.connect_again()
        while not stopping.is_set():
            with other.transaction():
                add(other, number, 2_000)
                other.set_progress(position=other.progress("position") + 1)
        other.close()

    for doc in range(200):
        add(filed, doc, 100_000)
    filed.set_progress(position=200)
    other = filed.connect_again()
    with beside(*(lambda n=n: write(n) for n in range(4))):
        made = list[StoreMark]()
        for number in range(3):
            made.append(copy_store(other, tmp_path / f"copy{number}.db"))
            eventually(lambda: other.seen().commits > made[-1].commits)
        stopping.set()
    other.close()
    for number, seen in enumerate(made):
        with closing(Store(tmp_path / f"copy{number}.db")) as copy:
            assert copy.seen() == seen
            assert copy.progress("position") == count(copy) >= 200
    assert made[0].commits < made[2].commits
    assert [name for name in os.listdir(tmp_path) if "tmp" in name] == []


def test_a_backup_ends_when_the_log_is_large(
    filed: Store, other: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two steps of a copy that is slow, others write more than the log may have."""
    monkeypatch.setattr("xscl.engine.backup._PAGES", 1)
    monkeypatch.setattr(database, "RESTART", 1 << 20)
    monkeypatch.setattr(database, "CHECKPOINT", 1 << 20)
    monkeypatch.setattr(database, "LARGEST_LOG", 1 << 21)
    for doc in range(200):
        add(filed, doc, 100_000)
    reader = other._reader_here()
    expect_time = reader.expect_time

    def write_and_expect_time() -> None:
        for _ in range(20):
            add(filed, 1, 10_000)
        expect_time()

    monkeypatch.setattr(reader, "expect_time", write_and_expect_time)
    with pytest.raises(ReadTooLong, match="the log had 2 MB of later changes"):
        copy_store(other, tmp_path / "copy.db")
    assert log_size(filed) < 1 << 23


def test_a_copy_begins_at_the_instant_of_a_call(filed: Store, tmp_path: Path) -> None:
    """Nothing is committed during the call; what comes afterwards is not in the copy."""
    add(filed, 1)
    reader, writer = filed.connect_again(), filed.connect_again()
    begun = threading.Event()

    def write() -> None:
        assert begun.wait(PATIENCE)
        add(writer, 2)

    def begin() -> None:
        begun.set()
        time.sleep(0.1)
        assert count(reader) == 1

    with beside(write), reader.reading(unlimited=True, begin=begin):
        while count(writer) == 1:
            time.sleep(0.01)
        copy_store(reader, tmp_path / "copy.db")
    with closing(Store(tmp_path / "copy.db")) as copy:
        assert count(copy) == 1


@pytest.mark.parametrize("broken_off", [False, True])
def test_a_rewritten_store_has_no_removed_bytes(filed: Store, broken_off: bool) -> None:
    assert filed.path is not None
    token = "7f3a9c11-token"
    for doc in range(50):
        row: dict[str, Any] = {"doc": doc, "xml": (token * (doc + 1)).encode()}
        filed.insert_rows("state.text", [row])
        filed.append(
            "value", pa.table({"key": pa.array([doc], pa.uint64()), "strVal": [f"{token} {doc}"]})
        )

    def anywhere() -> bool:
        assert filed.path is not None
        files = filed.path.parent.glob("state.db*")
        return any(token.encode() in file.read_bytes() for file in files if "lock" not in file.name)

    filed.fetch("DELETE FROM state.text")
    filed.drop("value", dead=lambda batch: pa.array([True] * batch.num_rows))
    filed.plan_rewrite()
    if not broken_off:
        assert filed.rewrite()
    filed.close()
    assert anywhere() == broken_off
    with closing(Store(filed.path)) as store:
        assert not anywhere()
        assert store.meta("rewrite") == 0


def test_a_rewrite_that_fails_is_left_to_the_next_start(
    filed: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filed.plan_rewrite()
    with monkeypatch.context() as patched:
        patched.setattr(filed._database, "vacuum", lambda: _raise(StoreError("the disk is full")))
        assert not filed.rewrite()
    assert "until its next start: the disk is full" in caplog.text
    filed.set_meta(later=1)
    assert filed.meta("rewrite") == 1
    assert filed.rewrite()
    assert filed.meta("rewrite") == 0


def _raise(error: Exception) -> None:
    raise error


def test_a_rewrite_numbers_rows_anew_and_no_mirror_misses_one(filed: Store) -> None:
    def add(number: int) -> None:
        filed.insert_rows("state.composite_stream", [{"number": number, "definition": "x"}])

    def mirrored() -> list[int]:
        found: list[int] = filed.mirror("composite_stream")["number"].to_pylist()
        return found

    for number in range(10):
        add(number)
    filed.fetch("DELETE FROM state.composite_stream WHERE number < 5")
    assert mirrored() == [5, 6, 7, 8, 9]
    assert filed.rewrite()
    add(10)
    assert mirrored() == [5, 6, 7, 8, 9, 10]
    add(11)
    assert mirrored() == [5, 6, 7, 8, 9, 10, 11]
