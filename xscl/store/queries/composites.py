"""The tables of composites and of the definitions of their streams."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from xscl.store.queries.lists import first_of, is_empty
from xscl.store.queries.numbers import Numbers, among, found_numbers
from xscl.store.store import Store

_COLUMNS = "doc, docs, nodes, vals, start, ts, clock, rank, first, version, bases"


def insert_composites(store: Store, rows: Iterable[Mapping[str, object]]) -> None:
    """Append composites, each with its number `doc`."""
    store.insert_rows("state.composite", rows)


def composites_of(
    store: Store, numbers: Collection[int] | Numbers | None = None
) -> Iterator[dict[str, Any]]:
    """Return the composites of some numbers, or all, in the order of their numbers."""
    where, parameters = "", list[object]()
    if numbers is not None:
        listed, parameters = among(numbers)
        where = f" WHERE doc IN ({listed})"
    return store.rows(f"SELECT {_COLUMNS} FROM state.composite{where} ORDER BY doc", parameters)


def relational_results(store: Store, first: int, last: int) -> Iterator[dict[str, Any]]:
    """Return the relational rows between two times that are results, each with its `qid`."""
    composites = {
        row["doc"]: row
        for row in store.rows(
            f"SELECT {_COLUMNS} FROM state.composite"
            f" WHERE ts BETWEEN ? AND ? AND {is_empty('docs')}",
            [first, last],
        )
    }
    if composites:
        numbers = np.fromiter(composites, np.int64)
        for batch in store.batches("result"):
            found = batch.filter(pa.array(np.isin(batch["doc1"].to_numpy(), numbers)))
            for qid, doc in zip(found["qid"].to_pylist(), found["doc1"].to_pylist(), strict=True):
                yield {"qid": qid, **composites[doc]}


def relational_composites(store: Store, bases: Collection[int]) -> list[int]:
    """Return the numbers of the relational rows whose first part is of some documents."""
    listed, parameters = among(bases)
    rows = store.fetch(
        f"SELECT doc FROM state.composite WHERE {is_empty('docs')}"
        f" AND {first_of('bases')} IN ({listed})",
        parameters,
    )
    return [number for (number,) in rows]


def documents_of_composites(store: Store, *, bases: bool = False) -> Numbers:
    """Return the documents of all composites, or their `bases`."""
    column = "bases" if bases else "docs"
    return found_numbers(store, f"SELECT value FROM state.composite, json_each({column})")


def delete_composites(store: Store, *, but: Numbers) -> None:
    """Delete all composites but those of some numbers."""
    numbers = found_numbers(store, "SELECT doc FROM state.composite")
    gone = numbers[~np.isin(numbers, but)]
    if len(gone):
        listed, parameters = among(gone)
        store.fetch(f"DELETE FROM state.composite WHERE doc IN ({listed})", parameters)


# -- Definitions of streams ----------------------------------------------------------------


def composite_streams(store: Store) -> dict[int, str]:
    """Return the definitions of composite streams by their numbers."""
    return dict(store.fetch("SELECT number, definition FROM state.composite_stream"))


def insert_composite_streams(store: Store, definitions: Mapping[int, str]) -> None:
    """Append definitions of composite streams by their numbers."""
    store.insert_rows(
        "state.composite_stream",
        ({"number": number, "definition": text} for number, text in definitions.items()),
    )


def delete_composite_stream(store: Store, number: int) -> None:
    """Delete the definition of a composite stream."""
    store.fetch("DELETE FROM state.composite_stream WHERE number = ?", [number])
