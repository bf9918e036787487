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


def intern_values(
    connection: duckdb.DuckDBPyConnection, texts: Sequence[str], hashed: Hash = key_of
) -> Interned:
    """Return the keys of distinct texts, and store in `state.value` those that are new."""
    keys = np.array([hashed(text, 0) for text in texts], dtype=np.uint64)
    known = np.zeros(len(texts), dtype=np.bool_)
    open_rows = np.arange(len(texts))
    salt = 0
    while len(open_rows):
        collided = _store(connection, texts, keys, known, open_rows)
        salt += 1
        for row in collided:
            keys[row] = hashed(texts[row], salt)
        open_rows = collided
    return Interned(keys, known)


def _store(
    connection: duckdb.DuckDBPyConnection,
    texts: Sequence[str],
    keys: Keys,
    known: npt.NDArray[np.bool_],
    rows: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Store the texts of `rows`, mark those already there, return those whose key is taken."""
    connection.register(
        "batch_value",
        pa.table({"row": rows, "key": keys[rows], "strVal": [texts[row] for row in rows]}),
    )
    there = connection.sql(
        'SELECT b."row" AS "row", b.strVal = v.strVal AS same'
        " FROM batch_value b JOIN state.value v USING (key)"
    ).to_arrow_table()
    found, same = there["row"].to_numpy(), there["same"].to_numpy(zero_copy_only=False).astype(bool)
    known[found[same]] = True
    taken = set(found.tolist())
    fresh, collided = _first_of_each_key(keys, [row for row in rows.tolist() if row not in taken])
    collided.extend(found[~same].tolist())
    if fresh:
        stored = pa.table({"key": keys[fresh], "strVal": [texts[row] for row in fresh]})
        connection.register("batch_value", stored)
        connection.execute("INSERT INTO state.value SELECT key, strVal FROM batch_value")
    return np.array(collided, dtype=np.int64)


def _first_of_each_key(keys: Keys, rows: list[int]) -> tuple[list[int], list[int]]:
    """Split rows into the first of each key and the others."""
    first: dict[int, int] = {}
    for row in rows:
        first.setdefault(int(keys[row]), row)
    fresh = set(first.values())
    return list(first.values()), [row for row in rows if row not in fresh]
