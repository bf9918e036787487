"""The documents of streams: how many there are, and the newest ones with their texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from xscl.store.queries.analysis import analysed
from xscl.store.queries.rows import contains
from xscl.store.store import Store

_ARRIVED = (
    "SELECT 'known' AS what, NULL AS name, count(*) AS documents, coalesce(max(doc), 0) AS last"
    " FROM state.document"
    " UNION ALL SELECT 'new of a stream', name, count(*), 0 FROM"
    " (SELECT unnest(streams) AS name FROM state.document WHERE doc > ?) GROUP BY name"
    " UNION ALL SELECT 'new', NULL, count(*), 0 FROM state.document WHERE doc > ?"
)

_TEXTS = (
    "SELECT d.doc, d.id, d.ts, d.first, d.version, d.history, d.clock, d.rank, d.base,"
    " d.given, d.streams, d.hash, t.xml FROM state.document d LEFT JOIN state.text t USING (doc)"
)


class NewDocuments(NamedTuple):
    """The number of known documents and the last one; of the new ones all, and by stream."""

    known: int
    last: int
    new: int
    by_stream: dict[str, int]


def documents_since(store: Store, last: int) -> NewDocuments:
    """Return the numbers of documents, in one snapshot; those after `last` are new."""
    rows = list(analysed(store, _ARRIVED, [last, last]))
    (known,) = (row for row in rows if row["what"] == "known")
    (new,) = (row for row in rows if row["what"] == "new")
    by_stream = {row["name"]: row["documents"] for row in rows if row["name"] is not None}
    return NewDocuments(known["documents"], known["last"], new["documents"], by_stream)


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
