"""The table of cut results: documents that had more results with a row of R_T than the bound."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from xscl.store.queries.numbers import among
from xscl.store.store import Store


def cut_results(store: Store) -> Iterator[dict[str, Any]]:
    """Return `qid`, `doc` and `id` of the documents, in the order of their arrival."""
    return store.rows("SELECT qid, doc, id FROM state.cut ORDER BY doc")


def insert_cuts(store: Store, rows: Sequence[Mapping[str, object]]) -> None:
    """Append documents, each with the row of R_T."""
    store.insert_rows("state.cut", rows)


def delete_cuts(store: Store, qids: Collection[int], *, before: int | None = None) -> None:
    """Delete the documents of some rows of R_T: those before a number, or all."""
    listed, parameters = among(qids)
    bound, last = ("", []) if before is None else (" AND doc < ?", [before])
    store.fetch(f"DELETE FROM state.cut WHERE qid IN ({listed}){bound}", [*parameters, *last])
