"""String values and their keys: fixed-width stand-ins that join as exactly as the text.

A key is a 64-bit hash of the text.  Keys are *verified when they are stored*:
a text whose key belongs to another text takes the hash of the next salt, and
so on.  Within one state equal keys therefore mean equal texts, and no join has
to compare texts again.  A text that comes back walks the same salts and
arrives at the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.lending import Lender
from templates.seen import Seen

Hash = Callable[[str, int], int]
Keys = npt.NDArray[np.uint64]


def key_of(text: str, salt: int = 0) -> int:
    """Return the 64-bit key of a text under a salt."""
    salted = hashlib.blake2b(text.encode(), digest_size=8, salt=salt.to_bytes(8, "little"))
    return int.from_bytes(salted.digest(), "little")


@dataclass(frozen=True, slots=True)
class Interned:
    """The keys of a batch's distinct texts, and which of the texts were there before."""

    keys: Keys
    known: npt.NDArray[np.bool_]


class Values:
    """The texts that are kept, with their keys."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, lender: Lender, hashed: Hash = key_of
    ) -> None:
        self._connection = connection
        self._lender = lender
        self._hashed = hashed
        self._seen: Seen | None = None

    def intern(self, texts: Sequence[str]) -> Interned:
        """Return the keys of distinct texts, and store in `state.value` those that are new."""
        keys = np.array([self._hashed(text, 0) for text in texts], dtype=np.uint64)
        known = np.zeros(len(texts), dtype=np.bool_)
        open_rows = np.arange(len(texts))
        salt = 0
        while len(open_rows):
            collided = self._store(texts, keys, known, open_rows)
            salt += 1
            for row in collided:
                keys[row] = self._hashed(texts[row], salt)
            open_rows = collided
        return Interned(keys, known)

    def sweep(self) -> None:
        """Delete the texts that no kept binding has."""
        self._connection.execute(
            "DELETE FROM state.value WHERE key NOT IN"
            " (SELECT key FROM state.binding WHERE key IS NOT NULL)"
        )
        self._seen = None

    def _store(
        self,
        texts: Sequence[str],
        keys: Keys,
        known: npt.NDArray[np.bool_],
        rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Store the texts of `rows`, mark those already there, return those whose key is taken."""
        taken = self._texts_of(keys[rows])
        fresh: dict[int, int] = {}  # the first row of each key
        collided = []
        for row, key in zip(rows.tolist(), keys[rows].tolist(), strict=True):
            if key in taken:
                known[row] = taken[key] == texts[row]
                if not known[row]:
                    collided.append(row)
            elif fresh.setdefault(key, row) != row:
                collided.append(row)
        if fresh:
            self._keep(list(fresh), [texts[row] for row in fresh.values()])
        return np.array(collided, dtype=np.int64)

    def _texts_of(self, keys: Keys) -> dict[int, str]:
        """Return the texts that are kept under some keys."""
        if self._seen is None:
            stored = self._connection.execute("SELECT key FROM state.value").fetchnumpy()
            self._seen = Seen(np.asarray(stored["key"], dtype=np.uint64))
        asked = np.unique(keys[self._seen.among(keys)])
        if not len(asked):
            return {}
        self._lender.lend("asked_key", pa.table({"key": asked}))
        rows = self._connection.execute(
            "SELECT key, strVal FROM state.value SEMI JOIN asked_key USING (key)"
        )
        return dict(rows.fetchall())

    def _keep(self, keys: list[int], texts: list[str]) -> None:
        assert self._seen is not None
        stored = pa.table({"key": pa.array(keys, pa.uint64()), "strVal": texts})
        self._lender.lend("new_value", stored)
        self._connection.execute("INSERT INTO state.value SELECT * FROM new_value")
        self._seen.add(np.array(keys, dtype=np.uint64))
