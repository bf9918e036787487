"""Which cells there are, and their split: one entry of the log, counted with the new assignment.

The entry is written before the transaction that counts it, as all entries are.  A driver that ends
between the two has split nothing, and writes another entry in its place.
"""

from __future__ import annotations

from collections.abc import Collection

from feeds.faultpoints import reached
from xscl.cluster.placement import halved
from xscl.cluster.sealed_log import Control, SealedLog, Split
from xscl.cluster.sequencer import SEQUENCED
from xscl.cluster.shared_directory import ClusterError
from xscl.engine.facade import Engine
from xscl.store.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS state.cluster_cell(cell INTEGER);
"""
"""The cells of the cluster, all that there have ever been: a number is used once."""


class CellChanges:
    """Changes which cells there are.  The driver's lock of batches guards it."""

    def __init__(self, engine: Engine, log: SealedLog) -> None:
        self._engine = engine
        self._log = log

    def begin(self, store: Store, cells: int) -> tuple[int, ...]:
        """Return the present cells; a new cluster begins with a number of them."""
        store.connection.execute(SCHEMA)
        if not (present := _present(store)):
            present = tuple(range(cells))
            store.insert_rows("state.cluster_cell", [(cell,) for cell in present])
        return present

    def half(self, cell: int) -> list[str]:
        """Return the keys of the subscriptions of a cell that a split moves.

        Raises ClusterError if there is no such cell, or nothing to move.
        """
        with self._engine.host.transactions.lock:
            store = self._engine.host.transactions.store
            if cell not in (present := _present(store)):
                listed = ", ".join(map(str, present))
                raise ClusterError(f"there is no cell {cell}", hint=f"the cells are {listed}")
            rows = store.fetch(
                "SELECT key FROM state.cluster_member WHERE cell = ? AND NOT silent", [cell]
            )
            placed = {key for (key,) in rows}
            here = [one for one in self._engine.subscriptions if one.key in placed]
        if not (moved := halved(here)):
            raise ClusterError(
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
            store.insert_rows("state.cluster_cell", [(target,)])
            self._append(store, Split(source, target, tuple(sorted(keys)), tuple(sorted(common))))

    def _append(self, store: Store, control: Control) -> None:
        number = store.meta(SEQUENCED) + 1
        self._log.write(number, (control,))
        reached("change_written")
        store.set_meta(**{SEQUENCED: number})


def _present(store: Store) -> tuple[int, ...]:
    return tuple(
        cell for (cell,) in store.fetch("SELECT cell FROM state.cluster_cell ORDER BY cell")
    )


def _said(subscriptions: int) -> str:
    return {0: "it has no subscriptions", 1: "it has one subscription"}.get(
        subscriptions, "its subscriptions have one definition"
    )
