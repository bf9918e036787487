"""The documents of an engine: identity, versions, order of arrival, texts.

Id, content and streams identify a document (`document_ids`).  Documents are numbered as they
arrive.  A published document arrives with the newest of its source documents (`rank`),
independent of the batch.
"""

from __future__ import annotations

import hashlib
from bisect import bisect
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from feeds.documents import Document, DocumentColumns
from feeds.errors import MalformedDocument
from feeds.xml.xmlparse import parse
from xscl.documents.consumed_offsets import Beat
from xscl.documents.document_ids import (
    DocumentIds,
    StoredDocument,
    Versions,
    document_name,
    hashes_of,
)
from xscl.documents.document_validation import (
    Reason,
    Rejection,
    rejection_row,
    separate_invalid,
)
from xscl.errors import StoreError
from xscl.shredding.arrivals import Arrival, Arrivals, Numbers, RemoteBindings
from xscl.shredding.batch.known_markup import MarkupCache, ReadDocument
from xscl.shredding.nodes import DocumentTree, TreeCache, number_nodes
from xscl.store.queries.documents import latest_arrival, stored_documents, text_of, texts_of
from xscl.store.queries.lateness import known_rejected
from xscl.store.queries.tables import EARLIEST, LEVELS
from xscl.store.store import Store

RECENT = 4096  # documents of small batches that stay in memory for their matches


class DocumentOrigin(NamedTuple):
    """The clock, rank, `first` and version of a published document, from the parts that it is made
    of.
    """

    clock: int
    rank: int
    first: int
    version: int = 1


class AcceptedDocuments(NamedTuple):
    """The new documents of a batch, their indexes in it (`places`), and how many were rejected.

    All other documents of the batch are unchanged.
    """

    arrivals: Arrivals
    places: Numbers
    rejected: int


class DocumentLog:
    """Accepts the documents of a batch and stores them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.clock, self.next = store.numbers("clock", "next_doc")
        latest = latest_arrival(store)
        self.arrived = EARLIEST if latest is None else latest
        self._trees = TreeCache()
        self._markups = MarkupCache()
        self._recent: OrderedDict[int, StoredDocument] = OrderedDict()
        # the documents of each `accept` in this push, which may not be stored yet; none is empty
        self._arrived: list[Arrivals] = []
        self._arrived_from: list[int] = []  # the number of the first document of each of `_arrived`
        self._ids = DocumentIds(store)

    # -- Arriving --------------------------------------------------------------------------

    def accept(
        self,
        documents: Sequence[Document],
        origins: Sequence[DocumentOrigin] = (),
        *,
        elsewhere: RemoteBindings | None = None,
        beats: Sequence[Beat] = (),
        poison: Collection[int] = (),
        arrived: int | None = None,
    ) -> AcceptedDocuments:
        """Return the new documents, in order; record the rejected ones.

        With `origins` they are published documents; without, they arrive now.  `elsewhere` has the
        bindings that other processes found in them; `beats` set the clock between documents.
        Documents at the indexes in `poison` are not read, but rejected.  `arrived` is the time of
        arrival, by default the clock after each.
        """
        given, refused = separate_invalid(documents, poison)
        batch = _Batch(given, origins, elsewhere, refused)
        self._identify(batch)
        rows = np.flatnonzero(batch.taken)
        clocks = self._advance_clock(batch, beats)
        times = np.maximum(clocks[1:] if arrived is None else arrived, self.arrived)
        self.arrived = max(self.arrived, int(clocks[-1]) if arrived is None else arrived)
        arrivals = batch.arrivals(rows, self.next, clocks)
        self.next += len(rows)
        self._ids.add(batch.id_hashes[rows], arrivals.docs)
        if len(rows):
            self._arrived.append(arrivals)
            self._arrived_from.append(int(arrivals.docs[0]))
        columns = batch.columns(rows, arrivals, np.broadcast_to(times, len(batch.taken)))
        self._store.insert("document", columns)
        if refused:
            self._record_rejected(
                rejection_row(documents[at], refused[at], int(clocks[at])) for at in sorted(refused)
            )
        if len(rows) <= RECENT // 4:
            self._remember(columns)
        return AcceptedDocuments(arrivals, rows, len(refused))

    def replay(self, arrivals: Arrivals, rows: pa.Table, *, in_order: bool) -> None:
        """Accept documents of another log, with their numbers, and `rows` for `state.document`.

        The documents advance the clock if they are `in_order` of time.
        """
        if in_order:
            self.clock = max(self.clock, int(arrivals.clocks.max()), int(arrivals.ts.max()))
        self._arrived.append(arrivals)
        self._arrived_from.append(int(arrivals.docs[0]))
        self._store.insert("document", rows.to_pydict())

    def refuse(self, refused: Iterable[Rejection]) -> None:
        """Record rejected documents, each with the reason."""
        self._record_rejected(
            rejection_row(document, error, self.clock) for document, error in refused
        )

    def _identify(self, batch: _Batch) -> None:
        """Determine the new documents, and their ids.

        An id that occurs for the first time needs no more; the others are examined one by one,
        and so are those that have to be read.
        """
        ids = batch.given.ids
        known = self._ids.known(ids, batch.id_hashes)
        for one, times in Counter(ids).items():
            if times > 1:
                known.setdefault(one, Versions())
        missing = 0
        for at in batch.candidates(known):
            if not self._assign(batch, at, self.next + at - missing, known.get(ids[at])):
                batch.taken[at] = False
                missing += 1

    def _assign(self, batch: _Batch, at: int, number: int, versions: Versions | None) -> bool:
        """Try to accept the document at index `at` of a batch under the given document number.

        Return False if it is known or malformed.  `versions` are the documents with its id, to
        which it is added; None if no other document has the id.
        """
        streams, digest = batch.given.streams[at], batch.hashes[at]
        if versions is not None and versions.has(streams, digest):
            return False
        if at in batch.refused:
            return False
        if batch.unread[at]:
            try:
                batch.read[at] = self._markups.read(batch.given.xml[at])
            except MalformedDocument as error:
                batch.refused[at] = error
                return False
        if versions is not None:
            earlier, base = versions.earlier(streams)
            if base is not None:
                batch.bases[at] = base
            versions.add(streams, digest, earlier + 1, number if base is None else base)
            if earlier:
                batch.versions[at] = earlier + 1
                batch.names[at] = document_name(streams[0], batch.given.ids[at], earlier + 1)
        return True

    def _advance_clock(self, batch: _Batch, beats: Sequence[Beat]) -> Numbers:
        """Advance the clock; return it as before each document of the batch, and after the last."""
        times = np.full(len(batch.given) + 1, self.clock)
        if not batch.origins:
            times[1:] = np.where(batch.taken, batch.ts, EARLIEST)
        for place, time in beats:
            times[place] = max(times[place], time)
        clocks: Numbers = np.maximum.accumulate(times)
        self.clock = int(clocks[-1])
        return clocks

    def advance(self, to: int) -> None:
        """Advance the clock to the time `to`, in ticks, and the clock of arrivals with it."""
        self.clock = max(self.clock, to)
        self.arrived = max(self.arrived, self.clock)

    def _remember(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Cache the part of new documents that matches need, from columns of `state.document`."""
        known = {**columns, "stream": [streams[0] for streams in columns["streams"]]}
        for row in zip(*map(known.__getitem__, StoredDocument._fields), strict=True):
            self._recent[row[0]] = StoredDocument._make(row)
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def next_number(self) -> int:
        """Return the next number: composites are numbered among the documents."""
        number, self.next = self.next, self.next + 1
        return number

    def _record_rejected(self, found: Iterable[Mapping[str, Any]]) -> None:
        """Write those rows of `state.rejected` whose stream, id and content are not in it yet."""
        rows: dict[tuple[str | None, str, str], Mapping[str, Any]] = {}
        for row in found:
            rows.setdefault((row["stream"], row["id"], row["sha256"]), row)
        if not rows:
            return
        _, ids, digests = zip(*rows, strict=True)
        known = known_rejected(self._store, ids, digests)
        self._store.insert_rows("rejected", [row for key, row in rows.items() if key not in known])

    # -- Texts -----------------------------------------------------------------------------

    def finish(self) -> None:
        """End a push: from then on documents are read from their texts."""
        self._arrived.clear()
        self._arrived_from.clear()

    def _arrival(self, doc: int) -> Arrival | None:
        """Return a document of this push by its number; None for an earlier one."""
        at = bisect(self._arrived_from, doc) - 1
        if at < 0:
            return None
        batch = self._arrived[at]
        place = int(np.searchsorted(batch.docs, doc))
        return Arrival(batch, place) if place < len(batch) and batch.docs[place] == doc else None

    def tree(self, doc: int) -> DocumentTree:
        """Return a document's numbered nodes."""
        tree = self._trees.get(doc)
        if tree is None and (here := self._arrival(doc)) is not None:
            tree = self._trees.put(doc, number_nodes(here.root, here.ts))
        if tree is None:
            text = text_of(self._store, doc)
            if text is None:
                raise evicted()
            tree = self._trees.put(doc, number_nodes(parse(text.xml), text.ts))
        return tree

    def read(self, docs: Iterable[int]) -> None:
        """Read documents whose nodes are needed soon, in one statement.

        They are cached (`TreeCache`): a document that is too large for that is read again.
        """
        missing = {doc for doc in docs if doc not in self._trees and not self._arrival(doc)}
        if len(missing) < 2:
            return
        for doc, text in texts_of(self._store, sorted(missing)).items():
            self._trees.put(doc, number_nodes(parse(text.xml), text.ts))

    def recent(self, doc: int) -> StoredDocument | None:
        """Return a recent document, None if it has to be read from the store.

        Any thread may call it while the engine's changes the table: it is one lookup.
        """
        return self._recent.get(doc)

    def stored(self, docs: set[int]) -> dict[int, StoredDocument]:
        """Return the parts of documents that matches need, by number."""
        return stored_in(self._store, docs, self.recent)


def stored_in(
    store: Store, docs: Iterable[int], recent: Callable[[int], StoredDocument | None]
) -> dict[int, StoredDocument]:
    """Return the parts of documents that matches need, by number.

    `recent` returns a document from memory, None if it has to be read.
    """
    found, asked = dict[int, StoredDocument](), list[int]()
    for doc in docs:
        if (known := recent(doc)) is None:
            asked.append(doc)
        else:
            found[doc] = known
    if asked:
        columns = stored_documents(store, sorted(asked))
        documents = map(StoredDocument, *map(columns.__getitem__, StoredDocument._fields))
        found.update(zip(columns["doc"], documents, strict=True))
    return found


def evicted() -> StoreError:
    """Return the error of a match whose documents are no longer kept."""
    return StoreError(
        "the documents of this match are no longer kept",
        hint="read a match before its subscription is removed, or keep matches longer"
        " (--keep-matches)",
    )


class _Batch:
    """Documents being accepted, and the findings about each, by their indexes."""

    def __init__(
        self,
        given: DocumentColumns,
        origins: Sequence[DocumentOrigin],
        elsewhere: RemoteBindings | None,
        refused: dict[int, Reason],
    ) -> None:
        self.given = given
        self.origins = origins
        self.elsewhere = elsewhere
        self.refused = refused
        self.hashes = [hashlib.blake2b(xml, digest_size=16).digest() for xml in given.xml]
        self.id_hashes = hashes_of(given.ids)
        self.ts = np.array(given.timestamps, np.int64)
        self.taken = np.ones(len(given), np.bool_)
        self.unread = np.full(len(given), elsewhere is None)  # True: no executor has parsed it
        if elsewhere is not None:
            self.unread[sorted(elsewhere.refused)] = True
        self.read: dict[int, ReadDocument] = {}
        named = zip(given.streams, given.ids, strict=True)
        self.names = [document_name(streams[0], id) if streams else id for streams, id in named]
        self.versions = np.ones(len(given), np.int64)
        self.bases = np.full(len(given), -1)  # -1: the document itself

    def candidates(self, ids: Container[str]) -> list[int]:
        """Return the indexes of documents with one of `ids`, of unread and of refused ones."""
        look = self.unread.copy()
        look |= np.fromiter(map(ids.__contains__, self.given.ids), np.bool_, len(look))
        look[list(self.refused)] = True
        return np.flatnonzero(look).tolist()

    def arrivals(self, rows: Numbers, first: int, clocks: Numbers) -> Arrivals:
        """Return the accepted documents, at the indexes `rows`; they are numbered from `first` on.

        `clocks` has the clock before each document of the batch.
        """
        docs = np.arange(first, first + len(rows))
        bases, versions = self.bases[rows], self.versions[rows]
        ranks, firsts, clocks = docs * LEVELS, docs, clocks[rows]
        places = rows.tolist()
        if self.origins:
            columns = zip(*(self.origins[at] for at in places), strict=True)
            clocks, ranks, firsts, least = np.array(list(columns), np.int64).reshape(4, -1)
            versions = np.maximum(versions, least)
        return Arrivals(
            docs,
            _chosen(self.given.streams, places),
            _chosen(self.given.xml, places),
            self.ts[rows],
            clocks,
            ranks,
            np.where(bases < 0, docs, bases),
            firsts,
            versions,
            None if self.elsewhere is None else self.elsewhere.of_documents(rows),
            {place: self.read[at] for place, at in enumerate(places) if at in self.read},
        )

    def columns(
        self, rows: Numbers, arrivals: Arrivals, times: Numbers
    ) -> dict[str, Sequence[Any]]:
        """Return the columns of `state.document` for the accepted documents.

        `rows` are their indexes in the batch, `arrivals` their numbers and times.  `times` has the
        time of arrival of each document of the batch.
        """
        places = rows.tolist()
        return {
            "doc": arrivals.docs.tolist(),
            "id": _chosen(self.names, places),
            "given": _chosen(self.given.ids, places),
            "version": arrivals.versions.tolist(),
            "streams": arrivals.streams,
            "ts": arrivals.ts.tolist(),
            "clock": arrivals.clocks.tolist(),
            "rank": arrivals.ranks.tolist(),
            "base": arrivals.bases.tolist(),
            "first": arrivals.firsts.tolist(),
            "hash": _chosen(self.hashes, places),
            "history": _chosen(self.given.history, places),
            "origin": _chosen(self.given.origins, places),
            "arrived": times[rows].tolist(),
        }


def _chosen(column: Sequence[Any], places: Iterable[int]) -> list[Any]:
    """Return the entries of a column at some places."""
    return list(map(column.__getitem__, places))
