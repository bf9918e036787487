"""Generations of a store: what a position of a result means to those who remember one.

A store that is put back from a backup gives positions again that it had given before, to other
results.  So it begins a new generation, and whoever remembers a position remembers of which one.
Up to the position at which the store stood in the backup both agree; who had come further goes on
from there, and may see a match again, under the same id, but misses none.

The numbers are kept in `state.meta`, by which generation began where; a store that was never put
back is of the generation that its id says.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from xscl.store.store import Store

_NOW = "generation"
_FORK = "fork "
_BITS = 32


@dataclass(frozen=True, slots=True)
class Generations:
    """The generation of a store (32 bits), and up to which positions it agrees with former ones."""

    now: int = 0
    forks: Mapping[int, int] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """How the ids of events of this generation begin."""
        return f"g{self.now:08x}-"

    def agreed(self, generation: int, position: int) -> int:
        """Return up to where a position of some generation is one of this, 0 if nobody knows."""
        if generation == self.now:
            return position
        return min(position, self.forks.get(generation, 0))


def generations_of(store: Store) -> Generations:
    """Return the generations of a store; a store in memory has but one."""
    rows = store.fetch("SELECT key, value FROM state.meta")
    forks = {int(key[len(_FORK) :]): value for key, value in rows if key.startswith(_FORK)}
    now = next((value for key, value in rows if key == _NOW), None)
    if now is None:
        now = 0 if store.path is None else int(store.seen().store, 16) % (1 << _BITS)
    return Generations(now, forks)


def begin_generation(store: Store) -> Generations:
    """Begin a new generation where the store stands now, durably."""
    before, position = generations_of(store), store.progress("position")
    forks = {before.now: position, **before.forks}
    now = secrets.randbits(_BITS)
    values = {_NOW: now, **{f"{_FORK}{number}": at for number, at in forks.items()}}
    with store.transaction():
        store.set_meta(**values)
    return Generations(now, forks)
