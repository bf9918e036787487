"""String values and their keys: fixed-width numbers that join as exactly as the texts.

A key is a 64-bit hash of the text.  Keys are *verified when they are stored*:
a text whose key belongs to another text takes the hash of the next salt, and
so on.  Within one state equal keys therefore mean equal texts, and no join has
to compare texts again.  A repeated text tries the same salts and gets the same
key.

No text is read again for that.  Memory has the *check* of each stored text beside its key: its
hash under the secret of this process (Python's own hash of texts, 64 bits).  Two texts are taken
for one if both are equal, which nobody can bring about who does not know the secret.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.columns.columns import Column, Index, among, distinct
from templates.storage import RELATIONS, Storage

Keys = npt.NDArray[np.uint64]
Hash = Callable[[Sequence[str], int], Keys]


def keys_of(texts: Sequence[str], salt: int = 0) -> Keys:
    """Return the 64-bit keys of texts under a salt."""
    salting = salt.to_bytes(8, "little")
    digests = [
        blake2b(text.encode(), digest_size=8, salt=salting).digest()
        if salt
        else blake2b(text.encode(), digest_size=8).digest()  # the same as salt 0, and faster
        for text in texts
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").copy()


def _checks_of(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(hash, texts), np.int64, len(texts))


@dataclass(frozen=True, slots=True)
class Interned:
    """The keys of a batch's distinct texts, with a mask of the known ones."""

    keys: Keys
    known: npt.NDArray[np.bool_]


class InternedValues:
    """The stored texts, with their keys; in memory 16 bytes of each."""

    def __init__(self, storage: Storage, hashed: Hash = keys_of) -> None:
        self._storage = storage
        self._hashed = hashed

    def intern(self, texts: Sequence[str]) -> Interned:
        """Return the keys of distinct texts, and store the new ones."""
        keys = self._hashed(texts, 0)
        known = np.zeros(len(texts), dtype=np.bool_)
        if texts:
            checks, salt = _checks_of(texts), 0
            rows = self._store(texts, keys, checks, known, np.arange(len(texts)))
            while len(rows):
                salt += 1
                keys[rows] = self._hashed([texts[row] for row in rows], salt)
                rows = self._store(texts, keys, checks, known, rows)
        return Interned(keys, known)

    def sweep(self, keys: Column) -> None:
        """Delete the texts whose keys are not among some sorted ones."""
        gone = self._storage.keep("value", lambda rows: among(rows["key"].to_numpy(), keys))
        if gone.num_rows:
            self._checks.remove(distinct(gone["key"].to_numpy()))

    def _store(
        self,
        texts: Sequence[str],
        keys: Keys,
        checks: Column,
        known: npt.NDArray[np.bool_],
        rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Store the texts of `rows`, mark the known ones, and return those whose key is taken."""
        ours = keys[rows]
        at, found = self._checks.rows(ours)
        there = np.zeros(len(rows), dtype=np.bool_)
        there[at] = True
        known[rows[at[found == checks[rows[at]]]]] = True
        new = rows[~there]
        fresh, first = np.unique(keys[new], return_index=True)
        if len(fresh):
            chosen = new[first]
            columns = [pa.array(fresh), pa.array([texts[row] for row in chosen], pa.string())]
            self._storage.append("value", pa.table(columns, RELATIONS["value"]))
            self._checks.add(fresh, checks[chosen])
        taken = rows[there & ~known[rows]]
        if len(fresh) == len(new):
            return taken
        return np.concatenate((taken, np.delete(new, first)))

    @cached_property
    def _checks(self) -> Index:
        """The checks of the stored texts by their keys."""
        keys, checks = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for part in self._storage.parts("value"):
            keys.append(part["key"].to_numpy())
            checks.append(_checks_of(part["strVal"].to_pylist()))
        found = Index()
        found.add(np.concatenate(keys), np.concatenate(checks))
        return found
