"""An older copy of the database, or a lost log, does not go unnoticed at the next start.

Each test does what a user does to the files of a data directory, and says what the next command
must tell and leave as it is.  How the store finds out is tested elsewhere (`test_store.py`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

import xscl
from feeds.spool import Spool
from tests.xscl.commandline import called
from tests.xscl.store.backups import append, consume, everything, subscribed
from xscl.ingestion.data_directory import DataDirectory
from xscl.store.store_file import log_path
from xscl.store.store_lock import lock_path

YESTERDAY, TODAY = 3, 4
"""Segments that were consumed by then, and since then."""


def files_of(home: DataDirectory) -> Iterator[Path]:
    """Yield the files of the database, and the one with its mark."""
    yield from (*sorted(home.path.glob(f"{home.database.name}*")), lock_path(home.database))


def take(home: DataDirectory, engine: xscl.Engine, *numbers: int) -> None:
    """Take segments in, and consume them."""
    append(home, *numbers)
    consume(engine, home)


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> tuple[DataDirectory, DataDirectory]:
    """The directory of yesterday, when its service was stopped, and that of today, killed."""
    place = tmp_path_factory.mktemp("days")
    home, yesterday = DataDirectory(place / "home"), DataDirectory(place / "yesterday")
    home.create()
    with subscribed(home.database) as engine:
        take(home, engine, *range(YESTERDAY))
    shutil.copytree(home.path, yesterday.path)
    with xscl.Engine(home.database) as engine:
        for number in range(YESTERDAY, YESTERDAY + TODAY):
            take(home, engine, number)
        today = DataDirectory(shutil.copytree(home.path, place / "today"))
    return yesterday, today


@pytest.fixture
def yesterday(days: tuple[DataDirectory, DataDirectory]) -> DataDirectory:
    return days[0]


@pytest.fixture
def today(days: tuple[DataDirectory, DataDirectory], tmp_path: Path) -> DataDirectory:
    """A copy of today's directory, to which a test does something."""
    return DataDirectory(shutil.copytree(days[1].path, tmp_path / "today"))


def is_told(home: DataDirectory, *said: str) -> None:
    """Check that commands refuse the store, say why and what to do, and change nothing."""
    before = everything(home)
    data = ("--data", str(home.path))
    for command in (("subscriptions",), ("serve", "--once", "--no-spark"), ("status",)):
        done = called(*command, *data)
        assert done.exit_code == 1, done.stdout
        for text in (str(home.database), "gone backwards", *said):
            assert text in done.stderr
        assert f"xscl restore FILE --force --data {home.path}" in done.stderr
        assert f"xscl restore --accept --data {home.path}" in done.stderr
        assert done.stdout == ""
    assert everything(home) == before


def is_accepted(home: DataDirectory, segments: int) -> None:
    """Go on with the older state, as the message offers, which takes so many segments again."""
    done = called("restore", "--accept", "--data", str(home.path))
    assert done.exit_code == 0
    assert "lost: " in done.stdout
    assert "lost: nothing" not in done.stdout
    with xscl.Engine(home.database) as engine:
        consume(engine, home)
        assert numbers(engine) == [f"d{n}.{i}" for n in range(segments) for i in range(3)]
    assert called("serve", "--once", "--no-spark", "--data", str(home.path)).exit_code == 0


def numbers(engine: xscl.Engine) -> list[str]:
    """Return the ids of the documents that were taken in."""
    found = engine.sql("SELECT id FROM documents WHERE NOT published ORDER BY id")
    return [str(id) for id in found["id"].to_pylist()]


Change: TypeAlias = Callable[[DataDirectory, DataDirectory], None]
"""A change of the directory of today, given that of yesterday, too."""


def without_the_logs(yesterday: DataDirectory, today: DataDirectory) -> None:
    """Copy one file, and delete what does not seem to belong to it."""
    shutil.copy(yesterday.database, today.database)
    log_path(today.database).unlink(missing_ok=True)


def all_files(yesterday: DataDirectory, today: DataDirectory, *, count: bool = True) -> None:
    """Copy all files of the database in place of today's, with the count of commits or without."""
    for home in (today, yesterday):
        for path in files_of(home):
            if not count and path == lock_path(home.database):
                continue
            if home is today:
                path.unlink()
            else:
                shutil.copy(path, today.path)


def without(*names: str) -> Change:
    """Delete files of today: of the database, its log, its count, its segments."""

    def delete(yesterday: DataDirectory, today: DataDirectory) -> None:
        places = {
            "database": [today.database],
            "log": [log_path(today.database)],
            "count": [lock_path(today.database)],
            "segments": list(today.spool.glob("*.arrow*")),
        }
        for name in names:
            for path in places[name]:
                path.unlink(missing_ok=True)

    return delete


CHANGES: dict[str, tuple[Change, str]] = {
    "the file of yesterday alone": (without_the_logs, "are missing"),
    "all of yesterday but the count": (partial(all_files, count=False), "are missing"),
    "no log": (without("log"), f"the last {TODAY} are missing"),
    "no log and no count": (
        without("log", "count"),
        f"it has consumed the spool up to segment {YESTERDAY}",
    ),
    "no database": (without("database"), "the file is missing or empty"),
    "no files": (without("database", "log", "count"), "the file and its mark are missing"),
    "no files and no segments": (
        without("database", "log", "count", "segments"),
        "the file and its mark are missing",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_directory_of_today_that_lacks_something(
    yesterday: DataDirectory, today: DataDirectory, name: str
) -> None:
    change, said = CHANGES[name]
    change(yesterday, today)
    is_told(today, said)
    doctor = called("doctor", "--data", str(today.path))
    assert doctor.exit_code == 1
    assert f"xscl restore FILE --force --data {today.path}" in doctor.stdout
    if today.database.exists():
        is_accepted(today, YESTERDAY + TODAY)


@pytest.mark.parametrize("kept", [True, False])
def test_all_files_of_yesterday_beside_the_spool_of_today(
    yesterday: DataDirectory, today: DataDirectory, kept: bool
) -> None:
    """The count is that of yesterday, too.

    What the spool has is consumed again; where it has deleted that, documents are in neither.
    """
    if not kept:
        with Spool(today.spool) as spool:
            spool.forget(YESTERDAY + TODAY)
    all_files(yesterday, today)
    is_told(
        today,
        f"it has consumed the spool up to segment {YESTERDAY}",
        f"segment {YESTERDAY + TODAY} was consumed",
    )
    if kept:
        is_accepted(today, YESTERDAY + TODAY)
    else:
        assert called("restore", "--accept", "--data", str(today.path)).exit_code == 0
        with xscl.Engine(today.database) as engine:
            assert len(numbers(engine)) == 3 * YESTERDAY


@pytest.mark.parametrize("note", [b"", b"x", b"-1\n", b"9" * 99])
def test_a_note_that_cannot_be_read_hinders_nobody(today: DataDirectory, note: bytes) -> None:
    (today.spool / "consumed").write_bytes(note)
    assert called("serve", "--once", "--no-spark", "--data", str(today.path)).exit_code == 0


@pytest.mark.parametrize("is_there", [False, True])
def test_without_the_spool_of_today_nothing_is_taken_until_it_is_accepted(
    yesterday: DataDirectory, today: DataDirectory, tmp_path: Path, is_there: bool
) -> None:
    """The next segments would have numbers that the store has consumed."""
    shutil.rmtree(today.spool)
    if is_there:
        shutil.copytree(yesterday.spool, today.spool)
    last, data = YESTERDAY + TODAY, ("--data", str(today.path))
    new = tmp_path / "new.xml"
    new.write_text("<a><t>new</t></a>", "utf-8")
    push = ("push", "--stream", "S", str(new), *data)
    for command in (("doctor", *data), push, ("serve", "--once", "--no-spark", *data)) * 2:
        done = called(*command)
        assert done.exit_code == 1, command
        told = " ".join((done.stdout + done.stderr).split())
        assert f"the spool {today.spool} has gone backwards: segment {last} was consumed" in told
        assert f"its latest is {YESTERDAY * is_there}" in told
        assert f"xscl restore --accept --data {today.path}" in told
    done = called("restore", "--accept", *data)
    assert f"the spool begins anew after segment {last}" in done.stdout
    assert "1 document, 1 of them new" in called(*push).stdout
    assert called("doctor", *data).exit_code == 0
    with xscl.Engine(today.database) as engine, closing(engine.connect()) as store:
        assert store.progress("segment") == last + 1
    assert "begins anew" not in called("restore", "--accept", *data).stdout


def test_the_whole_directory_of_yesterday(yesterday: DataDirectory, tmp_path: Path) -> None:
    """It continues there: nothing in it says that there was a later state."""
    home = DataDirectory(shutil.copytree(yesterday.path, tmp_path / "again"))
    assert called("serve", "--once", "--no-spark", "--data", str(home.path)).exit_code == 0
    with xscl.Engine(home.database) as engine, closing(engine.connect()) as store:
        assert store.progress("segment") == YESTERDAY
