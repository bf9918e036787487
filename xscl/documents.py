"""The documents of an engine: identity, versions, order of arrival, texts.

A document is what its id and its content say it is: the same again changes
nothing, other content under the same id is a new version `id@2`.  Documents
are numbered as they arrive; what a query publishes arrives with the newest of
the documents that it was made from (`rank`), whatever the batch.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, repeat
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from feeds.documents import Document
from feeds.errors import MalformedDocument
from feeds.xmlparse import parse
from templates.relations import INFINITE
from templates.seen import Seen
from xscl.errors import DocumentError, StoreError
from xscl.ledger import Beat
from xscl.store import Store
from xscl.xpath.arrivals import Arrival, Content
from xscl.xpath.portions import Part
from xscl.xpath.tree import Tree, number_nodes

LEVELS = 64  # ranks from one arrival to the next: how deep published streams can be nested
TREES = 256  # parsed documents kept for reading matches
RECENT = 4096  # documents of small batches that matches are read of without asking the store
EARLIEST = -(INFINITE >> 1)  # the clock before the first document


Refusal: TypeAlias = tuple[Document, MalformedDocument | DocumentError]
"""A document that cannot be taken, and why."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a published document stands in the order of arrival; its parts' highest version."""

    clock: int
    rank: int
    first: int
    version: int = 1


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored document, as far as matches need it."""

    doc: int
    id: str
    ts: int
    first: int
    version: int
    history: bool
    clock: int
    rank: int
    base: int


class Accepted(NamedTuple):
    """A document of a batch that is new, parsed, with its number and version."""

    document: Document
    id: str
    version: int
    hash: bytes
    arrival: Arrival


class Documents:
    """Accepts the documents of a batch and keeps what is needed of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.clock, self.next = store.numbers("clock", "next_doc")
        self._trees: OrderedDict[int, Tree] = OrderedDict()
        self._recent: OrderedDict[int, Stored] = OrderedDict()
        self._arrived: dict[int, Content] = {}  # of this push, perhaps not stored yet
        self._names: set[str] = set()  # ids with an `@` in the batch that is being accepted

    # -- Arriving --------------------------------------------------------------------------

    def accept(
        self,
        documents: Sequence[tuple[Document, Origin | None]],
        *,
        strict: bool = False,
        parts: Sequence[Part | None] = (),
        beats: Sequence[Beat] = (),
    ) -> list[Accepted]:
        """Return the documents that are new, in order; record those that cannot be parsed.

        Documents with an origin are published ones; the others arrive now.  `parts` says where
        to find those that were shredded elsewhere; `beats` set the clock between them.
        """
        self._names = set()
        given = list({d.id for d, _ in documents if _writable(d.id)})
        numbers = _numbers(given)
        identities = self._identities(given, numbers)
        accepted: list[Accepted] = []
        refused: dict[tuple[str, str], tuple[object, ...]] = {}
        times = dict(sorted(beats))  # of several at one place the latest
        each = zip(documents, parts or repeat(None), strict=bool(parts))
        for at, ((document, origin), part) in enumerate(each):
            if at in times:
                self.clock = max(self.clock, times[at])
            try:
                found = self._accept_one(document, origin, identities, part)
            except (MalformedDocument, DocumentError) as error:
                if strict:
                    raise
                row = _refused(document, error, self.clock)
                refused.setdefault((row[1], row[6]), row)
                continue
            if found is not None:
                accepted.append(found)
        self.clock = max(self.clock, times.get(len(documents), self.clock))
        self._store.insert("state.document", _table(_SCHEMA, map(_row, accepted)))
        made = [a.id for a in accepted if a.id != a.document.id]
        self._seen.add(np.concatenate((numbers, _numbers(made))))
        if refused:
            self._keep_refused(refused)
        if len(accepted) <= RECENT // 4:
            self._remember(accepted)
        return accepted

    def refuse_poison(self, documents: Sequence[Document]) -> None:
        """Record documents of which a process has died that read them; they are not read."""
        error = DocumentError("a process ended while it read the document", reason_code="poison")
        self.refuse((document, error) for document in documents)

    def refuse(self, refused: Iterable[Refusal]) -> None:
        """Record documents that are not taken, each with the reason."""
        rows = (_refused(document, error, self.clock) for document, error in refused)
        if found := {(row[1], row[6]): row for row in rows}:
            self._keep_refused(found)

    def _remember(self, accepted: Sequence[Accepted]) -> None:
        """Have at hand what matches need to know of documents that have just come."""
        for one in accepted:
            doc, _, _, ts, clock, rank, base, first, *_ = one.arrival
            self._recent[doc] = Stored(
                doc, one.id, ts, first, one.version, one.document.history, clock, rank, base
            )
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def _accept_one(
        self,
        document: Document,
        origin: Origin | None,
        identities: dict[str, dict[bytes, int]],
        part: Part | None,
    ) -> Accepted | None:
        _check(document)
        digest = hashlib.blake2b(document.xml, digest_size=16).digest()
        versions = identities.setdefault(document.id, {})
        if digest in versions:
            return None
        fine = part is not None and part.fine
        content = Content(document.xml, None if fine else parse(document.xml))
        number = self.take_number()
        base = min(versions.values(), default=number)
        versions[digest] = number
        place = origin or Origin(self.clock, number * LEVELS, number)
        if origin is None:
            self.clock = max(self.clock, document.timestamp)
        version = max(len(versions), place.version)
        arrival = Arrival(
            number,
            document.streams,
            content,
            document.timestamp,
            place.clock,
            place.rank,
            base,
            place.first,
            version,
            part,
        )
        self._arrived[number] = content
        name = self._name(document.id, len(versions))
        return Accepted(document, name, version, digest, arrival)

    def take_number(self) -> int:
        """Return the next number: composites are numbered among the documents."""
        number, self.next = self.next, self.next + 1
        return number

    def _name(self, given: str, version: int) -> str:
        """Return the id of a version: `id`, `id@2`, ...; one that is not in use."""
        name = given if version == 1 else f"{given}@{version}"
        while "@" in name and (name in self._names or self._known(name)):
            version += 1
            name = f"{given}@{version}"
        if "@" in name:
            self._names.add(name)
        return name

    def _known(self, name: str) -> bool:
        """Whether some document has this id."""
        if not self._seen.among(_numbers([name]))[0]:
            return False
        return bool(self._store.fetch("SELECT 1 FROM state.document WHERE id = ? LIMIT 1", [name]))

    @cached_property
    def _seen(self) -> Seen:
        """The numbers of all ids, given or made; what is forgotten stays, which does no harm."""
        columns = self._store.connection.execute(
            "SELECT md5_number_lower(given) AS number FROM state.document UNION ALL"
            " SELECT md5_number_lower(id) FROM state.document WHERE id <> given"
        ).fetchnumpy()
        return Seen(np.asarray(columns["number"], dtype=np.uint64))

    def _identities(
        self, ids: Sequence[str], numbers: npt.NDArray[np.uint64]
    ) -> dict[str, dict[bytes, int]]:
        """Return the known versions of ids: the number of each by its content's hash."""
        asked = list(compress(ids, self._seen.among(numbers)))
        known: dict[str, dict[bytes, int]] = {}
        if not asked:
            return known
        self._store.lend("arriving", pa.table({"given": pa.array(asked, pa.string())}))
        for given, digest, doc in self._store.fetch(
            "SELECT given, hash, doc FROM state.document SEMI JOIN arriving USING (given)"
        ):
            known.setdefault(given, {})[digest] = doc
        return known

    def _keep_refused(self, rows: Mapping[tuple[str, str], tuple[object, ...]]) -> None:
        """Record documents that are not taken, by id and content, each once."""
        ids, contents = zip(*rows, strict=True)
        self._store.lend("refused", pa.table({"id": ids, "sha256": contents}))
        known = set(
            self._store.fetch(
                "SELECT id, sha256 FROM state.rejected SEMI JOIN refused USING (id, sha256)"
            )
        )
        new = [row for key, row in rows.items() if key not in known]
        self._store.insert("state.rejected", _table(_REFUSED, new))

    # -- Texts -----------------------------------------------------------------------------

    def keep_texts(self, accepted: Sequence[Accepted]) -> int:
        """Store the texts of documents and return how many bytes they have."""
        docs = pa.array([a.arrival.doc for a in accepted], pa.int64())
        texts = [a.document.xml for a in accepted]
        table = pa.table({"doc": docs, "xml": pa.array(texts, pa.binary())})
        self._store.insert("state.text", table)
        return sum(map(len, texts))

    def finish(self) -> None:
        """End a push: from now on documents are read from their texts."""
        self._arrived.clear()

    def tree(self, doc: int) -> Tree:
        """Return a document's numbered nodes."""
        tree = self._trees.get(doc)
        if tree is None and doc in self._arrived:
            tree = self._trees[doc] = number_nodes(self._arrived[doc].root)
        if tree is None:
            rows = self._store.fetch("SELECT xml FROM state.text WHERE doc = ?", [doc])
            if not rows:
                raise StoreError(
                    "the documents of this match are no longer kept",
                    hint="read a match before its subscription is removed, or keep matches longer",
                )
            tree = self._trees[doc] = number_nodes(parse(rows[0][0]))
        self._trees.move_to_end(doc)
        if len(self._trees) > TREES:
            self._trees.popitem(last=False)
        return tree

    def read(self, docs: Iterable[int]) -> None:
        """Read documents whose nodes are about to be asked for, in one go.

        They are at hand until 256 others have been asked for.
        """
        missing = {doc for doc in docs if doc not in self._trees and doc not in self._arrived}
        if len(missing) < 2:
            return
        listed = pa.table({"doc": pa.array(sorted(missing), pa.int64())})
        self._store.lend("asked", listed)
        for doc, xml in self._store.fetch(
            "SELECT doc, xml FROM state.text SEMI JOIN asked USING (doc)"
        ):
            self._trees[doc] = number_nodes(parse(xml))
        while len(self._trees) > TREES:
            self._trees.popitem(last=False)

    def stored(self, docs: set[int]) -> dict[int, Stored]:
        """Return what matches need to know of documents."""
        # A match may be read in another thread, while documents come and others go.
        recent = ((doc, self._recent.get(doc)) for doc in docs)
        found = {doc: stored for doc, stored in recent if stored is not None}
        asked = sorted(docs - found.keys())
        if asked:
            self._store.lend("asked", pa.table({"doc": pa.array(asked, pa.int64())}))
            rows = self._store.fetch(
                "SELECT doc, id, ts, first, version, history, clock, rank, base"
                " FROM state.document SEMI JOIN asked USING (doc)"
            )
            found.update((row[0], Stored(*row)) for row in rows)
        return found


def check(documents: Iterable[Document]) -> None:
    """Raise for the first document that cannot be taken."""
    for document in documents:
        _check(document)
        parse(document.xml)


def _check(document: Document) -> None:
    """Raise for a document that no query could be right about."""
    streams = document.streams
    if not streams or not all(streams):
        raise DocumentError("the document names no stream", reason_code="no_stream")
    names = (document.id, document.origin, *streams)
    try:
        plain = "".join(names).isascii()
    except TypeError:
        plain = False
    if not plain:
        for name in names:
            if not _writable(name):
                raise DocumentError(f"{name!r} is not a text that can be kept", reason_code="name")
    if type(document.timestamp) is not int or not isinstance(document.xml, bytes):
        raise DocumentError(
            "a document has a whole number as timestamp and bytes as xml", reason_code="type"
        )
    if abs(document.timestamp) >= -EARLIEST:
        raise DocumentError(
            f"the timestamp {document.timestamp} is out of range", reason_code="timestamp"
        )


def _numbers(names: Collection[str]) -> npt.NDArray[np.uint64]:
    """Return 64 bits of the MD5 of each name, as the database's md5_number_lower."""
    digests = (hashlib.md5(name.encode(), usedforsecurity=False).digest() for name in names)
    numbers = (int.from_bytes(digest[8:], "little") for digest in digests)
    return np.fromiter(numbers, np.uint64, len(names))


def _writable(name: object) -> bool:
    """Whether a name is a text that has an encoding (no lone surrogates)."""
    return isinstance(name, str) and (name.isascii() or _shown(name) == name)


def _shown(name: object) -> str:
    return str(name).encode("utf-8", "replace").decode()


_SCHEMA = pa.schema(
    [
        ("doc", pa.int64()),
        ("id", pa.string()),
        ("given", pa.string()),
        ("version", pa.int32()),
        ("streams", pa.list_(pa.string())),
        ("ts", pa.int64()),
        ("clock", pa.int64()),
        ("rank", pa.int64()),
        ("base", pa.int64()),
        ("first", pa.int64()),
        ("hash", pa.binary()),
        ("history", pa.bool_()),
        ("origin", pa.string()),
    ]
)


_REFUSED = pa.schema(
    [
        ("stream", pa.string()),
        ("id", pa.string()),
        ("reason", pa.string()),
        ("line", pa.int32()),
        ("column", pa.int32()),
        ("message", pa.string()),
        ("sha256", pa.string()),
        ("beginning", pa.binary()),
        ("clock", pa.int64()),
    ]
)


def _row(one: Accepted) -> tuple[object, ...]:
    document, arrival = one.document, one.arrival
    return (
        arrival.doc,
        one.id,
        document.id,
        one.version,
        arrival.streams,
        arrival.ts,
        arrival.clock,
        arrival.rank,
        arrival.base,
        arrival.first,
        one.hash,
        document.history,
        document.origin,
    )


def _refused(
    document: Document, error: MalformedDocument | DocumentError, clock: int
) -> tuple[str | None, str, str, int | None, int | None, str, str, bytes, int]:
    xml = document.xml if isinstance(document.xml, bytes) else b""
    return (
        _shown(document.streams[0]) if document.streams else None,
        _shown(document.id),
        error.reason_code,
        error.line or None,
        error.column or None,
        error.message,
        hashlib.sha256(xml).hexdigest(),
        _beginning(xml),
        clock,
    )


def _beginning(xml: bytes) -> bytes:
    """Return the first 1,024 bytes, less those of a character of UTF-8 that is cut."""
    end = min(1024, len(xml))
    while end < len(xml) and end > 1020 and xml[end] & 0xC0 == 0x80:
        end -= 1
    return xml[:end]


def _table(schema: pa.Schema, rows: Iterable[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )
