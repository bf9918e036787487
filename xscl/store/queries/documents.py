"""The tables of documents and of their texts: identity, arrival, times, and the kept past."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import md5
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from templates.model.join_graph import INFINITE
from xscl.store.queries.analysis import analysed
from xscl.store.queries.rows import (
    LISTED,
    RowNumbers,
    among,
    any_of,
    contains,
    first_of,
    found_number,
    found_numbers,
    has_any,
    is_empty,
)
from xscl.store.queries.tables import TABLES, named
from xscl.store.store import Store

_STORED = (
    "doc, id, ts, first, version, history, clock, rank, base, given,"
    f" {first_of('streams')} AS stream"
)


def stored_documents(store: Store, docs: Collection[int]) -> dict[str, Sequence[Any]]:
    """Return the columns of documents that matches need; `stream` is the first of its streams."""
    listed, parameters = among(docs)
    query = f"SELECT {_STORED} FROM state.document WHERE doc IN ({listed})"
    return store.columns(query, parameters)


def documents_of_streams(store: Store, prefix: str) -> RowNumbers:
    """Return the numbers of the documents whose streams all have names with a prefix."""
    others = any_of("streams", "instr(value, ?) <> 1")
    query = f"SELECT doc FROM state.document WHERE NOT {is_empty('streams')} AND NOT {others}"
    return found_numbers(store, query, [prefix])


def latest_document(store: Store) -> int:
    """Return the number of the latest document, 0 without one."""
    return found_number(store, "SELECT max(doc) FROM state.document") or 0


def documents_from(store: Store, time: int) -> RowNumbers:
    """Return the numbers, in order, of the documents with a text from a time in ticks on."""
    return found_numbers(
        store,
        "SELECT doc FROM state.document WHERE ts >= ? AND doc IN (SELECT doc FROM state.text)"
        " ORDER BY doc",
        [time],
    )


def expired_documents(
    store: Store, before: int, *, kept: RowNumbers, firsts: Collection[int]
) -> RowNumbers:
    """Return the numbers of the documents before a number, of ids that no longer have to be known.

    An id is needed by a version from the number on, by one that is `kept`, and by one whose `first`
    is among `firsts`.
    """
    kept_too, numbers = among(kept)
    listed, parameters = among(firsts)
    return found_numbers(
        store,
        "SELECT doc FROM state.document WHERE doc < ? AND given NOT IN (SELECT given"
        f" FROM state.document WHERE doc >= ? OR doc IN ({kept_too}) OR first IN ({listed}))",
        [before, before, *numbers, *parameters],
    )


def hashes_of_ids(store: Store) -> tuple[RowNumbers, npt.NDArray[np.uint64]]:
    """Return the numbers of all documents, and 64 bits of the MD5 of the id of each."""
    given = store.fetch("SELECT doc, given FROM state.document")
    docs = np.fromiter((doc for doc, _ in given), np.int64, len(given))
    digests = (md5(one.encode(), usedforsecurity=False).digest()[8:] for _, one in given)
    return docs, np.frombuffer(b"".join(digests), np.dtype("<u8"))


def latest_arrival(store: Store) -> int | None:
    """Return the time of the last arrival in ticks, None without documents."""
    return found_number(store, "SELECT max(arrived) FROM state.document")


def first_arrived_since(store: Store, time: int, *, doc: int) -> int | None:
    """Return the first document from number `doc` on that arrived at `time` or later, or None."""
    query = "SELECT min(doc) FROM state.document WHERE doc >= ? AND arrived >= ?"
    return found_number(store, query, [doc, time])


def clock_from(store: Store, doc: int) -> int | None:
    """Return the clock before the arrival of the first document from `doc` on; None without one."""
    query = "SELECT clock FROM state.document WHERE doc >= ? ORDER BY doc LIMIT 1"
    return found_number(store, query, [doc])


def earliest_time(
    store: Store, streams: Sequence[str], *, since: int = 0, until: int = INFINITE
) -> int | None:
    """Return the least timestamp of documents of streams, at most `until`; None if there is none.

    They were made of documents from number `since` on (`first`).
    """
    return found_number(
        store,
        f"SELECT min(ts) FROM state.document WHERE {has_any('streams')} AND first >= ? AND ts <= ?",
        [list(streams), since, until],
    )


def has_documents(store: Store, streams: Sequence[str]) -> bool:
    """Return True if a document of at least one of the streams is known."""
    return bool(
        store.fetch(
            f"SELECT 1 FROM state.document WHERE {has_any('streams')} LIMIT 1",
            [list(streams)],
        )
    )


# -- Of a stream ---------------------------------------------------------------------------

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

    `xml` is None if the text is not kept.
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
    """Return the number of documents that satisfy the conditions of `newest_documents`.

    Those without a text count, too.
    """
    ((count,),) = store.fetch(
        "SELECT count(*) FROM state.document"
        f" WHERE {contains('streams')} AND ts >= ? AND (version = 1 OR ?)",
        [stream, begin, updates],
    )
    return int(count)


def count_texts_of(store: Store, stream: str) -> int:
    """Return the number of texts of a stream that are kept."""
    ((count,),) = store.fetch(
        "SELECT count(*) FROM state.document JOIN state.text USING (doc)"
        f" WHERE {contains('streams')}",
        [stream],
    )
    return int(count)


# -- Texts ---------------------------------------------------------------------------------


class TimedText(NamedTuple):
    """The text of a document, and its time in ticks, None if the document is unknown."""

    xml: bytes
    ts: int | None


_LONGEST = 1 << 62


def text_of(store: Store, doc: int) -> TimedText | None:
    """Return the text of a document, None if it is not kept."""
    return texts_of(store, [doc]).get(doc)


def texts_of(store: Store, docs: Collection[int], most: int = _LONGEST) -> dict[int, TimedText]:
    """Return by number the kept texts of documents that have at most `most` bytes."""
    listed, parameters = among(docs)
    columns = store.columns(
        "SELECT doc, xml, ts FROM state.text LEFT JOIN state.document USING (doc)"
        f" WHERE doc IN ({listed}) AND octet_length(xml) <= ?",
        [*parameters, most],
    )
    texts = map(TimedText, map(bytes, columns["xml"]), columns["ts"])
    return dict(zip(columns["doc"], texts, strict=True))


def text_named(store: Store, name: str) -> bytes | None:
    """Return the text of the document of a name, None if it is not kept."""
    rows = store.fetch(
        "SELECT xml FROM state.text WHERE doc IN (SELECT doc FROM state.document WHERE id = ?)",
        [name],
    )
    return bytes(rows[0][0]) if rows else None


class CountedTexts(NamedTuple):
    """The numbers of texts and of known documents; `since` is the arrival of the oldest text.

    Texts that are kept beyond their age do not count for `since`.
    """

    texts: int
    documents: int
    since: int | None


def count_texts(store: Store, first: int) -> CountedTexts:
    """Count texts and documents; `first` is the first document within the age of texts."""
    (counts,) = store.rows(
        "SELECT (SELECT count(*) FROM state.text) AS texts,"
        " (SELECT count(*) FROM state.document) AS documents, (SELECT arrived FROM state.document"
        " WHERE doc >= ? ORDER BY doc LIMIT 1) AS since",
        [first],
    )
    return CountedTexts(**counts)


def documents_with_texts(store: Store, *, first: int = 0, before: int) -> RowNumbers:
    """Return the documents with texts and `first` <= number < `before`, in order."""
    return found_numbers(
        store, "SELECT doc FROM state.text WHERE doc >= ? AND doc < ? ORDER BY doc", [first, before]
    )


def sizes_of_texts(store: Store, docs: RowNumbers) -> list[int]:
    """Return the sizes in bytes of documents' texts, in the order of their numbers."""
    listed, parameters = among(docs)
    sizes = store.fetch(
        f"SELECT octet_length(xml) FROM state.text WHERE doc IN ({listed}) ORDER BY doc", parameters
    )
    return [size for (size,) in sizes]


def bytes_of_texts(store: Store) -> int:
    """Return the size of all texts together, in bytes."""
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


# -- The kept past, for trials, histories and backfills ------------------------------------

_PLACES = pa.schema([(name, pa.int64()) for name in ("doc", "rank", "ts", "clock")])


def documents_of_past(
    store: Store,
    streams: Sequence[str],
    *,
    begin: int,
    end: int,
    first: int,
    updates: bool,
    besides: Collection[int],
) -> RowNumbers:
    """Return the documents of streams in their order, by number.

    They have `begin` <= timestamp <= `end`, were made of documents from number `first` on, and have
    a text or are among `besides`.  Later versions are included with `updates`.
    """
    return found_numbers(
        store,
        f"SELECT doc FROM state.document WHERE {has_any('streams')} AND ts BETWEEN ? AND ?"
        " AND first >= ? AND (version = 1 OR ?)"
        f" AND (doc IN (SELECT doc FROM state.text) OR doc IN {LISTED}) ORDER BY doc",
        [list(streams), begin, end, first, updates, list(besides)],
    )


def places_of_kept(
    store: Store, streams: Collection[str], *, since: int, first: int, end: int
) -> pa.Table:
    """Return doc, rank, ts and clock of the documents of streams that have a text, in their order.

    Their numbers are from `first` to before `end`; what they were made of came from document
    `since` on.  The clock is not before the document's time.
    """
    query = (
        "SELECT doc, rank, ts, CASE WHEN ts > clock THEN ts ELSE clock END AS clock"
        f" FROM state.document WHERE {has_any('streams')} AND doc >= ? AND doc < ? AND first >= ?"
        " AND doc IN (SELECT doc FROM state.text) ORDER BY doc"
    )
    return store.arrow(query, [list(streams), first, end, since]).cast(_PLACES)


def kept_rows(
    store: Store, docs: RowNumbers, texts: Mapping[int, bytes] = MappingProxyType({})
) -> pa.Table:
    """Return all columns of documents that have a text, with it as `xml`, in order of number.

    `texts` has, by number, texts that the store does not keep.
    """
    listed, parameters = among(docs)
    rows = store.arrow(
        f"SELECT {named(TABLES['document'].names)}, xml FROM state.document"
        f" LEFT JOIN state.text USING (doc) WHERE doc IN ({listed}) ORDER BY doc",
        parameters,
    )
    if texts:
        found = zip(rows["doc"].to_pylist(), rows["xml"].to_pylist(), strict=True)
        filled = [texts.get(doc) if xml is None else xml for doc, xml in found]
        rows = rows.set_column(rows.num_columns - 1, "xml", pa.array(filled, pa.binary()))
    return rows.filter(pc.is_valid(rows["xml"]))


def first_after(store: Store, begin: int) -> int | None:
    """Return the least `first` of the documents from a timestamp on; None if there are none."""
    return found_number(store, "SELECT min(first) FROM state.document WHERE ts >= ?", [begin])


def has_history(store: Store, streams: Sequence[str], first: int) -> bool:
    """Return True if documents of streams, with at least `first`, are history of their feeds."""
    return bool(
        store.fetch(
            "SELECT 1 FROM state.document"
            f" WHERE history AND first >= ? AND {has_any('streams')} LIMIT 1",
            [first, list(streams)],
        )
    )
