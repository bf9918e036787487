"""Documents and composites of matches, read from the store on a connection of their own.

A match reads its documents lazily, in whatever thread uses it, while the engine goes on. It never
touches the engine's connection, on which it would see what is not committed, or wait for it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from feeds.xml.xmlparse import parse
from xscl.documents.composite_events import Composite, of_document, stored_composite
from xscl.documents.document_log import StoredDocument
from xscl.documents.results import evicted
from xscl.documents.tree_cache import TreeCache
from xscl.shredding.nodes.tree import DocumentTree, number_nodes
from xscl.store.queries.documents import stored_documents
from xscl.store.queries.rows import rows_of
from xscl.store.queries.texts import small_texts, text_of
from xscl.store.store import Store


def _none(doc: int) -> StoredDocument | None:
    """Return None: no document is known without the store."""
    return None


AHEAD, SMALL = 64, 16_384
"""Documents that are read at once for the next matches, and the bytes that each has at most."""


class MatchReader:
    """Reads the parts of matches; thread-safe, one thread at a time.

    `store` is a connection of its own (`Store.connect_again`), which is used under `lock` only.
    `recent` returns documents that need not be read; it must be callable from any thread.
    """

    def __init__(
        self, store: Store, recent: Callable[[int], StoredDocument | None] = _none
    ) -> None:
        self.store = store
        self.lock = threading.RLock()
        self._recent = recent
        self._trees = TreeCache()
        self._expected: Sequence[int] = ()  # documents of the matches that were read last
        self._ahead: dict[int, bytes] = {}  # texts of some of these

    def close(self) -> None:
        """Close the connection when no other thread reads."""
        with self.lock:
            self.store.close()

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Hold the connection, within a transaction that sees one commit, while the block runs."""
        with self.lock, self.store.reading():
            yield self.store

    def read(
        self, numbers: set[int]
    ) -> tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]:
        """Return the kept ones of composites by number and their documents, of one commit."""
        known = {n: document for n in numbers if (document := self._recent(n)) is not None}
        if len(known) == len(numbers):
            return {n: of_document(document) for n, document in known.items()}, known
        with self.snapshot():
            return self.read_within(numbers)

    def read_within(
        self, numbers: set[int]
    ) -> tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]:
        """Read what is kept of composites and documents within the caller's `snapshot`."""
        documents = self._documents(numbers)
        composites = {n: of_document(document) for n, document in documents.items()}
        missing = sorted(numbers - composites.keys())
        if missing:
            rows = rows_of(self.store, "composite", order="doc", doc=missing)
            composites.update((row["doc"], stored_composite(row)) for row in rows)
        sources = {doc for one in composites.values() for doc in one.sources}
        documents.update(self._documents(sources - documents.keys()))
        self._expected = sorted(documents)
        return composites, documents

    def _documents(self, docs: Collection[int]) -> dict[int, StoredDocument]:
        recent = ((doc, self._recent(doc)) for doc in docs)
        found = {doc: stored for doc, stored in recent if stored is not None}
        asked = _missing(docs, found)
        if asked:
            rows = stored_documents(self.store, asked)
            found.update((row["doc"], StoredDocument(**row)) for row in rows)
        return found

    def tree(self, doc: int) -> DocumentTree:
        """Return a document's nodes. Raises StoreError if its text is no longer kept."""
        with self.lock:
            tree = self._trees.get(doc)
            if tree is None:
                text = self._text(doc)
                if text is None:
                    raise evicted()
                tree = self._trees.put(doc, number_nodes(parse(text)))
            return tree

    def _text(self, doc: int) -> bytes | None:
        """Return the text of a document, and read those of the next matches with it."""
        if doc not in self._ahead:
            at = bisect_left(self._expected, doc)
            soon = [one for one in self._expected[at : at + AHEAD] if one not in self._trees]
            self._ahead = small_texts(self.store, soon, SMALL)
        found = self._ahead.pop(doc, None)
        return text_of(self.store, doc) if found is None else found


def _missing(docs: Iterable[int], found: Mapping[int, StoredDocument]) -> list[int]:
    return sorted(doc for doc in docs if doc not in found)
