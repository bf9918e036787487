"""The documents of streams: how many there are, and the newest ones with their texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xscl.store.queries.analysis import analysed
from xscl.store.queries.rows import contains
from xscl.store.store import Store

_BY_STREAM = (
    "SELECT name, count(*) AS documents"
    " FROM (SELECT unnest(streams) AS name FROM state.document) GROUP BY name"
)

_TEXTS = (
    "SELECT d.doc, d.id, d.ts, d.first, d.version, d.history, d.clock, d.rank, d.base,"
    " d.given, d.streams, d.hash, t.xml FROM state.document d LEFT JOIN state.text t USING (doc)"
)


def documents_by_stream(store: Store) -> dict[str, int]:
    """Return the number of known documents of each stream that has some; 13 ms for 200,000."""
    return {row["name"]: row["documents"] for row in analysed(store, _BY_STREAM)}


def document_named(store: Store, name: str) -> dict[str, Any]:
    """Return the columns of a document that is known, with its streams and its text `xml`.

    That is None if it is not kept.
    """
    (row,) = store.rows(f"{_TEXTS} WHERE d.id = ?", [name])
    return row


def newest_documents(
    store: Store, stream: str, *, begin: int, updates: bool, limit: int
) -> Iterator[dict[str, Any]]:
    """Return the newest documents of a stream that have a text, as `document_named` does.

    They have at least the timestamp `begin`; later versions are among them if `updates`.
    """
    return store.rows(
        f"{_TEXTS} WHERE {contains('d.streams')} AND d.ts >= ? AND (d.version = 1 OR ?)"
        " AND t.doc IS NOT NULL ORDER BY d.doc DESC LIMIT ?",
        [stream, begin, updates, limit],
    )


def count_documents(store: Store, stream: str, *, begin: int, updates: bool) -> int:
    """Return the number of those documents, with texts or without."""
    ((count,),) = store.fetch(
        "SELECT count(*) FROM state.document"
        f" WHERE {contains('streams')} AND ts >= ? AND (version = 1 OR ?)",
        [stream, begin, updates],
    )
    return int(count)


def count_texts(store: Store, stream: str) -> int:
    """Return the number of texts of a stream that are kept."""
    ((count,),) = store.fetch(
        "SELECT count(*) FROM state.document JOIN state.text USING (doc)"
        f" WHERE {contains('streams')}",
        [stream],
    )
    return int(count)
