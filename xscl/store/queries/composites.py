"""The table of composites."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from xscl.store.queries.rows import (
    RowNumbers,
    among,
    delete_rows,
    first_of,
    found_numbers,
    is_empty,
)
from xscl.store.queries.tables import TABLES, named
from xscl.store.store import Store


def relational_results(store: Store, first: int, last: int) -> Iterator[dict[str, Any]]:
    """Yield the relational rows (composites without documents) that are results, each with a `qid`.

    Their times are from `first` to `last`, in ticks.
    """
    composites = {
        row["doc"]: row
        for row in store.rows(
            f"SELECT {named(TABLES['composite'].names)} FROM state.composite"
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
    """Return the numbers of relational rows (composites that keep no documents) by their bases.

    A row is returned if the first version of its first document is one of `bases`.
    """
    listed, parameters = among(bases)
    rows = store.fetch(
        f"SELECT doc FROM state.composite WHERE {is_empty('docs')}"
        f" AND {first_of('bases')} IN ({listed})",
        parameters,
    )
    return [number for (number,) in rows]


def documents_of_composites(store: Store, *, bases: bool = False) -> RowNumbers:
    """Return the numbers of the documents of all composites, or with `bases` of first versions."""
    column = "bases" if bases else "docs"
    return found_numbers(store, f"SELECT value FROM state.composite, json_each({column})")


def delete_composites(store: Store, *, but: RowNumbers) -> None:
    """Delete all composites except those with the numbers `but`."""
    numbers = found_numbers(store, "SELECT doc FROM state.composite")
    gone = numbers[~np.isin(numbers, but)]
    if len(gone):
        delete_rows(store, "composite", doc=gone)
