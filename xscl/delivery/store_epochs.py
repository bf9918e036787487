"""Epochs (generations) of a store: the meaning of remembered result positions after a restore.

A restored store assigns positions again that it had assigned to other results.  So a restore begins
a new generation, and a remembered position includes its generation.  Both generations agree up to
the position of the backup.  A reader ahead of it continues there; it may see a match again, under
the same id, but misses none.

`state.meta` records where each generation began.  The generation of a store that was never restored
follows from its id.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from xscl.store.queries.rows import rows_of
from xscl.store.store import Store

_NOW = "generation"
_FORK = "fork "
_BITS = 32


@dataclass(frozen=True, slots=True)
class StoreEpochs:
    """The generation of a store (32 bits); `forks` has the last position shared with former ones.

    A restore begins a new generation.
    """

    now: int = 0
    forks: Mapping[int, int] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """The prefix of event ids of this generation."""
        return f"g{self.now:08x}-"

    def agreed(self, generation: int, position: int) -> int:
        """Return the last position, up to `position`, shared with a generation; 0 if unknown."""
        if generation == self.now:
            return position
        return min(position, self.forks.get(generation, 0))


def epochs_of(store: Store) -> StoreEpochs:
    """Return the generations of a store; a store in memory has only one."""
    values = {row["key"]: row["value"] for row in rows_of(store, "meta")}
    forks = {int(key[len(_FORK) :]): at for key, at in values.items() if key.startswith(_FORK)}
    now = values.get(_NOW)
    if now is None:
        now = 0 if store.path is None else int(store.seen().store, 16) % (1 << _BITS)
    return StoreEpochs(now, forks)


def begin_epoch(store: Store) -> StoreEpochs:
    """Begin a new generation at the store's position, durably."""
    before, position = epochs_of(store), store.progress("position")
    forks = {before.now: position, **before.forks}
    now = secrets.randbits(_BITS)
    values = {_NOW: now, **{f"{_FORK}{number}": at for number, at in forks.items()}}
    with store.transaction():
        store.set_meta(**values)
    return StoreEpochs(now, forks)
