"""String values and their keys: fixed-width numbers that join as exactly as the texts.

A key is a 64-bit hash of the text.  Keys are *verified when they are stored*:
a text whose key belongs to another text takes the hash of the next salt, and
so on.  Within one state equal keys therefore mean equal texts, and no join has
to compare texts again.  A repeated text tries the same salts and gets the same
key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.columns.arrow_tables import Lender
from templates.columns.columns import HashFilter

Keys = npt.NDArray[np.uint64]
Hash = Callable[[Sequence[str], int], Keys]


RECENT = 1024
"""Texts that are at hand, of those that were asked for last; long ones are not."""
LONG = 512
"""Characters from which on a text is long."""


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


@dataclass(frozen=True, slots=True)
class Interned:
    """The keys of a batch's distinct texts, with a mask of the known ones."""

    keys: Keys
    known: npt.NDArray[np.bool_]


class Values:
    """The stored texts, with their keys."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, lender: Lender, hashed: Hash = keys_of
    ) -> None:
        self._connection = connection
        self._lender = lender
        self._hashed = hashed
        self._seen: HashFilter | None = None
        self._recent: OrderedDict[int, str] = OrderedDict()
        self._new: dict[int, str] = {}  # which the database may lack
        self._older: dict[int, str] = {}  # too: those of records up to the number `_latest`
        self._latest = -1

    def intern(self, texts: Sequence[str]) -> Interned:
        """Return the keys of distinct texts, and store the new ones in `state.value`."""
        self._drop_saved()
        keys = self._hashed(texts, 0)
        known = np.zeros(len(texts), dtype=np.bool_)
        salt = 0
        rows = self._store(texts, keys, known, np.arange(len(texts)))
        while len(rows):
            salt += 1
            keys[rows] = self._hashed([texts[row] for row in rows], salt)
            rows = self._store(texts, keys, known, rows)
        return Interned(keys, known)

    def _drop_saved(self) -> None:
        """Drop texts that the database has by now.

        Two halves take turns: those of the older one are dropped when their last record has left
        the journal.  Each half has the texts of at most as many records as the journal keeps.
        """
        if not self._lender.is_behind:
            self._new, self._older = {}, {}
            return
        first, following = self._lender.pending
        if first > self._latest:
            self._older, self._new, self._latest = self._new, {}, following

    def sweep(self) -> None:
        """Delete the texts without a binding."""
        self._connection.execute(
            "DELETE FROM state.value WHERE key NOT IN"
            " (SELECT DISTINCT key FROM state.binding WHERE key IS NOT NULL)"
        )
        self._seen = None
        self._recent.clear()
        self._new, self._older = {}, {}

    def _store(
        self,
        texts: Sequence[str],
        keys: Keys,
        known: npt.NDArray[np.bool_],
        rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Store the texts of `rows`, mark the known ones, and return those whose key is taken."""
        ours = keys[rows]
        taken, there = self._texts_of(ours)
        for row, key in zip(rows[there].tolist(), ours[there].tolist(), strict=True):
            known[row] = taken[key] == texts[row]
        new = rows[~there]
        fresh, first = np.unique(keys[new], return_index=True)
        if len(fresh):
            self._keep(fresh, [texts[row] for row in new[first]])
        return np.concatenate((rows[there & ~known[rows]], np.delete(new, first)))

    def _texts_of(self, keys: Keys) -> tuple[dict[int, str], npt.NDArray[np.bool_]]:
        """Return the stored texts of some keys, with a mask of the known keys."""
        if not len(keys):
            # The empty batch of a processor that is being made, perhaps in a reading that is rolled
            # back with rows of the journal.  The filter would know texts that the database lacks.
            return {}, np.zeros(0, dtype=np.bool_)
        if self._seen is None:
            stored = self._connection.execute("SELECT key FROM state.value").fetchnumpy()
            self._seen = HashFilter(np.asarray(stored["key"], dtype=np.uint64))
        there = self._seen.among(keys)
        if not there.any():
            return {}, there
        asked = np.unique(keys[there])
        at_hand = ((key, self._at_hand(key)) for key in asked.tolist())
        found = {key: text for key, text in at_hand if text is not None}
        if len(found) < len(asked):
            listed = self._lender.among(asked)
            query = f"SELECT key, strVal FROM state.value WHERE key IN ({listed})"
            found.update(self._lender.peek(query))
        self._note(found)
        if len(found) == len(asked):
            return found, there
        return found, np.isin(keys, np.fromiter(found, np.uint64, len(found)))

    def _at_hand(self, key: int) -> str | None:
        """Return a text that was read lately, or that the database may lack."""
        for texts in (self._recent, self._new, self._older):
            if (text := texts.get(key)) is not None:
                return text
        return None

    def _note(self, found: dict[int, str]) -> None:
        """Cache texts that were read, since many are repeated."""
        if len(found) > RECENT:
            return
        for key, text in found.items():
            if len(text) < LONG:
                self._recent[key] = text
                self._recent.move_to_end(key)
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def _keep(self, keys: Keys, texts: list[str]) -> None:
        assert self._seen is not None
        self._lender.insert("state.value", pa.table({"key": keys, "strVal": texts}))
        self._seen.add(keys)
        self._new.update(zip(keys.tolist(), texts, strict=True))
