"""The table of documents: identity, order of arrival, times."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import md5
from typing import Any

import numpy as np
import numpy.typing as npt

from templates.model.join_graph import INFINITE
from xscl.store.queries.rows import (
    RowNumbers,
    among,
    any_of,
    first_of,
    found_number,
    found_numbers,
    has_any,
    is_empty,
)
from xscl.store.store import Store

_STORED = (
    "doc, id, ts, first, version, history, clock, rank, base, given,"
    f" {first_of('streams')} AS stream"
)


def stored_documents(store: Store, docs: Collection[int]) -> Iterator[dict[str, Any]]:
    """Return the parts of documents that matches need; `stream` is the first one of several."""
    listed, parameters = among(docs)
    query = f"SELECT {_STORED} FROM state.document WHERE doc IN ({listed})"
    return store.rows(query, parameters)


def documents_of_streams(store: Store, prefix: str) -> RowNumbers:
    """Return the documents of which all streams have names that begin with a prefix."""
    others = any_of("streams", "instr(value, ?) <> 1")
    query = f"SELECT doc FROM state.document WHERE NOT {is_empty('streams')} AND NOT {others}"
    return found_numbers(store, query, [prefix])


def latest_document(store: Store) -> int:
    """Return the number of the latest document, 0 without one."""
    return found_number(store, "SELECT max(doc) FROM state.document") or 0


def documents_from(store: Store, time: int) -> RowNumbers:
    """Return the documents of a time or later that have a text, in the order of their numbers."""
    return found_numbers(
        store,
        "SELECT doc FROM state.document WHERE ts >= ? AND doc IN (SELECT doc FROM state.text)"
        " ORDER BY doc",
        [time],
    )


def expired_documents(
    store: Store, before: int, *, kept: RowNumbers, firsts: Collection[int]
) -> RowNumbers:
    """Return the documents before a number of which no version is needed.

    Those from the number on are needed, those that are `kept`, and those that `firsts` arrived for.
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
    """Return the time of the last arrival, None without documents."""
    return found_number(store, "SELECT max(arrived) FROM state.document")


def first_arrived_since(store: Store, time: int, *, doc: int) -> int | None:
    """Return the first document from number `doc` on that arrived at a time or later, if any."""
    query = "SELECT min(doc) FROM state.document WHERE doc >= ? AND arrived >= ?"
    return found_number(store, query, [doc, time])


def clock_from(store: Store, doc: int) -> int | None:
    """Return the clock before the first document from a number on, None without one."""
    query = "SELECT clock FROM state.document WHERE doc >= ? ORDER BY doc LIMIT 1"
    return found_number(store, query, [doc])


def earliest_time(
    store: Store, streams: Sequence[str], *, since: int = 0, until: int = INFINITE
) -> int | None:
    """Return the least timestamp of streams' documents, up to `until` and `first` from `since`."""
    return found_number(
        store,
        f"SELECT min(ts) FROM state.document WHERE {has_any('streams')} AND first >= ? AND ts <= ?",
        [list(streams), since, until],
    )


def has_documents(store: Store, streams: Sequence[str]) -> bool:
    """Return whether a document of one of some streams is known."""
    return bool(
        store.fetch(
            f"SELECT 1 FROM state.document WHERE {has_any('streams')} LIMIT 1",
            [list(streams)],
        )
    )
