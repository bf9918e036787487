"""Stories: components of the matches of a subscription, by the `key` of the subscription.

A row of `story_document` has the `story` in which a document was found first, and the `position` at
which it was added; `match` is the position of a match of the document.  `founder` is the document
whose arrival began a story; `began` and `last` are its first and last positions, each of them that
of one of its matches.  A story that became a part of another one has the id of this one as its
`root`, and as `merged` the position at which that happened; any other is its own root.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from xscl.store.queries.rows import LISTED, among, delete_rows
from xscl.store.store import Store

_DOCUMENTS = "state.story_document d JOIN state.story s ON s.id = d.story"
_STORIES = (
    "SELECT id, began, last, root, merged,"
    f" (SELECT count(*) FROM {_DOCUMENTS} WHERE s.root = one.id) AS documents"
    " FROM state.story one"
)
_STEPS = (
    f"SELECT s.id AS id, d.position AS position FROM {_DOCUMENTS}"
    " WHERE d.key = ?1 AND d.position > ?2 AND s.root = s.id"
    " UNION SELECT root AS id, merged AS position FROM state.story WHERE key = ?1 AND merged > ?2"
    " ORDER BY position LIMIT ?3"
)
_ADDED = (
    f"SELECT n.id AS name, n.history AS history FROM {_DOCUMENTS}"
    " JOIN state.document n ON n.doc = d.doc WHERE d.key = ?1 AND s.root = ?2"
    " AND (s.merged = ?3 OR (s.root = s.id AND d.position = ?3)) ORDER BY d.doc LIMIT ?4"
)


class StoryDocument(NamedTuple):
    """A document of a story, by its number, with the position `match` of one of its matches."""

    doc: int
    match: int


# -- Growth, in a transaction of the caller --------------------------------------------------


def roots_of_documents(store: Store, key: str, docs: Collection[int]) -> dict[int, str]:
    """Return the ids of the stories that documents are in, by the numbers of the documents."""
    listed, given = among(docs)
    rows = store.rows(
        f"SELECT d.doc, s.root FROM {_DOCUMENTS} WHERE d.key = ? AND d.doc IN ({listed})",
        [key, *given],
    )
    return {row["doc"]: row["root"] for row in rows}


def insert_story(store: Store, id: str, key: str, founder: int, position: int) -> None:
    """Begin a story at a position, still without documents."""
    row = {"id": id, "key": key, "founder": founder, "began": position, "last": position}
    store.insert_rows("state.story", [{**row, "root": id, "merged": None}])


def grow_story(
    store: Store,
    id: str,
    key: str,
    position: int,
    added: Sequence[StoryDocument],
    taken: Collection[str],
) -> None:
    """Add documents to a story at a position, and the stories `taken`, which become parts of it."""
    rows = ({"key": key, "story": id, "position": position, **one._asdict()} for one in added)
    store.insert_rows("state.story_document", rows)
    store.fetch("UPDATE state.story SET last = ? WHERE id = ?", [position, id])
    if taken:
        ids = list(taken)
        store.fetch(f"UPDATE state.story SET merged = ? WHERE id IN {LISTED}", [position, ids])
        store.fetch(f"UPDATE state.story SET root = ? WHERE root IN {LISTED}", [id, ids])


def delete_stories_of(store: Store, key: str) -> None:
    """Delete all stories of a subscription."""
    for table in ("story", "story_document"):
        delete_rows(store, table, key=key)


def delete_past_stories(store: Store, forgotten: int) -> None:
    """Delete the stories without a match after a position, and those of no subscription."""
    store.fetch(
        "DELETE FROM state.story WHERE root IN"
        " (SELECT id FROM state.story WHERE root = id AND last <= ?) OR key NOT IN"
        " (SELECT key FROM state.subscription UNION SELECT key FROM state.retired)",
        [forgotten],
    )
    store.fetch("DELETE FROM state.story_document WHERE story NOT IN (SELECT id FROM state.story)")


# -- Reading -------------------------------------------------------------------------------


def heads_between(
    store: Store, keys: Collection[str], first: int, last: int
) -> set[tuple[str, int]]:
    """Return (key, last position) of each story with `first` <= last position <= `last`."""
    rows = store.rows(
        "SELECT key, last FROM state.story"
        f" WHERE root = id AND last BETWEEN ? AND ? AND key IN {LISTED}",
        [first, last, list(keys)],
    )
    return {(row["key"], row["last"]) for row in rows}


def story_of_head(store: Store, key: str, position: int) -> dict[str, Any] | None:
    """Return the story with a last position; None if it has grown since or is gone."""
    rows = store.rows(f"{_STORIES} WHERE key = ? AND last = ? AND root = id", [key, position])
    return next(rows, None)


def story_of_id(store: Store, key: str, id: str) -> dict[str, Any] | None:
    """Return the story with an id; None if there is none."""
    return next(store.rows(f"{_STORIES} WHERE key = ? AND id = ?", [key, id]), None)


def newest_stories(
    store: Store, key: str, *, before: int, limit: int, merged: bool
) -> Iterator[dict[str, Any]]:
    """Return the stories whose last position is before one, the newest first, as rows.

    With `merged` those that became parts of others are among them.
    """
    return store.rows(
        f"{_STORIES} WHERE key = ? AND last < ? AND (root = id OR ?)"
        " ORDER BY last DESC, id LIMIT ?",
        [key, before, merged, limit],
    )


def documents_of_story(store: Store, id: str, limit: int) -> list[StoryDocument]:
    """Return the first documents of a story, and of its parts, in the order of numbers."""
    rows = store.rows(
        f"SELECT d.doc, d.match FROM {_DOCUMENTS} WHERE s.root = ? ORDER BY d.doc LIMIT ?",
        [id, limit],
    )
    return [StoryDocument(row["doc"], row["match"]) for row in rows]


def steps_after(store: Store, key: str, position: int, limit: int) -> list[dict[str, Any]]:
    """Return `id` and `position` of each growth of a subscription's stories, in order.

    They are the first ones after a position, at most `limit`.
    """
    return list(store.rows(_STEPS, [key, position, limit]))


def added_at(store: Store, key: str, id: str, position: int, limit: int) -> list[dict[str, Any]]:
    """Return the documents that a story got at a position, at most `limit`: `name`, `history`."""
    return list(store.rows(_ADDED, [key, id, position, limit]))


def was_news(
    store: Store, id: str, before: int, *, history: bool, after: int, live: Sequence[int]
) -> bool:
    """Return True if a story got a document before one position, and after another or in `live`.

    Documents that are history count only with `history`.
    """
    rows = store.fetch(
        f"SELECT 1 FROM {_DOCUMENTS} JOIN state.document n ON n.doc = d.doc"
        " WHERE s.root = ? AND d.position < ? AND (? OR NOT n.history)"
        f" AND (d.position > ? OR d.position IN {LISTED}) LIMIT 1",
        [id, before, history, after, list(live)],
    )
    return bool(rows)


def taken_at(store: Store, key: str, position: int, limit: int) -> list[str]:
    """Return the ids of the stories that became parts of others at a position, at most `limit`."""
    rows = store.rows(
        "SELECT id FROM state.story WHERE key = ? AND merged = ? ORDER BY began, id LIMIT ?",
        [key, position, limit],
    )
    return [row["id"] for row in rows]
