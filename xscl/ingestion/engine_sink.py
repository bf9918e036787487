"""The engine as a consumer's sink: batches in, matches to a listener."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from feeds.documents import Document
from feeds.faultpoints import reached
from xscl.documents.consumed_offsets import BatchKey
from xscl.engine.executors import ExecutorResults
from xscl.engine.facade import Engine
from xscl.engine.ingest import PushResult
from xscl.ingestion.quarantine import BatchAttempts, poisonous
from xscl.subscriptions.matches import Matches

_log = logging.getLogger(__name__)


def _warn(documents: Sequence[Document], poison: Collection[int]) -> None:
    """Log the quarantined documents."""
    for at in sorted(poison):
        _log.error(
            "the document %r is set aside: a process ended while it read it", documents[at].id
        )


def _go_on() -> None:
    """Continue at once."""


def _ignore(outcome: object) -> None:
    """Ignore matches, which are in the store, and counts."""


@dataclass(frozen=True, slots=True)
class EngineSink:
    """Pushes batches under their keys, and tells of the matches after the commit.

    The consumer calls `hold` before each batch; it may wait or raise.  `attempts` records whether a
    batch crashed a process.  `on_matches` is notified of the matches of each transaction, which
    others deliver (`xscl.delivery.outbox`).  `on_pushed` gets the counts of each batch, and
    `on_committed` its key.
    """

    engine: Engine
    on_matches: Callable[[Matches], None] = _ignore
    hold: Callable[[], None] = _go_on
    attempts: BatchAttempts = field(default_factory=BatchAttempts)
    on_pushed: Callable[[PushResult], None] = _ignore
    on_committed: Callable[[BatchKey], None] = _ignore

    def consume(
        self,
        documents: Sequence[Document],
        batch: BatchKey,
        evaluated: ExecutorResults | None = None,
        poison: frozenset[int] = frozenset(),
    ) -> None:
        """Push a batch; one that was consumed before changes nothing and matches nothing."""
        reached("batch_read")
        if self.attempts.begin(batch.segment, self.engine.ingest.segment):
            poison = poisonous(documents)
        _warn(documents, poison)
        began = time.perf_counter()
        pushed = self.engine.ingest.push(
            documents, source=batch, evaluated=evaluated, poison=poison, listen=self._heard
        )
        self.on_pushed(pushed)
        self.on_committed(batch)
        _log.info(
            "a batch was pushed",
            extra={
                "documents": len(documents),
                "segment": batch.segment,
                "seconds": round(time.perf_counter() - began, 4),
            },
        )

    def _heard(self, matches: Matches) -> None:
        """Notify of the matches of one transaction."""
        reached("committed")
        self.on_matches(matches)

    @property
    def segment(self) -> int:
        """The segment up to which the spool was consumed."""
        return self.engine.ingest.segment
