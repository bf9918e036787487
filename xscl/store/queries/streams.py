"""The declared streams."""

from __future__ import annotations

from xscl.store.store import Store


def delete_streams_of(store: Store, prefix: str) -> None:
    """Delete the streams whose names begin with a prefix."""
    store.fetch("DELETE FROM state.stream WHERE instr(name, ?) = 1", [prefix])
