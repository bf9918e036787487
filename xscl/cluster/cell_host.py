"""A cell: an engine over its slice of the subscriptions, made from the sealed log.

The state after an entry is a function of the log up to it.  So a cell that is lost, ahead or in
doubt is made again, from its newest usable snapshot and the entries after it.  The engine's file is
scratch: nothing in it outlives the process.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from feeds.faultpoints import reached
from xscl.cluster.cell_task import ANSWERED, CellAnswer, CellTask
from xscl.cluster.sealed_log import (
    Control,
    CopyPublisher,
    DeclareStream,
    Edit,
    Flush,
    Register,
    Remove,
    SealedLog,
    SequencedDocuments,
    ipc_bytes,
)
from xscl.cluster.shared_directory import SharedDirectory
from xscl.documents.results import XSCL
from xscl.engine.facade import Engine
from xscl.planning.event_queries import attributes_of
from xscl.spark.match_export import match_table
from xscl.store.backup import read_backup, unpack
from xscl.store.consumed_offsets import BatchKey
from xscl.store.store_errors import DATABASE
from xscl.subscriptions.match import Match

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
        self._answers: set[str] = set()  # names of the subscriptions whose matches are answered
        self._copied: set[tuple[str, int]] = set()  # publishers and where they were registered
        self._streams: frozenset[str] = frozenset()
        self._waits = False  # some operator waits for time to pass

    def run(self, task: CellTask) -> CellAnswer:
        """Return the answer to a task: the stored one, or after the entries that it asks for.

        Raises StaleDriver for the task of a driver that another one has replaced.
        """
        with self._lock:
            self._shared.expect_epoch(task.epoch)
            if task.snapshot and self._entry == task.after and self._engine is not None:
                self._save_snapshot(self._engine)
            path = self._shared.results_of(self._cell, task.upto)
            try:
                return CellAnswer.of(task, path.read_bytes())
            except FileNotFoundError:
                pass
            found = ipc_bytes(self._evaluate(task))
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._shared.place(path, found)
            reached("answered")
            return CellAnswer.of(task, found)

    def close(self) -> None:
        """Drop the engine and its scratch files."""
        with self._lock:
            self._drop()

    # -- The log ---------------------------------------------------------------------------

    def _evaluate(self, task: CellTask) -> pa.Table:
        """Return the matches of the entries of a task."""
        found = [ANSWERED.empty_table()]
        try:
            engine = self._prepared(task)
            for number in range(self._entry + 1, task.upto + 1):
                rows = self._apply(engine, number)
                if number > task.after:
                    found.append(rows)
                self._entry = number
        except BaseException:
            self._drop()  # how far the engine came is unknown
            raise
        return pa.concat_tables(found)

    def _apply(self, engine: Engine, number: int) -> pa.Table:
        """Pass one entry to the engine, and return the matches to answer."""
        entry = self._sealed.read(number)
        if isinstance(entry, SequencedDocuments):
            return self._rows(number, self._push(engine, number, entry))
        flushed = [ANSWERED.empty_table()]
        for kind, controls in groupby(entry, type):
            if kind is Register:
                registers = (one for one in controls if isinstance(one, Register))
                self._register(engine, number, registers)
            else:
                flushed += [self._control(engine, number, one) for one in controls]
        self._streams = frozenset(name for one in engine.subscriptions for name in one.reads)
        self._waits = any(one.ordered for one in engine.subscriptions)
        return pa.concat_tables(flushed)

    def _push(self, engine: Engine, number: int, entry: SequencedDocuments) -> Iterable[Match]:
        some = entry.on(self._streams)
        if not (len(some.documents) or self._waits):
            return ()  # the clock comes with the next document
        key = BatchKey(SOURCE, number, number, some.beats(), some.arrived)
        ingest = engine.host.ingest
        return ingest.push(some.documents, source=key, identities=some.identities)

    def _control(self, engine: Engine, number: int, control: Control) -> pa.Table:
        match control:
            case DeclareStream(name, lateness, live, attributes):
                types = None if attributes is None else attributes_of(attributes)
                engine.stream(name, lateness=lateness, live=live, attributes=types)
            case Edit(name, query, language, updates, paused):
                if engine.subscription(name) is not None:
                    engine.edit(name, query, language=language, updates=updates, paused=paused)
            case Remove(name):
                self._answers.discard(name)
                if engine.subscription(name) is not None:
                    engine.unsubscribe(name, cascade=True)
            case CopyPublisher() | Register():
                pass  # a copy was there from its registration on: see `_prepared`
            case Flush():
                return self._rows(number, engine.flush())
        return ANSWERED.empty_table()

    def _register(self, engine: Engine, number: int, given: Iterable[Register]) -> None:
        """Register those of this cell, many at once where the engine can."""
        here = [
            one
            for one in given
            if self._cell in (one.cell, *one.silent) or (one.name, number) in self._copied
        ]
        self._answers.update(one.name for one in here if one.cell == self._cell)
        for (language, updates), some in groupby(here, lambda one: (one.language, one.updates)):
            if language == XSCL:
                engine.subscribe_many(((one.name, one.query) for one in some), updates=updates)
            else:
                for one in some:
                    engine.subscribe(one.name, one.query, language=language, updates=updates)

    def _rows(self, number: int, matches: Iterable[Match]) -> pa.Table:
        """Return the matches of subscriptions that answer here, in the canonical order."""
        found = [one for one in matches if one.subscription in self._answers]
        found.sort(key=lambda one: one.subscription)  # stable: each keeps its own order
        table = match_table(found)
        return table.add_column(0, ANSWERED[0], pa.array([number] * len(found), pa.int64()))

    # -- The engine ------------------------------------------------------------------------

    def _prepared(self, task: CellTask) -> Engine:
        """Return an engine that is not ahead of a task, with all copies that it will need."""
        copies = {
            (one.name, one.registered): number
            for number, controls in self._sealed.controls(0, task.upto)
            for one in controls
            if isinstance(one, CopyPublisher) and one.cell == self._cell
        }
        is_usable = self._entry <= task.after and self._copied == copies.keys()
        if self._engine is not None and is_usable:
            return self._engine
        self._drop()
        self._copied = set(copies)
        usable_from = max(copies.values(), default=0)
        for number, path in self._shared.snapshots(self._cell):
            if usable_from <= number <= task.after:
                self._restore(number, path)
                break
        if self._engine is None:
            self._engine = Engine(None if self._in_memory else self._make_scratch() / DATABASE)
        return self._engine

    def _restore(self, number: int, path: Path) -> None:
        """Restore the engine of a snapshot, and the names from the controls before it."""
        directory = self._make_scratch()
        read_backup(path)  # compares the checksums
        unpack(path, directory)
        engine = self._engine = Engine(directory / DATABASE)
        self._entry = number
        for _, controls in self._sealed.controls(0, number):
            for one in controls:
                if isinstance(one, Register) and one.cell == self._cell:
                    self._answers.add(one.name)
                elif isinstance(one, Remove):
                    self._answers.discard(one.name)
        self._answers.intersection_update(one.name for one in engine.subscriptions)
        self._streams = frozenset(name for one in engine.subscriptions for name in one.reads)
        self._waits = any(one.ordered for one in engine.subscriptions)
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
        self._entry = 0
        self._answers, self._copied, self._streams = set(), set(), frozenset()
        self._waits = False

    def _save_snapshot(self, engine: Engine) -> None:
        """Write the state to the shared directory, then delete older snapshots of the cell."""
        if self._scratch is None:
            return
        target = self._shared.snapshot_of(self._cell, self._entry)
        if not target.exists():
            made = self._scratch / "snapshot.tar"
            engine.backup(made)
            self._shared.place(target, made.read_bytes())
            made.unlink()
        reached("snapshot_written")
        for number, path in self._shared.snapshots(self._cell):
            if number < self._entry:
                path.unlink(missing_ok=True)


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

    def close(self) -> None:
        """Drop all engines."""
        for host in self._hosts.values():
            host.close()
        self._hosts.clear()
