"""The declared streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from xscl.store.store import Store

_SCHEMA = pa.schema(
    {"name": pa.string(), "lateness": pa.int64(), "live": pa.bool_(), "attributes": pa.string()}
)
_COLUMNS = ", ".join(_SCHEMA.names)


def declared_streams(store: Store) -> Iterator[dict[str, Any]]:
    """Return all streams: name, lateness in ticks, live, attributes as JSON or None."""
    return store.rows(f"SELECT {_COLUMNS} FROM state.stream")


def put_streams(store: Store, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows as `declared_streams` returns them, or replace those of the same names."""
    store.lend("declared", pa.Table.from_pylist(list(rows), _SCHEMA))
    store.fetch(
        f"INSERT INTO state.stream ({_COLUMNS}) SELECT {_COLUMNS} FROM declared WHERE true"
        " ON CONFLICT (name) DO UPDATE SET"
        " lateness = excluded.lateness, live = excluded.live, attributes = excluded.attributes"
    )


def delete_streams_of(store: Store, prefix: str) -> None:
    """Delete the streams whose names begin with a prefix."""
    store.fetch("DELETE FROM state.stream WHERE instr(name, ?) = 1", [prefix])


def has_stream(store: Store, name: str) -> bool:
    """Return True if a stream is declared."""
    return bool(store.fetch("SELECT 1 FROM state.stream WHERE name = ?", [name]))
