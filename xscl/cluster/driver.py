"""The driver: sequence, intent, answers, commit.

    append    documents and controls become entries of the log
    intend    the batch (after, upto] is recorded, so that another driver repeats the same cut
    answer    one task for each cell; a task may run several times
    commit    file names and checksums in one transaction: this is the commit

The driver's store has catalog, identities, ledger, intents and manifest.  One process has the store
(its lock), and a copy of it elsewhere is refused by the epoch in the shared directory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Self

from feeds.documents import Document
from feeds.faultpoints import reached
from xscl.cluster import catalog_log, committed_matches
from xscl.cluster.catalog_log import CatalogLog, placements
from xscl.cluster.cell_task import CellAnswer, CellRunner, CellTask
from xscl.cluster.committed_matches import COMMITTED, CommittedMatches
from xscl.cluster.placement import Choose, Placement
from xscl.cluster.sealed_log import Flush, SealedLog
from xscl.cluster.sequencer import Sequencer
from xscl.cluster.shared_directory import ClusterError, SharedDirectory
from xscl.documents.results import XSCL, Subscription
from xscl.engine.facade import Engine
from xscl.planning.event_queries import Attributes
from xscl.store.consumed_offsets import BatchKey

SNAPSHOT_EVERY = 64
"""Batches from one snapshot of a cell to its next; the cells take turns."""

_EPOCH, _CELLS, _BATCHES = "cluster_epoch", "cluster_cells", "cluster_batches"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS state.cluster_intent(after BIGINT, upto BIGINT);
"""


class ClusterDriver:
    """Sequences documents, and commits what the cells answer.  One thread uses it."""

    def __init__(
        self,
        store: Path | None,
        shared: SharedDirectory,
        cells: int,
        runner: CellRunner,
        *,
        choose: Choose | None = None,
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> None:
        """Open the driver's store, and finish what an earlier driver has begun.

        Raises ClusterError for another number of cells than before, StaleDriver if a driver with
        a newer store has used the shared directory.
        """
        self._shared = shared
        self._runner = runner
        self._snapshot_every = snapshot_every
        self.engine = Engine(store)
        try:
            shared.create()
            self._begin(cells)
            log = SealedLog(shared)
            self._sequencer = Sequencer(self.engine.host, log)
            chosen = choose or self._placement()
            self._catalog = CatalogLog(self.engine, log, chosen)
            self.matches = CommittedMatches(self.engine.host.transactions.store, shared)
            self._catalog.append_changes()
            self.commit()
        except BaseException:
            self.engine.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; the cells keep their engines."""
        self.engine.close()

    def _begin(self, cells: int) -> None:
        with self.engine.host.transactions.change() as state:
            store = state.store
            for schema in (catalog_log.SCHEMA, committed_matches.SCHEMA, _SCHEMA):
                store.connection.execute(schema)
            known = store.meta(_CELLS)
            if known not in (0, cells):
                raise ClusterError(
                    f"the cluster has {known} cells, not {cells}",
                    hint=f"start it with {known} cells: they are fixed when it begins",
                )
            self.cells, self.epoch = cells, store.meta(_EPOCH) + 1
            store.set_meta(**{_CELLS: cells, _EPOCH: self.epoch})
        self._shared.begin_epoch(self.epoch)

    def _placement(self) -> Placement:
        placed = placements(self.engine.host.transactions.store)
        known = [(one, placed[one.name]) for one in self.engine.subscriptions if one.name in placed]
        return Placement(self.cells, known)

    # -- The catalog -----------------------------------------------------------------------

    def stream(
        self,
        name: str,
        *,
        lateness: str | int = 0,
        live: bool = False,
        attributes: Attributes | None = None,
    ) -> None:
        """Declare a stream as `Engine.stream` does."""
        self.engine.stream(name, lateness=lateness, live=live, attributes=attributes)
        self._catalog.append_changes()

    def subscribe(
        self, name: str, query: str, *, updates: bool = False, language: str = XSCL
    ) -> None:
        """Register a query as `Engine.subscribe` does; it sees what is consumed from now on."""
        self.engine.subscribe(name, query, updates=updates, language=language)
        reached("registered")
        self._catalog.append_changes()

    def subscribe_many(self, pairs: Sequence[tuple[str, str]], *, updates: bool = False) -> None:
        """Register queries in XSCL, all or none, in one entry of the log."""
        self.engine.subscribe_many(pairs, updates=updates)
        reached("registered")
        self._catalog.append_changes()

    def edit(
        self,
        name: str,
        query: str | None = None,
        *,
        updates: bool | None = None,
        language: str | None = None,
        paused: bool | None = None,
    ) -> Subscription:
        """Change a subscription as `Engine.edit` does; it stays in its cell."""
        one = self.engine.edit(name, query, updates=updates, language=language, paused=paused)
        reached("registered")
        self._catalog.append_changes()
        return one

    def unsubscribe(self, name: str, *, cascade: bool = False) -> tuple[str, ...]:
        """Remove a subscription as `Engine.unsubscribe` does, and return what was removed."""
        removed = self.engine.unsubscribe(name, cascade=cascade)
        reached("registered")
        self._catalog.append_changes()
        return removed

    # -- Documents -------------------------------------------------------------------------

    def consume(
        self, documents: Sequence[Document], batch: BatchKey, poison: Collection[int] = ()
    ) -> None:
        """Sequence a batch, and commit its matches; one that was consumed before changes nothing.

        `poison` are the places of documents that are recorded as rejected, unread.
        """
        self._sequencer.append(documents, batch, poison)
        self.commit()  # also of a batch that was sequenced before, whose tasks have failed

    def flush(self) -> None:
        """End the input, as `Engine.flush` does."""
        self._catalog.append_changes(Flush())
        self.commit()

    # -- Commit ----------------------------------------------------------------------------

    def commit(self) -> None:
        """Commit the matches of all entries: of the batch that was intended, then of the rest."""
        while (batch := self._intend()) is not None:
            after, upto = batch
            tasks = [
                CellTask(cell, after, upto, self.epoch, self._takes_snapshot(cell))
                for cell in range(self.cells)
            ]
            self._commit(tasks, self._runner.run(self._shared.path, tasks))

    def _takes_snapshot(self, cell: int) -> bool:
        batches = self.engine.host.transactions.store.meta(_BATCHES)
        return batches > 0 and (batches + cell) % self._snapshot_every == 0

    def _intend(self) -> tuple[int, int] | None:
        """Return the batch to commit next, as recorded; None if all entries are committed."""
        with self.engine.host.transactions.change() as state:
            known = state.store.fetch("SELECT after, upto FROM state.cluster_intent")
            if known:
                ((after, upto),) = known
                return after, upto
            after, upto = state.store.meta(COMMITTED), self._sequencer.last
            if after == upto:
                return None
            state.store.insert_rows("state.cluster_intent", [(after, upto)])
        reached("intended")
        return after, upto

    def _commit(self, tasks: Sequence[CellTask], answers: Sequence[CellAnswer]) -> None:
        """Commit the answers to all tasks; raises ClusterError unless each has exactly one."""
        asked = sorted((one.cell, one.after, one.upto) for one in tasks)
        given = sorted((one.cell, one.after, one.upto) for one in answers)
        if asked != given:
            raise ClusterError(f"the cells answered {given}, and were asked {asked}")
        for answer in answers:
            self.matches.read(answer)
        self._shared.expect_epoch(self.epoch)
        with self.engine.host.transactions.change() as state:
            store = state.store
            rows = ((one.cell, one.after, one.upto, one.matches, one.sha256) for one in answers)
            store.insert_rows("state.cluster_answer", rows)
            store.fetch("DELETE FROM state.cluster_intent")
            store.set_meta(**{COMMITTED: tasks[0].upto, _BATCHES: store.meta(_BATCHES) + 1})
        reached("cells_committed")
