"""The ids of documents: those that are known, their versions, and ids that are not in use.

An id is one of a stream.  The same content under it again changes nothing, other content is a new
version.  Documents that have an id in common and no stream are different ones (decision 142); as a
match names documents by id alone, the later one is called `id@2`, as a version is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import compress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.columns.columns import HashFilter
from xscl.store.store import Store

MOST_UNSAVED = 1 << 16
"""Ids that only the journal may have; if there are more, the database is asked for all."""


class Versions:
    """The documents with one id."""

    __slots__ = ("_contents", "_streams", "last")

    def __init__(self) -> None:
        self.last = 0  # the n of the last `id@n`, 1 for the id itself
        self._contents: dict[bytes, list[Sequence[str]]] = {}  # the streams of each, by its hash
        self._streams: dict[Sequence[str], tuple[int, int]] = {}  # how many, and the least base

    def add(self, streams: Sequence[str], digest: bytes, base: int) -> None:
        """Add a document with some streams and a hash; `base` numbers its first version."""
        self._contents.setdefault(digest, []).append(streams)
        known = self._streams.get(streams)
        self._streams[streams] = (1, base) if known is None else (known[0] + 1, min(known[1], base))

    def has(self, streams: Sequence[str], digest: bytes) -> bool:
        """Return whether one with this hash is on one of some streams."""
        return any(_meet(one, streams) for one in self._contents.get(digest, ()))

    def earlier(self, streams: Sequence[str]) -> tuple[int, int | None]:
        """Return the number of those on one of some streams, and the base that these have."""
        found = [row for one, row in self._streams.items() if _meet(one, streams)]
        return sum(count for count, _ in found), min((first for _, first in found), default=None)


def _meet(some: Sequence[str], others: Sequence[str]) -> bool:
    return some == others or not set(some).isdisjoint(others)


class DocumentIds:
    """The ids of a store's documents; of evicted ones, that they were there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unsaved: set[str] = set()  # those of documents that only the journal may have
        self._made: set[str] = set()  # ids with an `@` of the batch that is being accepted

    def begin(self) -> None:
        """Begin with a batch."""
        self._made = set()
        if not self._store.lender.is_behind:
            self._unsaved.clear()

    def known(self, ids: Sequence[str]) -> dict[str, Versions]:
        """Return the documents with those of some ids that may be known."""
        asked = set(compress(ids, self._seen.among(_numbers(ids))))
        found: dict[str, Versions] = {}
        if not asked:
            return found
        self._store.lend("arriving", pa.table({"given": pa.array(list(asked), pa.string())}))
        query = (
            "SELECT given, id, streams, hash, base FROM state.document"
            " SEMI JOIN arriving USING (given)"
        )
        if len(self._unsaved) > MOST_UNSAVED or not self._unsaved.isdisjoint(asked):
            rows = self._store.fetch(query)
            self._unsaved.clear()  # the journal has been brought to the database
        else:
            rows = self._store.peek(query)
        for given, id, streams, digest, base in rows:
            versions = found.get(given)
            if versions is None:
                versions = found[given] = Versions()
            versions.add(tuple(streams), digest, base)
            versions.last = max(versions.last, number_of(given, id))
        return found

    def add(self, given: Sequence[str], names: Sequence[str]) -> None:
        """Add the documents of a batch: the ids that they were given, and those that they have."""
        made = [name for name, one in zip(names, given, strict=True) if name is not one]
        self._seen.add(np.concatenate((_numbers(given), _numbers(made))))
        self._unsaved.update(given)

    def name(self, given: str, versions: Versions) -> str:
        """Return the id of the next document with a given id, which nobody else has given."""
        versions.last += 1
        name = given if versions.last == 1 else f"{given}@{versions.last}"
        while "@" in name and (name in self._made or self._is_used(name)):
            versions.last += 1
            name = f"{given}@{versions.last}"
        if "@" in name:
            self._made.add(name)
        return name

    def _is_used(self, name: str) -> bool:
        if not self._seen.among(_numbers([name]))[0]:
            return False
        return bool(self._store.fetch("SELECT 1 FROM state.document WHERE id = ? LIMIT 1", [name]))

    @cached_property
    def _seen(self) -> HashFilter:
        """The hashes of all ids, given or made; those of evicted documents stay."""
        columns = self._store.connection.execute(
            "SELECT md5_number_lower(given) AS number FROM state.document UNION ALL"
            " SELECT md5_number_lower(id) FROM state.document WHERE id <> given"
        ).fetchnumpy()
        return HashFilter(np.asarray(columns["number"], dtype=np.uint64))


def number_of(given: str, id: str) -> int:
    """Return the n of `id@n`, 1 for the id itself."""
    return 1 if id == given else int(id[len(given) + 1 :])


def _numbers(names: Collection[str]) -> npt.NDArray[np.uint64]:
    """Return 64 bits of the MD5 of each name, as the database's md5_number_lower."""
    digests = (hashlib.md5(name.encode(), usedforsecurity=False).digest() for name in names)
    numbers = (int.from_bytes(digest[8:], "little") for digest in digests)
    return np.fromiter(numbers, np.uint64, len(names))
