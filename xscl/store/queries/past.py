"""The kept past of streams: documents with their texts, for trials, histories and backfills."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.store.queries.lists import LISTED, has_any
from xscl.store.queries.numbers import among, found_number
from xscl.store.queries.tables import TABLES, named
from xscl.store.store import Store

_BASE = (
    "CASE WHEN d.base IN (SELECT base FROM state.document WHERE base <> doc)"
    f" THEN d.base + {1 << 40} END"
)
"""The base of a document that others have, too; the trial's own documents have lower ones."""

_PLACES = pa.schema([(name, pa.int64()) for name in ("doc", "rank", "ts", "clock")])
_OWN_TIME = "CASE WHEN d.history AND d.ts < d.clock THEN d.ts ELSE d.clock END"
"""The clock of a document `d` where no document of history comes late."""


def past_documents(
    store: Store,
    streams: Sequence[str],
    *,
    begin: int,
    end: int,
    first: int,
    updates: bool,
    besides: Collection[int],
    own_time: bool,
    size: Callable[[], int],
) -> Iterator[list[dict[str, Any]]]:
    """Yield documents of streams in their order, in batches of a `size`: place, streams, text.

    They are those with `begin` <= timestamp <= `end` and with `first` at least that given that have
    a text, and those of the numbers `besides`; new versions if `updates`.  With `own_time` history
    has the clocks of its own time.  Nothing else may use the connection meanwhile.
    """
    yield from _batches(
        store,
        "SELECT d.id, d.given, d.version, d.streams, d.ts,"
        f" {_OWN_TIME if own_time else 'd.clock'} AS clock, d.rank, d.first,"
        f" d.history, d.origin, d.doc, {_BASE} AS base, t.xml"
        " FROM state.document d LEFT JOIN state.text t USING (doc)"
        f" WHERE {has_any('d.streams')} AND d.ts BETWEEN ? AND ? AND d.first >= ?"
        f" AND (d.version = 1 OR ?) AND (t.doc IS NOT NULL OR d.doc IN {LISTED})",
        [list(streams), begin, end, first, updates, list(besides)],
        size,
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


def kept_arrivals(
    store: Store, docs: npt.NDArray[np.int64], size: Callable[[], int]
) -> Iterator[list[dict[str, Any]]]:
    """Yield the documents of some numbers that have a text, in their order, in batches of a `size`.

    Nothing else may use the connection meanwhile.
    """
    listed, parameters = among(docs)
    yield from _batches(
        store,
        "SELECT d.doc, d.streams, t.xml, d.ts, d.clock, d.rank, d.base, d.first"
        " FROM state.document d JOIN state.text t USING (doc)"
        f" WHERE d.doc IN ({listed})",
        parameters,
        size,
    )


def kept_rows(store: Store, docs: npt.NDArray[np.int64]) -> pa.Table:
    """Return the whole rows of the documents of some numbers that have a text, with it as `xml`."""
    listed, parameters = among(docs)
    return store.arrow(
        f"SELECT {named(TABLES['document'].names)}, xml FROM state.document"
        f" JOIN state.text USING (doc) WHERE doc IN ({listed}) ORDER BY doc",
        parameters,
    )


def _batches(
    store: Store, query: str, parameters: Sequence[object], size: Callable[[], int]
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a query in batches, by the numbers of documents, as they are read."""
    last = -1
    page = f"{query} AND d.doc > ? ORDER BY d.doc LIMIT ?"
    while read := list(store.rows(page, [*parameters, last, size()])):
        last = read[-1]["doc"]
        yield read


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
