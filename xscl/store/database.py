"""Connections to isolated DuckDB databases, in a file or in memory.

Databases in memory could share one DuckDB instance, whose set-up takes some 30 ms of processor
time.  But a fatal error in one database (`FATAL Error`) ends all, so each has its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import duckdb

FILE = "store"
"""What a database in a file is called: by default DuckDB names it after its file, and
`state.duckdb` would hide the schema `state`."""

THREADS = 1
"""Threads that work on a statement: more of them wait for one another longer than small ones take,
and of large ones most is the work of one (decision 014)."""

_SETTINGS = (
    "enable_external_access = false",
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "checkpoint_threshold = '128 MiB'",  # one takes some 200 ms, in the middle of a batch
)


def connect(path: Path | None) -> duckdb.DuckDBPyConnection:
    """Return a connection to the database in a file, which is created if it is absent.

    Without a path it is to a new one in memory.  Until a store is known to be sound, closing it
    writes nothing.
    """
    connection = duckdb.connect(":memory:", config={"threads": THREADS})
    try:
        if path is not None:
            quoted = str(path).replace("'", "''")
            connection.execute("PRAGMA disable_checkpoint_on_shutdown")
            connection.execute(f"ATTACH '{quoted}' AS {FILE}; USE {FILE}")
        for setting in _SETTINGS:
            connection.execute(f"SET {setting}")
    except duckdb.Error:
        connection.close()
        raise
    return connection


_LOST, _CLOSED = 0, -1


class SharedDatabase:
    """The database that the connections of one store share: one generation for each opening.

    DuckDB invalidates a database after a failed write: nothing can be read or written until all its
    connections are closed and it is opened again.  Then the database is *lost*, and `on_lost` is
    called.  Closing the first connection closes those that were made from it, so the owners of the
    others compare generations and connect again (decision 065).
    """

    def __init__(self) -> None:
        self.generation = _LOST
        self.on_lost: Callable[[], None] = lambda: None
        self._mutex = threading.Lock()
        self._openings = 0
        self._spare: duckdb.DuckDBPyConnection | None = None

    @property
    def is_lost(self) -> bool:
        """Return whether the database has to be opened (again)."""
        return self.generation == _LOST

    @property
    def is_closed(self) -> bool:
        """Return whether the database was closed for good."""
        return self.generation == _CLOSED

    def opened(self, first: duckdb.DuckDBPyConnection) -> None:
        """Begin a generation with its first connection."""
        with self._mutex:
            self._openings += 1
            self._spare, self.generation = first.cursor(), self._openings

    def lose(self) -> bool:
        """Record that the database is lost; return whether that is new."""
        with self._mutex:
            if self.generation in (_LOST, _CLOSED):
                return False
            self.generation = _LOST
            return True

    def close(self) -> None:
        """Record that the database is closed for good."""
        with self._mutex:
            self.generation = _CLOSED

    def connect(self) -> tuple[duckdb.DuckDBPyConnection, int]:
        """Return another connection, and the generation to which it belongs."""
        with self._mutex:
            if self._spare is None:
                raise duckdb.ConnectionException("Connection already closed")
            return self._spare.cursor(), self.generation


def is_lost(error: BaseException) -> bool:
    """Return whether an error of DuckDB says that the database has to be opened again."""
    return isinstance(error, duckdb.FatalException) or (
        isinstance(error, duckdb.IOException) and "has been invalidated" in str(error)
    )


def is_ended(error: BaseException) -> bool:
    """Return whether an error of DuckDB says that the connection is closed."""
    return isinstance(error, duckdb.ConnectionException) and "closed" in str(error)
