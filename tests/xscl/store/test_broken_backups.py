"""A backup that was cut, changed or interrupted at any place is refused, or is whole (C18)."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

import xscl
from feeds.spool import Spool
from tests.examples import MORE
from tests.xscl.commandline import called
from tests.xscl.store.backups import members_of, rewritten
from xscl.engine.backup import back_up, read_backup, unpack
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.service.restore import restore
from xscl.store.store_errors import BackupError

ROOT = Path(__file__).resolve().parents[3]
QUERY = "S//a->x FOLLOWED BY{x=y, 9} S//a->y"
SEGMENTS = 6


def document(number: int) -> xscl.Document:
    return xscl.Document("S", f"d{number}", number, b"<a>the same</a>")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    """A data directory that has consumed two of six segments."""
    home = DataDirectory(tmp_path_factory.mktemp("backed up") / "data")
    home.create()
    with xscl.Engine(home.database) as engine, Spool(home.spool) as spool:
        engine.subscribe("pair", QUERY)
        for number in range(SEGMENTS):
            spool.append([document(number)], number)
            if number == 1:
                Consumer(spool, engine.ingest).run_once()
    return home


@pytest.fixture(scope="module")
def whole(home: DataDirectory) -> Path:
    """A backup of it."""
    target = home.path.parent / "whole.xscl"
    with xscl.Engine(home.database) as engine, closing(engine.connect()) as store:
        back_up(store, target, home.spool)
    return target


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


# -- Interrupted ---------------------------------------------------------------------------

BACK_UP = """
import os, signal, sys
from tests.xscl.commandline import called

CALLS = ("write", "fsync", "rename", "replace", "unlink")
target, data = sys.argv[1:]

def back_up(point):
    steps = began = 0
    def count(frame, event, argument):
        nonlocal steps, began
        began = began or (event == "call" and frame.f_code.co_name == "_replacing")
        steps += began and event == "c_call" and getattr(argument, "__name__", "") in CALLS
        if steps == point:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(count)
    done = called("backup", target, "--data", data)
    sys.setprofile(None)
    sys.stderr.write(done.stderr)
    return done.exit_code, steps

# at each call since the file was begun, in a copy of this process
back_up(-1)  # the first one in a process makes calls that later ones do not
code, steps = back_up(-1)
assert code == 0
for point in range(1, steps):
    child = os.fork()
    if not child:
        os._exit(back_up(point)[0] + 100)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), (point, steps, status)
    print("killed", flush=True)
    sys.stdin.readline()
"""


def is_whole(target: Path) -> None:
    assert read_backup(target).segments == (f"spool/{3:012d}.arrows",)


@pytest.mark.slow
def test_c18_a_killed_backup_leaves_the_former_one_or_a_whole_one(
    home: DataDirectory, tmp_path: Path
) -> None:
    """Other remains are refused or whole, and the next backup removes them."""
    target, killed = tmp_path / "backup.tar", 0
    with subprocess.Popen(
        [sys.executable, "-c", BACK_UP, str(target), str(home.path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while process.stdout.readline():
            killed += 1
            is_whole(target)
            for left in tmp_path.glob("backup.tar*.tmp"):
                error = refusal(left)
                assert error is None or str(left) in error.message
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.stderr is not None
        assert process.wait() == 0, process.stderr.read()
    assert killed > 30
    assert called("backup", str(target), "--data", str(home.path)).exit_code == 0
    is_whole(target)
    assert [path.name for path in tmp_path.iterdir()] == ["backup.tar"], "leftovers are removed"
