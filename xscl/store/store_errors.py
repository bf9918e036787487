"""The errors of a store, each with the command that repairs it.

StoreError             the state of an engine cannot be opened or read
├── StoreInUse         another process or engine holds its lock
├── StoreDamaged       a file does not hold what was written to it
├── StoreNeedsMemory   there is too little memory to open or change it
├── StoreWentBack      acknowledged commits are missing, or its id is another one
├── WrongVersion       a later release wrote it
├── OldFormat          version 0.2 wrote it, as a database of DuckDB
├── ReadTooLong        a reader was ended, so that the log of the store stays bounded
├── StoreUnavailable   it cannot be read or written now
├── StoreClosed        its engine was closed
└── BackupError        a backup cannot be made, is damaged, or does not fit
"""

from __future__ import annotations

import shlex
from pathlib import Path

from xscl.errors import StoreError

DATABASE = "state.sqlite"
"""The name of the database in a data directory and in a backup."""
FORMER_DATABASE = "state.duckdb"
"""The name of the database in a data directory of version 0.2."""


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
    """A later release wrote the store."""

    code = "store_version"

    def __init__(self, path: Path, found: int, reads: int) -> None:
        super().__init__(
            f"the store {path} has version {found}, this program reads version {reads}",
            hint="install the release that wrote it, or a later one",
        )


class OldFormat(StoreError):
    """The store is a database of DuckDB, as version 0.2 wrote it."""

    code = "store_version"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the store {path} was written by version 0.2, whose format this version does not read",
            hint=moving(f"--data {shlex.quote(str(path.parent))}", f"{path.parent}-new")
            if path.name == FORMER_DATABASE
            else f"copy it to a directory of its own as {FORMER_DATABASE}, and its log, if there is"
            f" one, as {FORMER_DATABASE}.wal; any command on that directory says how to go on",
        )


class ReadTooLong(StoreError):
    """A reader was ended: it has kept its snapshot too long, or the log has become too large."""

    code = "store_read_too_long"

    def __init__(self, path: Path | None, why: str) -> None:
        super().__init__(
            f"reading the store {path} was ended, since {why}",
            hint="ask for less at once; while a reader keeps its state of the store, the log of"
            " later changes can only grow",
        )


class StoreClosed(StoreError):
    """The engine was closed; nothing can be asked of it."""

    code = "store_closed"

    def __init__(self) -> None:
        super().__init__("the engine is closed", hint="open it again: xscl.Engine(path)")


class StoreUnavailable(StoreError):
    """The files of the store cannot be read or written now."""

    code = "store_unavailable"

    def __init__(self, path: Path | None, detail: str) -> None:
        where = "in memory" if path is None else str(path)
        super().__init__(
            f"the store {where} cannot be read or written: {detail}",
            hint="is the disk failing, and may this user write there? nothing of the change was"
            " kept, and nothing that was acknowledged is lost",
        )


class BackupError(StoreError):
    """A backup cannot be made, cannot be read, or does not fit where it should go."""

    code = "backup"


def moving(source: str, target: str) -> str:
    """Return the hint to move registrations from version 0.2; `source` is an option of commands."""
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


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return next(iter(str(error).splitlines()), type(error).__name__)
