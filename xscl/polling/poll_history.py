"""The last polls of each feed: outcome, duration, number of items, redirects and errors.

A poll appends a row; rows beyond the newest ones of its feed are deleted
(`docs/decisions/feeds.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from xscl.store.queries import feeds as stored
from xscl.store.store import Store

MOST = 100
"""Polls of a feed that are kept."""
LONGEST = 300
"""Characters of a note that are kept."""

OK, UNCHANGED, DEFERRED = "ok", "unchanged", "deferred"
"""Outcomes of polls that did not fail; others are the codes of errors."""


@dataclass(frozen=True, slots=True)
class PollRecord:
    """A poll: its time in ticks, outcome, duration, and the number of new or changed items.

    `outcome` is `ok`, `unchanged` (304), `deferred`, or the code of an error; `note` is the error,
    or where the feed moved to.
    """

    polled: int
    outcome: str
    seconds: float
    items: int = 0
    note: str | None = None

    @property
    def is_failed(self) -> bool:
        """Return True for an error."""
        return self.outcome not in (OK, UNCHANGED, DEFERRED)


def save_polls(store: Store, polls: Mapping[str, PollRecord]) -> None:
    """Append a poll to the history of each feed, within a transaction of the caller."""
    if not polls:
        return
    rows = ({"key": key, **asdict(one)} for key, one in polls.items())
    store.insert_rows("feed_poll", rows)
    stored.trim_polls(store, polls.keys(), MOST)


def polls_of(store: Store, key: str) -> Sequence[PollRecord]:
    """Return the last polls of a feed, the newest first."""
    return [PollRecord(**row) for row in stored.polls_of(store, key, MOST)]
