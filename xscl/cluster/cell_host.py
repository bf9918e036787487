"""A cell: an engine over its slice of the subscriptions, made from the sealed log.

The state after an entry is a function of the log up to it.  So a cell that is lost, ahead or in
doubt is made again, from its newest usable snapshot and the entries after it.  The engine's file is
scratch: nothing in it outlives the process.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Collection, Iterable
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa

from feeds.faultpoints import reached
from xscl.cluster.cell_controls import CellControls
from xscl.cluster.cell_task import CellAnswer, CellLoad, CellTask, Place
from xscl.cluster.controls import (
    Control,
    CopyPublisher,
    DeclareStream,
    Edit,
    Erase,
    Flush,
    Merge,
    Register,
    Remove,
    Skip,
    Split,
)
from xscl.cluster.emission_filter import EmissionFilter
from xscl.cluster.findings import Findings
from xscl.cluster.relations_export import exported, packed
from xscl.cluster.sealed_log import SealedLog, SequencedDocuments, ipc_bytes
from xscl.cluster.shared_directory import SharedDirectory
from xscl.documents.results import XSCL
from xscl.engine.facade import Engine
from xscl.engine.heap_trim import resident_bytes
from xscl.engine.histories import bring_documents
from xscl.engine.state import Role
from xscl.engine.twin import replayed_streams
from xscl.planning.event_queries import attributes_of
from xscl.store.backup import read_backup, unpack
from xscl.store.consumed_offsets import BatchKey
from xscl.store.store_errors import DATABASE

SOURCE = "cells"
"""The query id under which a cell's engine consumes the log."""

_log = logging.getLogger(__name__)


class CellHost:
    """Keeps the engine of one cell between tasks.  Any thread may call it; one works at a time.

    With `in_memory` the engine has no file and writes no snapshots.
    """

    def __init__(self, shared: Path, cell: int, *, in_memory: bool = False) -> None:
        self._shared = SharedDirectory(shared)
        self._sealed = SealedLog(self._shared)
        self._cell = cell
        self._in_memory = in_memory
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._scratch: Path | None = None
        self._entry = 0  # the last one that the engine has
        self._arrived = self._pushed = 0  # the last one with documents, and that of the last push
        self._answers: set[str] = set()  # keys of the subscriptions whose matches are answered
        self._copied: set[tuple[str, int]] = set()  # publishers and where they were registered
        self._skipped: dict[int, frozenset[int]] = {}  # numbers of documents by their entries
        self._controls = CellControls(cell, self._sealed)
        self._streams: frozenset[str] = frozenset()  # of which all documents are read
        self._on_grid: dict[str, Register] = {}  # subscriptions of the grid by their keys
        self._waits = False  # some operator waits for time to pass

    def run(self, task: CellTask) -> CellAnswer:
        """Return the answer to a task: the stored one, or after the entries that it asks for.

        Raises StaleDriver for the task of a driver that another one has replaced.
        """
        with self._lock:
            self._shared.expect_epoch(task.epoch)
            if task.snapshot and self._entry == task.after and self._engine is not None:
                self._save_snapshot(self._engine)
            if task.relations:
                return self._answer_relations(task)
            if task.leave:
                self._drop()
                return CellAnswer.of(task, b"")
            path = self._shared.results_of(self._cell, task.upto)
            try:
                return CellAnswer.of(task, path.read_bytes())
            except FileNotFoundError:
                pass
            found, load = self._evaluate(task)
            content = ipc_bytes(found)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._shared.place(path, content)
            reached("answered")
            return CellAnswer.of(task, content, load)

    def _answer_relations(self, task: CellTask) -> CellAnswer:
        _, load = self._evaluate(task)
        assert self._engine is not None
        pushed = self._pushed and self._pushed == self._arrived
        content = ipc_bytes(packed(exported(self._engine, has_pushed=bool(pushed))))
        answer = CellAnswer.of(task, content, load)
        self._shared.place(self._shared.relations_of(self._cell, answer.sha256), content)
        return answer

    def close(self) -> None:
        """Drop the engine and its scratch files."""
        with self._lock:
            self._drop()

    # -- The log ---------------------------------------------------------------------------

    def _evaluate(self, task: CellTask) -> tuple[pa.Table, CellLoad]:
        """Return the answer to a task, and the load."""
        began, documents = time.perf_counter(), 0
        found = Findings(frozenset())
        try:
            engine = self._prepared(task)
            for number in range(self._entry + 1, task.upto + 1):
                documents += self._apply(engine, number, found if number > task.after else None)
                self._entry = number
            held_from = self._held_from(engine) if task.snapshot else None
        except BaseException:
            self._drop()  # how far the engine came is unknown
            raise
        return found.table(), CellLoad(
            time.perf_counter() - began,
            documents,
            len(self._answers),
            socket.gethostname(),
            os.getpid(),
            resident_bytes(),
            held_from,
        )

    def _apply(self, engine: Engine, number: int, found: Findings | None) -> int:
        """Pass one entry to the engine, observed by `found`; return the number of documents."""
        entry = self._sealed.read(number)
        if isinstance(entry, SequencedDocuments):
            if number in self._skipped:
                entry = entry.skipping(self._skipped[number])
            self._arrived = number
            return self._push(engine, number, entry, found)
        for control in entry:
            self._note_answers(control)
        for kind, controls in groupby(entry, type):
            if kind is Register:
                registers = (one for one in controls if isinstance(one, Register))
                self._register(engine, number, registers, found)
            else:
                for one in controls:
                    self._control(engine, number, one, found)
        self._look(engine)
        return 0

    def _look(self, engine: Engine) -> None:
        """Note what subscriptions need beside the documents that are routed to the cell."""
        known = engine.subscriptions
        self._streams = frozenset(
            name for one in known if one.key not in self._on_grid for name in one.reads
        )
        self._waits = any(one.ordered for one in known)

    def _observed(self, engine: Engine, found: Findings | None) -> None:
        """Register the callback that collects the results of the following transactions."""
        if found is not None:
            found.keys = frozenset(self._answers)
        engine.host.ingest.observe(None if found is None else found.observe)

    def _push(
        self, engine: Engine, number: int, entry: SequencedDocuments, found: Findings | None
    ) -> int:
        some = entry.on(self._streams, self._cell)
        if not (len(some.documents) or self._waits):
            return 0  # the clock comes with the next document
        key = BatchKey(SOURCE, number, number, some.beats(), some.arrived)
        self._observed(engine, found)
        if found is not None and self._on_grid:
            found.own = self._emission_filter(some).own
        engine.host.ingest.push(
            some.documents, source=key, identities=some.identities, expected=entry.moment
        )
        self._pushed = number
        return len(some.documents)

    def _emission_filter(self, some: SequencedDocuments) -> EmissionFilter:
        """Return the filter that decides which results of some documents belong to this cell."""
        group = next(iter(self._on_grid.values())).answering
        by = {key: one.by for key, one in self._on_grid.items() if one.by is not None}
        alone = [
            identity.number
            for identity, cells in zip(some.identities, some.routes, strict=True)
            if [cell for cell in cells if cell in group] == [self._cell]
        ]
        return EmissionFilter(self._cell - group.start, len(group), by, np.array(alone, np.int64))

    def _note_answers(self, control: Control) -> None:
        """Note of which subscriptions the matches are answered from here on."""
        match control:
            case Register(key) if self._cell in control.answering:
                self._answers.add(key)
                if control.by is not None:
                    self._on_grid[key] = control
            case Remove(key):
                self._answers.discard(key)
                self._on_grid.pop(key, None)
            case Merge(target=self._cell, keys=keys):
                self._answers.update(keys)
            case Split(source, target, keys):
                if target == self._cell:
                    self._answers.update(keys)
                elif source == self._cell:
                    self._answers.difference_update(keys)
            case _:
                pass  # it changes nothing of that

    def _control(
        self, engine: Engine, number: int, control: Control, found: Findings | None
    ) -> None:
        match control:
            case DeclareStream(name, lateness, live, attributes):
                types = None if attributes is None else attributes_of(attributes)
                engine.stream(name, lateness=lateness, live=live, attributes=types)
            case Edit(key, query, language, updates, paused, since):
                if engine.subscription(key) is not None:
                    engine.host.state.documents.expected = since
                    engine.edit(key, query, language=language, updates=updates, paused=paused)
            case Split():
                copied = [key for key, _ in self._copied]
                lost = self._controls.ancestry.lost(number, control, engine.subscriptions, copied)
                engine.host.catalog.unsubscribe_many(lost)
            case Remove(key):
                if engine.subscription(key) is not None:
                    engine.unsubscribe(key, cascade=True)
            case Erase(prefix):
                engine.host.catalog.erase(prefix)
            case CopyPublisher() | Register() | Merge() | Skip():
                pass  # a copy was there from its registration on, and so on: see `_prepared`
            case Flush():
                self._observed(engine, found)
                engine.flush()

    def _register(
        self, engine: Engine, number: int, given: Iterable[Register], found: Findings | None
    ) -> None:
        """Register those of this cell, many at once where the engine can."""
        here = [
            one
            for one in given
            if self._controls.ancestry.at(number) in (*one.answering, *one.silent)
            or (one.key, number) in self._copied
        ]
        for (language, updates, first), some in groupby(
            here, lambda one: (one.language, one.updates, one.first)
        ):
            together = list(some)
            engine.host.state.documents.expected = together[0].since
            if first is not None:
                for one in together:
                    self._register_with_history(engine, number, one, first, found)
            elif language == XSCL:
                engine.subscribe_many(((one.key, one.query) for one in together), updates=updates)
            else:
                for one in together:
                    engine.subscribe(one.key, one.query, language=language, updates=updates)

    def _register_with_history(
        self, engine: Engine, number: int, one: Register, first: int, found: Findings | None
    ) -> None:
        """Register a subscription with the state that it would have if it had been there before.

        Its matches of the past are in the driver; that it has them here, too, is not observed.
        """
        host = engine.host
        if one.clock > host.state.documents.clock:  # no document of this cell brought it
            self._observed(engine, found)
            host.ingest.advance(one.clock)
        begun = host.catalog.subscribe_after(one.key, one.query, one.language, one.updates, first)
        known = host.state.subscriptions
        reads = frozenset(replayed_streams(known, known[one.key]))
        rows = self._sealed.read_history(number)
        on_streams = [not reads.isdisjoint(names) for names in rows["streams"].to_pylist()]
        with host.transactions.change() as state:
            bring_documents(state, rows.filter(pa.array(on_streams, pa.bool_())))
        host.catalog.backfills.complete(begun)
        with host.transactions.change() as state:
            state.eviction.sweep()

    # -- The engine ------------------------------------------------------------------------

    def _prepared(self, task: CellTask) -> Engine:
        """Return an engine that is not ahead of a task, with all copies that it will need.

        It has evaluated no document that a later entry skips.
        """
        self._controls.read(task.upto, task.epoch)
        copies, skipped = self._controls.copies, self._controls.skipped
        evaluated = (number for number in skipped if number <= self._entry)
        is_usable = (
            self._entry <= task.after
            and self._copied == copies.keys()
            and all(self._skipped.get(number) == skipped[number] for number in evaluated)
        )
        self._skipped = skipped
        if self._engine is not None and is_usable:
            return self._engine
        self._drop()
        self._copied = set(copies)
        for number, path in self._shared.snapshots(self._cell):
            has_copies = all(  # or comes before their registration, which is repeated
                number >= copied or number < registered
                for (_, registered), copied in copies.items()
            )
            if has_copies and number <= task.after:
                self._restore(number, path)
                break
        if self._engine is None:
            file = None if self._in_memory else self._make_scratch() / DATABASE
            self._engine = Engine(file, role=Role.CELL)
        return self._engine

    def _restore(self, number: int, path: Path) -> None:
        """Restore the engine of a snapshot, and the keys from the controls before it."""
        directory = self._make_scratch()
        read_backup(path)  # compares the checksums
        unpack(path, directory)
        engine = self._engine = Engine(directory / DATABASE, role=Role.CELL)
        self._entry = number
        for _, controls in self._sealed.controls(0, number):
            for one in controls:
                self._note_answers(one)
        self._answers.intersection_update(one.name for one in engine.subscriptions)
        self._look(engine)
        _log.info("a cell was restored", extra={"cell": self._cell, "entry": number})

    def _make_scratch(self) -> Path:
        self._scratch = Path(tempfile.mkdtemp(prefix=f"xscl-cell-{self._cell}-"))
        return self._scratch

    def _drop(self) -> None:
        if self._engine is not None:
            self._engine.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._engine = self._scratch = None
        self._entry = self._arrived = self._pushed = 0
        self._answers, self._copied, self._streams = set(), set(), frozenset()
        self._on_grid = {}
        self._waits = False

    @staticmethod
    def _held_from(engine: Engine) -> int:
        """Return the oldest document whose text the cell needs, or the first that may come."""
        with engine.host.transactions.lock:
            ((oldest,),) = engine.host.transactions.store.fetch(
                "SELECT min(first) FROM state.document SEMI JOIN state.text USING (doc)"
            )
            return engine.host.state.documents.coming if oldest is None else int(oldest)

    def _save_snapshot(self, engine: Engine) -> None:
        """Write the state to the shared directory; the driver deletes older ones."""
        if self._scratch is None:
            return
        target = self._shared.snapshot_of(self._cell, self._entry)
        if not target.exists():
            made = self._scratch / "snapshot.tar"
            engine.backup(made)
            self._shared.place(target, made.read_bytes())
            made.unlink()
        reached("snapshot_written")


class LocalCells:
    """Cells in this process: for tests, and to see what a cluster would do."""

    def __init__(self, *, in_memory: bool = False) -> None:
        self._in_memory = in_memory
        self._hosts: dict[int, CellHost] = {}

    def run(self, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        """Run the tasks one after the other."""
        for task in tasks:
            if task.cell not in self._hosts:
                self._hosts[task.cell] = CellHost(shared, task.cell, in_memory=self._in_memory)
        return [self._hosts[task.cell].run(task) for task in tasks]

    def move(self, cells: Collection[int], away_from: Place) -> list[int]:
        """Return all cells: they are in one process."""
        return list(cells)

    def close(self) -> None:
        """Drop all engines."""
        for host in self._hosts.values():
            host.close()
        self._hosts.clear()
