"""Report of the matches of one command, printed as they come or as one JSON answer.

A match is acknowledged in the store once it was written out.  After a kill before that, the next
command reports it again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from feeds.documents import Document
from xscl.cli.output import echo, match_text
from xscl.delivery.message import MatchFields, row_of
from xscl.engine.facade import Engine
from xscl.engine.ingest import PushResult
from xscl.ingestion.engine_sink import EngineSink
from xscl.shredding.arrivals import BatchPart
from xscl.store.consumed_offsets import BatchKey


@dataclass(slots=True)
class MatchReport:
    """Prints matches, or with `as_json` collects them in `rows`; `shown` counts both.

    Matches among what feeds held at their first poll are only counted by subscription, in `silent`,
    unless `history` is set.
    """

    as_json: bool
    history: bool = True
    shown: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    silent: Counter[str] = field(default_factory=Counter)

    def __call__(self, matches: Iterable[MatchFields]) -> None:
        for match in matches:
            if match.history and not self.history:
                self.silent[match.subscription] += 1
                continue
            self.shown += 1
            if self.as_json:
                self.rows.append(row_of(match))
            else:
                for line in match_text(match):
                    echo(line)
        sys.stdout.flush()


def report_sink(
    engine: Engine, report: MatchReport, on_pushed: Callable[[PushResult], None]
) -> EngineSink:
    """Return a sink that reports matches; those of one JSON answer are acknowledged at its end."""
    kind = _AcknowledgedAtTheEnd if report.as_json else EngineSink
    return kind(engine, report, on_pushed=on_pushed)


class _AcknowledgedAtTheEnd(EngineSink):
    """A sink that acknowledges matches when its block ends, not batch by batch."""

    def __enter__(self) -> _AcknowledgedAtTheEnd:
        self.on_matches(self.engine.host.log.undelivered())
        return self

    def consume(
        self, documents: Sequence[Document], batch: BatchKey, parts: Sequence[BatchPart] = ()
    ) -> None:
        pushed = self.engine.host.ingest.push(documents, source=batch, parts=parts)
        self.on_matches(pushed.matches)
        self.on_pushed(pushed)
