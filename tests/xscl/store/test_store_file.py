"""Files that a store refuses to open, with their messages."""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import duckdb
import pyarrow as pa
import pytest

from tests.examples import tried
from xscl.engine.backup import copy_store
from xscl.errors import StoreError
from xscl.store import store_file
from xscl.store.database import translated
from xscl.store.store import Store
from xscl.store.store_errors import (
    OldFormat,
    StoreDamaged,
    StoreInUse,
    StoreNeedsMemory,
    StoreUnavailable,
    StoreWentBack,
)
from xscl.store.store_lock import StoreLock, StoreMark, marked

ROOT = Path(__file__).resolve().parents[3]
KILLED = """
import os, sys
from xscl.store.store import Store
from tests.xscl.store.test_store_file import add
store = Store(sys.argv[1])
for doc in range(int(sys.argv[2])):
    add(store, doc)
os.kill(os.getpid(), 9)
"""


def add(store: Store, doc: int) -> None:
    row = {"doc": doc, "missed": "x" * 3_000, "watermark": 0, "lateness": 0}
    with store.transaction():
        store.insert_rows("state.late", [row])
        keys = pa.array([doc], pa.uint64())
        store.append("value", pa.table({"key": keys, "strVal": [f"text {doc}"]}))


def docs(store: Store) -> list[int]:
    found = [int(doc) for (doc,) in store.fetch("SELECT doc FROM state.late ORDER BY rowid")]
    assert store.scan("value")["key"].to_pylist() == found
    return found


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with 40 commits that was closed, and with 20 more of a process that was killed."""
    path = tmp_path_factory.mktemp("killed") / "state.db"
    with closing(Store(path)) as store:
        for doc in range(100, 140):
            add(store, doc)
    shutil.copy(path, path.with_name("older.db"))
    command = [sys.executable, "-c", KILLED, str(path), "20"]
    assert subprocess.run(command, cwd=ROOT).returncode == -9
    return path


@pytest.fixture
def path(killed: Path, tmp_path: Path) -> Path:
    for file in killed.parent.glob("state.db*"):
        if not file.name.endswith("-shm"):
            shutil.copy(file, tmp_path)
    return tmp_path / "state.db"


def images(path: Path) -> dict[str, bytes]:
    """Return the files of a store, without what may change."""
    found = path.parent.glob(f"{path.name}*")
    return {one.name: one.read_bytes() for one in found if not one.name.endswith((".lock", "-shm"))}


def log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def refused(path: Path, kind: type[StoreError], message: str) -> StoreError:
    """Open a store, which fails; its files stay as they were."""
    before = images(path)
    with pytest.raises(kind, match=message) as raised:
        Store(path)
    assert images(path) == before
    return raised.value


def test_a_killed_store_has_all_commits(path: Path) -> None:
    assert log(path).stat().st_size > 20 * 4_096
    with closing(Store(path)) as store:
        assert docs(store) == [*range(100, 140), *range(20)]


# -- What is not there ---------------------------------------------------------------------


def test_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(Store(path)) as store:
        add(store, 1)
        copy_store(store, tmp_path / "state.db.copy")
        found = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    names = ("", "-shm", "-wal", ".copy", ".lock")
    assert found == {f"state.db{name}": 0o600 for name in names}


def test_a_removed_log_is_noticed(path: Path) -> None:
    log(path).unlink()
    error = refused(path, StoreWentBack, "40 commits, and 60 were acknowledged; the last 20 are m")
    assert "accept the store as it is" in str(error.hint)
    with closing(Store(path, accept=True)) as store:
        assert docs(store) == [*range(100, 140)]
    with closing(Store(path)) as store:
        add(store, 7)


def test_an_older_copy_beside_a_newer_log_is_noticed(tmp_path: Path) -> None:
    """SQLite would put the pages of the log over it."""
    path = tmp_path / "state.db"
    with closing(Store(path)) as store:
        add(store, 1)
    shutil.copy(path, tmp_path / "older.db")
    with closing(Store(path)) as store:
        for doc in range(2, 5):
            add(store, doc)
    command = [sys.executable, "-c", KILLED, str(path), "5"]
    assert subprocess.run(command, cwd=ROOT).returncode == -9
    shutil.copy(tmp_path / "older.db", path)
    refused(path, StoreWentBack, "it is an older copy, beside a newer log")


def test_another_store_is_noticed(path: Path, tmp_path: Path) -> None:
    with closing(Store(tmp_path / "other.db")) as store:
        for doc in range(100):
            add(store, doc)
    log(path).unlink()
    shutil.copy(tmp_path / "other.db", path)
    refused(path, StoreWentBack, "it is the store [0-9a-f]{16}, and [0-9a-f]{16} was there")


def test_a_creation_that_was_broken_off_is_repeated(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch()
    store_file.connect(path, store_file.WRITING).close()
    assert path.read_bytes()[:6] == b"SQLite"
    with closing(Store(path)) as store:
        add(store, 1)


# -- What is something else ----------------------------------------------------------------


def test_a_store_of_version_0_2_is_refused_with_the_commands(tmp_path: Path) -> None:
    path = tmp_path / "data" / "state.duckdb"
    path.parent.mkdir()
    with duckdb.connect(path) as old:
        old.execute("CREATE TABLE a(b INTEGER)")
    error = refused(path, OldFormat, "was written by version 0.2, whose format this version does")
    assert re.search(rf"xscl export \S+ --data {path.parent};", str(error.hint))
    assert re.search(rf"xscl import \S+ --data {path.parent}-new;", str(error.hint))


def test_a_store_in_use_is_refused(path: Path) -> None:
    with closing(Store(path)), pytest.raises(StoreInUse, match=str(os.getpid())):
        Store(path)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no directory"):
        Store(tmp_path / "none" / "state.db")


# -- Damage --------------------------------------------------------------------------------


def outcome(path: Path) -> str:
    """Open a store that was changed: "whole", or the code of the error, for which nothing changed.

    What opens has all commits.
    """
    before = images(path)
    try:
        with closing(Store(path)) as store:
            assert docs(store) == [*range(100, 140), *range(20)]
            return "whole"
    except StoreError as error:
        code, hint = error.code, str(error.hint)
    assert images(path) == before
    assert "xscl.store.store" in hint
    return code


def change(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << at % 8]))


def copies(path: Path, tmp_path: Path) -> Iterator[Path]:
    for number in range(tried(120)):
        home = tmp_path / f"copy{number}"
        home.mkdir()
        for file in path.parent.glob("state.db*"):
            shutil.copy(file, home)
        yield home / "state.db"


@pytest.mark.parametrize(("part", "code"), [("", "store_damaged"), ("-wal", "store_went_back")])
def test_a_flipped_bit_is_noticed(path: Path, tmp_path: Path, part: str, code: str) -> None:
    """It may be on a page that the log replaces.

    Where the log ends for SQLite, later commits are missing; behind its end nothing is.
    """
    draw, found = random.Random(5), []
    for copy in copies(path, tmp_path):
        file = copy.with_name(copy.name + part)
        change(file, draw.randrange(file.stat().st_size))
        found.append(outcome(copy))
    assert set(found) <= {"whole", code}
    assert found.count(code) > len(found) / 2


def test_a_flipped_bit_of_a_closed_database_is_always_noticed(path: Path, tmp_path: Path) -> None:
    with closing(Store(path)):
        pass
    draw = random.Random(6)
    for copy in copies(path, tmp_path):
        change(copy, draw.randrange(copy.stat().st_size))
        assert outcome(copy) == "store_damaged"


def test_a_torn_end_of_the_log_is_what_was_not_acknowledged(path: Path) -> None:
    """The mark says how many commits were; the next one was being written."""
    with log(path).open("ab") as file:
        file.write(os.urandom(10_000))
    assert outcome(path) == "whole"


def test_a_shortened_log_is_noticed(path: Path, tmp_path: Path) -> None:
    draw = random.Random(8)
    for copy in copies(path, tmp_path):
        os.truncate(log(copy), draw.randrange(log(copy).stat().st_size - 4_096))
        assert outcome(copy) == "store_went_back"


# -- The mark ------------------------------------------------------------------------------


def test_a_mark_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    lock = StoreLock(path)
    assert lock.mark() is None
    for mark in (StoreMark("0" * 16, 0), StoreMark("f" * 16, 12, 7), StoreMark("a" * 16, 2**62)):
        lock.note(mark)
        assert lock.mark() == marked(path) == mark
    lock.release()
    assert marked(path) == mark
    assert marked(path.with_name("another.db")) is None
    with path.with_name("state.db.lock").open("r+b") as file:
        file.seek(520)
        file.write(b"\xff")
    lock = StoreLock(path)
    assert lock.mark() is None
    lock.release()


# -- Errors --------------------------------------------------------------------------------


def raises(error: Exception) -> StoreError:
    kinds = (apsw.Error, OSError)
    with pytest.raises(StoreError) as raised, translated(Path("/data/state.db"), kinds=kinds):
        raise error
    return raised.value


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (apsw.NoMemError("out of memory"), StoreNeedsMemory),
        (apsw.CorruptError("database disk image is malformed"), StoreDamaged),
        (apsw.NotADBError("file is not a database"), StoreDamaged),
        (apsw.FullError("database or disk is full"), StoreError),
        (apsw.SQLError("no such table"), StoreError),
        (OSError(errno.EACCES, "Permission denied"), StoreUnavailable),
        (apsw.ReadOnlyError("attempt to write a readonly database"), StoreUnavailable),
    ],
)
def test_errors_of_sqlite_are_errors_of_the_store(error: Exception, kind: type[StoreError]) -> None:
    found = raises(error)
    assert type(found) is kind
    assert "/data/state.db" in found.message
    assert found.hint


def test_a_directory_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, settings: tuple[str, ...]) -> apsw.Connection:
        raise apsw.CantOpenError("unable to open database file")

    monkeypatch.setattr(store_file, "connect", fail)
    with pytest.raises(StoreError, match="cannot be read or written: unable to open"):
        Store(tmp_path / "state.db")


@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_a_file_that_is_taken_away_while_it_is_open_takes_no_changes(
    tmp_path: Path, how: str
) -> None:
    path = tmp_path / "state.sqlite"
    with closing(Store(path)) as store:
        add(store, 1)
        path.rename(tmp_path / "away")
        if how == "replaced":
            path.write_bytes(b"")
        elif how == "removed":
            (tmp_path / "away").unlink()
        with pytest.raises(StoreUnavailable, match="removed or replaced while it was open"):
            add(store, 2)
        with pytest.raises(StoreError), closing(store.connect_again()) as other:
            docs(other)
        assert path.exists() == (how == "replaced")
        if how == "moved":
            (tmp_path / "away").rename(path)
            add(store, 3)
    if how == "moved":
        with closing(Store(path)) as store:
            assert docs(store) == [1, 3]


NAMES = [
    "a b",
    "q?mode=ro",
    "h#x",
    "a&vfs=unix",
    "b\\x",
    "file:x",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_path_means_the_file_of_that_name(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    for path in (place / "state.sqlite", place / name):
        with closing(Store(path)) as store:
            store.set_meta(one=1)
            copy_store(store, place / f"{path.name}.copy")
        with closing(Store(path)) as store:
            assert store.meta("one") == 1
    kept = ("state.sqlite", name)
    assert {one.name for one in place.iterdir()} == {
        *kept, *(f"{one}.copy" for one in kept), "lock", f"{name}.lock"
    }  # fmt: skip


def test_a_path_that_is_too_long_for_sqlite_is_refused(tmp_path: Path) -> None:
    place = tmp_path.joinpath(*["x" * 100] * (8 - len(str(tmp_path)) // 100))
    place.mkdir(parents=True)
    fits = place / ("y" * (1_016 - len(str(place)) - 1))
    for _ in range(2):
        with closing(Store(fits)) as store:
            add(store, 1)
    with pytest.raises(StoreError, match=r"has 1,017 bytes, and 1,016 are allowed"):
        Store(place / f"{fits.name}y")
    assert {one.name for one in place.iterdir()} == {fits.name, f"{fits.name}.lock"}


def test_a_path_that_sqlite_cannot_name_is_refused(tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(b"\xff")
    place.mkdir()
    with pytest.raises(StoreError, match=r"the path '.*udcff/state.sqlite' is not in UTF-8"):
        Store(place / "state.sqlite")
    assert not list(place.iterdir())
    with (
        closing(Store(tmp_path / "state.sqlite")) as store,
        pytest.raises(StoreError, match="is not in UTF-8"),
    ):
        copy_store(store, place / "copy")
