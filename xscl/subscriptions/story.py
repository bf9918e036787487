"""A story: matches of one subscription that share documents, as its readers see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from xscl.documents.results import Subscription
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
    with `merged_into` became a part of the story of that id, and has none.  `growth` is set where a
    story is read as one that has grown.  The `head` is the match of the newest growth.
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
        """The time of the first of these documents, in ticks; None without one."""
        return min((t0 for t0, _ in self._times), default=None)

    @property
    def t1(self) -> int | None:
        """The time at which the last of these matches was complete; None without one."""
        return max((t1 for _, t1 in self._times), default=None)

    def __repr__(self) -> str:
        return f"Story({self.id!r}, documents={self.total})"
