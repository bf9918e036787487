"""The sequencer: identity, version and clock of each document, determined once for all cells.

It uses the document log of the driver's engine, so that duplicates, versions and invalid documents
are the same as in a single engine.  Entry and ledger are counted in one transaction, after the file
was written: a driver that ends between the two writes the entry again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from feeds.documents import Document, DocumentColumns
from feeds.faultpoints import reached
from templates.batch_join import FOUND
from xscl.cluster.document_routing import Router
from xscl.cluster.sealed_log import SealedLog, SequencedDocuments
from xscl.documents.document_log import DocumentIdentity
from xscl.engine.host import EngineHost
from xscl.engine.ingest import PushSlice
from xscl.store.consumed_offsets import BatchKey, Beat
from xscl.store.store import Store

SEQUENCED = "cluster_sequenced"
"""The key of the last entry of the log in the store's named numbers."""


class Sequencer:
    """Appends documents to the sealed log.  One thread uses it."""

    def __init__(self, host: EngineHost, log: SealedLog, router: Router | None = None) -> None:
        self._host = host
        self._log = log
        self._router = router
        self.last = 0
        """The number of the last entry with documents of this process, 0 if there is none."""

    def append(
        self, documents: Sequence[Document], batch: BatchKey, poison: Collection[int] = ()
    ) -> int:
        """Append the new documents of a batch; return their number.

        None are new if the batch was appended before.  Those at the places in `poison` are recorded
        as rejected, unread.
        """
        with self._host.transactions.change() as state:
            if not state.ledger.enter(batch):
                return 0
            number = state.store.meta(SEQUENCED) + 1
            read, beats = _without(documents, batch, poison)
            state.documents.reject_poison([documents[at] for at in sorted(poison)])
            arrivals = state.documents.accept(read, beats=beats, arrived=batch.arrived).arrivals
            clocks = np.append(arrivals.clocks, state.documents.clock)
            rows = _identified(state.store, arrivals.docs.tolist())
            entry = SequencedDocuments(
                DocumentColumns(
                    list(arrivals.streams),
                    [row[0] for row in rows],
                    arrivals.ts.tolist(),
                    list(arrivals.xml),
                    [row[3] for row in rows],
                    [row[4] for row in rows],
                ),
                [DocumentIdentity(row[1], row[2], *row[5:]) for row in rows],
                clocks,
                batch.arrived,
                state.documents.next_number(),
                () if self._router is None else self._router.routes(arrivals),
            )
            self._log.write(number, entry)
            reached("sealed")
            if len(arrivals):
                state.arrived.append(arrivals)
            state.store.set_meta(**{SEQUENCED: number})
            self._host.ingest.store_results(state, FOUND.empty_table())
        self.last = number
        reached("sequenced")
        return len(arrivals)


def _without(
    documents: Sequence[Document], batch: BatchKey, poison: Collection[int]
) -> tuple[Sequence[Document], Sequence[Beat]]:
    """Return the documents at all other places, with the beats between them."""
    some = PushSlice(documents, (), batch.beats, batch.arrived).without(poison)
    return some.documents, some.beats


def _identified(
    store: Store, docs: Sequence[int]
) -> list[tuple[str, str, int, bool, str, int, int]]:
    """Return given id, id, version, history, origin, number and base of a batch's documents."""
    if not docs:
        return []
    return store.fetch(
        "SELECT given, id, version, history, origin, doc, base FROM state.document WHERE doc >= ?"
        " ORDER BY doc",
        [docs[0]],
    )
