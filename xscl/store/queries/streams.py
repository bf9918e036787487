"""The declared streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from xscl.store.queries.tables import named
from xscl.store.store import Store

_COLUMNS = ("name", "lateness", "live", "attributes")


def declared_streams(store: Store) -> Iterator[dict[str, Any]]:
    """Return all streams: name, lateness in ticks, live, attributes as JSON or None."""
    return store.rows(f"SELECT {named(_COLUMNS)} FROM state.stream")


def put_streams(store: Store, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows as `declared_streams` returns them, or replace those of the same names."""
    store.execute_many(
        f"INSERT INTO state.stream ({named(_COLUMNS)}) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET"
        " lateness = excluded.lateness, live = excluded.live, attributes = excluded.attributes",
        map(itemgetter(*_COLUMNS), rows),
    )


def delete_streams_of(store: Store, prefix: str) -> None:
    """Delete the streams whose names begin with a prefix."""
    store.fetch("DELETE FROM state.stream WHERE instr(name, ?) = 1", [prefix])


def has_stream(store: Store, name: str) -> bool:
    """Return True if a stream is declared."""
    return bool(store.fetch("SELECT 1 FROM state.stream WHERE name = ?", [name]))
