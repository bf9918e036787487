"""How a service is doing, in numbers: what `xscl status` shows and status.json holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from feeds.spool import Spool, SpoolError
from xscl.documents import EARLIEST
from xscl.home import Home
from xscl.ledger import DIRECT, Ledger
from xscl.relations import PUBLISHED
from xscl.retention import kept
from xscl.store import Store

# What `Matches` would expand to, without expanding it.
_MATCHES = """
WITH part AS (
    SELECT doc, [doc] AS docs, first, version FROM state.document
    UNION ALL SELECT doc, docs, first, version FROM state.composite)
SELECT count(*) FILTER (NOT s.is_distinct)
     + count(DISTINCT (s.number, p1.docs, p2.docs)) FILTER (s.is_distinct)
FROM state.result r JOIN state.subscription s USING (qid)
JOIN part p1 ON p1.doc = r.doc1 JOIN part p2 ON p2.doc = r.doc2
WHERE s.since <= least(p1.first, p2.first)
  AND (s.updates OR (p1.version = 1 AND p2.version = 1))
"""

# Of the documents that came in, those that were behind the watermark of one of their streams.
_LATE = f"""
SELECT count(DISTINCT doc) FROM (
    SELECT doc, clock - ts AS behind, unnest(streams) AS name FROM state.document
    WHERE clock > ts AND NOT {PUBLISHED})
LEFT JOIN state.stream USING (name) WHERE behind > coalesce(lateness, 0)
"""

# In the order of the fields of `Status`.
_COUNTS = f"""
SELECT
    (SELECT count(*) FROM state.subscription),
    (SELECT count(*) FROM state.template),
    (SELECT count(DISTINCT qid) FROM state.subscription),
    (SELECT count(DISTINCT stream) FROM (
        SELECT name AS stream FROM state.stream
        UNION SELECT unnest(reads) FROM state.subscription
        UNION SELECT publish FROM state.subscription WHERE publish IS NOT NULL
        UNION SELECT unnest(streams) FROM state.document)),
    (SELECT count(*) FROM state.document WHERE NOT {PUBLISHED}),
    (SELECT count(*) FROM state.document WHERE {PUBLISHED}),
    (SELECT max(clock) FROM state.progress WHERE clock > {EARLIEST}),
    ({_LATE}),
    (SELECT count(*) FROM state.rejected),
    ({_MATCHES}),
    (SELECT count(*) FROM state.feed),
    (SELECT count(*) FROM state.feed WHERE error IS NOT NULL)
"""
_NAMES = (
    "subscriptions",
    "templates",
    "joins",
    "streams",
    "documents",
    "published",
    "clock",
    "late",
    "rejected",
    "matches",
    "feeds",
    "feeds_failing",
)


@dataclass(frozen=True, slots=True)
class Status:
    """The figures of a data directory.

    `consumer` is who did the last work, "spark" or "direct" (None: nobody
    yet); `position` is the last segment of the spool that it consumed,
    `waiting` the documents after it and `lag` the age in seconds of the oldest.
    `documents` came in, `published` were made of matches; `late` came behind
    the watermark of one of their streams (`clock` less its lateness; the
    relations `watermarks` and `late` say more).  `texts` are kept, of so many
    bytes; of all documents since `texts_since`, None if only those that queries need.
    """

    consumer: str | None
    subscriptions: int
    templates: int
    joins: int
    streams: int
    documents: int
    published: int
    clock: int | None
    late: int
    rejected: int
    texts: int
    text_bytes: int
    texts_since: int | None
    matches: int
    feeds: int
    feeds_failing: int
    spool: int
    position: int
    waiting: int
    lag: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield the figures for people."""
        yield f"consumer       {self.consumer or 'none yet'}"
        yield (
            f"subscriptions  {self.subscriptions} in {self.joins} distinct joins "
            f"of {self.templates} templates"
        )
        yield f"streams        {self.streams}"
        yield f"documents      {self.documents}, {self.rejected} rejected, {self.late} late"
        if self.published:
            yield f"published      {self.published} documents made of matches"
        yield f"texts          {self.texts}, {self.text_bytes / 1e6:.1f} MB" + (
            "" if self.texts_since is None else f", all since {_moment(self.texts_since)}"
        )
        if self.clock is not None:
            yield f"clock          {_moment(self.clock)}"
        yield f"matches        {self.matches}"
        yield f"feeds          {self.feeds}, {self.feeds_failing} with errors"
        yield (
            f"spool          segment {self.position} of {self.spool} consumed, "
            f"{self.waiting} documents wait"
            + (f", the oldest for {self.lag:.0f} s" if self.waiting else "")
        )


def _moment(ticks: int) -> str:
    """Return a time for people, or the ticks if no calendar has it."""
    try:
        return datetime.fromtimestamp(ticks // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(ticks)


def status(store: Store, home: Home) -> Status:
    """Return the figures as they are now; the tables of feeds must exist.

    A running engine may be at work in another thread: the store is one of its
    own (`Engine.store`), which sees whole batches only.
    """
    counts = dict(zip(_NAMES, store.fetch(_COUNTS)[0], strict=True))
    ledger = Ledger(store)
    position = ledger.segment
    direct = ledger.last(DIRECT) or 0
    latest, waiting, oldest = _spooled(home, position)
    texts = kept(store)
    return Status(
        consumer=None if not position else "direct" if position == direct else "spark",
        **counts,
        texts=texts.texts,
        text_bytes=texts.text_bytes,
        texts_since=texts.since,
        spool=latest,
        position=position,
        waiting=waiting,
        lag=max(0.0, time.time() - oldest / 1e6) if waiting else 0.0,
    )


def _spooled(home: Home, position: int) -> tuple[int, int, int]:
    """Return the latest segment, the documents after a position, and the oldest one's arrival."""
    try:
        spool = Spool(home.spool, read_only=True)
    except SpoolError:
        return 0, 0, 0
    segments = spool.segments(position)
    waiting = sum(segment.rows for segment in segments)
    return spool.latest(), waiting, segments[0].arrived if segments else 0
