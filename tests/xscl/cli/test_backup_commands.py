"""`xscl backup` and `xscl restore`, as a user sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.commandline import called, failed
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.plurals import counted
from xscl.store.queries.tables import VERSION
from xscl.store.store_errors import DATABASE
from xscl.store.store_lock import lock_path

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
    told = failed(1, "restore", str(backup), *data)
    assert told == (
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


def test_what_is_not_lost_is_not_given_up(place: DataDirectory) -> None:
    for numbers, code, said in (
        ("1", 1, "is sound: it will be consumed"),
        ("2", 1, "has never had segments 2 to 2: its latest is 1"),
        ("one", 2, "'one' names no segments"),
        ("1-", 2, "'1-' names no segments"),
    ):
        assert said in failed(code, "spool", "skip", numbers, "--data", str(place.path))
