"""The tables of documents that were rejected, and of those that arrived too late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from xscl.store.store import Store


def insert_rejected(store: Store, rows: Iterable[Mapping[str, object]]) -> None:
    """Append rejected documents."""
    store.insert_rows("state.rejected", rows)


def known_rejected(
    store: Store, ids: Sequence[str], digests: Sequence[str]
) -> set[tuple[str | None, str, str]]:
    """Return stream, id and digest of rejected documents with the id and digest of one place."""
    store.lend("refused", pa.table({"id": ids, "sha256": digests}))
    return set(
        store.fetch(
            "SELECT stream, id, sha256 FROM state.rejected"
            " WHERE (id, sha256) IN (SELECT id, sha256 FROM refused)"
        )
    )
