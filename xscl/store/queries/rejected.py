"""The tables of documents that were rejected, and of those that arrived too late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xscl.store.queries.owners import own_condition
from xscl.store.queries.rows import delete_but_newest
from xscl.store.store import Store


def rejected_of(
    store: Store, owner: int, *, before: int | None = None, limit: int
) -> Iterator[dict[str, Any]]:
    """Return the newest rejected documents of an owner's streams, each with its number.

    They are those before a number, or the last ones.
    """
    return store.rows(
        'SELECT rowid AS number, stream, id, reason, line, "column", message, sha256, beginning,'
        f" clock FROM state.rejected WHERE {own_condition('stream', owner)}"
        " AND rowid < coalesce(?, rowid + 1) ORDER BY rowid DESC LIMIT ?",
        [before, limit],
    )


def known_rejected(
    store: Store, ids: Sequence[str], digests: Sequence[str]
) -> set[tuple[str | None, str, str]]:
    """Return stream, id and digest of rejected documents with the id and digest of one place."""
    listed = list(zip(ids, digests, strict=True))
    return set(
        store.fetch(
            "SELECT stream, id, sha256 FROM state.rejected WHERE (id, sha256) IN"
            " (SELECT value ->> 0, value ->> 1 FROM json_each(?))",
            [listed],
        )
    )


def keep_newest(store: Store, rows: int, *, tolerated: int) -> None:
    """Keep some newest rows of each of the two tables, if it has more than are tolerated."""
    for table in ("late", "rejected"):
        ((there,),) = store.fetch(f"SELECT count(*) FROM state.{table}")
        if there > tolerated:
            delete_but_newest(store, table, rows)
