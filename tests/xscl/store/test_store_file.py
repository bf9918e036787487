"""Files that a store refuses to open, with their messages."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import duckdb
import pytest

from tests.examples import MORE, tried
from tests.project import LEAN, ROOT, python
from tests.simulation import disk
from tests.xscl.store.numbered_pushes import acknowledged_in, add, expect_whole
from xscl.engine.backup import copy_store
from xscl.errors import StoreError
from xscl.store import store_file
from xscl.store.database import translated
from xscl.store.store import Store
from xscl.store.store_errors import (
    DATABASE,
    OldFormat,
    StoreDamaged,
    StoreInUse,
    StoreNeedsMemory,
    StoreUnavailable,
    StoreWentBack,
    WrongVersion,
)
from xscl.store.store_file import log_path
from xscl.store.store_lock import StoreLock, StoreMark, marked

KILLED = f"""{LEAN}
import os
from xscl.store.store import Store
from tests.xscl.store.numbered_pushes import add
store = Store(sys.argv[1])
for doc in range(int(sys.argv[2])):
    add(store, doc)
os.kill(os.getpid(), 9)
"""


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
    assert python("-c", KILLED, path, "20").returncode == -9
    return path


@pytest.fixture
def copied(killed: Path, tmp_path: Path) -> Path:
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


def test_a_killed_store_has_all_commits(copied: Path) -> None:
    assert log(copied).stat().st_size > 20 * 4_096
    with closing(Store(copied)) as store:
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


def test_a_removed_log_is_noticed(copied: Path) -> None:
    log(copied).unlink()
    error = refused(copied, StoreWentBack, "40 commits, and 60 were acknowledged; the last 20")
    assert "accept the store as it is" in str(error.hint)
    with closing(Store(copied, accept=True)) as store:
        assert docs(store) == [*range(100, 140)]
    with closing(Store(copied)) as store:
        add(store, 7)


def test_an_older_copy_beside_a_newer_log_is_noticed(path: Path, tmp_path: Path) -> None:
    """SQLite would put the pages of the log over it."""
    with closing(Store(path)) as store:
        add(store, 1)
    shutil.copy(path, tmp_path / "older.db")
    with closing(Store(path)) as store:
        for doc in range(2, 5):
            add(store, doc)
    assert python("-c", KILLED, path, "5").returncode == -9
    shutil.copy(tmp_path / "older.db", path)
    refused(path, StoreWentBack, "it is an older copy, beside a newer log")


def test_another_store_is_noticed(copied: Path, tmp_path: Path) -> None:
    with closing(Store(tmp_path / "other.db")) as store:
        for doc in range(100):
            add(store, doc)
    log(copied).unlink()
    shutil.copy(tmp_path / "other.db", copied)
    refused(copied, StoreWentBack, "it is the store [0-9a-f]{16}, and [0-9a-f]{16} was there")


def test_a_creation_that_was_broken_off_is_repeated(path: Path) -> None:
    path.touch()
    store_file.connect(path, store_file.WRITING).close()
    assert path.read_bytes()[:6] == b"SQLite"
    with closing(Store(path)) as store:
        add(store, 1)


# -- What is something else ----------------------------------------------------------------


def test_a_store_in_use_is_refused(copied: Path) -> None:
    with closing(Store(copied)), pytest.raises(StoreInUse, match=str(os.getpid())):
        Store(copied)


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
def test_a_flipped_bit_is_noticed(copied: Path, tmp_path: Path, part: str, code: str) -> None:
    """It may be on a page that the log replaces.

    Where the log ends for SQLite, later commits are missing; behind its end nothing is.
    """
    draw, found = random.Random(5), []
    for copy in copies(copied, tmp_path):
        file = copy.with_name(copy.name + part)
        change(file, draw.randrange(file.stat().st_size))
        found.append(outcome(copy))
    assert set(found) <= {"whole", code}
    assert found.count(code) > len(found) / 2


def test_a_flipped_bit_of_a_closed_database_is_always_noticed(copied: Path, tmp_path: Path) -> None:
    with closing(Store(copied)):
        pass
    draw = random.Random(6)
    for copy in copies(copied, tmp_path):
        change(copy, draw.randrange(copy.stat().st_size))
        assert outcome(copy) == "store_damaged"


def test_a_torn_end_of_the_log_is_what_was_not_acknowledged(copied: Path) -> None:
    """The mark says how many commits were; the next one was being written."""
    with log(copied).open("ab") as file:
        file.write(os.urandom(10_000))
    assert outcome(copied) == "whole"


def test_a_shortened_log_is_noticed(copied: Path, tmp_path: Path) -> None:
    draw = random.Random(8)
    for copy in copies(copied, tmp_path):
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
    # after a report of damage a backup would be put back
    assert ("nothing is lost" in str(found.hint)) == (kind is StoreNeedsMemory)
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
    path: Path, tmp_path: Path, how: str
) -> None:
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


# -- The lock of a store -------------------------------------------------------------------


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


# -- After a loss of power the store has what was acknowledged -----------------------------


PUSHES = 120

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("gcc") is None,
    reason="the recorder of the simulated disk is compiled, and loaded by LD_PRELOAD",
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return disk.build(tmp_path_factory.mktemp("library"))


def record(home: Path, library: Path) -> None:
    """Make pushes in the directory `under` of another one, and record the changes."""
    (home / "under").mkdir()
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "DISK_UNDER": str(home / "under"),
        "DISK_LOG": str(home / "log"),
    }
    arguments = [str(home / "under" / "state.db"), str(home / "told"), str(PUSHES)]
    program = f"{LEAN}from tests.xscl.store.numbered_pushes import main; main(*sys.argv[1:])"
    command = [sys.executable, "-c", program, *arguments]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    assert acknowledged_in(home / "told") == PUSHES


def expect_crashes_lose_nothing(home: Path, number: int, seed: int) -> None:
    """Check the store after crashes at moments of a record, in the order of time."""
    draw = random.Random(seed)
    replayed = disk.Disk(home / "under", home / "log", is_replayed=True)
    for place, size in enumerate(sorted(draw.choices(replayed.ends(), k=number))):
        replayed.update(size)
        crashed = home / f"crashed{place}"
        was_killed = place % 3 == 0  # everything survives
        replayed.crash(crashed, None if was_killed else draw, is_scattered=place % 2 == 0)
        acknowledged = acknowledged_in(home / "told", size)
        with closing(Store(crashed / "state.db")) as store:
            expect_whole(store, acknowledged, acknowledged + 1)
        shutil.rmtree(crashed)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Path:
    home = tmp_path_factory.mktemp("recorded")
    record(home, library)
    return home


def test_a_loss_of_power_loses_nothing(recorded: Path) -> None:
    expect_crashes_lose_nothing(recorded, tried(200), 3)


def test_a_full_disk_at_the_start_is_named(tmp_path: Path, library: Path) -> None:
    script = (
        f"{LEAN}from tests.simulation import disk; disk.fail(28, int(sys.argv[2]), 99);"
        " from xscl.store.store import Store; Store(sys.argv[1])"
    )
    recording = {"LD_PRELOAD": str(library), "DISK_LOG": str(tmp_path / "log")}
    for after in range(1, 12, 3 if MORE > 1 else 6):
        home = tmp_path / f"under{after}"
        home.mkdir()
        place = home / "state.db"
        failed = python("-c", script, place, str(after), DISK_UNDER=str(home), **recording)
        assert "StoreError: the store" in failed.stderr, failed.stderr
        with closing(Store(home / "state.db")) as store:
            assert store.progress("position") == 0


# -- A store that a kill has left with a large log, and little memory (row C19) ------------


MB = 1 << 20
LOG = 40
"""The log's size, in MB."""

LEAVE = f"""{LEAN}
import os, secrets, signal
from pathlib import Path
import xscl
from xscl.store import database
from xscl.store.store_file import log_path
database.CHECKPOINT = 1 << 40
engine = xscl.Engine(sys.argv[1])
engine.subscribe("q", "S//a->x FOLLOWED BY{{x=y, 1 d}} S//a->y")
log, number = log_path(Path(sys.argv[1])), 0
while log.stat().st_size < {LOG * MB}:
    xml = f"<r><a>1</a><t>{{secrets.token_hex(4_000_000)}}</t></r>".encode()
    engine.push([xscl.Document("S", f"d{{number}}", number, xml)])
    number += 1
os.kill(os.getpid(), signal.SIGKILL)
"""

START = f"""{LEAN}
import resource
import xscl
with xscl.Engine(sys.argv[1]) as engine:
    print(len(engine.matches()))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def started(store: Path) -> tuple[int, float]:
    """Return the number of matches of a store, and the most memory of a process with it, in MB."""
    done = python("-c", START, store)
    assert done.returncode == 0, done.stderr
    matches, memory = map(int, done.stdout.split())
    return matches, memory / 1_024


def test_c19_a_large_log_is_read_in_little_memory(tmp_path: Path) -> None:
    store = tmp_path / DATABASE
    assert python("-c", LEAVE, store).returncode == -signal.SIGKILL
    assert log_path(store).stat().st_size >= LOG * MB
    _, usual = started(tmp_path / "empty.db")
    matches, memory = started(store)
    documents = LOG // 8 + 1
    assert matches == documents * (documents - 1) // 2
    assert memory < usual + LOG / 2
