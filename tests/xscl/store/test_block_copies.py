"""A checkpoint that ends anywhere leaves a store with every commit."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples
from tests.waiting import PATIENCE
from xscl.store import block_copies, commits
from xscl.store.block_copies import HEADERS, copies_path, put_back
from xscl.store.store import Store
from xscl.store.store_errors import StoreDamaged
from xscl.store.store_file import StoreFile, log_path
from xscl.store.stored_tables import read_tables

SECTOR = 512
DATABASE = "state.duckdb"
CHECKPOINTS = 4


def write(store: Store, number: int) -> None:
    """Commit a value."""
    with store.transaction():
        store.set_meta(**{f"n{number}": number})


def written(store: Store) -> list[int]:
    """Return the values that were committed."""
    rows = store.fetch(
        "SELECT value FROM state.meta WHERE regexp_matches(key, '^n[0-9]') ORDER BY 1"
    )
    return [value for (value,) in rows]


@dataclass(frozen=True)
class Checkpoint:
    """The files when its copies were made, in a folder, and the database when it had ended.

    Paths, not contents: a failing example is printed.
    """

    folder: Path
    ended: Path

    def changed(self) -> list[int]:
        """Return the places of the sectors that it wrote before the headers; it truncates later."""
        before, after = self._images()
        return [
            at
            for at in range(HEADERS, len(after), SECTOR)
            if after[at : at + SECTOR] != before[at : at + SECTOR]
        ]

    def interrupted(self, folder: Path, sectors: Sequence[int]) -> Path:
        """Leave the files in a new folder as if it had written only these sectors."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        before, after = self._images()
        image = bytearray(before)
        for at in sectors:
            image[at : at + SECTOR] = after[at : at + SECTOR]
        (folder / DATABASE).write_bytes(image)
        return folder / DATABASE

    def _images(self) -> tuple[bytes, bytes]:
        after = self.ended.read_bytes()
        return (self.folder / DATABASE).read_bytes().ljust(len(after), b"\0"), after


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> list[Checkpoint]:
    """The checkpoints that follow some commits of a store."""
    folder = tmp_path_factory.mktemp("checkpoints")
    path, made = folder / "home" / DATABASE, list[Checkpoint]()
    path.parent.mkdir()
    copy_blocks = StoreFile.copy_blocks

    def copied(file: StoreFile, numbers: Sequence[int]) -> None:
        copy_blocks(file, numbers)
        shutil.copytree(path.parent, folder / str(len(made)))

    with closing(Store(path, journalled=False)) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "LOG_BYTES", 1)
        patch.setattr(StoreFile, "copy_blocks", copied)
        for number in range(CHECKPOINTS):
            write(store, number)
            made.append(Checkpoint(folder / str(number), folder / f"{number} ended"))
            shutil.copy(path, made[-1].ended)
    return made


@given(number=st.integers(0, CHECKPOINTS - 1), seed=st.integers(0), in_order=st.booleans())
@examples(60)
def test_any_sectors_of_it_may_be_lost(
    checkpoints: list[Checkpoint],
    tmp_path_factory: pytest.TempPathFactory,
    number: int,
    seed: int,
    in_order: bool,
) -> None:
    checkpoint, draw = checkpoints[number], random.Random(seed)
    changed = checkpoint.changed()
    size = draw.randint(0, len(changed))
    reached = changed[:size] if in_order else draw.sample(changed, size)
    path = checkpoint.interrupted(tmp_path_factory.mktemp("left") / "home", reached)
    with closing(Store(path, journalled=False)) as store:
        assert written(store) == list(range(number + 1))
        write(store, number + 1)
    with closing(Store(path)) as store:
        assert written(store) == list(range(number + 2))


def test_without_copies_the_store_is_lost(checkpoints: list[Checkpoint], tmp_path: Path) -> None:
    """So the property above can fail: half of what a checkpoint writes damages the database."""
    last = checkpoints[-1]
    changed = last.changed()
    path = last.interrupted(tmp_path / "home", changed[: len(changed) // 2])
    copies_path(path).unlink()
    with pytest.raises(StoreDamaged):
        Store(path)


@pytest.fixture
def path(checkpoints: list[Checkpoint], tmp_path: Path) -> Path:
    """A database whose last checkpoint was interrupted."""
    last = checkpoints[-1]
    return last.interrupted(tmp_path / "home", last.changed()[:20])


def test_copies_of_an_earlier_checkpoint_are_not_put_back(
    checkpoints: list[Checkpoint], tmp_path: Path
) -> None:
    path = checkpoints[-1].interrupted(tmp_path / "home", [])
    shutil.copy(checkpoints[-1].ended, path)
    assert not put_back(path)
    assert path.read_bytes() == checkpoints[-1].ended.read_bytes()


def test_torn_copies_are_not_put_back(path: Path) -> None:
    """They are those of a checkpoint that has not begun."""
    image, before = bytearray(copies_path(path).read_bytes()), path.read_bytes()
    image[-1] ^= 1
    copies_path(path).write_bytes(image)
    assert not put_back(path)
    assert path.read_bytes() == before


def test_nothing_is_put_back_while_another_process_has_the_database(path: Path) -> None:
    before = path.read_bytes()
    hold = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); print()"
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{hold}; sys.stdout.flush(); sys.stdin.read()", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert not put_back(path)
        assert path.read_bytes() == before
        holder.communicate()
    assert put_back(path)
    assert path.read_bytes() != before
    assert not put_back(path), "nothing differs"


# -- When a checkpoint is made ---------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store whose checkpoints are due after each commit."""
    with closing(Store(tmp_path / DATABASE, journalled=False)) as made:
        monkeypatch.setattr(commits, "LOG_BYTES", 1)
        monkeypatch.setattr(commits, "POSTPONED_SECONDS", 0)
        yield made


def is_due(store: Store) -> bool:
    """Return whether the log has commits."""
    assert store.path is not None
    return log_path(store.path).exists() and log_path(store.path).stat().st_size > 0


def test_one_is_postponed_while_another_connection_writes(store: Store) -> None:
    with closing(store.connect_again()) as beside:
        with beside.transaction():
            beside.fetch("CREATE TABLE state.beside (n BIGINT)")
            write(store, 1)
            assert is_due(store)
        assert not is_due(store)
    assert written(store) == [1]


def test_a_reader_postpones_one_if_what_it_reads_was_updated(store: Store) -> None:
    """DuckDB keeps what the reader sees; rows that were inserted or deleted do not matter."""
    with closing(store.connect_again()) as beside:
        with beside.reading():
            assert written(beside) == []
            write(store, 1)
            assert not is_due(store)
            with store.transaction():
                store.fetch("UPDATE state.meta SET value = 2 WHERE key = 'n1'")
            assert is_due(store)
            assert written(beside) == []
        write(store, 3)
        assert not is_due(store)
    assert written(store) == [2, 3]


def test_a_postponed_one_is_not_tried_with_each_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "POSTPONED_SECONDS", 3_600)
    with store.frozen_files():
        write(store, 1)
    with closing(store.connect_again()) as beside, beside.transaction():
        beside.fetch("CREATE TABLE state.beside (n BIGINT)")
        write(store, 2)
    write(store, 3)
    assert is_due(store)
    later = time.monotonic() + 4_000
    monkeypatch.setattr(time, "monotonic", lambda: later)
    write(store, 4)
    assert not is_due(store)


def test_after_a_failure_one_is_not_tried_with_each_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would invalidate the database."""
    attempts: list[int] = []

    def fail(_: Store) -> None:
        attempts.append(1)
        raise duckdb.FatalException("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_write_log", fail)
        write(store, 1)
        assert store.is_lost
        store.reopen()
        write(store, 2)
        assert not store.is_lost
    assert attempts == [1]
    assert written(store) == [1, 2]


def test_a_connection_of_before_does_not_lose_the_database(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was opened again while the connection copied blocks."""
    copy_blocks = StoreFile.copy_blocks

    def reopened(file: StoreFile, numbers: Sequence[int]) -> None:
        copy_blocks(file, numbers)
        monkeypatch.setattr(StoreFile, "copy_blocks", copy_blocks)
        store.lose(OSError("a write has failed"))
        store.reopen()

    with closing(store.connect_again()) as beside:
        monkeypatch.setattr(StoreFile, "copy_blocks", reopened)
        write(beside, 1)
    assert not store.is_lost
    assert written(store) == [1]


def test_a_damaged_text_prevents_the_last_one_only(store: Store) -> None:
    with pytest.raises(StoreDamaged), store.translate_errors():
        raise duckdb.IOException("Corrupt database file: computed checksum 1 does not match")
    write(store, 1)
    assert not is_due(store)


def test_a_store_is_not_released_while_another_connection_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its descriptor would be of another file, whose content would be put back."""
    store, copying, go = Store(tmp_path / DATABASE, journalled=False), Event(), Event()
    copy_blocks, closed = StoreFile.copy_blocks, Event()

    def waiting(file: StoreFile, numbers: Sequence[int]) -> None:
        copying.set()
        assert go.wait(PATIENCE)
        assert not closed.is_set()
        copy_blocks(file, numbers)

    def close() -> None:
        store.lose(OSError("a write has failed"))  # so the end waits for no commit
        store.close()
        closed.set()

    with closing(store.connect_again()) as beside:
        monkeypatch.setattr(commits, "LOG_BYTES", 1)
        monkeypatch.setattr(StoreFile, "copy_blocks", waiting)
        writer, closer = Thread(target=write, args=(beside, 1)), Thread(target=close)
        writer.start()
        assert copying.wait(PATIENCE)
        closer.start()
        assert not closed.wait(0.2)
        go.set()
        writer.join()
        closer.join()
    with closing(Store(tmp_path / DATABASE)) as again:
        assert written(again) == [1]


def test_unreadable_copies_do_not_keep_a_sound_store_from_opening(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, 1)
    path, pread = store.path, os.pread
    assert path is not None
    copies = copies_path(path).stat().st_ino

    def fail(descriptor: int, size: int, at: int) -> bytes:
        if os.fstat(descriptor).st_ino == copies:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(descriptor, size, at)

    store.close()
    monkeypatch.setattr(os, "pread", fail)
    with closing(Store(path)) as again:
        assert written(again) == [1]


def test_an_export_repairs_what_a_start_repairs(path: Path) -> None:
    tables = read_tables(path, {"meta": ("key", "value")})
    assert {"key": f"n{CHECKPOINTS - 1}", "value": CHECKPOINTS - 1} in tables["meta"]


def test_one_is_postponed_while_the_files_are_copied(store: Store) -> None:
    with store.frozen_files():
        write(store, 1)
        assert is_due(store)
    write(store, 2)
    assert not is_due(store)


def test_without_room_for_copies_the_commit_counts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(block_copies, "_write", fail)
        write(store, 1)
        assert is_due(store)
    assert not store.is_lost
    write(store, 2)
    assert not is_due(store)
    assert written(store) == [1, 2]


def test_the_end_writes_the_log_to_the_database(tmp_path: Path) -> None:
    with closing(Store(tmp_path / DATABASE)) as store:
        write(store, 1)
        assert is_due(store)
    assert not is_due(store)
    with closing(Store(tmp_path / DATABASE)) as store:
        assert written(store) == [1]


def test_a_query_makes_none(tmp_path: Path) -> None:
    with xscl.Engine(tmp_path / DATABASE) as engine:
        for query in ("FROM checkpoint()", "SELECT * FROM Checkpoint('store') t"):
            with pytest.raises(xscl.SqlError, match="cannot make a checkpoint"):
                engine.sql(query)
        assert engine.sql("SELECT 'checkpoint()' AS c").to_pylist() == [{"c": "checkpoint()"}]
