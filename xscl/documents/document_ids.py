"""The ids of documents that are known, and the versions of the documents that have them.

An id is one of a stream.  The same content under it again changes nothing, other content is a new
version.  Documents that have an id in common and no stream are different ones
(docs/decisions/ids.md).

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
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from templates.columns import Index
from xscl.errors import DocumentError
from xscl.store.queries.documents import hashes_of_ids
from xscl.store.queries.rows import RowNumbers, rows_of
from xscl.store.store import Store

Hashes: TypeAlias = npt.NDArray[np.uint32]
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
    """Return the posted id, followed by `@` and the version's `number` if that is above 1."""
    return id if number == 1 else f"{id}@{number}"


class StoredDocument(NamedTuple):
    """The part of a stored document that matches need.

    `id` is its name, which no other document has; `given` the id that it was posted with, on the
    `stream`, or the first one of several.
    """

    doc: int
    id: str
    ts: int
    first: int
    version: int
    history: bool
    clock: int
    rank: int
    base: int
    given: str
    stream: str

    @property
    def posted(self) -> str:
        """The id with which the document was posted, followed by `@n` if it is the n-th version."""
        return posted_name(self.given, number_in(self.id))


class Versions:
    """The documents with one id: the streams of each, and the hash of its content."""

    __slots__ = ("_contents", "_streams")

    def __init__(self) -> None:
        # by hash of the content: the streams of each version
        self._contents: dict[bytes, list[Sequence[str]]] = {}
        # by streams: (last version, number of its first version's document)
        self._streams: dict[Sequence[str], tuple[int, int]] = {}

    def add(self, streams: Sequence[str], digest: bytes, number: int, base: int) -> None:
        """Add version `number`, with its streams and the hash of its content.

        `base` is the number of the document that is the first version.
        """
        self._contents.setdefault(digest, []).append(streams)
        last, first = self._streams.get(streams, (number, base))
        self._streams[streams] = max(last, number), min(first, base)

    def has(self, streams: Sequence[str], digest: bytes) -> bool:
        """Return True if a version with this hash of the content is on one of `streams`."""
        return any(_meet(one, streams) for one in self._contents.get(digest, ()))

    def earlier(self, streams: Sequence[str]) -> tuple[int, int | None]:
        """Return the last version on one of `streams`, and its first version's document number.

        They are 0 and None if no version is on one.  So a new version gets a larger number than all
        versions with which it shares a stream.
        """
        found = [row for one, row in self._streams.items() if _meet(one, streams)]
        last = max((last for last, _ in found), default=0)
        return last, min((first for _, first in found), default=None)


def _meet(some: Sequence[str], others: Sequence[str]) -> bool:
    return some == others or not set(some).isdisjoint(others)


class DocumentIds:
    """Finds the documents of a store by their ids."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def known(self, ids: Collection[str], hashes: Hashes) -> dict[str, Versions]:
        """Return the versions of each known one of `ids`, by id.

        `hashes` has the hash of each id (`hashes_of`).
        """
        found: dict[str, Versions] = {}
        if not self._numbers.counts(hashes).any():
            return found
        _, docs = self._numbers.rows(hashes)
        asked = set(ids)
        columns = ("given", "id", "streams", "hash", "base")
        for row in rows_of(self._store, "document", *columns, doc=np.unique(docs).tolist()):
            if row["given"] in asked:
                versions = found.setdefault(row["given"], Versions())
                versions.add(tuple(row["streams"]), row["hash"], number_in(row["id"]), row["base"])
        return found

    def add(self, hashes: Hashes, docs: RowNumbers) -> None:
        """Add documents, by the hashes of their ids."""
        self._numbers.add(hashes, docs.astype(np.uint32))

    @cached_property
    def _numbers(self) -> Index:
        """The numbers of documents by the hashes of their ids, 8 bytes for both.

        Those of evicted documents stay.
        """
        docs, hashes = hashes_of_ids(self._store)
        numbers = Index()
        numbers.add(hashes.astype(np.uint32), docs.astype(np.uint32))
        return numbers


def hashes_of(ids: Collection[str]) -> Hashes:
    """Return 32 bits of the MD5 of each id, as `hashes_of_ids` has them."""
    digests = (hashlib.md5(id.encode(), usedforsecurity=False).digest()[8:12] for id in ids)
    return np.frombuffer(b"".join(digests), np.dtype("<u4"))


# -- The document that a text means ---------------------------------------------------------

UNKNOWN = "unknown_document"
"""The code of the error of a name that no document has."""
_SEARCHED = 1_000  # newest documents among which a path is searched
_LISTED = 10  # the most names in the message about an ambiguous id


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A document that a text may name: `name` in the engine, `shown` to the reader.

    The best `fit` is the least: 0 for the name, 1 for the id with some stream, 2 for the id alone.
    The second item of `fit` is False for the reader's own documents, which are better.
    """

    fit: tuple[int, bool]
    name: str
    shown: str
    streams: Sequence[str]


def find_document(
    store: Store,
    text: str,
    visible: Callable[[str], str | None] = str,
    stream: str | None = None,
) -> str:
    """Return the name of the document that a text means: a name, or an id of one document only.

    `visible` returns the reader's name of a stream, None for a stream that he does not see.  Of
    several documents with an id that of a `stream` is meant.  Raises DocumentError for an unknown
    document, and for an id of several.
    """
    found = list(_candidates(store, text, visible))
    if not found:
        raise DocumentError(
            f"there is no document {text!r}",
            reason_code=UNKNOWN,
            hint=_near(store, text, visible) or "xscl sql 'SELECT docid FROM documents' lists them",
        )
    best = min(one.fit for one in found)
    chosen = [one for one in found if one.fit == best]
    if len(chosen) > 1:
        chosen = [one for one in chosen if stream in one.streams] or chosen
    if len(chosen) > 1:
        listed = ", ".join(sorted(one.shown for one in chosen)[:_LISTED])
        more = ", ..." if len(chosen) > _LISTED else ""
        raise DocumentError(
            f"{text!r} is the id of {len(chosen)} documents: {listed}{more}",
            reason_code="ambiguous_document",
            hint="name one of them with its stream",
        )
    return chosen[0].name


def _near(store: Store, text: str, visible: Callable[[str], str | None]) -> str | None:
    """Return a hint with the newest document whose path ends with a text, ignoring case.

    `visible` is that of `find_document`.  None if no visible document among the newest fits.
    """
    end = f"/{text.casefold()}"
    newest = f"SELECT id, given, streams FROM state.document ORDER BY rowid DESC LIMIT {_SEARCHED}"
    for row in store.rows(newest):
        id, number = row["given"], number_in(row["id"])
        seen = ((stream, label) for stream in row["streams"] if (label := visible(stream)))
        stream, label = next(seen, ("", ""))
        if label and f"/{id.casefold()}".endswith(end):
            return f"did you mean {_shown(stream, label, id, number)}?"
    return None


def _candidates(
    store: Store, text: str, visible: Callable[[str], str | None]
) -> Iterator[_Candidate]:
    """Yield the documents that a text may name; `visible` is that of `find_document`."""
    _, _, behind = text.partition("/")
    versions = (VERSIONED.fullmatch(one) for one in (text, behind))
    ids = {text, behind, *(found[1] for found in versions if found)}
    for row in rows_of(store, "document", "id", "given", "streams", given=ids):
        name, given, streams = row["id"], row["given"], row["streams"]
        seen = [(stream, label) for stream in streams if (label := visible(stream)) is not None]
        if not seen:
            continue
        number = number_in(name)
        forms = {posted_name(given, number), f"{given}@{number}"}
        names = [_shown(stream, label, given, number) for stream, label in seen]
        labelled = {f"{label}/{form}" for _, label in seen for form in forms}
        if text == names[0]:
            fit = 0
        elif text in names or text in labelled:
            fit = 1
        elif text in forms:
            fit = 2
        else:
            continue
        # The reader's name of an own stream is shorter: it has no prefix of an owner.
        is_own = any(len(label) < len(stream) for stream, label in seen)
        yield _Candidate((fit, not is_own), name, names[0], streams)


def _shown(stream: str, label: str, id: str, number: int) -> str:
    """Return the name of version `number` of a document, with `label` as the name of its stream.

    `label` is the reader's name of the stream.
    """
    name = document_name(stream, id, number)
    return label + name[len(stream) :] if name.startswith(f"{stream}/") else name
