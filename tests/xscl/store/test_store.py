"""The store's life: made, killed, reopened, locked, put back, damaged."""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

import xscl
from tests.examples import usually
from xscl.errors import StoreError
from xscl.store import commits, store_lock, verification
from xscl.store.commit_watermark import (
    NEW,
    CommitPoint,
    CommitWatermark,
    read_watermark,
    watermark_path,
    write_watermark,
)
from xscl.store.store import Store
from xscl.store.store_errors import (
    StoreClosed,
    StoreDamaged,
    StoreInUse,
    StoreWentBack,
    WrongVersion,
    store_error,
)
from xscl.store.store_lock import UNFINISHED

TWICE = "S//a->x FOLLOWED BY{x=y, 1 h} S//a->y"
ROOT = Path(__file__).resolve().parents[3]
SETTING: dict[str, Any] = {"env": {**os.environ, "PYTHONPATH": str(ROOT)}, "text": True}


def document(number: int, text: str = "") -> xscl.Document:
    return xscl.Document("S", f"d{number}", number, f"<a>k<!--{text}--></a>".encode())


@pytest.fixture
def path(closed: Path, tmp_path: Path) -> Path:
    """A store that was closed in order after some pushes."""
    return copied(closed, tmp_path)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of which each test has a copy."""
    path = tmp_path_factory.mktemp("closed") / "state.duckdb"
    with xscl.Engine(path) as engine:
        engine.subscribe("twice", TWICE)
        for number in range(3):
            engine.push(document(number))
    return path


@pytest.fixture
def killed(abandoned: Path, tmp_path: Path) -> Path:
    """A store as a kill leaves it: what was committed last is in the log only."""
    return copied(abandoned, tmp_path / "killed")


@pytest.fixture(scope="module")
def abandoned(closed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store left by a kill of which each test has a copy."""
    folder = tmp_path_factory.mktemp("abandoned")
    path = copied(closed, folder / "alive")
    with xscl.Engine(path) as engine:
        for number in range(3, 6):
            engine.push(document(number))
        return copied(path, folder / "killed")


def copied(path: Path, directory: Path) -> Path:
    """Copy all files of a store to another directory."""
    directory.mkdir(exist_ok=True)
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, directory)
    return directory / path.name


def files(path: Path) -> dict[str, bytes]:
    """The content of a store's files, except the lock, which every opener writes."""
    found = path.parent.glob(f"{path.name}*")
    return {file.name: file.read_bytes() for file in found if file.suffix != ".lock"}


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.wal")


def refused(path: Path, error: type[StoreError], match: str) -> None:
    """Assert that a store is refused, says how to mend it, and stays as it is."""
    before = files(path)
    for _ in range(2):
        with pytest.raises(error, match=match) as raised:
            xscl.Engine(path)
        assert str(path) in raised.value.message
        assert "xscl restore " in str(raised.value.hint)
        assert f"--data {path.parent}" in str(raised.value.hint)
        assert files(path) == before


# -- Making it -----------------------------------------------------------------------------


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "state.duckdb"
    path.touch()
    with xscl.Engine(path) as engine:
        engine.subscribe("twice", TWICE)
    with xscl.Engine(path) as engine:
        assert [one.name for one in engine.subscriptions] == ["twice"]


def test_a_database_without_tables_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "state.duckdb"
    duckdb.connect(str(path)).close()
    with xscl.Engine(path) as engine:
        engine.subscribe("twice", TWICE)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.duckdb"
    with duckdb.connect(str(path)) as other:
        other.execute("CREATE TABLE letters(text VARCHAR)")
    refused(path, StoreDamaged, "a database of something else")


MAKE = """
import os, pathlib, random, signal, sys
from xscl.store import store

def make(path, point):
    made = 0
    def count(frame, event, argument):
        nonlocal made
        made += event in ("call", "c_call")
        if made == point:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(count)
    store.Store(path)
    sys.setprofile(None)
    return made

def killed(path, point):
    child = os.fork()
    if not child:
        calls = make(path, point)
        pathlib.Path(path + ".calls").write_text(str(calls))
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])

folder = sys.argv[1]
assert not killed(folder + "/whole", 0)
calls = int(pathlib.Path(folder + "/whole.calls").read_text())
for point in random.Random(2).sample(range(1, calls + 1), 12):
    assert killed(f"{folder}/{point}", point)
    print(point)
"""
"""Makes stores in processes that kill themselves at their nth call of a function."""


def test_whenever_its_making_is_killed_the_next_start_completes_it(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-c", MAKE, str(tmp_path)],
        **(SETTING | {"capture_output": True, "check": False, "timeout": 100}),
    )
    assert made.returncode == 0, made.stderr
    with closing(Store(tmp_path / "whole")) as store:
        whole = columns(store)
    points = made.stdout.split()
    begun = [point for point in points if (tmp_path / point).exists()]
    assert 0 < len(begun) < len(points), "some were killed before there was a file, some after"
    for point in points:
        path = tmp_path / point
        with closing(Store(path)) as store:
            assert columns(store) == whole
            seen = store.seen()
        assert read_watermark(path) == seen


@pytest.mark.parametrize("left", [0, 10, 4096, 8192 + 100])
def test_a_making_that_broke_off_in_the_headers(path: Path, left: int) -> None:
    write_watermark(path, CommitPoint("anid", NEW))
    os.truncate(path, left)
    claimed = set(store_lock._open)
    with closing(Store(path)) as store:
        assert store.seen() == CommitPoint("anid", 1)
    assert store_lock._open == claimed


def columns(store: Store) -> list[tuple[object, ...]]:
    return store.fetch(
        "SELECT schema_name, table_name, column_name, column_index, data_type, is_nullable"
        " FROM duckdb_columns() WHERE schema_name IN ('state', 'mark') ORDER BY ALL"
    )


# -- The mark ------------------------------------------------------------------------------


def test_every_change_raises_the_count_and_the_mark(tmp_path: Path) -> None:
    path = tmp_path / "state.duckdb"
    with xscl.Engine(path) as engine:
        counts = [read_watermark(path)]
        engine.subscribe("twice", TWICE)
        counts.append(read_watermark(path))
        engine.push(document(1))
        counts.append(read_watermark(path))
        with pytest.raises(xscl.XsclError):
            engine.subscribe("twice", TWICE)
        engine.sql("SELECT * FROM documents")
        list(engine.matches())
        assert read_watermark(path) == counts[-1]
        with closing(engine.host.connect()) as store:
            assert store.seen() == counts[-1]
    assert [one and one.commits for one in counts] == [1, 2, 3]
    assert read_watermark(path) == counts[-1]
    xscl.Engine(path).close()
    assert read_watermark(path) == counts[-1]


@pytest.mark.parametrize("is_direct", [False, True])
def test_a_mark_that_cannot_be_written_fails_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_direct: bool
) -> None:
    """A durable commit succeeds; the next one writes the mark first, or fails."""
    path, killed = tmp_path / "state.duckdb", tmp_path / "killed"

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def add(store: Store, number: int) -> None:
        with store.transaction():
            late = {"doc": number, "missed": "", "watermark": 0, "lateness": 0}
            store.insert_rows("state.late", [late])
            if is_direct:
                store.fetch("SELECT 1")

    def numbers(store: Store) -> list[int]:
        return [number for (number,) in store.fetch("SELECT doc FROM state.late ORDER BY doc")]

    with closing(Store(path)) as store:
        add(store, 0)
        seen = read_watermark(path)
        assert seen is not None
        with monkeypatch.context() as patch:
            patch.setattr(CommitWatermark, "note", fails)
            add(store, 1)
            assert read_watermark(path) == seen
            with pytest.raises(StoreError, match="Input/output error"):
                add(store, 2)
            killed.mkdir()
            for file in tmp_path.glob(f"{path.name}*"):
                if file.suffix != ".lock":
                    shutil.copy(file, killed)
        add(store, 3)
        assert numbers(store) == [0, 1, 3]
        assert read_watermark(path) == store.seen()
    with closing(Store(killed / path.name)) as store:
        assert numbers(store) == [0, 1]


def test_a_kill_between_commit_and_mark_is_no_loss(killed: Path) -> None:
    seen = read_watermark(killed)
    assert seen is not None
    write_watermark(killed, CommitPoint(seen.store, seen.commits - 1))
    with xscl.Engine(killed) as engine:
        assert engine.sql("SELECT count(*) AS n FROM documents").to_pylist() == [{"n": 6}]
    assert read_watermark(killed) == seen


def rolled_back(store: Store) -> None:
    """Take a count that is never committed."""
    with suppress(ZeroDivisionError), store.transaction():
        store.fetch("SELECT nextval('mark.commits')")
        raise ZeroDivisionError


@pytest.mark.parametrize("size", usually([1_000, 16_000_000], 1_000))
def test_the_count_is_never_behind_the_mark(
    path: Path, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a checkpoint follows each commit."""
    monkeypatch.setattr(commits, "LOG_BYTES", size)
    with xscl.Engine(path) as engine, closing(engine.host.connect()) as store:
        for number in range(3, 9):
            text = random.Random(number).randbytes(100_000 * (number % 3)).hex()
            engine.push(document(number, text))
            if number == 5:
                rolled_back(store)
            left = copied(path, tmp_path / f"{number}")
            xscl.Engine(left).close()
            was, now = read_watermark(path), read_watermark(left)
            assert was is not None
            assert now is not None
            assert (was.store, was.commits) <= (now.store, now.commits)


def test_an_older_copy_is_refused(path: Path, tmp_path: Path) -> None:
    older = copied(path, tmp_path / "older")
    with xscl.Engine(path) as engine:
        for number in range(3, 6):
            engine.push(document(number))
    shutil.copy(older, path)
    refused(path, StoreWentBack, r"it has 5 commits, .*\.mark says that 8 were .*the last 3 are")


def test_a_removed_log_is_noticed(killed: Path) -> None:
    log_of(killed).unlink()
    refused(killed, StoreWentBack, "the last 3 are missing")


def test_another_store_in_its_place_is_refused(path: Path, tmp_path: Path) -> None:
    with xscl.Engine(tmp_path / "other.duckdb") as engine:
        for number in range(20):
            engine.push(document(number))
    shutil.copy(tmp_path / "other.duckdb", path)
    refused(path, StoreWentBack, r"it is the store \w{16}, and .*\.mark says that \w{16} was there")


def test_an_empty_database_in_its_place_is_refused(path: Path) -> None:
    path.unlink()
    duckdb.connect(str(path)).close()
    refused(path, StoreWentBack, r"it has counted no commits, and .* that it held 5 commits")


@pytest.mark.parametrize("mark", ["sound", "torn"])
@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_a_missing_database_is_refused(path: Path, how: str, mark: str) -> None:
    if mark == "torn":
        watermark_path(path).write_bytes(b"xscl")
    if how == "removed":
        path.unlink()
    else:
        os.truncate(path, 0)
    refused(path, StoreWentBack, "the file is missing or empty")


def test_a_log_without_its_database_is_refused(killed: Path) -> None:
    killed.unlink()
    watermark_path(killed).unlink()
    refused(killed, StoreWentBack, r"missing or empty, and its log .*\.wal is not")


@pytest.mark.parametrize("mark", [None, b"", b"\0" * 1024, b"xscl-mark 1 a 99 00000000\n"])
def test_a_mark_that_says_nothing_is_made_anew(path: Path, mark: bytes | None) -> None:
    before = read_watermark(path)
    watermark_path(path).unlink()
    if mark is not None:
        watermark_path(path).write_bytes(mark)
    xscl.Engine(path).close()
    assert read_watermark(path) == before


def test_a_torn_mark_leaves_the_one_before(path: Path) -> None:
    seen = read_watermark(path)
    assert seen is not None
    image = bytearray(watermark_path(path).read_bytes())
    place = seen.commits % 2 * 512
    image[place + 20] ^= 1
    watermark_path(path).write_bytes(image)
    assert read_watermark(path) == CommitPoint(seen.store, seen.commits - 1)


def test_an_unfinished_restore_is_refused(path: Path) -> None:
    write_watermark(path, CommitPoint("x", UNFINISHED))
    refused(path, StoreWentBack, "a restore was broken off")


def test_accepted_as_it_is(killed: Path) -> None:
    log_of(killed).unlink()
    with closing(Store(killed, accept=True)) as store:
        assert store.seen().commits == 5
    with xscl.Engine(killed) as engine:
        engine.push(document(9))
    assert getattr(read_watermark(killed), "commits", 0) == 6


def test_two_threads_commit_and_the_mark_is_the_last(path: Path) -> None:
    with xscl.Engine(path) as engine, closing(engine.host.connect()) as store:
        store.connection.execute("CREATE TABLE state.beside(n INTEGER)")
        failures: list[BaseException] = []

        def record() -> None:
            try:
                for number in range(40):
                    with store.transaction():
                        store.fetch("INSERT INTO state.beside VALUES (?)", [number])
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=record)
        thread.start()
        for number in range(3, 13):
            engine.push(document(number))
        thread.join()
        assert not failures
        assert getattr(read_watermark(path), "commits", 0) == 5 + 40 + 10 == store.seen().commits


# -- Damage --------------------------------------------------------------------------------


def flipped(file: Path, offset: int) -> None:
    image = bytearray(file.read_bytes())
    image[offset] ^= 0xFF
    file.write_bytes(image)


def cut(file: Path, left: int) -> None:
    os.truncate(file, left)


DAMAGE: dict[str, tuple[Callable[[Path], object], type[StoreError]]] = {
    "a byte of the main header": (lambda p: flipped(p, 100), StoreDamaged),
    "the magic": (lambda p: flipped(p, 9), StoreDamaged),
    "the first header": (lambda p: flipped(p, 4096 + 20), StoreDamaged),
    "the second header": (lambda p: flipped(p, 8192 + 20), StoreDamaged),
    "cut in half": (lambda p: cut(p, p.stat().st_size // 2), StoreDamaged),
    "cut by a byte": (lambda p: cut(p, p.stat().st_size - 1), StoreDamaged),
    "cut to a header": (lambda p: cut(p, 5000), StoreDamaged),
    "a text": (lambda p: p.write_text("dear friend, " * 999), StoreDamaged),
    "a short text": (lambda p: p.write_text("dear"), StoreDamaged),
    "the log's first byte": (lambda p: flipped(log_of(p), 0), StoreWentBack),
    "the log's version": (lambda p: flipped(log_of(p), 5), StoreWentBack),
    "a sum in the log": (lambda p: flipped(log_of(p), 40), StoreError),
    "the log's last byte": (lambda p: flipped(log_of(p), -1), StoreDamaged),
    "a cut log": (lambda p: cut(log_of(p), log_of(p).stat().st_size // 2), StoreWentBack),
    "a log cut by a byte": (lambda p: cut(log_of(p), log_of(p).stat().st_size - 1), StoreWentBack),
    "a log of text": (lambda p: log_of(p).write_text("dear " * 99), StoreWentBack),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damage_is_refused_and_left_as_it_is(killed: Path, damage: str) -> None:
    spoil, error = DAMAGE[damage]
    spoil(killed)
    refused(killed, error, "state.duckdb")


def test_a_flipped_byte_anywhere_that_matters_is_noticed(tmp_path: Path) -> None:
    """In a block that is in use; what becomes of free ones is nobody's."""
    path = tmp_path / "state.duckdb"
    noise = random.Random(1)
    with xscl.Engine(path) as engine:
        engine.subscribe("twice", TWICE)
        for number in range(4):
            engine.push(document(number, noise.randbytes(150_000).hex()))
    with duckdb.connect() as other:
        other.execute(f"ATTACH '{path}' AS store (READ_ONLY)")
        ((block, total, free),) = other.execute(
            "SELECT block_size, total_blocks, free_blocks FROM pragma_database_size()"
            " WHERE database_name = 'store'"
        ).fetchall()
    image = path.read_bytes()
    noticed = 0
    for number in range(total):
        flipped(path, 3 * 4096 + number * block + noise.randrange(block))
        try:
            xscl.Engine(path).close()
        except StoreDamaged:
            noticed += 1
        path.write_bytes(image)
    assert total - free > 4
    assert noticed >= total - free - 2, "unused ends of metadata blocks"


def test_damage_that_comes_later_is_told_and_not_made_worse(path: Path) -> None:
    """Texts of a large store are read when they are needed."""

    def spoil() -> None:
        with store.transaction():
            store.fetch("DELETE FROM state.document")
            raise duckdb.IOException("Corrupt database file: computed checksum 1, not 2")

    image = path.read_bytes()
    with closing(Store(path)) as store, pytest.raises(StoreDamaged, match="checksum"):
        spoil()
    assert path.read_bytes() == image


def test_a_damaged_text_of_a_large_store_is_told_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.duckdb"
    text = random.Random(1).randbytes(300_000).hex()
    with xscl.Engine(path) as engine:
        engine.subscribe("twice", TWICE)
        for number in range(2):
            engine.push(document(number, f"{number}{text}"))
    sound = path.read_bytes()
    told_late = 0
    for offset in range(3 * 4096 + 1000, len(sound), 1 << 18):
        flipped(path, offset)
        image = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(verification, "READ_WHOLE", 0)
            told_late += opens_and_tells(path)
        assert path.read_bytes() == image
        path.write_bytes(sound)
    assert told_late > 1


def opens_and_tells(path: Path) -> bool:
    """Return True if a damaged store opens and reports the damage when a match is read."""
    try:
        engine = xscl.Engine(path)
    except StoreDamaged:
        return False
    with engine, pytest.raises(StoreDamaged, match="checksum"):
        engine.matches()[0].xml()
    return True


@pytest.mark.parametrize("size", [0, 1 << 40])
def test_an_open_store_has_one_thread_large_or_small(
    path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(verification, "READ_WHOLE", size)
    with closing(Store(path)) as store:
        assert store.fetch("SELECT current_setting('threads')") == [(1,)]


def test_what_was_committed_is_told_if_the_mark_cannot_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with xscl.Engine(path) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            told = list(engine.push(document(7)))
            with pytest.raises(StoreError, match=r"failed: .*Input/output error"):
                engine.push(document(8))
        assert told == list(engine.matches())[3:]
        told += engine.push(document(8))
        assert told == list(engine.matches())[3:]
    with xscl.Engine(path) as engine:
        assert len(engine.matches()) == 10


@pytest.mark.parametrize(
    ("words", "told_as"),
    [
        (
            "IO Error: Could not write file: No space left on device\nmore",
            "the store s cannot be written: IO Error: Could not write file: "
            "No space left on device | make room on disk",
        ),
        (
            "Corrupt database file: computed checksum 1",
            "the store s is damaged, or it is no xscl store: Corrupt database file: computed "
            "checksum 1 | its files are left as they are; put a backup in their place: ",
        ),
        ("Connection Error: Connection already closed!", "the engine is closed | open it again: "),
        (
            "Out of Memory Error: failed to allocate",
            "there is too little memory for the store s: Out of Memory Error: failed to allocate | "
            "nothing is lost: start it again with more; ",
        ),
    ],
)
def test_what_the_user_is_told(words: str, told_as: str) -> None:
    error = store_error(Path("s"), duckdb.Error(words))
    assert f"{error.message} | {error.hint}".startswith(told_as)


# -- One at a time -------------------------------------------------------------------------


HOLD = """
import sys, xscl
with xscl.Engine(sys.argv[1]) as engine:
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the store open."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **SETTING,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_second_is_told_who_is_first(path: Path, holder: subprocess.Popen[str]) -> None:
    symbolic, hard = path.with_name("symbolic"), path.parent.parent / "hard.duckdb"
    symbolic.symlink_to(path)
    os.link(path, hard)
    for name in (path, symbolic, hard, os.path.relpath(path)):
        with pytest.raises(StoreInUse, match=f"is in use by process {holder.pid}$") as raised:
            xscl.Engine(name)
        assert raised.value.pid == holder.pid
    hard.unlink()
    holder.kill()
    holder.wait()
    with xscl.Engine(symbolic) as engine:
        assert len(engine.matches()) == 3


def test_the_same_process_is_told_too(path: Path) -> None:
    hard = path.with_name("hard.duckdb")
    os.link(path, hard)
    with xscl.Engine(path) as engine:
        for name in (path, str(path), hard):
            with pytest.raises(StoreInUse, match=f"in use by process {os.getpid()}$"):
                xscl.Engine(name)
        engine.push(document(9))
    with xscl.Engine(hard) as engine:
        assert len(engine.matches()) > 3


def test_an_engine_that_could_not_be_opened_holds_nothing(path: Path) -> None:
    image = path.read_bytes()
    path.write_text("dear")
    with pytest.raises(StoreDamaged):
        xscl.Engine(path)
    path.write_bytes(image)
    xscl.Engine(path).close()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing/x.duckdb", "no directory .*/missing$"),
        ("file/x", "no directory"),
        (".", "failed: "),
    ],
)
def test_where_no_store_can_be(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=told):
        xscl.Engine(tmp_path / name)


# -- Closed --------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False])
def test_a_closed_engine_says_so(tmp_path: Path, kept: bool) -> None:
    engine = xscl.Engine(tmp_path / "state.duckdb" if kept else None)
    engine.stream("T", attributes={"k": str})
    engine.subscribe("twice", TWICE)
    matches = engine.push([document(1), document(2)])
    engine.close()
    engine.close()
    calls: list[Callable[[], object]] = [
        lambda: engine.push(document(3)),
        lambda: engine.subscribe("other", TWICE),
        lambda: engine.subscribe("other", TWICE, since="1 h"),
        lambda: engine.subscribe("other", "SELECT k FROM T", language="cel"),
        lambda: engine.unsubscribe("twice"),
        lambda: engine.stream("U", lateness=5),
        lambda: engine.sql("SELECT 1"),
        lambda: engine.matches(),
        lambda: engine.document("d1"),
        lambda: engine.consumed("direct"),
        lambda: engine.try_query(TWICE),
        lambda: engine.why("twice", "d1", "d2"),
        lambda: engine.explain("twice"),
        lambda: engine.host.connect(),
        lambda: engine.flush(),
        lambda: engine.advance(5),
        lambda: matches[0].xml(),
    ]
    for call in calls:
        with pytest.raises(StoreClosed, match=r"^the engine is closed$"):
            call()


# -- Versions ------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "hint"), [(99, "or a later one"), (0, "that wrote it")])
def test_a_store_of_another_release_is_refused(path: Path, version: int, hint: str) -> None:
    with closing(Store(path)) as store, store.transaction():
        store.set_meta(version=version)
    before = files(path)
    with pytest.raises(WrongVersion, match=f"has version {version}, this program reads") as raised:
        xscl.Engine(path)
    assert re.search(hint, str(raised.value.hint))
    assert files(path) == before
