"""A data directory and a backup of version 0.2 are refused, with the commands that move them."""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from pathlib import Path

import duckdb
import pytest

import xscl
from tests.xscl.commandline import called, failed
from tests.xscl.store.backups import everything
from xscl.engine.backup import MANIFEST
from xscl.ingestion.data_directory import DataDirectory
from xscl.store.store_errors import OldFormat


@pytest.fixture
def former(tmp_path: Path) -> DataDirectory:
    """A data directory as 0.2 has left it, as far as this version looks."""
    home = DataDirectory(tmp_path / "the data")
    home.path.mkdir(mode=0o700)
    with duckdb.connect(home.path / "state.duckdb") as old:
        old.execute("CREATE TABLE a(b INTEGER)")
    return home


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup as 0.2 has made it, as far as this version looks."""
    file = tmp_path / "before.xscl"
    said = {"format": 1, "xscl": "0.2.0", "version": 19, "store": "x", "commits": 1, "position": 0}
    image = json.dumps(said).encode()
    with tarfile.open(file, "w") as archive:
        info = tarfile.TarInfo(MANIFEST)
        info.size = len(image)
        archive.addfile(info, io.BytesIO(image))
    return file


COMMANDS = (
    *("subscriptions", "serve --once --no-spark", "status", "subscribe all S//a->x"),
    *("export registrations.json", "backup other.xscl", "restore --accept"),
    "user erase alice --yes",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_names_those_that_move_it(former: DataDirectory, command: str) -> None:
    before = everything(former)
    told = failed(1, *command.split(), "--data", str(former.path))
    is_told(told, f"--data {shlex.quote(str(former.path))}", f"{former.path}-new")
    assert f"the store {former.path}/state.duckdb was written by version 0.2" in told
    assert everything(former) == before


def is_told(text: str, source: str, target: str) -> None:
    """Check that a message names both commands, and the version of each."""
    old, new = text.partition("pip install xscl==0.2.0; ")[2].split("; register them", 1)
    assert old == f"xscl export registrations.json {source}"
    assert "pip install --upgrade xscl; " in new
    assert f"xscl import registrations.json --data {shlex.quote(target)};" in new
    assert "documents and matches stay behind" in new


def test_the_doctor_says_it_too(former: DataDirectory) -> None:
    done = called("doctor", "--data", str(former.path), "--json")
    assert done.exit_code == 1
    findings = map(json.loads, done.stdout.splitlines())
    (found,) = (one for one in findings if one["what"] == "store")
    assert found["sign"] == "bad"
    is_told(found["hint"], f"--data {shlex.quote(str(former.path))}", f"{former.path}-new")


def test_a_backup_is_refused(backup: Path, former: DataDirectory, tmp_path: Path) -> None:
    for command in (("restore", str(backup)), ("export", "a.json", "--backup", str(backup))):
        told = failed(1, *command, "--data", str(tmp_path / "new"))
        assert f"the backup {backup} was made by version 0.2" in told
        is_told(told, f"--backup {backup}", f"{tmp_path}/before-new")
    assert not (tmp_path / "new").exists()


def test_a_file_of_another_name(former: DataDirectory, tmp_path: Path) -> None:
    path = (former.path / "state.duckdb").rename(tmp_path / "mine.db")
    with pytest.raises(OldFormat) as refused:
        xscl.Engine(path)
    assert "to a directory of its own as state.duckdb" in str(refused.value.hint)
