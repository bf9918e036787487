"""The table of the texts of documents."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from xscl.store.queries.rows import RowNumbers, among, found_number, found_numbers
from xscl.store.store import Store


class TimedText(NamedTuple):
    """The text of a document, and its time in ticks."""

    xml: bytes
    ts: int | None


_LONGEST = 1 << 62


def text_of(store: Store, doc: int) -> TimedText | None:
    """Return the text of a document, None if it is not kept."""
    return texts_of(store, [doc]).get(doc)


def texts_of(store: Store, docs: Collection[int], most: int = _LONGEST) -> dict[int, TimedText]:
    """Return the kept texts of some documents, by number, that have at most so many bytes."""
    listed, parameters = among(docs)
    rows = store.rows(
        "SELECT doc, xml, ts FROM state.text LEFT JOIN state.document USING (doc)"
        f" WHERE doc IN ({listed}) AND octet_length(xml) <= ?",
        [*parameters, most],
    )
    return {row["doc"]: TimedText(bytes(row["xml"]), row["ts"]) for row in rows}


def text_named(store: Store, name: str) -> bytes | None:
    """Return the text of the document of a name, None if it is not kept."""
    rows = store.fetch(
        "SELECT xml FROM state.text WHERE doc IN (SELECT doc FROM state.document WHERE id = ?)",
        [name],
    )
    return bytes(rows[0][0]) if rows else None


# -- All -----------------------------------------------------------------------------------


class CountedTexts(NamedTuple):
    """The number of texts, that of known documents, and the arrival of the first one in age."""

    texts: int
    documents: int
    since: int | None


def count_texts(store: Store, first: int) -> CountedTexts:
    """Count texts and documents; `first` is the first document in age."""
    (counts,) = store.rows(
        "SELECT (SELECT count(*) FROM state.text) AS texts,"
        " (SELECT count(*) FROM state.document) AS documents, (SELECT arrived FROM state.document"
        " WHERE doc >= ? ORDER BY doc LIMIT 1) AS since",
        [first],
    )
    return CountedTexts(**counts)


def documents_with_texts(store: Store, *, first: int = 0, before: int) -> RowNumbers:
    """Return the documents with kept texts, from a number to before another one, in order."""
    return found_numbers(
        store, "SELECT doc FROM state.text WHERE doc >= ? AND doc < ? ORDER BY doc", [first, before]
    )


def sizes_of_texts(store: Store, docs: RowNumbers) -> list[int]:
    """Return the bytes of the texts of some documents, in the order of these."""
    listed, parameters = among(docs)
    sizes = store.fetch(
        f"SELECT octet_length(xml) FROM state.text WHERE doc IN ({listed}) ORDER BY doc", parameters
    )
    return [size for (size,) in sizes]


def bytes_of_texts(store: Store) -> int:
    """Return the bytes of all texts."""
    return found_number(store, "SELECT sum(octet_length(xml)) FROM state.text") or 0


def delete_texts(store: Store, docs: RowNumbers) -> int:
    """Delete the texts of some documents, and return how many bytes they had."""
    if not len(docs):
        return 0
    listed, parameters = among(docs)
    deleted = store.fetch(
        f"DELETE FROM state.text WHERE doc IN ({listed}) RETURNING octet_length(xml)", parameters
    )
    return sum(size for (size,) in deleted)
