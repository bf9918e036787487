"""The driver: sequence, intent, answers, commit.

    append    documents and controls become entries of the log
    intend    the batch (after, upto] is recorded, so that another driver repeats the same cut
    answer    one task for each cell; a task may run several times
    commit    what all cells have found, in one transaction: this is the commit

The driver's engine has catalog, documents, results, identities and ledger; it evaluates nothing.
So everything that reads an engine reads a cluster.  One process has its store (the store's lock),
and a copy of it elsewhere is refused by the epoch in the shared directory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pyarrow as pa

from feeds.documents import Document
from feeds.faultpoints import reached
from xscl.cluster import catalog_log
from xscl.cluster.adoption import Adoption
from xscl.cluster.answers import read_answer
from xscl.cluster.catalog_log import LATEST, TRIMMED, CatalogLog, placements
from xscl.cluster.cell_assignment import CellAssignment, present_cells
from xscl.cluster.cell_loads import CellLoads
from xscl.cluster.cell_task import CellAnswer, CellRunner, CellState, CellTask, Place
from xscl.cluster.controls import Control, Erase, Flush, Skip
from xscl.cluster.designated_joins import Designate
from xscl.cluster.grid import Grid
from xscl.cluster.grid_subscriptions import GridSubscriptions
from xscl.cluster.group_results import unite_results
from xscl.cluster.placement import Choose, Placement
from xscl.cluster.relations_export import unpacked
from xscl.cluster.relations_union import unite_relations
from xscl.cluster.sealed_log import SealedLog, SequencedDocuments
from xscl.cluster.sequencer import SEQUENCED, Sequencer
from xscl.cluster.shared_directory import CellsFailed, CellsStay, ClusterError, SharedDirectory
from xscl.documents.retention import SERVICE
from xscl.engine.facade import Engine
from xscl.engine.state import CELLS, EngineState, Role
from xscl.engine.throughput import Laps
from xscl.errors import Stopping
from xscl.ingestion.quarantine import poisonous
from xscl.inspection.relations import JoinRelations
from xscl.store.consumed_offsets import BatchKey
from xscl.store.store import Store
from xscl.subscriptions.matches import Matches

SNAPSHOT_EVERY = 64
"""Batches from one snapshot of a cell to its next; the cells take turns."""

PROBED_AFTER = 2
"""Failures of the cells with a batch after which its documents are read by a process apart."""
PAUSE = 0.1
"""Seconds between two looks whether a batch that has failed is evaluated."""

_log = logging.getLogger(__name__)

_EPOCH, _BATCHES = "cluster_epoch", "cluster_batches"
COMMITTED = "cluster_committed"
"""The key of the last committed entry in the store's named numbers."""
_GROUPS, _WIDTH = "cluster_groups", "cluster_width"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS state.cluster_intent(after BIGINT, upto BIGINT);
"""


def known_grid(store: Store) -> Grid | None:
    """Return the cells of a driver's store, None if it has never had any."""
    cells, groups, width = (store.meta(key) for key in (CELLS, _GROUPS, _WIDTH))
    return Grid(cells - groups * width, groups, width) if cells else None


def _ignore(matches: Matches) -> None:
    """Ignore matches, which are in the store."""


class ClusterDriver:
    """Sequences documents for the cells, and commits what they find to an engine.

    One thread consumes and flushes.  Any thread may change the engine's catalog: edits, pauses and
    removals wait for the batch that is being evaluated.
    """

    def __init__(
        self,
        engine: Engine,
        shared: SharedDirectory,
        cells: int,
        runner: CellRunner,
        *,
        groups: int = 0,
        width: int = 0,
        choose: Choose | None = None,
        designate: Designate | None = None,
        snapshot_every: int = SNAPSHOT_EVERY,
        on_matches: Callable[[Matches], None] = _ignore,
    ) -> None:
        """Drive an engine with the role of a driver, and finish what an earlier driver has begun.

        The cluster begins with a number of `cells`, slices, which may have been split since then;
        beside them the grid has some `groups` of cells of a `width`.
        `on_matches` is called with the matches of each commit.  Raises ClusterError for another
        number of cells than it began with, StaleDriver if a driver with a newer store has used the
        shared directory.
        """
        if engine.host.transactions.settings.role is not Role.DRIVER:
            raise ClusterError("a cluster needs an engine that does not evaluate: role=Role.DRIVER")
        self.engine = engine
        self._shared = shared
        self._runner = runner
        self._snapshot_every = snapshot_every
        self._on_matches = on_matches
        self._batch = threading.RLock()
        """Held from the first document of a batch to its commit, outside of the engine's lock."""
        self._failures = 0  # of the cells with the same batch
        self._is_unfinished = False  # documents were sequenced, and not committed
        self._uncounted = 0  # documents that were sequenced, and are not in the figures of pushes
        self._loads = CellLoads()
        self._relations: JoinRelations | None = None  # those of the last commit, if asked for
        self._is_resizing = threading.Lock()
        shared.create()
        self._log = log = SealedLog(shared)
        self.grid = Grid(cells, groups, width)
        self._begin()
        if engine.retention is None or not engine.retention.everything:
            engine.retain(SERVICE)  # results may refer to any document in a window
        self._note_snapshots()
        self._on_grid = (
            GridSubscriptions(self.grid, engine.host, designate) if groups * width else None
        )
        router = None if self._on_grid is None else self._on_grid.router
        self._sequencer = Sequencer(engine.host, log, router)
        self._committed = self._meta(COMMITTED)
        self._choose = choose
        self._catalog = CatalogLog(engine, log, choose or self._placement(), self._on_grid)
        engine.host.transactions.when_loaded(self._reread)
        with engine.host.transactions.lock:
            begun = engine.host.transactions.store.fetch("FROM state.cluster_intent")
        for batch in begun:  # an earlier process has ended within it
            self._quarantine(*batch)
        self.commit()  # of entries with the catalog as it was
        self._append_changes()
        engine.host.catalog.guard_changes(
            self._changing, self._between_batches, self._erase_everywhere
        )
        engine.host.queries.read_joins_from(self.relations)

    def _begin(self) -> None:
        grid = self.grid
        with self.engine.host.transactions.change() as state:
            store = state.store
            for schema in (catalog_log.SCHEMA, _SCHEMA):
                store.connection.execute(schema)
            known = known_grid(store)
            if known not in (None, grid):
                raise ClusterError(
                    f"the cluster began with {known}, not {grid}",
                    hint=f"start it with {known}: it knows what was split since then",
                )
            self._assignment = CellAssignment(self.engine, self._log, grid)
            self.cells, self.epoch = self._assignment.begin(store), store.meta(_EPOCH) + 1
            store.set_meta(
                **{CELLS: grid.cells, _GROUPS: grid.groups, _WIDTH: grid.width},
                **{_EPOCH: self.epoch},
            )
        self._shared.begin_epoch(self.epoch)

    def _reread(self) -> None:
        """Read what is kept beside the engine's state, which was loaded again."""
        store = self.engine.host.transactions.store
        self._committed, self._relations = store.meta(COMMITTED), None
        self._loads.forget_needs()  # histories may have been registered that are not noted
        if (cells := present_cells(store)) != self.cells:
            self.cells = cells
            self._catalog.choose = self._choose or self._placement()

    def _placement(self) -> Placement:
        with self.engine.host.transactions.lock:
            placed = placements(self.engine.host.transactions.store)
            every = self.engine.subscriptions
        slices = [cell for cell in self.cells if self.grid.is_slice(cell)]
        known = [(one, placed[one.key]) for one in every if placed.get(one.key) in slices]
        return Placement(slices, known)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Delay a change of the catalog until the batch is committed, and append it at once."""
        with self._batch:
            if self._is_unfinished:
                raise ClusterError(
                    "the cells have not evaluated all documents, and a change comes after these",
                    hint="try again: the batch is repeated",
                )
            self._append_changes()  # what was registered before
            yield
            self._append_changes()

    @contextmanager
    def _between_batches(self, ending: threading.Event) -> Iterator[None]:
        """Wait until all documents are evaluated; what ends in the block is appended at once.

        Raises Stopping if it has to wait and the engine is ending.
        """
        with ExitStack() as held:
            while True:
                held.enter_context(self._batch)
                if not self._is_unfinished:
                    break
                held.close()
                if ending.wait(PAUSE):
                    raise Stopping
            yield
            self._append_changes()

    def _erase_everywhere(self, prefix: str) -> None:
        """Erase the documents of streams with a prefix in cells, log and snapshots.

        Raises ClusterError if the cells fail; the account that is erased is the last to go, so it
        can be erased again.
        """
        everywhere = self.cells if self._meta(TRIMMED) else ()
        self._append_changes(Erase(prefix), everywhere=everywhere)
        self.commit()
        entry = self._committed
        self._log.erase(prefix, entry)
        self._asked(
            [CellTask(cell, entry, entry, self.epoch, snapshot=True) for cell in self.cells]
        )
        for cell in self.cells:
            known = self._shared.snapshots(cell)
            if known and known[0][0] < entry:
                raise ClusterError(
                    f"cell {cell} was lost while documents were erased from its snapshots",
                    hint="try again",
                )
        self._delete_snapshots(LATEST)

    def _delete_snapshots(self, limit: int) -> int:
        """Delete the snapshots that no cell needs; return the entry after which all begin.

        A cell is made from its newest one; with a copy of a publisher that was registered at the
        entry `limit` or later it is made from the newest one before.
        """
        begins = []
        for cell in self.cells:
            known = self._shared.snapshots(cell)
            needed = [*known[:1], *[one for one in known if one[0] < limit][:1]]
            for one in known:
                if one not in needed:
                    one[1].unlink(missing_ok=True)
            begins.append(min((number for number, _ in needed if number < limit), default=0))
        return min(begins)

    def _trim(self) -> None:
        """Delete what no cell will read again, of its snapshots and of the log."""
        with self.engine.host.transactions.lock:
            self._note_snapshots()
            limit = self._catalog.first_publisher(self.cells, self._loads.snapshots)
        if upto := self._delete_snapshots(limit):
            with self.engine.host.transactions.change() as state:
                state.store.set_meta(**{TRIMMED: upto})
            self._log.trim(upto)

    def _append_changes(self, *more: Control, everywhere: Collection[int] = ()) -> None:
        """Append the changes of the catalog, and keep the texts that new histories need."""
        with self.engine.host.transactions.lock:
            histories = self._catalog.append_changes(*more, everywhere=everywhere)
            for cell, first in histories.items():
                self._loads.need(cell, first)
            self._hold_texts(self.engine.host.state)

    def _hold_texts(self, state: EngineState) -> None:
        if (first := self._loads.needed_from(self.cells)) is not None:
            state.eviction.hold_from(first)

    def cells_now(self) -> tuple[CellState, ...]:
        """Return the state of each cell; any thread may call it."""
        counts = {
            cell: count
            for first, count in self._catalog.counts.items()
            for cell in self.grid.cells_of(first)
        }
        return self._loads.states(self.cells, counts, self._sequencer.last, self._committed)

    @contextmanager
    def relations(self) -> Iterator[JoinRelations]:
        """Yield the relations of all cells at the last commit; none comes before the block ends."""
        with self._batch:
            if self._is_unfinished:
                raise ClusterError(
                    "the cells have not evaluated all documents, and their relations are in doubt",
                    hint="try again: the batch is repeated",
                )
            if (relations := self._relations) is None:
                entry = self._meta(COMMITTED)
                tasks = [
                    CellTask(cell, entry, entry, self.epoch, relations=True) for cell in self.cells
                ]
                answers = self._asked(tasks)
                paths = [self._shared.relations_of(one.cell, one.sha256) for one in answers]
                each = zip(answers, paths, strict=True)
                found = [unpacked(read_answer(*one)) for one in each]
                with self.engine.host.transactions.lock:
                    relations = unite_relations(self.engine.host.state, found)
                    self._relations = relations
                self._shared.delete_relations()
            yield relations

    # -- Cells -----------------------------------------------------------------------------

    def split(self, cell: int) -> int:
        """Move half of the subscriptions of a cell to a new one; return the number of the new one.

        Raises UnknownCell; CellsStay if none of its subscriptions can be moved, or the cells are
        being changed; CellsFailed if they do not come to a common entry before it.
        """
        with self._resizing():
            keys = self._assignment.half(cell)
            self._snapshot(cell)
            child = self._assignment.new_cell(cell)
            with self.engine.host.transactions.lock:
                self._append_changes()  # registered meanwhile: before the entry of the split
                self._assignment.split(cell, child, frozenset(keys))
                self.cells = (*self.cells, child)
                self._loads.split(cell, child)
                self._recount()
            return child

    def merge(self, target: int, source: int) -> None:
        """Move all subscriptions of a cell, `source`, to another one; it is no cell any more.

        Raises UnknownCell; CellsStay if a subscription depends on documents that are not kept, a
        cell is of the grid, or the cells are being changed; CellsFailed as `split` does.
        """
        if target == source:
            raise CellsStay("a cell is merged into another one", hint="name two cells")
        with self._resizing():
            self._assignment.expect_slice(target)
            self._assignment.expect_slice(source)
            with self.engine.host.transactions.lock:
                self._append_changes()
                first = self._assignment.merge(target, source)
                self.cells = tuple(cell for cell in self.cells if cell != source)
                self._loads.remove(source)
                if first is not None:
                    self._loads.need(target, first)
                self._recount()
            self._shared.delete_snapshots(source)

    def move(self, cell: int) -> None:
        """Make a cell anew on another executor, from a snapshot of now.

        Raises UnknownCell; CellsStay if it has not run yet, or no other executor takes it;
        CellsFailed as `split` does.
        """
        with self._resizing():
            self._assignment.expect(cell)
            if (load := self._loads.of(cell)) is None:
                raise CellsStay(f"cell {cell} has not run yet", hint="it has no place to leave")
            self._move([cell], Place(load.host, load.process))

    def drain(self, host: str) -> list[int]:
        """Make all cells of a host anew elsewhere; return them.

        Raises CellsStay if no cell is there, or no other executor takes one of them; CellsFailed as
        `split` does.
        """
        with self._resizing():
            hosts = {one: load.host for one in self.cells if (load := self._loads.of(one))}
            cells = [one for one, found in hosts.items() if found == host]
            if not cells:
                listed = ", ".join(sorted(set(hosts.values())))
                raise CellsStay(f"no cell is on {host!r}", hint=f"they are on: {listed}")
            self._move(cells, Place(host))
            return cells

    def _move(self, cells: Sequence[int], away_from: Place) -> None:
        self._leave(cells, snapshot=True)
        self._note_snapshots()
        stay = self._runner.move(cells, away_from)
        self._loads.forget(set(cells).difference(stay))
        if stay:
            raise CellsStay(
                f"no other executor took the cells {', '.join(map(str, stay))}",
                hint="start executors elsewhere, and try again",
            )

    def _leave(self, cells: Sequence[int], *, snapshot: bool = False) -> None:
        """Close the engines of cells on their executors, which frees the memory there."""
        entry = self._committed
        tasks = [CellTask(one, entry, entry, self.epoch, snapshot, leave=True) for one in cells]
        if tasks:
            self._asked(tasks)

    def _recount(self) -> None:
        self._catalog.choose = self._choose or self._placement()
        self._catalog.count()
        self._note_snapshots()

    def _note_snapshots(self) -> None:
        newest = ((cell, self._shared.snapshots(cell)[:1]) for cell in self.cells)
        self._loads.snapshots = {cell: known[0][0] for cell, known in newest if known}

    @contextmanager
    def _resizing(self) -> Iterator[None]:
        """Wait for the batch; what changes the cells in the block is in the log afterwards.

        The cells come to it at once, or if they fail with the next batch.
        """
        if not self._is_resizing.acquire(blocking=False):
            raise CellsStay("the cells are being changed", hint="try again in some seconds")
        try:
            with self._batch:
                self._append_changes()
                self.commit()
                before = self.cells
                yield
                try:
                    self.commit()
                    self._leave([cell for cell in before if cell not in self.cells])
                except CellsFailed as error:
                    _log.warning("the cells come to their change with the next batch: %s", error)
        finally:
            self._is_resizing.release()

    def _snapshot(self, cell: int) -> None:
        """Ask a cell for a snapshot; one that was not yet made has none, and is made elsewhere."""
        entry = self._committed
        self._asked([CellTask(cell, entry, entry, self.epoch, snapshot=True)])

    # -- Documents -------------------------------------------------------------------------

    def consume(
        self, documents: Sequence[Document], batch: BatchKey, poison: Collection[int] = ()
    ) -> None:
        """Sequence a batch, and commit its matches; one that was consumed before changes nothing.

        `poison` are the places of documents that are recorded as rejected, unread.
        """
        with self._batch:
            self.commit()  # of a batch that was sequenced before, and whose tasks have failed
            with self.engine.host.transactions.lock:  # no registration comes between the two
                self._append_changes()
                self._is_unfinished = True
                laps = Laps(self.engine.host.ingest.pace)
                self._uncounted += self._sequencer.append(documents, batch, poison)
                laps.end("accept")
            self.commit()

    def flush(self) -> None:
        """End the input, as `Engine.flush` does."""
        with self._batch:
            self.commit()
            self._append_changes(Flush())
            self.commit()

    # -- Commit ----------------------------------------------------------------------------

    def commit(self) -> None:
        """Commit what is found in all entries: of the batch that was intended, then of the rest."""
        with self._batch:
            while (batch := self._intend()) is not None:
                (after, upto), batches = batch, self._meta(_BATCHES)
                tasks = [
                    CellTask(cell, after, upto, self.epoch, self._takes_snapshot(cell, batches))
                    for cell in self.cells
                ]
                laps = Laps(self.engine.host.ingest.pace)
                try:
                    answers = self._asked(tasks)
                except CellsFailed:
                    self._failures += 1
                    if self._failures == PROBED_AFTER:
                        self._quarantine(after, upto)
                    raise
                self._failures = 0
                laps.end("join")
                self._commit(tasks, answers, laps)
            self._is_unfinished = False

    def _quarantine(self, after: int, upto: int) -> None:
        """Skip the documents of a batch that end a process that reads them, if there are any.

        They are recorded as rejected.  The batch ends with the entry that says so, so its answers
        are other files than those of tasks that have read the documents.
        """
        for number in range(after + 1, upto + 1):
            entry = self._log.read(number)
            if not isinstance(entry, SequencedDocuments):
                continue
            documents = entry.documents
            places = sorted(poisonous(documents))
            if not places:
                continue
            numbers = tuple(entry.identities[at].number for at in places)
            with self.engine.host.transactions.change() as state:
                following = state.store.meta(SEQUENCED) + 1
                self._log.write(following, (Skip(number, numbers),))
                state.store.set_meta(**{SEQUENCED: following})
                state.store.fetch("UPDATE state.cluster_intent SET upto = ?", [following])
                state.documents.reject_poison([documents[at] for at in places])
                listed = ", ".join(map(str, numbers))
                for table in ("text", "document"):
                    state.store.fetch(f"DELETE FROM state.{table} WHERE doc IN ({listed})")

    def _meta(self, key: str) -> int:
        with self.engine.host.transactions.lock:
            return self.engine.host.transactions.store.meta(key)

    def _takes_snapshot(self, cell: int, batches: int) -> bool:
        return batches > 0 and (batches + cell) % self._snapshot_every == 0

    def _intend(self) -> tuple[int, int] | None:
        """Return the batch to commit next, as recorded; None if all entries are committed."""
        if self._meta(COMMITTED) == self._meta(SEQUENCED):
            return None
        with self.engine.host.transactions.change() as state:
            known = state.store.fetch("SELECT after, upto FROM state.cluster_intent")
            if known:
                ((after, upto),) = known
                return after, upto
            after, upto = state.store.meta(COMMITTED), state.store.meta(SEQUENCED)
            state.store.insert_rows("state.cluster_intent", [(after, upto)])
        reached("intended")
        return after, upto

    def _asked(self, tasks: list[CellTask]) -> list[CellAnswer]:
        """Return the answers by cell; raises ClusterError unless each task has exactly one."""
        answers = self._runner.run(self._shared.path, tasks)
        asked = sorted((one.cell, one.after, one.upto) for one in tasks)
        given = sorted((one.cell, one.after, one.upto) for one in answers)
        if asked != given:
            raise ClusterError(f"the cells answered {given}, and were asked {asked}")
        return sorted(answers, key=lambda one: one.cell)

    def _commit(self, tasks: Sequence[CellTask], answers: Sequence[CellAnswer], laps: Laps) -> None:
        """Commit the answers to all tasks."""
        paths = [self._shared.results_of(one.cell, one.upto) for one in answers]
        given = [read_answer(*one) for one in zip(answers, paths, strict=True)]
        self._shared.expect_epoch(self.epoch)
        host, after, upto = self.engine.host, tasks[0].after, tasks[0].upto
        with host.transactions.change() as state:
            store = state.store
            adoption = Adoption(state, given)
            adoption.note_cuts()
            found = self._united(state, adoption.results(), after, upto)
            results = host.ingest.store_results(state, found, adoption.late())
            store.fetch("DELETE FROM state.cluster_intent")
            store.set_meta(**{COMMITTED: upto, _BATCHES: store.meta(_BATCHES) + 1})
            self._loads.note(self.cells, tasks, answers)
            self._hold_texts(state)
            laps.end("store")
        laps.end("commit")
        self._committed, self._relations = upto, None
        reached("cells_committed")
        if any(one.snapshot for one in tasks) and not self._meta(_BATCHES) % self._snapshot_every:
            self._trim()
        self._shared.delete_results(after)
        with host.transactions.lock:
            host.ingest.count(self._uncounted, host.state, results)
            self._uncounted = 0
            matches = host.log.expand(results)
        self._on_matches(matches)

    def _united(self, state: EngineState, found: pa.Table, after: int, upto: int) -> pa.Table:
        """Return the results of all cells, with those of the grid as one engine has them."""
        if self._on_grid is None:
            return found
        moments, settings = self._log.moments(after, upto), self.engine.host.transactions.settings
        qids = self._on_grid.among(found["qid"].unique().to_pylist())
        found, cuts = unite_results(found, qids, state.documents, moments, settings.result_bound)
        state.dataflow.cuts.note(cuts)
        return found
