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
    """The growth of a story at a position: the names of the `documents` that it got.

    `merged` are the ids of the stories that it took over.  `is_first`: the story had no growth
    before that was to be delivered.  `history`: all these documents are from before their sources
    were followed.  `backfilled`: the growth is of a match that the subscription began with.
    """

    position: int
    documents: tuple[str, ...]
    merged: tuple[str, ...] = ()
    is_first: bool = False
    history: bool = False
    backfilled: bool = False


class Story(MatchList):
    """A story: matches of one subscription that are connected by common documents.

    As a sequence it has one match for each of its first `SHOWN` documents, in the order of arrival.
    `id` never changes, `subscription` is the name of its subscription and `number` its number.
    `began` and `last` are the positions of the first and the newest growth.  `total` is the number
    of all documents.  One with `merged_into` became a part of the story of that id, and has no
    matches.  `growth` is set only by `StoryLog.grown`.
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
        """Title, address and publisher of the documents in its matches, each document once."""
        found = {source.document: source for match in self for source in match.sources}
        return tuple(found.values())

    @property
    def absence(self) -> str:
        """The documents that did not come in time for its first match, in words; empty if none."""
        return self[0].absence if len(self) else ""

    @property
    def t0(self) -> int | None:
        """The time of the earliest document of its matches, in ticks; None without matches."""
        return min((t0 for t0, _ in self._times), default=None)

    @property
    def t1(self) -> int | None:
        """The latest time at which a match of it was complete, in ticks; None without matches."""
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
    """A page of stories, one for each growth in the order of positions.

    All growth up to the position `end` was read: the next page begins after it.
    """

    stories: tuple[Story, ...]
    end: int


class StoryLog:
    """Reads the stories of subscriptions; each call sees one commit.

    The matches of stories are read from `log`.
    """

    def __init__(self, log: MatchLog) -> None:
        self._log = log

    def newest(
        self, name: str, *, before: int | None = None, limit: int, merged: bool = False
    ) -> list[Story]:
        """Return stories of a subscription, at most `limit`, the one that grew last first.

        They are those whose last growth is before the position `before`, None: all.  With `merged`
        also stories that others took over are returned.  Raises UnknownSubscription.
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
        """Return the story that a match is in; None if it is in none."""
        one = match.found_by
        with self._log.snapshot() as store:
            ids = roots_of_documents(store, one.key, match.numbers).values()
            row = next((story_of_id(store, one.key, id) for id in ids), None)
            return None if row is None else self._story(store, one, row)

    def ending_with(self, match: Match) -> Story | None:
        """Return the story whose newest growth came with a match; None if there is none."""
        one = match.found_by
        with self._log.snapshot() as store:
            row = story_of_head(store, one.key, match.position)
            return None if row is None else self._story(store, one, row)

    def grown(
        self, name: str, after: int, limit: int, *, history: bool = True, backfilled: bool = True
    ) -> StoryPage:
        """Return the first `limit` growths of a subscription's stories after the position `after`.

        Each is a story in its present state, with its `growth`.  A story that became a part of
        another one grows with that one only.  Growth by `history` or by `backfilled` matches is
        left out if that argument is False.
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
        """Return the matches at some positions of the subscription with a key, as far as kept."""

        def mine(one: Subscription) -> bool:
            return one.key == key

        found: list[Match] = []
        for position in dict.fromkeys(positions):
            try:
                found += self._log.at(position, mine)
            except StoreUnavailable:
                raise
            except StoreError:  # its documents were evicted
                continue
        return found


def _growth(store: Store, one: Subscription, id: str, position: int) -> Growth:
    """Return the growth of the story `id` at a position, with at most `ADDED` names and ids."""
    added = added_at(store, one.key, id, position, ADDED)
    return Growth(
        position,
        tuple(row["name"] for row in added),
        tuple(taken_at(store, one.key, position, ADDED)),
        history=bool(added) and all(row["history"] for row in added),
        backfilled=one.is_backfilled(position),
    )
