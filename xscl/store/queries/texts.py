"""The table of the texts of documents."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from xscl.store.queries.numbers import among
from xscl.store.store import Store


def insert_texts(store: Store, docs: Sequence[int], texts: Sequence[bytes]) -> None:
    """Append the texts of documents."""
    table = pa.table({"doc": pa.array(docs, pa.int64()), "xml": pa.array(texts, pa.binary())})
    store.insert("state.text", table)


def text_of(store: Store, doc: int) -> bytes | None:
    """Return the text of a document, None if it is not kept."""
    query = "SELECT xml FROM state.text WHERE doc = ?"
    rows = store.peek(query, [doc]) or store.fetch(query, [doc])
    return bytes(rows[0][0]) if rows else None


def texts_of(store: Store, docs: Collection[int]) -> list[tuple[int, bytes]]:
    """Return the kept texts of some documents, each with its number."""
    listed, parameters = among(store, docs)
    return store.fetch(f"SELECT doc, xml FROM state.text WHERE doc IN ({listed})", parameters)


def text_named(store: Store, name: str) -> bytes | None:
    """Return the text of the document of a name, None if it is not kept."""
    rows = store.fetch(
        "SELECT xml FROM state.text WHERE doc IN (SELECT doc FROM state.document WHERE id = ?)",
        [name],
    )
    return bytes(rows[0][0]) if rows else None
