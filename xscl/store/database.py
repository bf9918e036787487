"""Connections to isolated DuckDB databases, in a file or in memory.

A DuckDB instance takes 12 ms of processor time to set up.  Databases in memory do not share one, as
a fatal error in one of them (`FATAL Error`) would end all.  But an instance that is sound outlives
its database and serves the next one: an engine in memory is made in 19 instead of 33 ms, and one is
made for each trial and each backfill.
"""

from __future__ import annotations

import atexit
import os
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
    "checkpoint_threshold = '1000 TiB'",  # none without copies (`xscl.store.block_copies`)
)


def connect(path: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection to the database in a file, which is created if it is absent.

    Closing it writes nothing.
    """
    connection = duckdb.connect(":memory:", config={"threads": THREADS})
    try:
        quoted = str(path).replace("'", "''")
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute(f"ATTACH '{quoted}' AS {FILE}; USE {FILE}")
        _set(connection)
    except duckdb.Error:
        connection.close()
        raise
    return connection


def _set(connection: duckdb.DuckDBPyConnection) -> None:
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")


class MemoryDatabase:
    """A database in memory, on an instance that no other database uses meanwhile.

    `connection` is to it; closing that one and those made from it comes before `release`.
    """

    def __init__(self) -> None:
        self._instance = _idle.take()
        self.connection = self._instance.cursor()
        self.connection.execute(f"ATTACH ':memory:' AS {FILE}; USE {FILE}")

    def release(self) -> None:
        """Drop the database; its instance serves the next one if it is sound."""
        try:
            self._instance.execute(f"DETACH {FILE}")
        except duckdb.Error:  # it was invalidated, or a statement still runs
            self._instance.close()
        else:
            _idle.put(self._instance)


class _IdleInstances:
    """Instances of this process without a database; a lock makes it safe from any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._instances: list[duckdb.DuckDBPyConnection] = []
        self._process = os.getpid()

    def take(self) -> duckdb.DuckDBPyConnection:
        """Return an instance with the settings of stores."""
        with self._mutex:
            if self._instances and self._process == os.getpid():
                return self._instances.pop()
        instance = duckdb.connect(":memory:", config={"threads": THREADS})
        _set(instance)
        return instance

    def put(self, instance: duckdb.DuckDBPyConnection) -> None:
        """Keep an instance for later, or close it if enough are kept."""
        with self._mutex:
            is_kept = len(self._instances) < _MOST_IDLE and self._process == os.getpid()
            if is_kept:
                self._instances.append(instance)
        if not is_kept:
            instance.close()

    def close(self) -> None:
        """Close all of them."""
        with self._mutex:
            while self._instances:
                self._instances.pop().close()


_MOST_IDLE = 2
_idle = _IdleInstances()
atexit.register(_idle.close)


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
