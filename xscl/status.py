"""How a service is doing, in numbers: what `xscl status` shows and status.json holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from feeds.spool import Spool, SpoolError
from xscl.engine import Engine
from xscl.home import Home
from xscl.pipeline import DIRECT, position_of_spark
from xscl.sink import EngineSink

# What `Matches` would expand to, without expanding it.
_MATCHES = """
SELECT count(*) FILTER (NOT s.is_distinct)
     + count(DISTINCT (s.number, r.doc1, r.doc2)) FILTER (s.is_distinct)
FROM state.result r JOIN state.subscription s USING (qid)
JOIN state.document d1 ON d1.doc = r.doc1 JOIN state.document d2 ON d2.doc = r.doc2
WHERE s.since <= least(d1.first, d2.first)
  AND (s.updates OR (d1.version = 1 AND d2.version = 1))
"""

_COUNTS = f"""
SELECT
    (SELECT count(*) FROM state.subscription) AS subscriptions,
    (SELECT count(DISTINCT template) FROM state.subscription) AS templates,
    (SELECT count(DISTINCT qid) FROM state.subscription) AS joins,
    (SELECT count(DISTINCT stream) FROM (
        SELECT name AS stream FROM state.stream
        UNION SELECT unnest(reads) FROM state.subscription
        UNION SELECT publish FROM state.subscription WHERE publish IS NOT NULL
        UNION SELECT unnest(streams) FROM state.document)) AS streams,
    (SELECT count(*) FROM state.document) AS documents,
    (SELECT count(*) FROM state.rejected) AS rejected,
    ({_MATCHES}) AS matches,
    (SELECT count(*) FROM state.feed) AS feeds,
    (SELECT count(*) FROM state.feed WHERE error IS NOT NULL) AS feeds_failing
"""


@dataclass(frozen=True, slots=True)
class Status:
    """The figures of a data directory.

    `consumer` is who did the last work, "spark" or "direct" (None: nobody
    yet); `position` is the last segment of the spool that it consumed,
    `waiting` the documents after it and `lag` the age in seconds of the oldest.
    """

    consumer: str | None
    subscriptions: int
    templates: int
    joins: int
    streams: int
    documents: int
    rejected: int
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
        yield f"documents      {self.documents}, {self.rejected} rejected"
        yield f"matches        {self.matches}"
        yield f"feeds          {self.feeds}, {self.feeds_failing} with errors"
        yield (
            f"spool          segment {self.position} of {self.spool} consumed, "
            f"{self.waiting} documents wait"
            + (f", the oldest for {self.lag:.0f} s" if self.waiting else "")
        )


def status(engine: Engine, home: Home) -> Status:
    """Return the figures as they are now; the tables of feeds must exist."""
    counts: dict[str, int] = engine.sql(_COUNTS).to_pylist()[0]
    spark, direct = _positions(engine, home)
    position = max(spark, direct)
    latest, waiting, oldest = _spooled(home, position)
    return Status(
        consumer=None if not position else "spark" if spark > direct else "direct",
        **counts,
        spool=latest,
        position=position,
        waiting=waiting,
        lag=max(0.0, time.time() - oldest / 1e6) if waiting else 0.0,
    )


def _positions(engine: Engine, home: Home) -> tuple[int, int]:
    """Return the last segment that came through Spark, and through the direct consumer."""
    sink = EngineSink(engine)
    return position_of_spark(sink, home.checkpoint), sink.consumed(DIRECT) or 0


def _spooled(home: Home, position: int) -> tuple[int, int, int]:
    """Return the latest segment, the documents after a position, and the oldest one's arrival."""
    try:
        spool = Spool(home.spool, read_only=True)
    except SpoolError:
        return 0, 0, 0
    segments = spool.segments(position)
    waiting = sum(segment.rows for segment in segments)
    return spool.latest(), waiting, segments[0].arrived if segments else 0
