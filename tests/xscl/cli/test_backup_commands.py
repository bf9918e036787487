"""`xscl backup` and `xscl restore`, as a user sees them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.commandline import called
from xscl.cli import service as service_of_commands
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.plurals import counted
from xscl.store.queries.tables import VERSION
from xscl.store.store_errors import DATABASE
from xscl.store.store_lock import lock_path, marked

BEFORE = 1
"""The number of commits of `place`."""
COMMITS = counted(BEFORE, "commit")
TWICE = "S//a->x FOLLOWED BY{x=y, 10 s} S//a->y"


@pytest.fixture
def place(tmp_path: Path) -> DataDirectory:
    """A data directory with a subscription, and a segment that waits."""
    home = DataDirectory(tmp_path / "data")
    with home.hold("test"), Engine(home.database) as engine:
        engine.subscribe("twice", TWICE)
        with Spool(home.spool) as spool:
            spool.append([Document("S", "d1", 1, b"<a/>")], 1)
    return home


@pytest.fixture
def backup(place: DataDirectory, tmp_path: Path) -> Path:
    done = called("backup", str(tmp_path / "backup.tar"), "--data", str(place.path))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"wrote {tmp_path}/backup.tar: {COMMITS}, 1 waiting file")
    return tmp_path / "backup.tar"


def test_documents_that_wait_are_named_where_a_stream_has_none(place: DataDirectory) -> None:
    done = called("try", "feeds//a->x", "--data", str(place.path))
    assert "        1 document waits to be read: try again soon\n" in done.stderr
    assert "nothing has come" not in done.stderr


def test_what_a_backup_is_in_json(place: DataDirectory, backup: Path) -> None:
    done = called("backup", str(backup), "--json", "--data", str(place.path))
    told = json.loads(done.stdout)
    assert told["file"] == str(backup)
    assert (told["commits"], told["position"], told["version"]) == (BEFORE, 0, VERSION)
    names = [part["name"] for part in told["parts"]]
    assert names == [DATABASE, "spool/000000000001.arrows"]
    assert backup.stat().st_mode & 0o777 == 0o600


def test_restored_into_an_empty_directory(backup: Path, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "elsewhere"))
    done = called("restore", str(backup), *data)
    assert (done.exit_code, done.stderr) == (0, "")
    first, waiting, apart = done.stdout.splitlines()
    assert first.startswith(f"restored {tmp_path}/elsewhere: {COMMITS}, 1 waiting file")
    assert waiting == "1 segment of the spool will be consumed by 'xscl serve'"
    assert apart == "not in a backup, copy it if there is one: secrets.json, xscl.toml"
    assert "twice" in called("subscriptions", *data).stdout


def test_data_is_replaced_by_force_only(place: DataDirectory, backup: Path) -> None:
    data, mark = ("--data", str(place.path)), lock_path(place.database).name
    done = called("restore", str(backup), *data)
    assert done.exit_code == 1
    assert done.stderr == (
        f"xscl: there is data in {place.path} already: {DATABASE}, {mark}, spool\n"
        "hint: --force keeps this data aside and puts the backup in its place; "
        "--data names another directory\n"
    )
    done = called("restore", str(backup), "--force", *data)
    assert done.exit_code == 0
    (kept,) = place.path.glob("before-*")
    assert f"kept aside in {kept}: {mark}, {DATABASE}\n" in done.stdout
    told = json.loads(called("restore", str(backup), "--force", "--json", *data).stdout)
    assert (told["waiting"], told["missing"], told["commits"]) == (1, 0, BEFORE)
    assert Path(told["aside"]).is_dir()
    assert told["kept"] == [mark, DATABASE]


@pytest.mark.usefixtures("apart")
def test_segments_that_are_gone_are_told(place: DataDirectory, backup: Path) -> None:
    with Spool(place.spool) as spool:
        for number in (2, 3):
            spool.append([Document("S", f"d{number}", number, b"<a/>")], number)
    (place.spool / f"{2:012d}.arrows").unlink()
    done = called("restore", str(backup), "--force", "--data", str(place.path))
    assert "2 segments of the spool will be consumed" in done.stdout
    assert "xscl: warning: 1 segment between them cannot be consumed again" in done.stderr


def test_damage_is_told(place: DataDirectory, backup: Path) -> None:
    backup.write_bytes(backup.read_bytes()[:5000])
    done = called("restore", str(backup), "--force", "--data", str(place.path))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"xscl: {backup} is no backup of xscl, or it is damaged: ")
    assert done.stderr.endswith("hint: take another backup\n")


def test_a_store_that_went_backwards(place: DataDirectory, backup: Path) -> None:
    data = ("--data", str(place.path))
    older = place.database.read_bytes()
    assert called("subscribe", "again", TWICE, *data).exit_code == 0
    place.database.write_bytes(older)
    seen = marked(place.database)
    assert seen is not None
    done = called("subscriptions", *data)
    assert done.exit_code == 1
    assert done.stderr == (
        f"xscl: the store {place.database} has gone backwards: it has {COMMITS}, and "
        f"{seen.commits} were acknowledged; the last {seen.commits - BEFORE} are missing\n"
        "hint: put the newer file back if you have it, or a backup: "
        f"xscl restore FILE --force --data {place.path}; or accept the store as it is, "
        f"without what is missing: xscl restore --accept --data {place.path}\n"
    )
    done = called("restore", "--accept", *data)
    assert done.stdout.splitlines() == [
        f"accepted the store in {place.path} as it is, at commit {BEFORE}",
        f"lost: the last {counted(seen.commits - BEFORE, 'commit')}, with the documents, matches"
        " and subscriptions that they brought; documents that are still in the spool will be "
        "consumed again",
    ]
    assert "again" not in called("subscriptions", *data).stdout
    told = json.loads(called("restore", "--accept", "--json", *data).stdout)
    # that something was given up is a commit of its own
    assert (told["commits"], told["lost"], told["kept"]) == (BEFORE + 1, 0, [])


def test_a_store_that_is_gone(place: DataDirectory) -> None:
    data = ("--data", str(place.path))
    place.database.unlink()
    done = called("subscriptions", *data)
    assert "the file is missing or empty" in done.stderr
    done = called("restore", "--accept", *data)
    assert done.exit_code == 0
    assert f"there is no store in {place.path}: the next start makes an empty one" in done.stdout
    assert "lost: all subscriptions" in done.stdout
    assert called("subscribe", "twice", TWICE, *data).exit_code == 0


@pytest.mark.parametrize("arguments", [(), ("file", "--accept"), ("--accept", "--force")])
def test_called_wrongly(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = called("restore", *arguments, "--data", str(tmp_path / "data"))
    assert done.exit_code == 2
    assert "restore takes either a FILE or --accept" in done.stderr
    assert not (tmp_path / "data").exists()


def test_nothing_to_back_up(tmp_path: Path) -> None:
    done = called("backup", str(tmp_path / "backup.tar"), "--data", str(tmp_path / "data"))
    assert done.exit_code == 1
    assert "there is no data in" in done.stderr
    assert not list(tmp_path.iterdir())


HOLD = """
import sys, pathlib
from xscl.ingestion.data_directory import DataDirectory
with DataDirectory(pathlib.Path(sys.argv[1])).hold("serve"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_service_is_not_disturbed(
    place: DataDirectory, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_of_commands, "STARTING", 0.0)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == "held\n"
        for arguments in (
            ("backup", str(backup)),
            ("restore", str(backup), "--force"),
            ("restore", "--accept"),
        ):
            done = called(*arguments, "--data", str(place.path))
            assert done.exit_code == 1
            assert f"is in use by process {service.pid}, a running service" in done.stderr
        service.kill()


@pytest.mark.usefixtures("apart")
def test_a_lost_segment_is_given_up(place: DataDirectory, tmp_path: Path) -> None:
    data = ("--data", str(place.path))
    with Spool(place.spool) as spool:
        for number in range(2, 6):
            spool.append([Document("S", f"d{number}", number, b"<a/>")], number)
        for number in (2, 4, 5):
            spool.segment(number).path.unlink()
    for numbers in ("2", "4-5"):
        stopped = called("serve", "--once", "--no-spark", *data)
        assert stopped.exit_code == 1
        command = stopped.stderr.strip().rpartition(": ")[2]
        assert command == f"xscl spool skip {numbers} --data {place.path}"
        done = called(*command.split()[1:])
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout.startswith("gave up segment")
    assert called("serve", "--once", "--no-spark", *data).exit_code == 0
    with Engine(place.database) as engine:
        found = engine.sql("SELECT id FROM documents ORDER BY id").to_pylist()
        assert [row["id"] for row in found] == ["d1", "d3"]
    again = called("spool", "skip", "4-5", "--json", *data)
    assert json.loads(again.stdout) == {"first": 4, "last": 5}


@pytest.mark.parametrize(
    ("numbers", "code", "said"),
    [
        ("1", 1, "is sound: it will be consumed"),
        ("2", 1, "has never had segments 2 to 2: its latest is 1"),
        ("one", 2, "'one' names no segments"),
        ("1-", 2, "'1-' names no segments"),
    ],
)
def test_what_is_not_lost_is_not_given_up(
    place: DataDirectory, numbers: str, code: int, said: str
) -> None:
    done = called("spool", "skip", numbers, "--data", str(place.path))
    assert done.exit_code == code
    assert said in done.stderr
