"""Which cells there are.  A split or a merge is one entry of the log, with the new assignment.

The entry is written before the transaction that counts it, as all entries are.  A driver that ends
between the two has changed nothing, and writes another entry in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

from feeds.faultpoints import reached
from templates.model.relations import INFINITE
from xscl.cluster.catalog_log import kept_documents
from xscl.cluster.controls import Control, Merge, Register, Split
from xscl.cluster.grid import Grid
from xscl.cluster.placement import halved
from xscl.cluster.sealed_log import SealedLog
from xscl.cluster.sequencer import SEQUENCED
from xscl.cluster.shared_directory import CellsStay, UnknownCell
from xscl.documents.results import Subscription
from xscl.engine.facade import Engine
from xscl.engine.state import EngineState
from xscl.store.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS state.cluster_cell(cell INTEGER, present BOOLEAN);
"""
"""All cells that there have ever been, as a number is used once."""


class CellAssignment:
    """Changes which cells there are.  The driver's lock of batches guards it."""

    def __init__(self, engine: Engine, log: SealedLog, grid: Grid) -> None:
        self._engine = engine
        self._log = log
        self._grid = grid

    def begin(self, store: Store) -> tuple[int, ...]:
        """Return the present cells; a new cluster begins with those of its slices and its grid."""
        store.connection.execute(SCHEMA)
        if not (present := _present(store)):
            present = tuple(range(self._grid.cells))
            store.insert_rows("state.cluster_cell", [(cell, True) for cell in present])
        return present

    def half(self, cell: int) -> list[str]:
        """Return the keys of the subscriptions of a cell that a split moves.

        Raises UnknownCell, and CellsStay if there is nothing to move, or the cell is of the grid.
        """
        self.expect_slice(cell)
        with self._engine.host.transactions.lock:
            here = self._placed(cell)
        if not (moved := halved(here)):
            raise CellsStay(
                f"cell {cell} cannot be split: {_said(len(here))}",
                hint="'xscl cluster status' shows the subscriptions of each cell",
            )
        return [one.key for one in moved]

    def new_cell(self, source: int) -> int:
        """Return the number of the next new cell, which has the snapshots of its source."""
        with self._engine.host.transactions.lock:
            store = self._engine.host.transactions.store
            ((cell,),) = store.fetch("SELECT max(cell) + 1 FROM state.cluster_cell")
        self._log.shared.copy_snapshots(source, cell)
        return int(cell)

    def split(self, source: int, target: int, keys: Collection[str]) -> None:
        """Append the split of a cell, whose subscriptions with some keys go to a new one.

        Both have the publishers of the source: the log may not reach back to make a copy of one.
        """
        publishers = {one.key for one in self._engine.subscriptions if one.publish is not None}
        with self._engine.host.transactions.change() as state:
            store = state.store
            rows = store.fetch(
                "SELECT key, silent, entry, version, paused FROM state.cluster_member"
                " WHERE cell = ? ORDER BY key",
                [source],
            )
            common = frozenset(key for key, *_ in rows if key in publishers)
            here = [
                (key, source, is_silent or key in keys, *more)
                for key, is_silent, *more in rows
                if key in common or key not in keys
            ]
            there = [
                (key, target, key not in keys, *more)
                for key, _, *more in rows
                if key in common or key in keys
            ]
            store.fetch("DELETE FROM state.cluster_member WHERE cell = ?", [source])
            store.insert_rows("state.cluster_member", [*here, *there])
            store.insert_rows("state.cluster_cell", [(target, True)])
            self._append(store, Split(source, target, tuple(sorted(keys)), tuple(sorted(common))))

    def merge(self, target: int, source: int) -> int | None:
        """Append the merge of a cell into another one; return the first document of its past.

        The target reads the past of each subscription that it lacks, as that of a new one.  Raises
        UnknownCell, and CellsStay for a past that is not kept.
        """
        with self._engine.host.transactions.change() as state:
            store, coming = state.store, state.documents.coming
            rows = store.fetch("SELECT key FROM state.cluster_member WHERE cell = ?", [target])
            known = {key for (key,) in rows}
            moved = self._placed(source)
            new = [one for one in moved if one.key not in known]
            expect_past = _expecting_past(state)
            for one in new:
                expect_past(one)
            number, clock = store.meta(SEQUENCED) + 1, state.documents.clock
            if histories := [one for one in new if one.since < coming]:
                self._log.write_history(number, kept_documents(state, histories, coming))
            registers = [
                Register(
                    *(one.key, one.query, one.language, one.updates, coming, target, ()),
                    *((one.since, clock) if one.since < coming else ()),
                )
                for one in new
            ]
            copies = tuple(sorted(one.key for one in moved if one.key in known))
            store.fetch("DELETE FROM state.cluster_member WHERE cell = ?", [source])
            members = [(one.key, target, False, number, one.version, False) for one in new]
            store.insert_rows("state.cluster_member", members)
            for key in copies:
                store.fetch(
                    "UPDATE state.cluster_member SET silent = false WHERE key = ? AND cell = ?",
                    [key, target],
                )
            store.fetch("UPDATE state.cluster_cell SET present = false WHERE cell = ?", [source])
            self._append(store, Merge(source, target, copies), *registers)
        return min((one.since for one in histories), default=None)

    def _placed(self, cell: int) -> list[Subscription]:
        """Return the subscriptions of a cell; raises UnknownCell if there is none."""
        store = self._engine.host.transactions.store
        self.expect(cell)
        rows = store.fetch(
            "SELECT key FROM state.cluster_member WHERE cell = ? AND NOT silent", [cell]
        )
        placed = {key for (key,) in rows}
        return [one for one in self._engine.subscriptions if one.key in placed]

    def expect(self, cell: int) -> None:
        """Raise UnknownCell if there is no such cell."""
        with self._engine.host.transactions.lock:
            present = _present(self._engine.host.transactions.store)
        if cell not in present:
            listed = ", ".join(map(str, present))
            raise UnknownCell(f"there is no cell {cell}", hint=f"the cells are {listed}")

    def expect_slice(self, cell: int) -> None:
        """Raise UnknownCell if there is no such cell, CellsStay if it is of the grid."""
        self.expect(cell)
        if not self._grid.is_slice(cell):
            raise CellsStay(
                f"cell {cell} is of a group of the grid, which stays as it began",
                hint="a cell outside of the grid is split and merged",
            )

    def _append(self, store: Store, *controls: Control) -> None:
        number = store.meta(SEQUENCED) + 1
        self._log.write(number, controls)
        reached("change_written")
        store.set_meta(**{SEQUENCED: number})


def _present(store: Store) -> tuple[int, ...]:
    return tuple(
        cell
        for (cell,) in store.fetch(
            "SELECT cell FROM state.cluster_cell WHERE present ORDER BY cell"
        )
    )


def _expecting_past(state: EngineState) -> Callable[[Subscription], None]:
    """Return a function that raises CellsStay if another cell cannot have a subscription's state.

    Its documents have to be kept since its registration.  Without an operator over time, those that
    it can still join are enough.
    """
    ((first,),) = state.store.fetch("SELECT coalesce(min(doc), 0) FROM state.document")

    @cache
    def dropped(streams: tuple[str, ...]) -> tuple[int, int]:
        """Return the largest number and time of a document without text on some streams."""
        (found,) = state.store.fetch(
            "SELECT coalesce(max(doc), -1), coalesce(max(ts), ?)"
            " FROM state.document ANTI JOIN state.text USING (doc) WHERE list_has_any(streams, ?)",
            [-INFINITE, list(streams)],
        )
        return found

    def expect(one: Subscription) -> None:
        if any(state.subscriptions.publishers(stream) for stream in one.reads):
            raise _unmovable(one, "it reads a published stream", "merge the other cell into its")
        if one.is_paused:
            raise _unmovable(one, "it is paused", "resume it, or remove it")
        keeps = state.registry.retention.keeps[state.dataflow.subscribed.pairs(one)]
        longest = INFINITE if one.ordered else int(max(keeps, default=0))
        oldest = -INFINITE if longest >= INFINITE else state.documents.clock - longest
        doc, time = dropped(one.reads)
        if (doc >= one.since and time >= oldest) or (one.ordered and one.since < first):
            raise _unmovable(
                one,
                "documents that it depends on are not kept",
                "keep more: 'xscl serve --history'",
            )

    return expect


def _unmovable(one: Subscription, why: str, hint: str) -> CellsStay:
    return CellsStay(f"{one.name!r} cannot move to another cell: {why}", hint=hint)


def _said(subscriptions: int) -> str:
    return {0: "it has no subscriptions", 1: "it has one subscription"}.get(
        subscriptions, "its subscriptions have one definition"
    )
