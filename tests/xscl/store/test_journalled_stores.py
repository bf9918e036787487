"""Stores whose pushes are committed to a journal differ in nothing from others."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

import xscl
import xscl.store.store
from feeds.documents import Document
from tests.examples import usually
from tests.waiting import PATIENCE, eventually
from tests.xscl.failing_commits import in_doubt
from xscl.errors import StoreError
from xscl.store import store_file, tail
from xscl.store.backup import back_up
from xscl.store.commit_watermark import CommitPoint, read_watermark, write_watermark
from xscl.store.journal import Journal, journal_path, records_of
from xscl.store.store import Store
from xscl.store.store_errors import StoreWentBack
from xscl.store.tail import MANY
from xscl.store.verification import inspect

QUERIES = {
    "pairs": "S//a[./k->x] FOLLOWED BY{x=y, 1 d} S//a[./k->y]",
    "next": "S//a[./k->x] NEXT{x=y} S//a[./k->y]",
}
RELATIONS = (
    *("document", "text", "result", "core", "binding", "times", "value", "progress", "composite"),
    *("late", "rejected", "ledger"),
)


def document(number: int) -> Document:
    return Document("S", f"d{number}", number, f"<a><k>{number % 3}</k></a>".encode())


def opened(path: Path, *, journalled: bool = True) -> xscl.Engine:
    return xscl.Engine(path, journalled=journalled)


def content(path: Path) -> dict[str, list[str]]:
    """Return the rows of a store, read by a new process's means."""
    with closing(Store(path)) as store:
        return {name: sorted(map(str, store.fetch(f"FROM state.{name}"))) for name in RELATIONS}


def copied(path: Path, to: Path) -> Path:
    """Copy the files of a store in use, as a kill leaves them."""
    to.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        if file.suffix != ".lock":
            shutil.copy(file, to / file.name)
    return to / path.name


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[xscl.Engine]:
    """An engine with pushes in its journal."""
    with opened(tmp_path / "state.duckdb") as engine:
        for name, query in QUERIES.items():
            engine.subscribe(name, query)
        for number in range(1, 6):
            engine.push(document(number))
        assert engine.host.transactions.store.path is not None
        assert journal_path(engine.host.transactions.store.path).stat().st_size
        yield engine


def path_of(engine: xscl.Engine) -> Path:
    path = engine.host.transactions.store.path
    assert path is not None
    return path


@pytest.mark.parametrize("many", usually([16, MANY], 16))
def test_a_journal_changes_nothing_of_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """Also if readers come in between, documents are repeated, and more come than it holds."""
    monkeypatch.setattr(tail, "MANY", many)
    found = []
    for journalled in (False, True):
        path = tmp_path / str(journalled) / "state.duckdb"
        path.parent.mkdir()
        with opened(path, journalled=journalled) as engine:
            for name, query in QUERIES.items():
                engine.subscribe(name, query)
            matches = []
            for number in range(1, many + 12):
                repeated = document(max(1, number - 2))
                result = engine.push([document(number), repeated])
                assert (result.accepted, result.unchanged) == (1, 1)
                matches += [match.id for match in result]
                if number % 9 == 0:
                    assert [match.id for match in engine.matches()] == matches
            assert [match.id for match in engine.matches()] == matches
        found.append((matches, content(path)))
    assert found[0] == found[1]


def test_a_kill_loses_nothing_that_was_acknowledged(engine: xscl.Engine, tmp_path: Path) -> None:
    killed = copied(path_of(engine), tmp_path / "killed")
    mark = read_watermark(killed)
    assert mark is not None
    assert inspect(killed)[1] == mark
    with opened(killed, journalled=False) as again:
        assert [m.id for m in again.matches()] == [m.id for m in engine.matches()]
        assert again.push(document(5)).unchanged == 1
        assert list(map(str, again.push(document(6)))) == list(map(str, engine.push(document(6))))


def test_a_kill_after_the_rows_were_brought_repeats_none(
    engine: xscl.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is there still, and the database says that it has its records."""
    monkeypatch.setattr(Journal, "clear", lambda _: None)
    count = len(engine.matches())
    engine.push(document(6))
    killed = copied(path_of(engine), tmp_path / "killed")
    with opened(killed) as again:
        rows = again.sql("SELECT count(*) AS n, count(DISTINCT id) AS d FROM documents")
        assert rows.to_pylist() == [{"n": 6, "d": 6}]
        assert len(again.matches()) > count


def test_a_torn_record_was_not_acknowledged(engine: xscl.Engine, tmp_path: Path) -> None:
    before = copied(path_of(engine), tmp_path / "before")
    engine.push(document(6))
    after = copied(path_of(engine), tmp_path / "after")
    image = journal_path(after).read_bytes()
    shutil.copy(before.with_name(f"{before.name}.mark"), after.parent)  # the kill came before it
    journal_path(after).write_bytes(image[:-1])
    with opened(after) as again:
        ids = [row["id"] for row in again.sql("SELECT id FROM documents").to_pylist()]
        assert sorted(ids) == [f"d{number}" for number in range(1, 6)]
        assert again.push(document(6)).accepted == 1


def test_a_journal_cut_at_any_byte_is_a_prefix_of_what_was_pushed(
    engine: xscl.Engine, tmp_path: Path
) -> None:
    """For some cuts the store is opened: it has the prefix, and takes the rest again."""
    for number in range(6, 9):
        engine.push(document(number))
    path = copied(path_of(engine), tmp_path / "killed")
    image, (_, now) = journal_path(path).read_bytes(), inspect(path)
    ends = [end for _, end in records_of(image, now.store)]
    assert len(ends) > 2
    for cut in range(len(image) + 1):
        kept = [end for _, end in records_of(image[:cut], now.store)]
        assert kept == [end for end in ends if end <= cut]
    whole = [document(number).id for number in range(1, 9)]
    for number, cut in enumerate(sorted({*ends, *(end - 1 for end in ends), ends[0] // 2})):
        torn = copied(path, tmp_path / f"torn{number}")
        os.truncate(journal_path(torn), cut)
        lost = sum(end > cut for end in ends)
        write_watermark(torn, CommitPoint(now.store, now.commits - lost))
        with opened(torn) as again:
            ids = again.sql("SELECT id FROM documents ORDER BY id")["id"].to_pylist()
            assert ids == whole[: len(whole) - lost]
            for late in range(len(ids) + 1, 10):
                again.push(document(late))
            assert len(again.sql("SELECT DISTINCT id FROM documents")) == 9


@pytest.mark.parametrize("how", ["removed", "cut"])
def test_a_lost_record_is_noticed(engine: xscl.Engine, tmp_path: Path, how: str) -> None:
    killed = copied(path_of(engine), tmp_path / "killed")
    journal = journal_path(killed)
    if how == "removed":
        journal.unlink()
    else:
        os.truncate(journal, journal.stat().st_size - 1)
    with pytest.raises(StoreWentBack, match=r"the last [1-9] are missing"):
        xscl.Engine(killed)
    with closing(Store(killed, accept=True)) as store:
        assert store.progress("next_doc") < 6


def test_records_after_a_lost_commit_are_not_used(tmp_path: Path) -> None:
    """They refer to rows that the database lacks."""
    path = tmp_path / "state.duckdb"
    with opened(path) as engine:
        engine.push(document(1))
        copied(path, tmp_path / "old")
        engine.subscribe("pairs", QUERIES["pairs"])
        engine.push(document(2))
        engine.push(document(3))
        killed = copied(path, tmp_path / "killed")
        for suffix in ("", ".wal"):
            shutil.copy(tmp_path / "old" / f"{path.name}{suffix}", killed.parent)
    with pytest.raises(StoreWentBack, match="are missing"):
        xscl.Engine(killed)
    with closing(Store(killed, accept=True)) as store:
        assert store.fetch("SELECT id FROM state.document") == [("d1",)]


def see_pages(engine: xscl.Engine) -> object:
    return len(engine.matches_of("pairs").matches)


def see_beside(engine: xscl.Engine) -> object:
    with closing(engine.host.connect()) as store, store.reading():
        return store.fetch("SELECT count(*) FROM state.document")


def see_sql(engine: xscl.Engine) -> object:
    return engine.sql("SELECT count(*) AS n FROM matches").to_pylist()


@pytest.mark.parametrize("see", [see_pages, see_beside, see_sql])
def test_each_reader_sees_the_last_push(
    engine: xscl.Engine, see: Callable[[xscl.Engine], object]
) -> None:
    before = see(engine)
    engine.push(document(6))
    assert see(engine) != before


def test_a_long_reader_keeps_its_snapshot_and_blocks_nobody(engine: xscl.Engine) -> None:
    count = "SELECT count(*) FROM state.document"
    host = engine.host
    with closing(host.connect()) as reader, closing(host.connect()) as other, reader.reading():
        assert reader.fetch(count) == [(5,)]
        engine.push(document(6))
        assert other.fetch(count) == [(6,)]
        assert reader.fetch(count) == [(5,)]


def test_old_records_are_brought_before_the_next_push(
    engine: xscl.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = "SELECT count(*) FROM state.document"
    store = engine.host.transactions.store
    store.flush()
    engine.push(document(6))
    engine.push(document(7))
    assert store.peek(count) == [(5,)]
    monkeypatch.setattr(tail, "OLD", 0.0)
    engine.push(document(8))
    assert store.peek(count) == [(7,)]


def full(point: str) -> None:
    if point == "before_commit":
        raise duckdb.IOException("No space left on device")


@pytest.mark.parametrize("is_new", [False, True])
def test_what_the_disk_has_no_room_for_can_be_read(
    engine: xscl.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """When there is room again, nothing of it is there twice, and the matches are the same."""
    query = "SELECT id FROM documents ORDER BY id"
    path = copied(path_of(engine), tmp_path / "killed")
    with ExitStack() as stack:
        if not is_new:
            other = stack.enter_context(opened(path))
            for number in (6, 7):
                other.push(document(number))
                engine.push(document(number))
        ids = [f"d{number}" for number in range(1, 6 if is_new else 8)]
        with monkeypatch.context() as patch:
            patch.setattr(xscl.store.store, "reached", full)
            if is_new:
                other = stack.enter_context(opened(path))
            for _ in range(2):
                assert [row["id"] for row in other.sql(query).to_pylist()] == ids
                with (
                    closing(other.host.connect()) as beside,
                    pytest.raises(StoreError, match="No space left"),
                ):
                    beside.fetch("FROM state.document")
                with pytest.raises(StoreError, match="No space left"):
                    other.push(document(8))
        assert [row["id"] for row in other.sql(query).to_pylist()] == ids
        assert list(map(str, other.push(document(8)))) == list(map(str, engine.push(document(8))))
        assert [m.id for m in other.matches()] == [m.id for m in engine.matches()]
        assert other.sql(query) == engine.sql(query)


def test_there_is_room_again_while_it_is_read(
    engine: xscl.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread waits until the reading has ended, and has all then."""
    count = "SELECT count(*) FROM state.document"
    store = engine.host.transactions.store
    engine.push(document(6))
    with closing(engine.host.connect()) as beside, ThreadPoolExecutor(1) as threads:
        with ExitStack() as stack:
            with monkeypatch.context() as patch:
                patch.setattr(xscl.store.store, "reached", full)
                stack.enter_context(store.whole())
            counted = threads.submit(beside.fetch, count)
            assert not wait([counted], 0.1).done
            assert store.fetch(count) == [(6,)]
        assert counted.result(PATIENCE) == [(6,)]


def test_values_that_were_read_before_a_rollback_are_not_taken_for_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first operation after the failure reads no document, and completes a match."""
    query = "(S//a[./k->x] NOT FOLLOWED BY{x=y, 10 s} S//b[./k->y]) JOIN{x=z, 1 d} S//c[./k->z]"
    second = 1_000_000

    def told(number: int, name: str, text: str) -> Document:
        xml = f"<{name}><k>{text}</k></{name}>"
        return Document("S", f"d{number}", number * second, xml.encode())

    with opened(tmp_path / "state.duckdb") as engine:
        engine.subscribe("none", query)
        engine.subscribe("pairs", "S//c[./k->z] JOIN{z=w, 1 d} S//d[./k->w]")
        engine.push([told(1, "c", "other"), told(2, "a", "K")])
        engine.host.transactions.store.flush()
        engine.push(told(3, "c", "K"))  # only the journal has this value
        with monkeypatch.context() as patch:
            patch.setattr(xscl.store.store, "reached", full)
            with pytest.raises(StoreError, match="No space left"):
                engine.push(told(4, "e", "L"))
        assert [match.documents for match in engine.advance(60 * second)] == [("d2", "d3")]


def test_a_backup_has_what_is_in_the_journal(engine: xscl.Engine, tmp_path: Path) -> None:
    from xscl.service.restore import restore
    from xscl.store.data_directory import DataDirectory

    back_up(engine.host.transactions.store, tmp_path / "b.tar")
    home = tmp_path / "home"
    home.mkdir()
    restore(tmp_path / "b.tar", DataDirectory(home))
    assert (
        content(home / "state.duckdb")["document"]
        == content(copied(path_of(engine), tmp_path / "killed"))["document"]
    )


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_push_on_a_full_disk_changes_nothing(
    engine: xscl.Engine, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real, times = getattr(os, call), iter([True])

    def fail(*arguments: Any) -> Any:
        if next(times, False):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(xscl.StoreError):
            engine.push(document(6))
    assert len(engine.sql("SELECT id FROM documents")) == 5
    assert engine.push(document(6)).accepted == 1


@pytest.mark.parametrize("ends", ["SELECT 1", "CHECKPOINT"])
def test_records_of_a_commit_that_fails_at_its_end_are_brought_once(
    engine: xscl.Engine, ends: str
) -> None:
    """DuckDB has the records, and reports a failure; a checkpoint has emptied its log again."""
    store = engine.host.transactions.store
    store.flush()
    connection = store.connection
    connection.execute("CHECKPOINT")
    engine.push(document(6))
    with in_doubt(afterwards=lambda: connection.execute(ends)), pytest.raises(xscl.StoreError):
        store.flush()
    eventually(lambda: not store.is_lost)
    store.flush()
    assert len(engine.sql("SELECT id FROM documents")) == 6
    assert engine.push(document(7)).accepted == 1
    assert len(engine.sql("SELECT id FROM documents")) == 7


def test_a_journal_that_was_removed_does_not_come_back(
    engine: xscl.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last record may be of an append that was reported as failed; a loss of power follows."""
    store = engine.host.transactions.store
    assert store.path is not None
    journal = journal_path(store.path)
    engine.push(document(6))
    store.flush()
    synchronised: list[bool] = []
    monkeypatch.setattr(store_file, "synchronise", lambda _: synchronised.append(journal.exists()))
    store.lose(OSError("a write has failed"))
    eventually(lambda: not store.is_lost)
    assert synchronised == [False]
    assert engine.push(document(7)).accepted == 1
