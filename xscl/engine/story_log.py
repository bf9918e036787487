"""The stories of subscriptions, read beside the engine: by place, by id, and as they have grown.

A story is matches of one subscription that share documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from xscl.documents.results import Subscription
from xscl.engine.match_log import LAST, MatchLog
from xscl.errors import StoreError
from xscl.store.queries.stories import (
    added_at,
    documents_of_story,
    newest_stories,
    roots_of_documents,
    steps_after,
    story_of_head,
    story_of_id,
    taken_at,
    was_news,
)
from xscl.store.store import Store
from xscl.store.store_errors import StoreUnavailable
from xscl.subscriptions.match import DocumentSource, Match
from xscl.subscriptions.matches import MatchList


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a story at a position: the documents that it got, by name.

    `merged` are the ids of the stories that it took over.  `is_first`: the story was never
    delivered before.  `history` says that these documents are from before their sources were
    followed, `backfilled` that they were kept when the subscription was made.
    """

    position: int
    documents: tuple[str, ...]
    merged: tuple[str, ...] = ()
    is_first: bool = False
    history: bool = False
    backfilled: bool = False


class Story(MatchList):
    """Matches that share documents; as a sequence, one match for each of the first documents.

    `id` never changes, `subscription` is the name of its subscription.  `began` and `last` are the
    positions of its first and its newest growth.  `total` is the number of all its documents.  One
    with `merged_into` became a part of the story of that id, and has no matches.  `growth` is set
    where a story is read as one that has grown.  The `head` is the match of the newest growth.
    """

    def __init__(
        self,
        subscription: Subscription,
        row: Mapping[str, Any],
        matches: Iterable[Match],
        head: Iterable[Match],
        growth: Growth | None = None,
    ) -> None:
        super().__init__(matches)
        self._times = [(match.t0, match.t1) for match in (*self, *head)]
        self.subscription = subscription.name
        self.number = subscription.number
        self.id: str = row["id"]
        self.began: int = row["began"]
        self.last: int = row["last"]
        self.total: int = row["documents"]
        self.merged_into: str | None = None if row["root"] == row["id"] else row["root"]
        self.growth = growth

    @property
    def sources(self) -> tuple[DocumentSource, ...]:
        """The first documents for people, in the order of arrival."""
        found = {source.document: source for match in self for source in match.sources}
        return tuple(found.values())

    @property
    def absence(self) -> str:
        """The documents that did not come in time, in words; empty if all did."""
        return self[0].absence if len(self) else ""

    @property
    def t0(self) -> int | None:
        """The begin of the earliest of the matches, in ticks; None without matches."""
        return min((t0 for t0, _ in self._times), default=None)

    @property
    def t1(self) -> int | None:
        """The end of the latest of the matches, in ticks; None without matches."""
        return max((t1 for _, t1 in self._times), default=None)

    def __repr__(self) -> str:
        return f"Story({self.id!r}, documents={self.total})"


# -- Their log -------------------------------------------------------------------------------

SHOWN = 50
"""Number of first documents of a story whose matches are read."""
ADDED = 100
"""Documents, and stories that were taken over, that a growth names."""


@dataclass(frozen=True, slots=True)
class StoryPage:
    """Stories as they have grown, in order; the page is complete up to position `end`."""

    stories: tuple[Story, ...]
    end: int


class StoryLog:
    """Reads stories by way of a log of matches, as of one commit each."""

    def __init__(self, log: MatchLog) -> None:
        self._log = log

    def newest(
        self, name: str, *, before: int | None = None, limit: int, merged: bool = False
    ) -> list[Story]:
        """Return the stories of a subscription that last grew before a position, the newest first.

        Stories that others took over are left out, unless `merged`.  Raises
        UnknownSubscription.
        """
        one = self._log.versions(name)[-1]
        with self._log.snapshot() as store:
            rows = newest_stories(
                store,
                one.key,
                before=LAST if before is None else before,
                limit=limit,
                merged=merged,
            )
            return [self._story(store, one, row) for row in list(rows)]

    def having(self, match: Match) -> Story | None:
        """Return the story of a match; None without one."""
        one = match.found_by
        with self._log.snapshot() as store:
            ids = roots_of_documents(store, one.key, match.numbers).values()
            row = next((story_of_id(store, one.key, id) for id in ids), None)
            return None if row is None else self._story(store, one, row)

    def ending_with(self, match: Match) -> Story | None:
        """Return the story that a match was the last to extend; None if there is none."""
        one = match.found_by
        with self._log.snapshot() as store:
            row = story_of_head(store, one.key, match.position)
            return None if row is None else self._story(store, one, row)

    def grown(
        self, name: str, after: int, limit: int, *, history: bool = True, backfilled: bool = True
    ) -> StoryPage:
        """Return the stories of a subscription that have grown after a position, step by step.

        Each is shown in its present state.  A story that became a part of another one grows with
        that one only.  Growth among `history`, or among `backfilled` matches, counts only if that
        is True.
        """
        one = self._log.versions(name)[-1]
        with self._log.snapshot() as store:
            end = store.progress("position")
            steps = steps_after(store, one.key, after, limit)
            if len(steps) == limit:
                end = steps[-1]["position"]
            found = []
            for step in steps:
                growth = _growth(store, one, step["id"], step["position"])
                if (growth.history and not history) or (growth.backfilled and not backfilled):
                    continue
                known = was_news(
                    store,
                    step["id"],
                    growth.position,
                    history=history,
                    after=-1 if backfilled else one.backfilled,
                    live=one.live,
                )
                row = story_of_id(store, one.key, step["id"])
                if row is not None:
                    growth = replace(growth, is_first=not known)
                    found.append(self._story(store, one, row, growth))
            return StoryPage(tuple(found), end)

    def _story(
        self,
        store: Store,
        one: Subscription,
        row: Mapping[str, Any],
        growth: Growth | None = None,
    ) -> Story:
        documents = documents_of_story(store, row["id"], SHOWN)
        matches = self._matches(one.key, [document.match for document in documents])
        head = self._matches(one.key, [row["last"]] if documents else [])
        return Story(one, row, matches, head, growth)

    def _matches(self, key: str, positions: Iterable[int]) -> list[Match]:
        """Return the matches at some positions, as far as their documents are kept."""

        def mine(one: Subscription) -> bool:
            return one.key == key

        found: list[Match] = []
        for position in dict.fromkeys(positions):
            try:
                found += self._log.at(position, mine)
            except StoreUnavailable:
                raise
            except StoreError:  # the match's documents are no longer kept
                continue
        return found


def _growth(store: Store, one: Subscription, id: str, position: int) -> Growth:
    """Return the growth of a story at a position."""
    added = added_at(store, one.key, id, position, ADDED)
    return Growth(
        position,
        tuple(row["name"] for row in added),
        tuple(taken_at(store, one.key, position, ADDED)),
        history=bool(added) and all(row["history"] for row in added),
        backfilled=one.is_backfilled(position),
    )
