"""The ids of documents that are known, and the versions of the documents that have them.

An id is one of a stream.  The same content under it again changes nothing, other content is a new
version.  Documents that have an id in common and no stream are different ones (decision 142).

The n-th version of the document `17` of the stream `orders` is called `orders/17@n`, the first one
`orders/17`.  The name depends on nothing else: not on other streams, nor on the order of arrival
among streams.  Two rules keep names unique:

    the documents of the stream `S`, the only one of the paper, are called by their ids, but for ids
    with a slash: `d1`, but `S/old/d1`
    an id that ends as the name of a version does is always followed by its version: `a@2@1`

A document of several streams is called after the first one.
"""

from __future__ import annotations

import hashlib
import re
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
PLAIN = "S"
"""The stream whose documents are called by their ids."""
SUFFIX = "@[0-9]+$"
"""The version at the end of a name, as SQL has it, too."""
VERSIONED = re.compile(r"(.*)@([0-9]+)", re.DOTALL)
"""A name or an id that ends in a version."""


def document_name(stream: str, id: str, number: int = 1) -> str:
    """Return the name of a document of a stream; `number` is that of its version, from 1."""
    name = id if stream == PLAIN and "/" not in id else f"{stream}/{id}"
    if number == 1 and not ("@" in id and VERSIONED.fullmatch(id)):
        return name
    return f"{name}@{number}"


def number_in(name: str) -> int:
    """Return the number of the version in the name of a document."""
    found = VERSIONED.fullmatch(name) if "@" in name else None
    return 1 if found is None else int(found[2])


def posted_name(id: str, number: int) -> str:
    """Return the id that was posted, followed by the version from the second one on."""
    return id if number == 1 else f"{id}@{number}"


class Versions:
    """The documents with one id."""

    __slots__ = ("_contents", "_streams")

    def __init__(self) -> None:
        self._contents: dict[bytes, list[Sequence[str]]] = {}  # the streams of each, by its hash
        self._streams: dict[Sequence[str], tuple[int, int]] = {}  # the last version, least base

    def add(self, streams: Sequence[str], digest: bytes, number: int, base: int) -> None:
        """Add the version of a number, with some streams and a hash; `base` is of its first one."""
        self._contents.setdefault(digest, []).append(streams)
        last, first = self._streams.get(streams, (number, base))
        self._streams[streams] = max(last, number), min(first, base)

    def has(self, streams: Sequence[str], digest: bytes) -> bool:
        """Return whether one with this hash is on one of some streams."""
        return any(_meet(one, streams) for one in self._contents.get(digest, ()))

    def earlier(self, streams: Sequence[str]) -> tuple[int, int | None]:
        """Return the last version on one of some streams, 0 for none, and the base of these.

        So the next version is later than all that it shares a stream with.
        """
        found = [row for one, row in self._streams.items() if _meet(one, streams)]
        last = max((last for last, _ in found), default=0)
        return last, min((first for _, first in found), default=None)


def _meet(some: Sequence[str], others: Sequence[str]) -> bool:
    return some == others or not set(some).isdisjoint(others)


class DocumentIds:
    """The ids of a store's documents; of evicted ones, that they were there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unsaved: set[str] = set()  # those of documents that only the journal may have

    def begin(self) -> None:
        """Begin with a batch."""
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
        for given, name, streams, digest, base in rows:
            versions = found.get(given)
            if versions is None:
                versions = found[given] = Versions()
            versions.add(tuple(streams), digest, number_in(name), base)
        return found

    def add(self, given: Sequence[str]) -> None:
        """Add the ids of the documents of a batch."""
        self._seen.add(_numbers(given))
        self._unsaved.update(given)

    @cached_property
    def _seen(self) -> HashFilter:
        """The hashes of all ids; those of evicted documents stay."""
        columns = self._store.connection.execute(
            "SELECT md5_number_lower(given) AS number FROM state.document"
        ).fetchnumpy()
        return HashFilter(np.asarray(columns["number"], dtype=np.uint64))


def _numbers(names: Collection[str]) -> npt.NDArray[np.uint64]:
    """Return 64 bits of the MD5 of each name, as the database's md5_number_lower."""
    digests = (hashlib.md5(name.encode(), usedforsecurity=False).digest() for name in names)
    numbers = (int.from_bytes(digest[8:], "little") for digest in digests)
    return np.fromiter(numbers, np.uint64, len(names))
