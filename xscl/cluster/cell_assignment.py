"""Which cells there are.  A split or a merge is one entry of the log, with the new assignment.

The entry is written before the transaction that counts it, as all entries are.  A driver that ends
between the two has changed nothing, and writes another entry in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from feeds.faultpoints import reached
from xscl.cluster.catalog_log import placements
from xscl.cluster.controls import NOWHERE, Control, Merge, Register, Split
from xscl.cluster.grid import Grid
from xscl.cluster.history_transfer import Obstacle, history_documents, in_order, obstacles
from xscl.cluster.placement import halved, needed_copies
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
        if not (present := present_cells(store)):
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
                "SELECT key, silent, entry, version, paused, made FROM state.cluster_member"
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

        The target reads the past of each subscription that it lacks, as that of a new one, and of
        each publisher whose documents these read.  Raises UnknownCell, and CellsStay for a past
        that is not kept.
        """
        with self._engine.host.transactions.change() as state:
            store, coming = state.store, state.documents.coming
            rows = store.fetch("SELECT key FROM state.cluster_member WHERE cell = ?", [target])
            known = {key for (key,) in rows}
            moved = self._placed(source)
            answered = {one.key for one in moved}
            new = [one for one in self._needed(state, moved, target) if one.key not in known]
            obstacle = obstacles(state)
            for one in new:
                if (found := obstacle(one)) is not None:
                    raise _unmovable(one, found)
            number, clock = store.meta(SEQUENCED) + 1, state.documents.clock
            if histories := [one for one in new if one.since < coming]:
                self._log.write_history(number, history_documents(state, histories, coming))
            registers = [
                Register(
                    *(one.key, one.query, one.language, one.updates, coming),
                    *((target, ()) if one.key in answered else (NOWHERE, (target,))),
                    *((one.since, clock) if one.since < coming else ()),
                )
                for one in new
            ]
            copies = tuple(sorted(answered & known))
            store.fetch("DELETE FROM state.cluster_member WHERE cell = ?", [source])
            members = [
                (one.key, target, one.key not in answered, number, one.version, False, None)
                for one in new
            ]
            store.insert_rows("state.cluster_member", members)
            for key in copies:
                store.fetch(
                    "UPDATE state.cluster_member SET silent = false WHERE key = ? AND cell = ?",
                    [key, target],
                )
            store.fetch("UPDATE state.cluster_cell SET present = false WHERE cell = ?", [source])
            self._append(store, Merge(source, target, copies), *registers)
        return min((one.since for one in histories), default=None)

    def _needed(
        self, state: EngineState, moved: Sequence[Subscription], target: int
    ) -> list[Subscription]:
        """Return subscriptions that move to a cell, and the publishers of what they read."""
        every = self._engine.subscriptions
        cells = placements(state.store) | {one.key: target for one in moved}
        wanted = {one.key for one in moved}
        placed = [one for one in every if one.key in cells]
        wanted |= {key for key, copied in needed_copies(placed, cells).items() if target in copied}
        return in_order(state, (one for one in placed if one.key in wanted))

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
            present = present_cells(self._engine.host.transactions.store)
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


def present_cells(store: Store) -> tuple[int, ...]:
    """Return the cells that there are, in their order."""
    return tuple(
        cell
        for (cell,) in store.fetch(
            "SELECT cell FROM state.cluster_cell WHERE present ORDER BY cell"
        )
    )


def _unmovable(one: Subscription, obstacle: Obstacle) -> CellsStay:
    return CellsStay(
        f"{one.name!r} cannot move to another cell: {obstacle.reason}", hint=obstacle.hint
    )


def _said(subscriptions: int) -> str:
    return {0: "it has no subscriptions", 1: "it has one subscription"}.get(
        subscriptions, "its subscriptions have one definition"
    )
