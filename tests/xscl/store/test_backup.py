"""Backups: taken at any moment, whole or refused; who restores one goes on as if nothing was."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

import xscl
from feeds.spool import Spool
from tests.examples import usually
from tests.xscl.store.backups import (
    SUBSCRIPTIONS,
    append,
    batch,
    consumed,
    everything,
    flipped,
    found,
    subscribed,
)
from xscl.engine import backup as backup_module
from xscl.engine.backup import Backup, back_up, read_backup
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.polling.feed_repository import FeedRepository, FeedRequest
from xscl.service import restore as restore_module
from xscl.service.restore import accept, restore
from xscl.store.store import Store
from xscl.store.store_errors import DATABASE, BackupError, StoreDamaged, StoreWentBack
from xscl.store.store_file import log_path
from xscl.store.store_lock import UNFINISHED, marked

ROOT = Path(__file__).resolve().parents[3]
PUSHES = 8


@pytest.fixture(scope="module")
def never_stopped() -> list[tuple[str, str, tuple[str, ...]]]:
    """The matches of an engine that took all batches and was never stopped."""
    with subscribed(None) as engine:
        for number in range(PUSHES):
            engine.push(batch(number))
        engine.flush()
        result = found(engine)
    assert {subscription for _, subscription, _ in result} == set(SUBSCRIPTIONS)
    return result


# -- Taken at any moment -------------------------------------------------------------------


@pytest.mark.usefixtures("apart")
def test_segments_that_are_deleted_while_the_store_is_copied(
    home: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.create()
    target = tmp_path / "backup.tar"
    with xscl.Engine(home.database) as engine, Spool(home.spool) as spool:
        engine.subscribe("next", SUBSCRIPTIONS["next"])
        for number in range(4):
            spool.append(batch(number), number)
        adding = backup_module._add

        def consumed_meanwhile(archive: Any, name: str, *given: Any) -> Any:
            added = adding(archive, name, *given)
            if name == DATABASE:
                Consumer(spool, engine.ingest).run_once()
                assert spool.forget(3) == 3
            return added

        monkeypatch.setattr(backup_module, "_add", consumed_meanwhile)
        with closing(engine.connect()) as store:
            made = back_up(store, target, home.spool)
    assert [int(Path(name).stem) for name in made.segments] == [1, 2, 3, 4]
    assert made.position == 0
    assert read_backup(target) == made


def test_the_file_is_private_and_replaced_as_a_whole(home: DataDirectory, tmp_path: Path) -> None:
    target = tmp_path / "backup.tar"
    home.create()
    with subscribed(home.database) as engine:
        first = engine.backup(target)
        engine.push(batch(0))
        second = engine.backup(target)
        assert target.stat().st_mode & 0o777 == 0o600
        assert (second.store, second.commits) == (first.store, first.commits + 1)
        assert read_backup(target) == second
        with pytest.raises(BackupError, match="is there already and is no backup"):
            engine.backup(home.database)
        with pytest.raises(BackupError, match="cannot be written: No such file"):
            engine.backup(tmp_path / "nowhere" / "backup.tar")
        with pytest.raises(BackupError, match="is there already and is no backup"):
            engine.backup(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"backup.tar", "data"}


def test_an_engine_in_memory_has_no_files(tmp_path: Path) -> None:
    with xscl.Engine() as engine, pytest.raises(BackupError, match="in memory"):
        engine.backup(tmp_path / "backup.tar")
    assert not list(tmp_path.iterdir())


# -- Into a directory ----------------------------------------------------------------------


def test_on_another_machine(home: DataDirectory, backup: Path, tmp_path: Path) -> None:
    elsewhere = DataDirectory(tmp_path / "elsewhere")
    shutil.move(home.path, tmp_path / "gone")
    done = restore(backup, elsewhere)
    assert (done.aside, done.waiting, done.backup.position) == (None, 2, 2)
    append(elsewhere, *range(4, PUSHES))
    with Spool(elsewhere.spool, read_only=True) as spool:
        assert spool.numbers(0) == [3, 4, 5, 6, 7, 8]
    with subscribed(None) as engine:
        for number in range(PUSHES):
            engine.push(batch(number))
        engine.flush()
        assert consumed(elsewhere) == sorted(found(engine))


def without_spool(home: DataDirectory, target: Path, known: int = 0) -> Backup:
    """A backup that the engine makes of itself after two segments; feeds know of later ones."""
    home.create()
    with subscribed(home.database) as engine:
        append(home, *range(2))
        with Spool(home.spool) as spool:
            Consumer(spool, engine.ingest).run_once()
        if known:
            with FeedRepository(engine) as feeds:
                feeds.record([feeds.add(FeedRequest("http://a.example/"))], segment=known)
        return engine.backup(target)


@pytest.mark.parametrize(
    ("lost", "known"),
    usually(
        [("everything", 0), ("everything", 4), ("the spool", 0), ("the spool", 4)],
        ("everything", 4),
        ("the spool", 0),
        several=True,
    ),
)
def test_a_backup_without_a_spool_is_served(
    home: DataDirectory,
    tmp_path: Path,
    never_stopped: list[tuple[str, str, tuple[str, ...]]],
    lost: str,
    known: int,
) -> None:
    assert without_spool(home, tmp_path / "backup.tar", known).position == 2
    shutil.rmtree(home.path if lost == "everything" else home.spool)
    done = restore(tmp_path / "backup.tar", home, force=lost == "the spool")
    assert (done.waiting, done.missing) == (0, max(0, known - 2))
    append(home, *range(2, PUSHES))
    with xscl.Engine(home.database) as engine, FeedRepository(engine, home.spool):
        assert Spool(home.spool, read_only=True).numbers(0)[0] == max(2, known) + 1
    assert consumed(home) == sorted(never_stopped)


def test_in_the_place_of_what_went_further(
    home: DataDirectory, backup: Path, never_stopped: list[tuple[str, str, tuple[str, ...]]]
) -> None:
    append(home, *range(4, PUSHES - 1))
    assert len(consumed(home)) > 0
    with pytest.raises(BackupError, match=rf"there is data in .*: {DATABASE}, .*spool"):
        restore(backup, home)
    done = restore(backup, home, force=True)
    assert done.aside is not None
    assert set(done.kept) == {DATABASE, "lock"}
    assert done.waiting == PUSHES - 1 - 2
    append(home, PUSHES - 1)
    assert consumed(home) == sorted(never_stopped)
    with closing(Store(done.aside / DATABASE)) as store:
        assert store.seen().commits > done.backup.commits
    assert consumed(home) == sorted(never_stopped), "nothing twice"


@pytest.mark.usefixtures("apart")
def test_segments_that_were_deleted_since_come_back(home: DataDirectory, backup: Path) -> None:
    append(home, *range(4, PUSHES))
    consumed(home)
    for number in (1, 5, 7):  # the first one with those up to 4
        (home.spool / f"{number:012d}.arrows").unlink()
    done = restore(backup, home, force=True)
    assert done.waiting == 4
    assert "spool" not in done.kept
    with Spool(home.spool, read_only=True) as spool:
        assert (spool.numbers(0), spool.latest()) == ([3, 4, 6, 8], PUSHES)


@pytest.mark.parametrize("marked", [True, False])
def test_a_spool_of_another_store_is_set_aside(backup: Path, tmp_path: Path, marked: bool) -> None:
    other = DataDirectory(tmp_path / "other")
    other.create()
    if marked:
        subscribed(other.database).close()
    append(other, 9, 9, 9, 9, 9)
    done = restore(backup, other, force=True)
    assert "spool" in done.kept
    assert done.waiting == 2
    assert done.aside is not None
    with Spool(done.aside / "spool", read_only=True) as spool:
        assert spool.latest() == 5


RESTORE = """
import os, pathlib, random, shutil, signal, sys
from xscl.ingestion.data_directory import DataDirectory
from xscl.service.restore import restore

def put_back(folder, point):
    steps = 0
    def count(frame, event, argument):
        nonlocal steps
        name = getattr(argument, "__name__", "")
        steps += event == "c_call" and name in ("rename", "replace", "fsync", "unlink", "mkdir")
        if steps == point:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(count)
    restore(pathlib.Path(sys.argv[1]), DataDirectory(pathlib.Path(folder)), force=True)
    sys.setprofile(None)
    return steps

def killed(folder, point):
    child = os.fork()
    if not child:
        pathlib.Path(folder + ".steps").write_text(str(put_back(folder, point)))
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])

source = sys.argv[2]
shutil.copytree(source, source + ".whole")
assert not killed(source + ".whole", -1)
steps = int(pathlib.Path(source + ".whole.steps").read_text())
for point in sorted({*range(steps - 11, steps + 1, 2), *range(1, steps, 24)}):
    shutil.copytree(source, f"{source}.{point}")
    assert killed(f"{source}.{point}", point)
    print(point)
"""


@pytest.mark.slow
def test_a_restore_that_is_killed_leaves_the_old_store_or_none(
    home: DataDirectory, backup: Path, tmp_path: Path
) -> None:
    append(home, *range(4, PUSHES))
    expected = consumed(home)
    home.spark.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", RESTORE, str(backup), str(home.path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    refused = whole = 0
    for point in done.stdout.split():
        place = DataDirectory(Path(f"{home.path}.{point}"))
        seen = marked(place.database)
        assert seen is not None
        if seen.commits == UNFINISHED:
            with pytest.raises(StoreWentBack, match="a restore was broken off; run it again"):
                xscl.Engine(place.database)
            restore(backup, place, force=True)
            refused += 1
        assert consumed(place) == expected
        whole += seen.commits != UNFINISHED
        shutil.rmtree(place.path)
    assert refused > 2
    assert whole > 2


# -- Accepting what is there ---------------------------------------------------------------


LAST = 4
"""The number of its commits."""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory after a kill, with the last three commits in the log only."""
    home = DataDirectory(tmp_path_factory.mktemp("alive") / "data")
    home.create()
    subscribed(home.database).close()
    place = tmp_path_factory.mktemp("left") / "data"
    with xscl.Engine(home.database) as engine:
        append(home, *range(3))
        with Spool(home.spool, read_only=True) as spool:
            Consumer(spool, engine.ingest, batch=1).run_once()
        shutil.copytree(home.path, place)
    return place


@pytest.fixture
def killed(left: Path, tmp_path: Path) -> DataDirectory:
    """A data directory as a kill leaves it."""
    return DataDirectory(shutil.copytree(left, tmp_path / "killed"))


@pytest.mark.parametrize("log", usually(["removed", "damaged", "sound"], "removed", "damaged"))
def test_a_store_without_its_log(killed: DataDirectory, log: str) -> None:
    path = log_path(killed.database)
    if log == "removed":
        path.unlink()
    elif log == "damaged":
        image = path.read_bytes()
        path.write_bytes(image[: len(image) // 2] + b"\x55" * (len(image) // 2))
    if log != "sound":
        with pytest.raises((StoreWentBack, StoreDamaged)):
            consumed(killed)
    done = accept(killed)
    # of a damaged log some records are whole, depending on its size
    whole = (LAST,), (LAST - 3,), range(LAST - 3, LAST)
    assert done.commits in dict(zip(("sound", "removed", "damaged"), whole, strict=True))[log]
    assert done.lost == LAST - done.commits
    assert done.kept in ((), (path.name,))
    with subscribed(None) as engine:
        for number in range(3):
            engine.push(batch(number))
        engine.flush()
        assert consumed(killed) == sorted(found(engine))


@pytest.mark.parametrize("was_there", [False, True])
def test_a_restore_that_was_broken_off_is_not_accepted(
    killed: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_there: bool
) -> None:
    """The store that was there is set aside, so it would be given up for an empty one."""
    with closing(Store(killed.database)) as store:
        back_up(store, tmp_path / "backup.xscl", killed.spool)
    home = killed if was_there else DataDirectory(tmp_path / "new")
    with monkeypatch.context() as patch:
        patch.setattr(restore_module, "_damaged_segments", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            restore(tmp_path / "backup.xscl", home, force=True)
    before = everything(home)
    with pytest.raises(BackupError, match="was broken off, and there is no store") as caught:
        accept(home)
    assert caught.value.hint is not None
    assert f"xscl restore FILE --force --data {home.path}" in caught.value.hint
    assert ("what was there before is in" in caught.value.hint) == was_there
    assert everything(home) == before
    assert restore(tmp_path / "backup.xscl", home, force=True).backup.commits == LAST


def _interrupted(directory: Path) -> NoReturn:
    raise KeyboardInterrupt


def test_a_backup_that_finds_no_room_is_not_called_unreadable(
    tmp_path: Path, killed: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Store(killed.database)) as store:
        back_up(store, tmp_path / "backup.xscl", killed.spool)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    home = DataDirectory(tmp_path / "full")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(BackupError) as caught:
            restore(tmp_path / "backup.xscl", home)
    assert f"cannot be unpacked in {home.path}: No space left on device" in caught.value.message
    assert not home.path.exists()


def test_damage_is_not_accepted(killed: DataDirectory) -> None:
    log_path(killed.database).unlink()  # else its newer pages count
    flipped(killed.database, 4096 + 20)
    before = everything(killed)
    with pytest.raises(StoreDamaged):
        accept(killed)
    assert everything(killed) == before
