"""All that a store has, by its tables."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from xscl.store.queries.tables import RELATIONS, TABLES
from xscl.store.store import Store


def stored_tables(store: Store) -> dict[str, pa.Table]:
    """Return all tables and relations by their names, without what is of this store alone."""
    names = {*TABLES, *RELATIONS} - {"chunk"}
    found = {name: store.mirror(name) for name in sorted(names)}
    found["progress"] = found["progress"].drop_columns(["one", "commits"])
    found["meta"] = found["meta"].filter(pc.not_equal(found["meta"]["key"], "store"))
    return found
