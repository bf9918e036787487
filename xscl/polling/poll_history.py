"""The last polls of each feed: outcome, duration, number of items, redirects and errors.

A feed has one row with a list, so a poll changes one row and the size is bounded
(`docs/decisions/092-a-feed-keeps-its-last-polls.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields

import pyarrow as pa

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


_FIELDS = [field.name for field in fields(PollRecord)]
_KINDS = (pa.int64(), pa.string(), pa.float32(), pa.int32(), pa.string())
_ENTRY = f"struct_pack({', '.join(f'{name} := p.{name}' for name in _FIELDS)})"


def save_polls(store: Store, polls: Mapping[str, PollRecord]) -> None:
    """Append a poll to the history of each feed, within a transaction of the caller."""
    if not polls:
        return
    rows = zip(*map(astuple, polls.values()), strict=True)
    columns = [pa.array(column, kind) for column, kind in zip(rows, _KINDS, strict=True)]
    store.lend("poll", pa.table([pa.array(polls, pa.string()), *columns], ["key", *_FIELDS]))
    store.connection.execute(
        f"UPDATE state.feed_history h SET polls = list_append(h.polls[-{MOST - 1}:], {_ENTRY})"
        " FROM poll p WHERE h.key = p.key"
    )
    store.connection.execute(
        f"INSERT INTO state.feed_history SELECT p.key, [{_ENTRY}] FROM poll p"
        " WHERE p.key NOT IN (SELECT key FROM state.feed_history)"
    )


def polls_of(store: Store, key: str) -> Sequence[PollRecord]:
    """Return the kept polls of a feed, the oldest first."""
    rows = store.fetch("SELECT polls FROM state.feed_history WHERE key = ?", [key])
    return [PollRecord(**one) for (polls,) in rows for one in polls]
