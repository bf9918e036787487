"""Connections to isolated DuckDB databases, in a file or in memory.

Databases in memory could share one DuckDB instance, whose set-up takes some 30 ms of processor
time.  But a fatal error in one database (`FATAL Error`) ends all, so each has its own.
"""

from __future__ import annotations

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
