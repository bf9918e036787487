"""A cluster as a consumer's sink: batches of the spool in, matches in the driver's engine out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from feeds.documents import Document
from feeds.faultpoints import reached
from xscl.cluster.driver import ClusterDriver
from xscl.ingestion.quarantine import BatchAttempts, poisonous
from xscl.shredding.arrivals import BatchPart
from xscl.shredding.remote.artefact import ArtefactDirectory
from xscl.store.consumed_offsets import BatchKey


def _go_on() -> None:
    """Continue at once."""


def _ignore(batch: BatchKey) -> None:
    """Ignore the key of a batch."""


@dataclass(frozen=True, slots=True)
class ClusterSink:
    """Passes batches to a driver, each exactly once by its key (`pipeline.BatchSink`).

    The consumer calls `hold` before each batch; it may wait or raise.  `attempts` records whether
    a batch crashed a process.  `on_committed` gets the key of each batch.
    """

    driver: ClusterDriver
    hold: Callable[[], None] = _go_on
    attempts: BatchAttempts = field(default_factory=BatchAttempts)
    on_committed: Callable[[BatchKey], None] = _ignore

    def consume(
        self, documents: Sequence[Document], batch: BatchKey, parts: Sequence[BatchPart] = ()
    ) -> None:
        """Consume a batch; one that was consumed before changes nothing.

        The witnesses in `parts` are not used: each cell shreds the documents for its patterns.
        """
        reached("batch_read")
        poison: frozenset[int] = frozenset()
        if self.attempts.begin(batch.segment, self.segment):
            poison = poisonous(documents)
        self.driver.consume(documents, batch, poison)
        self.on_committed(batch)

    def consumed(self, query_id: str) -> int | None:
        """Return the last consumed batch under a query id."""
        return self.driver.engine.consumed(query_id)

    @property
    def segment(self) -> int:
        """The segment up to which the spool was consumed."""
        return self.driver.engine.host.ingest.segment

    def publish_patterns(self, artefacts: ArtefactDirectory) -> None:
        """Publish nothing: documents are shredded in the cells."""
