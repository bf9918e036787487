"""The kept past of streams: documents with their texts, for trials, histories and backfills."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from xscl.store.queries.rows import LISTED, RowNumbers, among, found_number, found_numbers, has_any
from xscl.store.queries.tables import TABLES, named
from xscl.store.store import Store

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

    They are those with `begin` <= timestamp <= `end` and with `first` at least that given that have
    a text, and those of the numbers `besides`; new versions if `updates`.
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
    """Return the whole rows of the documents of some numbers that have a text, with it as `xml`.

    `texts` are those of documents (by number) that are not kept.
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
    """Return the least `first` of the documents with at least a timestamp, None without one."""
    return found_number(store, "SELECT min(first) FROM state.document WHERE ts >= ?", [begin])


def has_history(store: Store, streams: Sequence[str], first: int) -> bool:
    """Return True if documents from `first` on are from before their feeds were followed."""
    return bool(
        store.fetch(
            "SELECT 1 FROM state.document"
            f" WHERE history AND first >= ? AND {has_any('streams')} LIMIT 1",
            [first, list(streams)],
        )
    )
