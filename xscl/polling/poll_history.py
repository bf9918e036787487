"""The last polls of each feed: outcome, duration, number of items, redirects and errors.

A poll appends a row.  Rows beyond the newest ones of each feed are deleted all at once, when the
table has a tenth more than all feeds may have: a scan for each poll would cost more than the poll
(`docs/decisions/092-a-feed-keeps-its-last-polls.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields

import pyarrow as pa

from templates.columns.arrow_tables import named
from xscl.store.store import Store

MOST = 100
"""Polls of a feed that are kept."""
LONGEST = 300
"""Characters of a note that are kept."""
_SLACK, _FEW = 1.1, 1_000  # rows beyond these, as a factor and as a number, are deleted
_NEWEST = "polled DESC, rowid DESC"

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


_KINDS = (pa.int64(), pa.string(), pa.float32(), pa.int32(), pa.string())
_NAMES = ["key", *(field.name for field in fields(PollRecord))]


def save_polls(store: Store, polls: Mapping[str, PollRecord]) -> None:
    """Append a poll to the history of each feed, within a transaction of the caller."""
    if not polls:
        return
    rows = zip(*map(astuple, polls.values()), strict=True)
    columns = [pa.array(column, kind) for column, kind in zip(rows, _KINDS, strict=True)]
    store.lend("poll", pa.table([pa.array(polls, pa.string()), *columns], _NAMES))
    store.connection.execute(
        f"INSERT INTO state.feed_poll BY NAME SELECT {named(_NAMES)} FROM poll"
    )
    ((polled, feeds),) = store.fetch(
        "SELECT (SELECT count(*) FROM state.feed_poll), (SELECT count(*) FROM state.feed)"
    )
    if polled > MOST * feeds * _SLACK + _FEW:
        # by time and not by row number (decision 030): polls of one feed have different times
        store.connection.execute(
            "DELETE FROM state.feed_poll WHERE (key, polled) NOT IN"
            " (SELECT (key, polled) FROM state.feed_poll"
            f" QUALIFY row_number() OVER (PARTITION BY key ORDER BY {_NEWEST}) <= {MOST})"
        )


def polls_of(store: Store, key: str) -> Sequence[PollRecord]:
    """Return the last polls of a feed, the newest first."""
    rows = store.rows(
        f"SELECT {named(_NAMES[1:])} FROM state.feed_poll WHERE key = ?"
        f" ORDER BY {_NEWEST} LIMIT {MOST}",
        [key],
    )
    return [PollRecord(**row) for row in rows]
