"""The lock of a store: what a refused store leaves behind, and a lock that is removed meanwhile."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import duckdb
import pytest

from xscl.errors import StoreError
from xscl.store.store import Store
from xscl.store.store_errors import OldFormat, StoreDamaged, StoreInUse, WrongVersion
from xscl.store.store_lock import StoreLock


def of_version_0_2(path: Path) -> None:
    with duckdb.connect(path) as old:
        old.execute("CREATE TABLE a(b INTEGER)")


def a_text(path: Path) -> None:
    path.write_text("no database, but a text\n")


def of_something_else(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as other:
        other.execute("CREATE TABLE a(b)")


def of_a_later_version(path: Path) -> None:
    with closing(Store(path)) as store:
        store._database.writer.execute("PRAGMA state.user_version = 1000")
    path.with_name(f"{path.name}.lock").unlink()  # as in a copy of the file alone


def names(directory: Path) -> list[str]:
    """Return the files of a directory, without the indexes that SQLite makes of logs."""
    return sorted(one.name for one in directory.iterdir() if not one.name.endswith("-shm"))


def a_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (of_version_0_2, OldFormat, "was written by version 0.2"),
        (a_text, StoreDamaged, "it is no database of SQLite"),
        (of_something_else, StoreDamaged, "it is a database of something else"),
        (of_a_later_version, WrongVersion, "has version 1000"),
        (a_directory, StoreError, "Is a directory"),
    ],
)
def test_what_is_no_store_is_refused_and_gets_no_lock(
    tmp_path: Path, make: Callable[[Path], None], kind: type[StoreError], message: str
) -> None:
    path = tmp_path / "old.db"
    make(path)
    before = names(tmp_path)
    for _ in range(2):
        with pytest.raises(kind, match=message):
            Store(path)
        assert names(tmp_path) == before


def test_another_name_of_an_open_store_gets_no_lock(tmp_path: Path) -> None:
    path, other = tmp_path / "state.db", tmp_path / "other.db"
    with closing(Store(path)):
        other.hardlink_to(path)
        before = names(tmp_path)
        for name in (other, path):
            with pytest.raises(StoreInUse):
                Store(name)
            assert names(tmp_path) == before


def test_a_lock_that_is_removed_meanwhile_excludes_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused store removes its lock between the moments when another opens and locks it."""
    path, lock = tmp_path / "state.db", tmp_path / "state.db.lock"
    left = [1, 2]

    def remove(descriptor: int, how: int) -> None:
        if left:
            left.pop()
            lock.unlink()
        fcntl_flock(descriptor, how)

    fcntl_flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", remove)
    held = StoreLock(path)
    assert not left
    with pytest.raises(StoreInUse):
        StoreLock(path)
    assert lock.exists()
    held.release()
    StoreLock(path).release()
