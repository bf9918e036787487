"""Tables of a store of this or an earlier version, read without changing their rows.

The engine reads stores of its own version only (`xscl.store.migrations`).  What this module reads
are tables that development versions have, too; so their rows can be exported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, TypeAlias

from xscl.store.block_copies import put_back
from xscl.store.commit_watermark import CommitPoint, read_watermark
from xscl.store.migrations import DEVELOPMENT, is_readable
from xscl.store.opening import IS_SQLITE
from xscl.store.sqlite_file import refuse_former
from xscl.store.sqlite_store import SqliteStore
from xscl.store.sqlite_tables import TABLES
from xscl.store.store_errors import StoreDamaged, WrongVersion
from xscl.store.store_file import StoreFile
from xscl.store.verification import SEEN, read_only

StoredRow: TypeAlias = dict[str, Any]
"""The values of a row by their columns."""

Fetch: TypeAlias = Callable[[str], list[tuple[Any, ...]]]


def read_tables(path: Path, wanted: Mapping[str, Sequence[str]]) -> dict[str, list[StoredRow]]:
    """Return rows of the tables `state.*` of a database: the wanted columns, in their order.

    A table that the version lacks has no rows, a column that it lacks has the value None.  Raises
    StoreInUse if another process has the database open, WrongVersion for a later release's,
    StoreWentBack if its mark has more commits, and another StoreError if it cannot be read.
    """
    refuse_former(path)
    if not path.exists():
        raise StoreDamaged(path, "the file is missing")
    if IS_SQLITE:
        with closing(SqliteStore(path)) as store:
            return {
                table: list(store.rows(_query(table, names))) if table in TABLES else []
                for table, names in wanted.items()
            }
    with ExitStack() as opened:
        file = StoreFile(path)
        opened.callback(file.release)
        put_back(path)
        fetch = opened.enter_context(read_only(path))
        columns = _columns(fetch)
        if "meta" not in columns:
            raise StoreDamaged(path, "it is a database of something else")
        ((version,),) = fetch("SELECT value FROM state.meta WHERE key = 'version'")
        if version not in DEVELOPMENT and not is_readable(version):
            raise WrongVersion(path, version)
        mark = read_watermark(path)
        if mark is not None:  # version 2 has none
            ((store, commits),) = fetch(SEEN)
            file.compare(mark, CommitPoint(store, int(commits)))
        return {
            table: _rows(fetch, table, names, columns.get(table, frozenset()))
            for table, names in wanted.items()
        }


def _query(table: str, names: Sequence[str]) -> str:
    there = TABLES[table].names
    listed = ", ".join(name if name in there else f"NULL AS {name}" for name in names)
    order = ", ".join(str(place) for place, _ in enumerate(names, 1))
    return f"SELECT {listed} FROM state.{table} ORDER BY {order}"


def _columns(fetch: Fetch) -> dict[str, frozenset[str]]:
    found = fetch(
        "SELECT table_name, list(column_name) FROM duckdb_columns()"
        " WHERE schema_name = 'state' GROUP BY table_name"
    )
    return {table: frozenset(names) for table, names in found}


def _rows(fetch: Fetch, table: str, names: Sequence[str], there: frozenset[str]) -> list[StoredRow]:
    if not there:
        return []
    listed = ", ".join(name if name in there else f"NULL AS {name}" for name in names)
    rows = fetch(f"SELECT {listed} FROM state.{table} ORDER BY ALL")
    return [dict(zip(names, row, strict=True)) for row in rows]
