"""The errors of a store, each with the command that repairs it.

StoreError             the state of an engine cannot be opened or read
├── StoreInUse         another process or engine holds its lock
├── StoreDamaged       a file does not hold what was written to it
├── StoreWentBack      acknowledged commits are missing, or its id is another one
├── WrongVersion       a later release or a development version wrote it
├── OldFormat          version 0.2 wrote it, as a database of DuckDB
├── ReadTooLong        a reader was ended, so that the log of the store stays bounded
├── StoreUnavailable   it is being opened again after a failed write
├── StoreClosed        its engine was closed
└── BackupError        a backup cannot be made, is damaged, or does not fit
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from xscl.errors import StoreError
from xscl.store.migrations import DEVELOPMENT, FIRST, current_version

DATABASE = "state.sqlite" if os.environ.get("XSCL_STORE") == "sqlite" else "state.duckdb"
"""The name of the database in a data directory and in a backup."""
FORMER_DATABASE = "state.duckdb"
"""The name of the database in a data directory of version 0.2."""

_DAMAGE = (
    "Corrupt",
    "checksum",
    "not a valid DuckDB database",
    "Could not read enough bytes",
    "Failure while replaying WAL",
    "Serialization Error",
)
_MEMORY = ("Out of Memory Error", "bad allocation", "std::bad_alloc")
_FULL = ("No space left", "Disk quota", "File too large")


class StoreInUse(StoreError):
    """Another process (`pid`), or another engine of this process, has the store open."""

    code = "store_in_use"

    def __init__(self, path: Path, pid: int) -> None:
        super().__init__(
            f"the store {path} is in use by process {pid or 'unknown'}",
            hint="close that engine or stop that process first; one at a time uses a store",
        )
        self.pid = pid


class StoreDamaged(StoreError):
    """A file of the store does not hold what was written to it."""

    code = "store_damaged"

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"the store {path} is damaged, or it is no xscl store: {detail}",
            hint=f"its files are left as they are; put a backup in their place: {restoring(path)}",
        )


class StoreNeedsMemory(StoreError):
    """There is too little memory to open the store, or for a change; its files are sound."""

    code = "store_memory"

    def __init__(self, path: Path | None, detail: str) -> None:
        where = "in memory" if path is None else str(path)
        super().__init__(
            f"there is too little memory for the store {where}: {detail}",
            hint="nothing is lost: start it again with more; a log that a kill has left takes some"
            " hundred MB to be read once",
        )


class StoreWentBack(StoreError):
    """The store lacks commits that were acknowledged, or it is not the one that was here."""

    code = "store_went_back"

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"the store {path} has gone backwards: {detail}",
            hint="put the newer file back if you have it, or a backup: "
            f"{restoring(path)}; or accept the store as it is, without what is missing: "
            f"{accepting(path)}",
        )


class WrongVersion(StoreError):
    """A later release or a development version wrote the store."""

    code = "store_version"

    def __init__(self, path: Path, found: int, reads: int | None = None) -> None:
        if found == FIRST or found in DEVELOPMENT:
            super().__init__(
                f"the store {path} was written by a development version (schema {found})",
                hint=exporting(path),
            )
        else:
            super().__init__(
                f"the store {path} has version {found}, this program reads version"
                f" {reads or current_version()}",
                hint="install the release that wrote it, or a later one",
            )


class OldFormat(StoreError):
    """The store is a database of DuckDB, as version 0.2 wrote it."""

    code = "store_version"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the store {path} was written by version 0.2, whose format this version does not read",
            hint=_moving_from_old(f"--data {shlex.quote(str(path.parent))}", f"{path.parent}-new")
            if path.name == FORMER_DATABASE
            else f"copy it to a directory of its own as {FORMER_DATABASE}, and its log, if there is"
            f" one, as {FORMER_DATABASE}.wal; any command on that directory says how to go on",
        )


class ReadTooLong(StoreError):
    """A reader has kept its snapshot too long, and was ended."""

    code = "store_read_too_long"

    def __init__(self, path: Path | None, seconds: float) -> None:
        super().__init__(
            f"reading the store {path} took longer than {seconds:g} s, and was ended",
            hint="ask for less at once; while a reader keeps its state of the store, the log of"
            " later changes can only grow",
        )


class StoreClosed(StoreError):
    """The engine was closed; nothing can be asked of it."""

    code = "store_closed"

    def __init__(self) -> None:
        super().__init__("the engine is closed", hint="open it again: xscl.Engine(path)")


class StoreUnavailable(StoreError):
    """The database was invalidated by a failed write, and is not open again yet."""

    code = "store_unavailable"

    def __init__(self, path: Path | None, detail: str = "a write has failed") -> None:
        super().__init__(
            f"the store {path} is being opened again: {detail}",
            hint="nothing that was acknowledged is lost; try again soon",
        )


class BackupError(StoreError):
    """A backup cannot be made, cannot be read, or does not fit where it should go."""

    code = "backup"


def old_backup(path: Path) -> BackupError:
    """Return the error for a backup of version 0.2, with the way to its data."""
    return BackupError(
        f"the backup {path} was made by version 0.2, whose format this version does not read",
        hint=_moving_from_old(f"--backup {shlex.quote(str(path))}", f"{path.with_suffix('')}-new")
        + "; headers and secrets are in no backup: --data DIR reads those of a data directory",
    )


def development_backup(path: Path, version: int) -> BackupError:
    """Return the error for a backup of a development version, with the way to its data."""
    return BackupError(
        f"the backup {path} was made by a development version (schema {version})",
        hint=_moving(f"--backup {shlex.quote(str(path))}", path.with_suffix(".new"))
        + "; headers and secrets are in no backup: --data DIR reads those of a data directory",
    )


def exporting(path: Path) -> str:
    """Return the hint to move the registrations of a store to a store of this release."""
    if path.name != DATABASE:
        return f"copy it to a directory of its own, as {DATABASE}; any command on that says more"
    home = path.parent
    return _moving(f"--data {shlex.quote(str(home))}", home.with_name(f"{home.name}-new"))


def _moving(source: str, target: Path) -> str:
    return (
        f"write its users, subscriptions, feeds and endpoints to a file: xscl export"
        f" registrations.json {source}; register them in a new data directory: xscl import"
        f" registrations.json --data {shlex.quote(str(target))}; documents and matches stay behind"
    )


def _moving_from_old(source: str, target: str) -> str:
    return (
        "write its users, subscriptions, feeds and endpoints to a file with version 0.2:"
        f" pip install xscl==0.2.0; xscl export registrations.json {source}; register them in a"
        " new data directory with this version: pip install --upgrade xscl; xscl import"
        f" registrations.json --data {shlex.quote(target)}; documents and matches stay behind"
    )


def restoring(path: Path) -> str:
    """Return the hint to restore a backup in place of a store."""
    if path.name != DATABASE:
        return f"the file {DATABASE} in it (tar xf FILE), and then {accepting(path)}"
    return f"xscl restore FILE --force --data {shlex.quote(str(path.parent))}"


def accepting(path: Path) -> str:
    """Return the hint to continue with a store as it is."""
    if path.name != DATABASE:
        code = f"import xscl.store.store as s; s.Store({str(path)!r}, accept=True).close()"
        return f"python -c {shlex.quote(code)}"
    return f"xscl restore --accept --data {shlex.quote(str(path.parent))}"


def store_error(path: Path | None, error: Exception) -> StoreError:
    """Return the error of the store for an error of DuckDB, which users never see.

    `path` is None for a store in memory.
    """
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    if any(sign in line for sign in _MEMORY):  # also while a log is read: that is no damage
        return StoreNeedsMemory(path, line)
    if path is not None and any(sign in line for sign in _DAMAGE):
        return StoreDamaged(path, line)
    if any(sign in line for sign in _FULL):
        return StoreError(f"the store {path} cannot be written: {line}", hint="make room on disk")
    if "already closed" in line or "Connection has been closed" in line:
        return StoreClosed()
    where = "in memory" if path is None else str(path)
    return StoreError(
        f"the store {where} failed: {line}",
        hint="nothing of the change was kept; if it happens again, report it with this message",
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return next(iter(str(error).splitlines()), type(error).__name__)
