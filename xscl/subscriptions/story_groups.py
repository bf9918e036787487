"""Stories: the connected components of a subscription's matches, which share documents.

A document is in at most one story of a subscription.  The matches of one transaction extend the
stories of their documents, join several of them, or begin new ones.  A story is called after the
document that founded it: the first one whose arrival completed a match of it.  So the id in a join
does not depend on how documents are cut into batches.  It may where matches wait for time, as those
of ELSE: a later batch may bring a match that an earlier document completed.  Of stories that are
joined the one that was founded first keeps its id, and takes over the others
(docs/decisions/stories.md).

All state is in the store and changes within the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from xscl.documents.composite_events import kept_parts
from xscl.documents.document_log import DocumentLog
from xscl.documents.results import Subscription
from xscl.store.queries.results import results_of
from xscl.store.queries.rows import rows_of
from xscl.store.queries.stories import (
    StoryDocument,
    delete_stories_of,
    grow_story,
    insert_story,
    roots_of_documents,
)
from xscl.store.store import Store
from xscl.subscriptions.match import MatchSource, digest
from xscl.subscriptions.matches import Matches
from xscl.subscriptions.subscriptions import Subscriptions


class MatchEdge(NamedTuple):
    """A match as an edge between documents: its position, and the numbers of its documents."""

    position: int
    docs: tuple[int, ...]

    @property
    def completed_by(self) -> int:
        """The number of the document of the match that arrived last."""
        return max(self.docs)


@dataclass(eq=False, repr=False)
class StoryGroups:
    """Groups the matches of subscriptions into stories, in the store."""

    _store: Store
    _documents: DocumentLog
    _subscriptions: Subscriptions
    _source: MatchSource

    def extend(self, rows: pa.Table) -> None:
        """Add the matches of a transaction's results (`rows`) to the stories of subscriptions."""
        receivers = self._subscriptions.receivers
        grouped = {
            qid: found
            for qid in rows["qid"].unique().to_pylist()
            if (found := [receiver for receiver in receivers(qid) if receiver.stories])
        }
        if grouped:
            wanted = pc.is_in(rows["qid"], pa.array(list(grouped), pa.int32()))
            for key, edges in self._edges(rows.filter(wanted), grouped).items():
                self._add(key, edges)

    def regroup(self, name: str) -> None:
        """Delete the stories of a subscription, and make them again from its kept matches.

        Backfilled matches are added first.  Without the option `stories` none are made.
        """
        versions = self._subscriptions.versions(name)
        current = versions[-1]
        delete_stories_of(self._store, current.key)
        if not current.stories:
            return
        edges: list[MatchEdge] = []
        for qid in dict.fromkeys(version.qid for version in versions):
            sharers = [version for version in versions if version.qid == qid]
            for found in self._edges(results_of(self._store, qid), {qid: sharers}).values():
                edges += found
        for is_past in (True, False):
            self._add(
                current.key,
                [edge for edge in edges if current.is_backfilled(edge.position) == is_past],
            )

    def _edges(
        self, rows: pa.Table, subscribers: Mapping[int, Sequence[Subscription]]
    ) -> dict[str, list[MatchEdge]]:
        """Return the matches of results, by key of the subscription, in the order of `rows`.

        `subscribers` has the subscriptions of each qid.  Matches without kept documents are left
        out.
        """
        recent = self._documents.recent
        matches = Matches(
            rows, subscribers, lambda docs: kept_parts(self._store, docs, recent), self._source
        )
        found: dict[str, list[MatchEdge]] = {}
        for one, position, docs in matches.by_document():
            if docs:
                found.setdefault(one.key, []).append(MatchEdge(position, docs))
        return found

    def _add(self, key: str, edges: Sequence[MatchEdge]) -> None:
        """Add matches to the stories of the subscription with a key."""
        docs = {doc for edge in edges for doc in edge.docs}
        roots = roots_of_documents(self._store, key, docs)
        rows = rows_of(self._store, "story", "id", "founder", id=set(roots.values()))
        founders = {row["id"]: row["founder"] for row in rows}
        for component in _components(edges, roots):
            met = sorted(
                {roots[doc] for edge in component for doc in edge.docs if doc in roots},
                key=lambda id: (founders[id], id),
            )
            new: dict[int, int] = {}
            for edge in component:
                for doc in edge.docs:
                    if doc not in roots:
                        new.setdefault(doc, edge.position)
            if not new and len(met) < 2:
                continue
            position = max(edge.position for edge in component)
            if not met:
                founder = min(edge.completed_by for edge in component)
                (document,) = self._documents.stored({founder}).values()
                met = [digest([key, document.id])]
                insert_story(self._store, met[0], key, founder, position)
            added = [StoryDocument(doc, match) for doc, match in new.items()]
            grow_story(self._store, met[0], key, position, added, met[1:])


def _components(edges: Sequence[MatchEdge], roots: Mapping[int, str]) -> Iterator[list[MatchEdge]]:
    """Yield the matches of each connected component of the graph that `edges` form.

    `roots` has the id of the story of each document that is in one, by its number: documents of one
    story count as connected.
    """
    above: dict[int | str, int | str] = {}

    def top(node: int | str) -> int | str:
        while (parent := above.setdefault(node, node)) != node:
            above[node] = node = above[parent]  # shortens the path for later calls
        return node

    def nodes(edge: MatchEdge) -> Iterable[int | str]:
        return (roots.get(doc, doc) for doc in edge.docs)

    for edge in edges:
        first, *others = nodes(edge)
        for other in others:
            above[top(other)] = top(first)
    found: dict[int | str, list[MatchEdge]] = {}
    for edge in edges:
        found.setdefault(top(next(iter(nodes(edge)))), []).append(edge)
    yield from found.values()
