"""Connections to databases of DuckDB that reach nothing else: one in a file, or one in memory.

DuckDB takes some 30 ms of a processor to set up, and the tables 20 ms more, however little is kept
in them.  What a process has in memory shares that: there is one DuckDB, and in it a database for
each store, made after the pattern of an empty one in 4 ms.  A file has a DuckDB of its own, since
one that may reach no files cannot be given another.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from functools import lru_cache
from pathlib import Path

import duckdb

FILE = "store"
"""What a database in a file is called: by default DuckDB names it after its file, and
`state.duckdb` would hide the schema `state`."""

_PATTERN = "pattern"
_SETTINGS = (
    "enable_external_access = false",
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "checkpoint_threshold = '128 MiB'",  # one takes some 200 ms, in the middle of a batch
)
_numbers = itertools.count(1)
_making = threading.Lock()


def connect(path: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection to the database in a file, which is made if it is not there.

    Until the store is known to be sound, closing it writes nothing.
    """
    connection = duckdb.connect(":memory:")
    try:
        quoted = str(path).replace("'", "''")
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute(f"ATTACH '{quoted}' AS {FILE}; USE {FILE}")
        _shut(connection)
    except duckdb.Error:
        connection.close()
        raise
    return connection


class InMemory:
    """A connection to a new database in memory with the tables of a schema, but no rows.

    It is dropped with this object, or by `drop`.
    """

    def __init__(self, schema: str) -> None:
        with _making:  # the first one makes what is shared
            self.connection = _shared(schema).cursor()
        self.name = f"memory_{next(_numbers)}"
        self.connection.execute(f"ATTACH ':memory:' AS {self.name}")
        self.drop = weakref.finalize(self, _drop, schema, self.name)
        self.drop.atexit = False
        self.connection.execute(
            f"COPY FROM DATABASE {_PATTERN} TO {self.name} (SCHEMA); USE {self.name}"
        )


@lru_cache(maxsize=1)
def _shared(schema: str) -> duckdb.DuckDBPyConnection:
    """Return the DuckDB of all that is in memory, with an empty database as the pattern."""
    connection = duckdb.connect(":memory:")
    _shut(connection)
    connection.execute(f"ATTACH ':memory:' AS {_PATTERN}; USE {_PATTERN}; {schema}; USE memory")
    return connection


def _drop(schema: str, name: str) -> None:
    with _shared(schema).cursor() as connection:
        connection.execute(f"DETACH DATABASE IF EXISTS {name}")


def _shut(connection: duckdb.DuckDBPyConnection) -> None:
    """Have a DuckDB reach nothing but the databases that it has."""
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
