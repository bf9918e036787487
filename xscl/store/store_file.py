"""The file of a store: connections to it, and the checks before it is used.

    NAME        the database
    NAME-wal    its log: the commits since the last checkpoint
    NAME-shm    the index of the log, in memory that its connections share
    NAME.lock   the lock, and the mark: what the database should have (`xscl.store.store_lock`)

Each page of the database has a checksum, by the extension `cksumvfs` of SQLite, which apsw brings;
the log has its own.  SQLite opens a database whose log was removed, or an older copy of it, without
an error.  So commits are counted, and the count is compared with the mark.  The mark is written
after a commit: a kill between the two leaves it one behind, never ahead.

No other process opens the file, and no other code of this one: closing any descriptor of the file
drops the locks that SQLite has on it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote

import apsw
import apsw.sqlite_extra

from feeds.file_descriptors import synchronise
from xscl.errors import StoreError
from xscl.plurals import counted
from xscl.store.consumed_note import remaining
from xscl.store.queries.tables import APPLICATION, VERSION, create_statements
from xscl.store.store_errors import (
    DATABASE,
    FORMER_DATABASE,
    OldFormat,
    StoreDamaged,
    StoreWentBack,
    WrongVersion,
)
from xscl.store.store_lock import UNFINISHED, StoreLock, StoreMark

_SQLITE, _DUCKDB = b"SQLite format 3\0", b"DUCK"
_FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
_STATEMENTS = 256  # prepared statements that a connection keeps
_CHECKSUM = 8  # bytes of it in each page
_LONGEST = 1_016  # most bytes of a path, so that SQLite can open its log, too
_NEW = ("auto_vacuum = INCREMENTAL",)  # for a new file only: to set it is to write
WRITING = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = OFF",
    "wal_autocheckpoint = 0",
    "journal_size_limit = 67108864",
    "cache_size = -16000",
)
READING = ("query_only = ON", "cache_size = -4000")
_SEEN = (
    "SELECT (SELECT value FROM state.meta WHERE key = 'store') AS store,"
    " (SELECT commits FROM state.progress) AS commits"
)


def connect(
    path: Path | None, settings: Sequence[str] = READING, options: str = ""
) -> apsw.Connection:
    """Return a connection whose schema `state` is the database in a file, or a new one in memory.

    It creates no file: an empty one beside the log of a lost file would be read with that log.
    Closing it writes nothing.  `settings` are PRAGMAs, `options` are added to the URI of SQLite.
    """
    connection = apsw.Connection(":memory:", _FLAGS, statementcachesize=_STATEMENTS)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.create_scalar_function("in_small_letters", _in_small_letters, 1)
        if path is None:
            connection.execute("ATTACH ':memory:' AS state")
            connection.deserialize("state", _empty_image())
            return connection
        _load_checksums()
        uri = f"file:{quote(_named(path))}?vfs=cksmvfs&mode=rw{options}"
        connection.execute("ATTACH ? AS state", (uri,))
        connection.set_busy_timeout(1_000)
        connection.execute("PRAGMA temp_store = MEMORY")
        _set(connection, settings)
    except BaseException:
        connection.close()
        raise
    return connection


def _named(path: Path) -> str:
    """Return a path as text; raises StoreError if SQLite cannot open it."""
    name = str(path)
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise StoreError(
            f"the path {name!a} is not in UTF-8", hint="name another file or directory"
        ) from None
    if size > _LONGEST:
        raise StoreError(
            f"the path {name[:100]!r}... has {size:,} bytes, and {_LONGEST:,} are allowed",
            hint="name another file or directory",
        )
    return name


def _in_small_letters(*arguments: str | bytes | float | None) -> str | None:
    """Return a text in small letters of all scripts; SQLite's `lower` changes only ASCII."""
    (text,) = arguments
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="ignore")
    return None if text is None else str(text).lower()


def _set(connection: apsw.Connection, settings: Sequence[str]) -> None:
    for setting in settings:
        connection.execute(f"PRAGMA state.{setting}")


def copy_target(path: Path) -> apsw.Connection:
    """Return a connection to a new file for a copy; it is no valid store until it is complete."""
    connection = apsw.Connection(_named(path), vfs="cksmvfs")
    for setting in ("journal_mode = OFF", "synchronous = OFF"):
        connection.execute(f"PRAGMA {setting}")
    _reserve(connection, "main")
    connection.execute("PRAGMA user_version = 1")  # pages have checksums from the first one on
    return connection


def _reserve(connection: apsw.Connection, schema: str) -> None:
    """Reserve the bytes of the checksum in each page of a database that is new."""
    reserved = ctypes.c_int(_CHECKSUM)
    place = ctypes.addressof(reserved)
    connection.file_control(schema, apsw.SQLITE_FCNTL_RESERVE_BYTES, place)


@cache
def _load_checksums() -> None:
    """Register the file system of SQLite that adds checksums to pages."""
    available = suppress(apsw.sqlite_extra.NotAvailable)
    with available, closing(apsw.Connection(":memory:")) as connection:
        apsw.sqlite_extra.load(connection, "cksumvfs")
    if "cksmvfs" not in apsw.vfs_names():
        raise StoreError(
            "this build of the package apsw has no checksums of pages",
            hint="install its wheel: pip install --force-reinstall --only-binary apsw apsw",
        )


@cache
def _empty_image() -> bytes:
    """Return the bytes of a database with the tables of a new store; that takes a millisecond."""
    connection = apsw.Connection(":memory:")
    connection.execute("ATTACH ':memory:' AS state")
    _create(connection)
    return bytes(connection.serialize("state"))


def _create(connection: apsw.Connection) -> None:
    """Make the tables, with a random id of the store."""
    connection.execute(create_statements())
    connection.execute("INSERT INTO state.meta (key, value) VALUES ('store', random())")
    connection.execute(f"PRAGMA state.application_id = {APPLICATION}")


def seen(connection: apsw.Connection) -> StoreMark:
    """Return the id of a store and its number of commits."""
    ((store, commits),) = connection.execute(_SEEN)
    return StoreMark(f"{store % (1 << 64):016x}", commits)


class StoreFile:
    """The locked file of a store, checked before anything is written to it.

    With `accept` it is opened whatever its mark says.  `lock` is released after the connections are
    closed.  Raises StoreError, and errors of SQLite and of the system (OSError).
    """

    def __init__(self, path: Path, *, accept: bool = False) -> None:
        if not path.parent.is_dir():
            raise StoreError(
                f"the store {path} cannot be made: there is no directory {path.parent}",
                hint="make the directory first",
            )
        _named(path)
        self.path = path
        self.lock = StoreLock(path)
        try:
            mark = None if accept else self.lock.mark()
            if mark is not None and mark.commits == UNFINISHED:
                raise StoreWentBack(path, "a restore was broken off; run it again")
            self._expect_there(mark, accept)
            self.connection = connect(path, ())
            self.lock.acquire()
            try:
                self._expect_sound()
                now = self._compared(mark)
                _set(self.connection, WRITING)
            except BaseException:
                self.connection.close()
                raise
            self.note(now._replace(base=0 if mark is None else mark.base), durably=True)
        except BaseException:
            if log_path(path).exists() and not log_path(path).stat().st_size:
                log_path(path).unlink()  # SQLite has made this empty log
            self.lock.withdraw()
            raise

    def _expect_there(self, mark: StoreMark | None, accept: bool) -> None:
        """Refuse a file that is no database, is too old or was lost; create one where none was."""
        path, log = self.path, log_path(self.path)
        refuse_former(path)
        has_log = log.exists() and log.stat().st_size > 0
        if path.exists() and path.stat().st_size:
            with path.open("rb") as file:
                head = file.read(len(_SQLITE))
            if head[8:12] == _DUCKDB:
                raise OldFormat(path)
            if head != _SQLITE:
                raise StoreDamaged(path, "it is no database of SQLite")
            if mark is not None and has_log and commits_in_file(path) < mark.base:
                raise StoreWentBack(path, "it is an older copy, beside a newer log")
            return
        if not accept:
            if mark is not None and mark.commits:
                lost = f"{mark.commits} commits were acknowledged"
                raise StoreWentBack(path, f"the file is missing or empty, and {lost}")
            if has_log:
                raise StoreWentBack(path, f"the file is missing or empty, and its log {log} is not")
            if mark is None and (remains := remaining(path)) is not None:
                raise StoreWentBack(path, f"the file and its mark are missing, and {remains}")
        for name in (path, log, path.with_name(f"{path.name}-shm")):
            name.unlink(missing_ok=True)
        # It has users' data: only its owner may read it, and so the log and its index.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))

    def _expect_sound(self) -> None:
        """Refuse a database of another application or version, or with a damaged page."""
        path, connection = self.path, self.connection
        if not connection.execute("SELECT count(*) FROM state.sqlite_schema").get:
            return
        if connection.pragma("application_id", schema="state") != APPLICATION:
            raise StoreDamaged(path, "it is a database of something else")
        if (version := connection.pragma("user_version", schema="state")) != VERSION:
            raise WrongVersion(path, version, VERSION)
        found = connection.execute("PRAGMA state.quick_check(1)").get
        if found != "ok":
            raise StoreDamaged(path, str(found))

    def _compared(self, mark: StoreMark | None) -> StoreMark:
        """Return the state of the database; it may not lack commits.  Make a new one's tables."""
        path, connection = self.path, self.connection
        if not connection.execute("SELECT count(*) FROM state.sqlite_schema").get:
            if mark is not None and mark.commits:
                raise StoreWentBack(path, f"it is empty, and had {mark.commits} commits")
            _reserve(connection, "state")
            _set(connection, (*_NEW, *WRITING))
            with connection:
                _create(connection)
            synchronise(path.parent)
            mark = None
        now = seen(connection)
        if mark is not None and now.store != mark.store:
            raise StoreWentBack(path, f"it is the store {now.store}, and {mark.store} was there")
        if mark is not None and now.commits < mark.commits:
            raise StoreWentBack(
                path,
                f"it has {counted(now.commits, 'commit')}, and {mark.commits} were acknowledged;"
                f" the last {mark.commits - now.commits} are missing",
            )
        return now

    def note(self, mark: StoreMark, *, durably: bool = False) -> None:
        """Write the mark; a failure is harmless, since the file then keeps an earlier mark."""
        self.mark = mark
        with suppress(OSError):
            self.lock.note(mark, durably=durably)


def refuse_former(path: Path) -> None:
    """Raise OldFormat for the database of a data directory that has one of version 0.2."""
    former = path.with_name(FORMER_DATABASE)
    if path.name == DATABASE != FORMER_DATABASE and former.exists():
        raise OldFormat(former)


def log_path(path: Path) -> Path:
    """Return the path of the log of a database."""
    return path.with_name(f"{path.name}-wal")


def commits_in_file(path: Path) -> int:
    """Return the number of commits in the file without its log; 1 << 62 if it is unknown.

    It is unknown after a checkpoint that was broken off; the next one repeats that from the log.
    """
    try:
        with closing(connect(path, options="&immutable=1")) as connection:
            return seen(connection).commits
    except (apsw.Error, ValueError, TypeError):
        return 1 << 62


# -- Processes -----------------------------------------------------------------------------


def _abandon() -> None:
    """Leave the connections of the parent process open for ever: only that one may close them."""
    for connection in apsw.connections():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


os.register_at_fork(after_in_child=_abandon)
