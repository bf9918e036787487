"""The witnesses in the join state: their numbers, and their documents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.store.queries.analysis import analysed
from xscl.store.queries.rows import RowNumbers
from xscl.store.store import Store

_KEPT = (
    "SELECT count(*) AS rows, count(DISTINCT doc) AS documents,"
    " count(*) FILTER (ts > ?) AS lately FROM state.binding JOIN state.times USING (doc)"
    " WHERE pair IN (SELECT unnest(?::INTEGER[]))"
)

_LAST = (
    "SELECT doc, max(node2) AS last FROM state.binding"
    " WHERE doc IN (SELECT doc FROM chosen) AND NOT list_contains(?, pair) GROUP BY doc"
)


class KeptWitnesses(NamedTuple):
    """The numbers of witnesses, of their documents, and of witnesses of documents after a time."""

    rows: int
    documents: int
    lately: int


def kept_witnesses(store: Store, pairs: Sequence[int], *, since: int) -> KeptWitnesses:
    """Return the numbers of kept witnesses of pairs of variables; `since` is in ticks."""
    (row,) = analysed(store, _KEPT, [since, list(pairs)])
    return KeptWitnesses(**row)


def witnesses_by_pair(store: Store, *, since: int) -> Iterator[tuple[int, int, int]]:
    """Yield each pair, the number of its witnesses, and of those of documents after `since`."""
    with store.reading():
        found, times = store.scan("binding"), store.scan("times")
    docs = times["doc"].filter(pc.greater(times["ts"], since))
    rows = pa.table({"pair": found["pair"], "lately": pc.is_in(found["doc"], value_set=docs)})
    counted = rows.group_by("pair").aggregate([("lately", "count"), ("lately", "sum")])
    columns = ("pair", "lately_count", "lately_sum")
    return zip(*(counted[name].to_pylist() for name in columns), strict=True)


def last_nodes(
    store: Store, docs: npt.NDArray[np.int64], *, apart_from: Sequence[int]
) -> dict[int, int]:
    """Return by document its last node in witnesses, except those of the pairs `apart_from`."""
    rows = analysed(store, _LAST, [list(apart_from)], {"chosen": pa.table({"doc": docs})})
    return {row["doc"]: row["last"] for row in rows}


def documents_of_joins(store: Store) -> RowNumbers:
    """Return the documents and composites with witnesses, by their numbers."""
    docs: RowNumbers = store.scan("times")["doc"].to_numpy()
    return docs


def documents_of_pairs(store: Store, pairs: Collection[int]) -> RowNumbers:
    """Return the documents and composites with witnesses of some pairs, each once."""
    found = store.scan("binding")
    chosen = np.isin(found["pair"].to_numpy(), np.array(list(pairs), np.int64))
    return np.unique(found["doc"].to_numpy()[chosen])


def pairs_from(store: Store, number: int) -> list[tuple[int, int]]:
    """Return (doc, pair) for documents and composites from a number on, each once, in order."""
    found = store.scan("binding", number).select(["doc", "pair"])
    rows = found.group_by(["doc", "pair"]).aggregate([]).to_pydict()
    return sorted(zip(rows["doc"], rows["pair"], strict=True))
