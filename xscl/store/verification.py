"""Reading a store to find out whether it is sound, before anything relies on it or changes it.

DuckDB verifies a block's checksum only when it reads the block, so all of it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from xscl.store.commit_watermark import CommitPoint
from xscl.store.database import FILE, THREADS
from xscl.store.journal import Record, read_journal
from xscl.store.migrations import FIRST, LAST_TABLE, is_readable
from xscl.store.store_errors import WrongVersion, store_error

SEEN = (
    "SELECT id, (SELECT last_value FROM duckdb_sequences() WHERE schema_name = 'mark')"
    " FROM mark.store"
)
"""The statement that reads the id of a store and its number of commits."""

READ_WHOLE = 1 << 26
"""Bytes of a database up to which opening it reads the texts, too."""

Table: TypeAlias = tuple[str, str, int]
"""Of a table: its schema, its name, its rows with those that were deleted."""

TABLES = "SELECT schema_name, table_name, estimated_size FROM duckdb_tables() WHERE NOT temporary"

Fetch: TypeAlias = Callable[[str], list[tuple[Any, ...]]]
"""Returns the rows of a query."""


def read_all(fetch: Fetch, path: Path, tables: Sequence[Table]) -> None:
    """Read every block, so that a damaged one is found before anything relies on it.

    This takes about 4 s for 1 GB.  In a large store texts are skipped: they are most of it, and
    no join depends on them.  A damaged text is reported when it is read.
    """
    size = path.stat().st_size
    large = size > READ_WHOLE
    used = memory_of(fetch)
    if large:
        fetch("RESET threads")  # one for each processor
    fetch(_reading(tables, size))
    if large:
        fetch(f"SET threads = {THREADS}")
    release_memory(fetch, used + (32 << 20))


def memory_of(fetch: Fetch) -> int:
    """Return the bytes that DuckDB uses."""
    ((used,),) = fetch("SELECT sum(memory_usage_bytes) FROM duckdb_memory()")
    return int(used)


def release_memory(fetch: Fetch, limit: int) -> None:
    """Release the blocks that DuckDB keeps beyond so many bytes, and its free memory.

    Only a change of the limit makes its allocator return free pages.  After seven purges of large
    documents a service had 455 MB with this, and 565 MB with a checkpoint and `malloc_trim` alone.
    """
    fetch(f"SET memory_limit = '{limit >> 20} MiB'")
    fetch("RESET memory_limit")


def _reading(tables: Iterable[Table], size: int) -> str:
    """Return the statements that read all blocks of some tables in a database of so many bytes.

    One statement for each would cost more than reading a small store.
    """
    few = {"text": "doc"} if size > READ_WHOLE else {}
    return " UNION ALL ".join(
        f'SELECT bit_xor(hash({few.get(table, "rows")})) FROM "{schema}"."{table}" rows'
        for schema, table, rows in tables
        if rows
    )


def expect_readable(path: Path, version: int, tables: Iterable[Table]) -> None:
    """Raise WrongVersion unless this release reads stores of a version with some tables."""
    is_early = version == FIRST and LAST_TABLE not in (table[:2] for table in tables)
    if is_early or not is_readable(version):
        raise WrongVersion(path, version)


def journalled_records(fetch: Fetch, path: Path, counted: CommitPoint) -> tuple[int, list[Record]]:
    """Return the number of journal records in a database, and the records that it lacks.

    A record is of no use to a database that lacks commits from before it.  Stores of earlier
    versions have no journal.
    """
    # The row tells what it has: the first question for columns takes DuckDB 13 ms.
    ((found,),) = fetch("SELECT one FROM mark.store one")
    if "journal" not in found:
        return 0, []
    known = int(found["journal"])
    records = read_journal(path, counted.store, known)
    return known, list(takewhile(lambda one: one.after <= counted.commits, records))


@contextmanager
def read_only(path: Path) -> Iterator[Fetch]:
    """Yield a function that returns the rows of a query of a database, and changes nothing.

    No process may have the database open.  Errors of DuckDB in the block become StoreErrors.
    """
    quoted = str(path).replace("'", "''")
    with closing(duckdb.connect(":memory:")) as connection:
        try:
            connection.execute(f"ATTACH '{quoted}' AS {FILE} (READ_ONLY); USE {FILE}")
            yield lambda query: connection.execute(query).fetchall()
        except duckdb.Error as error:
            raise store_error(path, error) from error


def inspect(path: Path) -> tuple[int, CommitPoint]:
    """Return the version of a store and its commit count, after reading all of its database.

    Writes nothing.  Raises WrongVersion for a store of another release, and another StoreError if
    it cannot be read.  No process may have it open.
    """
    with read_only(path) as fetch:
        ((version,),) = fetch("SELECT value FROM state.meta WHERE key = 'version'")
        tables = fetch(TABLES)
        expect_readable(path, version, tables)
        ((store, commits),) = fetch(SEEN)
        _, records = journalled_records(fetch, path, CommitPoint(store, int(commits)))
        fetch(_reading(tables, path.stat().st_size))
    return int(version), CommitPoint(store, int(commits) + len(records))
