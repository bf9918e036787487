"""The table of named numbers that rarely change."""

from __future__ import annotations

from xscl.store.store import Store


def named_numbers(store: Store, prefix: str) -> dict[str, int]:
    """Return the numbers whose names begin with a prefix, by what follows it."""
    rows = store.fetch("SELECT key, value FROM state.meta WHERE instr(key, ?) = 1", [prefix])
    return {key.removeprefix(prefix): value for key, value in rows}
