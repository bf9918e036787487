"""The data directory of a service, and its lock.

    state.sqlite   subscriptions, join state, matches, feeds (`xscl.store.store`)
    secrets.json   headers and secret addresses of feeds (`xscl.polling.credentials`)
    spool/         the queue of documents (`feeds.spool`), and in `attempt` the batch that is
                   being pushed (`xscl.ingestion.quarantine`)
    spark/         what Spark's executors read and write while it runs: the plan, the documents
                   under way, a checkpoint (`xscl.spark.executors`); its log, its launcher of Java
    backups/       a backup in progress for a request (`xscl.service.backups`)
    files/         matches that are delivered to files (`xscl.delivery.channels.file`)
    status.json    the last status of the running service
    xscl.toml      options of commands (`xscl.cli.settings`)
    lock           the process that uses the directory and its command; of a service also the token
                   for commands on this machine (docs/decisions/access.md); the lock and the mark
                   of the store (`xscl.store.store_lock`)

One process at a time uses a data directory: it holds a lock on the directory itself
while it lives, and other processes read its number in the file `lock`.  The operating
system releases the lock when the process ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feeds.file_descriptors import descriptor_of
from xscl.errors import XsclError
from xscl.store.consumed_note import remaining
from xscl.store.store_errors import DATABASE, FORMER_DATABASE
from xscl.store.store_lock import marked

SERVICE = "serve"
"""The command of a service in the file `lock`."""

PATIENCE = 2.0
"""Seconds for which a command waits for another one to end."""

_MODE = 0o700
_SIGNED = 200  # bytes of the file `lock` that name the holder
SETTINGS = "xscl.toml"
"""The file with defaults of options."""

# of the directory, besides the parts below: other modules open them by name
_FILES = frozenset({"secrets.json", SETTINGS, FORMER_DATABASE})


class DataDirectoryError(XsclError):
    """The data directory cannot be used."""

    code = "home"


class DataDirectoryInUse(DataDirectoryError):
    """Another process (`holder`) uses the data directory."""

    code = "home_in_use"

    def __init__(self, home: DataDirectory, holder: LockHolder) -> None:
        # A holder whose entry in `lock` is lost is found by what it has locked: the directory.
        stop = f"kill {holder.pid}" if holder.pid else f"fuser -v {shlex.quote(str(home.path))}"
        super().__init__(
            f"the data directory {home.path} is in use by {holder}",
            hint=f"stop it first ({stop}), or choose another directory with --data",
        )
        self.holder = holder


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The process that holds a data directory, and the command that it runs."""

    pid: int  # 0 if the file `lock` was removed or emptied meanwhile
    command: str

    def __str__(self) -> str:
        if not self.pid:
            return "a process that the file 'lock' does not name"
        who = "a running service" if self.command == SERVICE else f"'xscl {self.command}'"
        return f"process {self.pid}, {who}"


class _Part:
    """A descriptor: on an instance the attribute is the path of a file or directory in it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, home: DataDirectory, owner: type) -> Path:
        return home.path / self.name


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """A data directory; the constructor touches nothing on disk."""

    path: Path

    database = _Part(DATABASE)
    spool = _Part("spool")
    spark = _Part("spark")
    files = _Part("files")
    backups = _Part("backups")
    status = _Part("status.json")
    lock = _Part("lock")

    @property
    def attempt(self) -> Path:
        """The file with the batch that is being pushed."""
        return self.spool / "attempt"

    def exists(self) -> bool:
        """True if the directory has state; the mark shows it if the store is lost.

        If the mark is lost, too, the spool shows it.
        """
        is_there = self.database.exists() or (self.path / FORMER_DATABASE).exists()
        is_there = is_there or marked(self.database) is not None
        return is_there or remaining(self.database) is not None

    def expect(self) -> None:
        """Raise DataDirectoryError if the directory has no state yet."""
        if not self.exists():
            raise DataDirectoryError(
                f"there is no data in {self.path} yet",
                hint="'xscl subscribe', 'feeds add', 'push' and 'serve' make it; "
                "--data or XSCL_DATA names another directory",
            )

    def create(self) -> None:
        """Create the directory, readable by its owner only.

        Raises DataDirectoryError for one that holds files, but none of a data directory.
        """
        try:
            self.path.mkdir(mode=_MODE, parents=True, exist_ok=True)
            present = {entry.name for entry in os.scandir(self.path)}
            if present and not present & _NAMES:
                raise DataDirectoryError(
                    f"{self.path} is no data directory: it holds other files, "
                    f"such as {min(present)!r}",
                    hint="name a new or an empty directory with --data",
                )
            self.path.chmod(_MODE)
        except OSError as error:
            raise DataDirectoryError(
                f"the data directory {self.path} cannot be made: {error.strerror}",
                hint="name another directory with --data or XSCL_DATA",
            ) from error

    @contextmanager
    def hold(self, command: str) -> Iterator[None]:
        """Lock the directory while the block runs; raises DataDirectoryInUse.

        If a command holds the lock, waits for its end at most `PATIENCE`; for a service not at all.
        """
        self.create()
        with descriptor_of(self.path) as descriptor:
            deadline = time.monotonic() + PATIENCE
            while (holder := self._try_lock(descriptor, fcntl.LOCK_EX)) is not None:
                if holder.command == SERVICE or time.monotonic() > deadline:
                    raise DataDirectoryInUse(self, holder)
                time.sleep(0.02)
            self._sign(command)
            yield
            self._sign()

    def _sign(self, command: str = "", token: str = "") -> None:
        """Write this process as the holder into the file `lock`; without `command` erase it."""
        text = f"{os.getpid()} {command} {token}" if command else ""
        try:
            with descriptor_of(self.lock, os.O_RDWR | os.O_CREAT) as descriptor:
                os.pwrite(descriptor, text.encode().ljust(_SIGNED), 0)
        except OSError as error:
            raise DataDirectoryError(
                f"{self.lock} cannot be written: {error.strerror}",
                hint="may this user write there, and has the disk room?"
                " nothing that was acknowledged is lost",
            ) from error

    def _signed(self) -> tuple[LockHolder, str]:
        """Return the holder and the token in the file `lock`; the holder's number is 0 of none."""
        try:
            with self.lock.open("rb") as file:
                words = file.read(_SIGNED).decode("utf-8", "replace").split()
        except FileNotFoundError:
            words = []
        pid, command, token, *_ = *words, *("", "", "")
        return LockHolder(int(pid) if pid.isdecimal() else 0, command or "?"), token

    def _try_lock(self, descriptor: int, kind: int) -> LockHolder | None:
        """Lock the directory in the mode `kind` and return None; or return who holds the lock."""
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._signed()[0]
        return None

    def holder(self) -> LockHolder | None:
        """Return the process that uses the directory, None if there is none."""
        try:
            with descriptor_of(self.path) as descriptor:
                return self._try_lock(descriptor, fcntl.LOCK_SH)
        except FileNotFoundError:
            return None

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Replace status.json atomically."""
        temporary = self.status.with_suffix(".tmp")
        temporary.write_text(json.dumps(status) + "\n", "utf-8")
        temporary.replace(self.status)

    def read_status(self) -> dict[str, Any] | None:
        """Return the last status of a service, None if there is none."""
        try:
            read = json.loads(self.status.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return read if isinstance(read, dict) else None

    def write_token(self, token: str = "") -> None:
        """Replace the token of local commands, readable by the owner only, or remove it.

        Only the service that holds the directory may do so.
        """
        self._sign(SERVICE, token)

    def read_token(self) -> str | None:
        """Return the token of local commands, None if there is none."""
        return self._signed()[1] or None

    def address(self) -> str | None:
        """Return the address of the running service, None if it serves no requests."""
        return self._address() or None

    def is_starting(self) -> bool:
        """Return True if a service that will serve requests has not written its address yet."""
        return self._address() == ""

    def _address(self) -> str | None:
        """Return the address that a service has written, "" before it has; None without one."""
        holder = self.holder()
        if holder is None or holder.command != SERVICE:
            return None
        written = self.read_status() or {}
        return written.get("address") if written.get("pid") == holder.pid else ""


_OF_EXECUTORS = ("plan-*", "checkpoint", "local", "offer*", "documents.arrow")


def clear_executors(directory: Path) -> None:
    """Delete the files of executors in their directory, but the logs; no executor may run.

    The files have texts of documents, and a process that is killed leaves them behind.
    """
    for path in (one for pattern in _OF_EXECUTORS for one in directory.glob(pattern)):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


_NAMES = _FILES | {one.name for one in vars(DataDirectory).values() if isinstance(one, _Part)}
