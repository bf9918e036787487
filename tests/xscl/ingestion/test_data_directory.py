"""The data directory: one process at a time, private, never a directory of something else."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from xscl.ingestion import data_directory
from xscl.ingestion.data_directory import (
    DataDirectory,
    DataDirectoryError,
    DataDirectoryInUse,
    LockHolder,
)

HOLD = """
import sys, pathlib
from xscl.ingestion.data_directory import DataDirectory
with DataDirectory(pathlib.Path(sys.argv[1])).hold(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holding(home: DataDirectory, command: str) -> Iterator[subprocess.Popen[str]]:
    """Run another process that holds the directory as a command does, until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home.path), command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


@pytest.fixture
def service(home: DataDirectory) -> Iterator[subprocess.Popen[str]]:
    with holding(home, "serve") as process:
        yield process
        process.kill()


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    tmp_path.chmod(0o755)
    with pytest.raises(DataDirectoryError, match=r"holds other files, such as 'letter\.txt'"):
        DataDirectory(tmp_path).create()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(DataDirectoryError, match="cannot be made: File exists"):
        DataDirectory(tmp_path / "data").create()


def test_nothing_there_yet(home: DataDirectory) -> None:
    with pytest.raises(DataDirectoryError, match=r"there is no data in .* yet"):
        home.expect()
    assert home.holder() is None
    assert not home.path.exists()


def test_the_second_is_told_who_is_first(
    home: DataDirectory, service: subprocess.Popen[str]
) -> None:
    told = f"in use by process {service.pid}, a running service"
    with pytest.raises(DataDirectoryInUse, match=told), home.hold("test"):
        pass
    assert home.holder() == LockHolder(service.pid, "serve")


def test_a_holder_without_its_signature_is_not_process_0(
    home: DataDirectory, service: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kill 0` would end the shell of its reader."""
    monkeypatch.setattr(data_directory, "PATIENCE", 0.0)
    told = "is in use by a process that the file 'lock' does not name"
    home.lock.unlink()
    for damage in (None, b"", b"\xff\x00no number\n"):
        if damage is not None:
            home.lock.write_bytes(damage)
        with pytest.raises(DataDirectoryInUse, match=told) as raised, home.hold("test"):
            pass
        assert str(raised.value.hint).startswith(f"stop it first (fuser -v {home.path})")
        assert service.poll() is None
        assert home.address() is None


def test_the_lock_goes_with_the_process(
    home: DataDirectory, service: subprocess.Popen[str]
) -> None:
    service.kill()
    service.wait()
    assert home.holder() is None
    with home.hold("test"):
        assert home.holder() == LockHolder(os.getpid(), "test")
    assert home.holder() is None


def test_a_command_is_waited_for(home: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_directory, "PATIENCE", 0.2)
    with holding(home, "sql") as process:
        with pytest.raises(DataDirectoryInUse, match="'xscl sql'"), home.hold("test"):
            pass
        assert process.stdin is not None
        monkeypatch.setattr(data_directory, "PATIENCE", 20.0)
        process.stdin.close()
        with home.hold("test"):
            assert home.holder() == LockHolder(os.getpid(), "test")


def test_status_is_read_whole_or_not_at_all(home: DataDirectory) -> None:
    home.create()
    assert home.read_status() is None
    home.write_status({"pid": 1})
    assert home.read_status() == {"pid": 1}
    home.status.write_text('{"pid":')
    assert home.read_status() is None


def test_a_service_is_starting_until_it_says_its_address(home: DataDirectory) -> None:
    assert not home.is_starting()
    with home.hold("push"):
        assert not home.is_starting()
    with home.hold("serve"):
        assert home.is_starting()
        for address, expected in (("", True), (None, False), ("http://127.0.0.1:1", False)):
            home.write_status({"pid": os.getpid(), "address": address})
            assert home.is_starting() is expected
            assert home.address() == (address or None)
