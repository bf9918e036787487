"""The table of cut results: documents that had more results with a row of R_T than the bound."""

from __future__ import annotations

from collections.abc import Collection

from xscl.store.queries.numbers import among
from xscl.store.store import Store


def delete_cuts(store: Store, qids: Collection[int], *, before: int | None = None) -> None:
    """Delete the documents of some rows of R_T: those before a number, or all."""
    listed, parameters = among(qids)
    bound, last = ("", []) if before is None else (" AND doc < ?", [before])
    store.fetch(f"DELETE FROM state.cut WHERE qid IN ({listed}){bound}", [*parameters, *last])
