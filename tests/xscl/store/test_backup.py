"""Backups: taken at any moment, whole or refused; who restores one goes on as if nothing was."""

from __future__ import annotations

import os
import shutil
import warnings
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

import xscl
from feeds.errors import SegmentDamaged
from feeds.spool import Spool
from tests.examples import MORE, usually
from tests.project import python
from tests.xscl.commandline import called
from tests.xscl.store.backups import (
    SUBSCRIPTIONS,
    Matches,
    append,
    batch,
    consume,
    consumed,
    edited,
    everything,
    flipped,
    found_after,
    members_of,
    renamed,
    replaced,
    rewritten,
    subscribed,
)
from xscl.engine import backup as backup_module
from xscl.engine.backup import MANIFEST, Backup, back_up, read_backup, unpack
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.polling.feed_repository import FeedRepository, FeedRequest
from xscl.service import restore as restore_module
from xscl.service.restore import accept, restore
from xscl.store.store import Store
from xscl.store.store_errors import DATABASE, BackupError, StoreDamaged, StoreWentBack
from xscl.store.store_file import log_path
from xscl.store.store_lock import UNFINISHED, marked

PUSHES = 8


@pytest.fixture(scope="module")
def never_stopped() -> Matches:
    """The matches of an engine that took all batches and was never stopped."""
    result = found_after(PUSHES)
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


def test_on_another_machine(
    home: DataDirectory, backup: Path, tmp_path: Path, never_stopped: Matches
) -> None:
    elsewhere = DataDirectory(tmp_path / "elsewhere")
    shutil.move(home.path, tmp_path / "gone")
    done = restore(backup, elsewhere)
    assert (done.aside, done.waiting, done.backup.position) == (None, 2, 2)
    append(elsewhere, *range(4, PUSHES))
    with Spool(elsewhere.spool, read_only=True) as spool:
        assert spool.numbers(0) == [3, 4, 5, 6, 7, 8]
    assert consumed(elsewhere) == never_stopped


def without_spool(home: DataDirectory, target: Path, known: int = 0) -> Backup:
    """A backup that the engine makes of itself after two segments; feeds know of later ones."""
    home.create()
    with subscribed(home.database) as engine:
        append(home, *range(2))
        consume(engine, home)
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
    never_stopped: Matches,
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
    assert consumed(home) == never_stopped


def test_in_the_place_of_what_went_further(
    home: DataDirectory, backup: Path, never_stopped: Matches
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
    assert consumed(home) == never_stopped
    with closing(Store(done.aside / DATABASE)) as store:
        assert store.seen().commits > done.backup.commits
    assert consumed(home) == never_stopped, "nothing twice"


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


KILLED = """
import os, shutil, signal, sys
from tests.xscl.commandline import called

CALLS = ("write", "fsync", "rename", "replace", "unlink", "mkdir")
source, *arguments = sys.argv[1:]

def run(place, point):
    steps = 0
    def count(frame, event, argument):
        nonlocal steps
        steps += event == "c_call" and getattr(argument, "__name__", "") in CALLS
        if steps == point:
            os.kill(os.getpid(), signal.SIGKILL)
    shutil.copytree(source, place)
    sys.setprofile(count)
    done = called(*(one.format(place) for one in arguments))
    sys.setprofile(None)
    assert done.exit_code == 0, done.output
    return steps

run(f"{source}.first", -1)  # which makes calls that later ones do not
steps = run(f"{source}.whole", -1)
for point in sorted({*range(1, steps, max(1, steps // 30)), *range(steps - 12, steps + 1)}):
    child = os.fork()
    if not child:
        os._exit(run(f"{source}.{point}", point))
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), point
    print(f"{source}.{point}")
"""
"""Runs a command in copies of a directory, `{}`, each of which is killed at another call."""


def killed_in_copies(place: Path, *arguments: str) -> list[Path]:
    """Return copies of a directory in which a command was killed."""
    done = python("-c", KILLED, place, *arguments)
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_restore_that_is_killed_leaves_the_old_store_or_none(
    home: DataDirectory, backup: Path
) -> None:
    append(home, *range(4, PUSHES))
    expected = consumed(home)
    home.spark.mkdir()
    refused = whole = 0
    for copy in killed_in_copies(home.path, "restore", str(backup), "--force", "--data", "{}"):
        place = DataDirectory(copy)
        seen = marked(place.database)
        assert seen is not None
        if seen.commits == UNFINISHED:
            with pytest.raises(StoreWentBack, match="a restore was broken off; run it again"):
                xscl.Engine(place.database)
            restore(backup, place, force=True)
            refused += 1
        assert consumed(place) == expected
        whole += seen.commits != UNFINISHED
    assert refused > 2
    assert whole > 2


@pytest.mark.slow
def test_c18_a_killed_backup_leaves_the_former_one_or_a_whole_one(backup: Path) -> None:
    """Other remains are refused or whole, and the next backup removes them."""
    made, left = read_backup(backup), 0
    arguments = ("backup", "{}/backup.tar", "--data", "{}/data")
    for copy in killed_in_copies(backup.parent, *arguments):
        target = copy / backup.name
        assert read_backup(target).segments == made.segments
        for one in copy.glob("backup.tar*.tmp"):
            error, left = refusal(one), left + 1
            assert error is None or str(one) in error.message
        assert called(*(argument.format(copy) for argument in arguments)).exit_code == 0
        assert read_backup(target).segments == made.segments
        assert {path.name for path in copy.iterdir()} == {"backup.tar", "data"}, "no leftovers"
    assert left > 5


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
    assert consumed(killed) == found_after(3)


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


# -- Cut, changed or interrupted at any place, a backup is refused, or is whole (C18) --------


@pytest.fixture
def whole(backed_up: Path) -> Path:
    """A backup of a directory that has consumed two of four segments."""
    return backed_up / "backup.tar"


def content(backup: Path, place: Path) -> dict[str, bytes]:
    """Return the files that a restore would unpack."""
    place.mkdir()
    unpack(backup, place)
    files = (path for path in place.rglob("*") if path.is_file())
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def refusal(backup: Path) -> BackupError | None:
    """Return the error of a backup that cannot be restored."""
    try:
        read_backup(backup)
    except BackupError as error:
        return error
    return None


# -- Damage ----------------------------------------------------------------------------------


def places(backup: Path) -> list[int]:
    """Return places in the header of each member, in its data, and in the directory at the end."""
    with zipfile.ZipFile(backup) as archive:
        members, directory = archive.infolist(), archive.start_dir
    found = list(range(directory, backup.stat().st_size, 7 if MORE > 1 else 53))
    for one in members:
        begin = one.header_offset
        found += range(begin, begin + 60, max(1, 23 // MORE))
        found += range(begin + 60, begin + one.file_size, max(1, one.file_size // (3 * MORE)))
    return found


def test_c18_a_cut_backup_is_refused(whole: Path, tmp_path: Path) -> None:
    image, cut = whole.read_bytes(), tmp_path / "cut.xscl"
    for length in (0, *places(whole), len(image) - 1):
        cut.write_bytes(image[:length])
        with pytest.raises(BackupError) as refused:
            restore(cut, DataDirectory(tmp_path / "data"))
        assert refused.value.message.startswith(f"{cut} is no backup of xscl, or it is damaged: ")
    assert not (tmp_path / "data").exists()


def test_c18_a_flipped_byte_is_refused_or_changes_nothing(whole: Path, tmp_path: Path) -> None:
    image, described = whole.read_bytes(), read_backup(whole)
    expected = content(whole, tmp_path / "whole")
    flipped, refused, same = tmp_path / "flipped.xscl", 0, 0
    for place in places(whole):
        changed = bytearray(image)
        changed[place] ^= 1 << place % 8
        flipped.write_bytes(changed)
        error = refusal(flipped)
        if error is not None:
            assert str(flipped) in error.message
            refused += 1
        else:
            assert read_backup(flipped) == described
            assert content(flipped, tmp_path / f"at {place}") == expected
            same += 1
    assert refused > same > 0


def test_c18_a_backup_without_one_of_its_members_is_refused(whole: Path, tmp_path: Path) -> None:
    """Nor is one with a member twice taken."""
    less, members = tmp_path / "less.xscl", [*members_of(whole).items()]
    segments = read_backup(whole).segments
    for number, (name, _) in enumerate(members):
        for wrong in (members[:number] + members[number + 1 :], members + members[number:]):
            if name in segments and len(wrong) < len(members):
                continue
            with warnings.catch_warnings(action="ignore"):  # that a name is there twice
                rewritten(less, wrong)
            with pytest.raises(BackupError, match="is no backup of xscl, or it is damaged"):
                read_backup(less)


# -- A backup with a value that no backup has is refused, and the message names it ---------


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda p: os.truncate(p, 0), "damaged"),
    "a text": (lambda p: p.write_text("dear friend, " * 99), "damaged"),
    "a manifest of nothing": (
        lambda p: replaced(p, MANIFEST, b"[]"),
        "its manifest cannot be read",
    ),
    "another store": (
        lambda p: edited(p, store="other"),
        "manifest.json says store other, and the database has [0-9a-f]{16}",
    ),
    "more commits": (
        lambda p: edited(p, commits=999),
        r"manifest.json says commits 999, and the database has [23]$",
    ),
    "an earlier version": (
        lambda p: edited(p, version=18),
        "version 18, which no release writes",
    ),
    "an earlier position": (
        lambda p: edited(p, position=1),
        "says position 1, and the database has 2$",
    ),
    "a position that waits": (lambda p: edited(p, position=3), "it has segment 3 of the spool"),
    "a position beyond the spool": (
        lambda p: edited(p, position=5),
        "says position 5, and the last segment of the spool is 4$",
    ),
    "a spool that ends before its segments": (
        lambda p: edited(p, latest=3),
        "it has segment 4 of the spool, and the latest is 3",
    ),
    "another database": (
        lambda p: replaced(p, DATABASE, b"dear friend, " * 9_999),
        f"the store {DATABASE} is damaged, or it is no xscl store",
    ),
    "a later release": (lambda p: edited(p, version=99), "made by a later release"),
    "a later format": (lambda p: edited(p, format=4), "made by a later release"),
    "a path out of it": (
        lambda p: renamed(p, f"spool/{3:012d}.arrows", "../../latest"),
        "which no backup does",
    ),
    "no database": (lambda p: renamed(p, DATABASE, "spool/000000000009.arrows"), "parts"),
    "a deeply nested manifest": (
        lambda p: replaced(p, MANIFEST, b"[" * 60_000),
        "its manifest cannot be read",
    ),
    "a manifest of other bytes": (
        lambda p: replaced(p, MANIFEST, b"\xff"),
        "its manifest cannot be read",
    ),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_a_damaged_backup_touches_nothing(home: DataDirectory, backup: Path, damage: str) -> None:
    spoil, match = DAMAGE[damage]
    spoil(backup)
    before = everything(home)
    with pytest.raises(BackupError, match=match) as refused:
        restore(backup, home, force=True)
    assert everything(home) == before
    assert not (backup.parent / "latest").exists()
    assert str(backup) in refused.value.message
    assert refused.value.hint
    assert "restoring" not in refused.value.message + refused.value.hint, "a directory that is gone"
    with pytest.raises(BackupError, match=match):
        restore(backup, DataDirectory(backup.parent / "elsewhere"))
    assert not (backup.parent / "elsewhere").exists()


@pytest.mark.parametrize("field", ["number", "rows", "arrived", "body", "crc32", "head"])
def test_a_segment_that_was_damaged_before(backup: Path, tmp_path: Path, field: str) -> None:
    """It may be the only backup: the store is restored, and consumers stop at the segment."""
    name = f"spool/{3:012d}.arrows"
    image = bytearray(members_of(backup)[name])
    image[image.index(b"%s=" % field.encode()) + len(field) + 4] ^= 1
    replaced(backup, name, bytes(image))
    elsewhere = DataDirectory(tmp_path / "elsewhere")
    assert restore(backup, elsewhere).damaged == (3,)
    with pytest.raises(SegmentDamaged, match="xscl spool skip 3"):
        consumed(elsewhere)
