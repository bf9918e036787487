"""The engine as a consumer's sink: batches in, matches to whoever listens."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from feeds.documents import Document
from feeds.faultpoints import reached
from xscl.engine.facade import Engine
from xscl.ingestion.quarantine import Attempts, poisonous
from xscl.shredding.remote.artefact import Artefacts
from xscl.shredding.remote.remote_bindings import Part
from xscl.store.consumed_offsets import Batch
from xscl.subscriptions.matches import Matches

_log = logging.getLogger(__name__)


def _warn(documents: Sequence[Document], poison: Collection[int]) -> None:
    """Tell the log of documents that are set aside."""
    for at in sorted(poison):
        _log.error(
            "the document %r is set aside: a process ended while it read it", documents[at].id
        )


def _go_on() -> None:
    """Nothing is waited for."""


def _ignore(matches: Matches) -> None:
    """Nobody listens; the matches are kept in the store all the same."""


@dataclass(frozen=True, slots=True)
class EngineSink:
    """Pushes batches under their key in the ledger, and passes on the matches after the commit.

    Within a `with` each match is passed on at least once, whatever process it took.  `hold` is
    called by the consumer before each batch, and may wait or raise.  `attempts` says whether a
    process died of a batch.  Without `tells` another reader passes matches on
    (`xscl.delivery.match_tail`),
    and `on_matches` only learns that there are some.
    """

    engine: Engine
    on_matches: Callable[[Matches], None] = _ignore
    hold: Callable[[], None] = _go_on
    attempts: Attempts = field(default_factory=Attempts)
    tells: bool = True

    def __enter__(self) -> EngineSink:
        """Pass on what was committed, but perhaps not passed on, before the last process ended."""
        if self.tells and (untold := self.engine.host.log.undelivered()):
            self.on_matches(untold)
            self.engine.host.log.acknowledge()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self.tells:
            self.engine.host.log.acknowledge(durable=True)

    def consume(
        self, documents: Sequence[Document], batch: Batch, parts: Sequence[Part] = ()
    ) -> None:
        """Take a batch in; one that the ledger has changes nothing and matches nothing."""
        reached("batch_read")
        poison: frozenset[int] = frozenset()
        if self.attempts.begin(batch.segment, self.engine.host.ingest.segment):
            poison = poisonous(documents)
            _warn(documents, poison)
        began = time.perf_counter()
        self.engine.host.ingest.push(
            documents, source=batch, parts=parts, poison=poison, listen=self._heard
        )
        _log.info(
            "a batch was pushed",
            extra={
                "documents": len(documents),
                "segment": batch.segment,
                "seconds": round(time.perf_counter() - began, 4),
            },
        )
        if self.tells:
            self.engine.host.log.acknowledge()

    def _heard(self, matches: Matches) -> None:
        """Pass on the matches of one transaction."""
        reached("committed")
        self.on_matches(matches)

    def consumed(self, query_id: str) -> int | None:
        """Return the last batch in the ledger under a query id."""
        return self.engine.consumed(query_id)

    @property
    def segment(self) -> int:
        """The segment up to which the spool was consumed."""
        return self.engine.host.ingest.segment

    def publish_patterns(self, artefacts: Artefacts) -> None:
        """Leave the patterns of the engine for other processes."""
        self.engine.host.ingest.publish_patterns(artefacts)
