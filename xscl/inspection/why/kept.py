"""The match of a question among those that a version of a subscription has."""

from __future__ import annotations

from collections.abc import Sequence

from xscl.documents.results import Subscription
from xscl.store.store import Store
from xscl.subscriptions.kept_matches import KEPT_MATCHES
from xscl.subscriptions.match_pages import LAST

_KEPT = f"""
    WITH part AS (
        SELECT doc, [doc] AS docs FROM state.document WHERE list_contains(?, doc)
        UNION ALL SELECT doc, docs FROM state.composite),
    found AS (
        SELECT CASE WHEN m.doc1 = m.doc2 THEN p1.docs ELSE list_concat(p1.docs, p2.docs) END AS docs
        FROM ({KEPT_MATCHES}) m JOIN part p1 ON p1.doc = m.doc1 JOIN part p2 ON p2.doc = m.doc2
        WHERE m.number = ? AND m.position > ? AND m.position <= ?)
    SELECT docs FROM found WHERE list_filter(docs, lambda doc: doc <> 0) = ? LIMIT 1
"""


def kept_match(store: Store, one: Subscription, docs: Sequence[int]) -> tuple[int, ...] | None:
    """Return the documents of a match by component, by those that are there; None without it."""
    until = LAST if one.until is None else one.until
    rows = store.fetch(_KEPT, [list(docs), one.number, one.after, until, list(docs)])
    return tuple(rows[0][0]) if rows else None
