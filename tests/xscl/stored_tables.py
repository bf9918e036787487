"""All that a store has, by its tables."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from xscl.store.sqlite_store import SqliteStore
from xscl.store.sqlite_tables import RELATIONS, TABLES
from xscl.store.store import Store


def stored_tables(store: Store) -> dict[str, pa.Table]:
    """Return all tables and relations by their names, without what is of this store alone."""
    if isinstance(store, SqliteStore):
        names = {*TABLES, *RELATIONS} - {"chunk", "relation"}
        found = {name: store.mirror(name) for name in sorted(names)}
        found["progress"] = found["progress"].drop_columns(["one", "commits"])
        found["meta"] = found["meta"].filter(pc.not_equal(found["meta"]["key"], "store"))
        return found
    tables = store.fetch(
        "SELECT table_name FROM duckdb_tables()"
        " WHERE (database_name, schema_name) = (current_database(), 'state') ORDER BY table_name"
    )
    return {name: store.arrow(f"FROM state.{name}") for (name,) in tables}
