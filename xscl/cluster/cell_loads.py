"""The loads of the cells: what each has reported of its work, its snapshot, and what it needs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xscl.cluster.cell_task import CellAnswer, CellLoad, CellState, CellTask

SHARED_OVER = 64
"""The last batches of whose time the shares of the cells are reported."""


class CellLoads:
    """The reports that the cells of a driver have given with their answers.

    Only who holds the driver's batch or the engine's lock changes it.  `states` may be called by
    any thread: what it reads is replaced, never changed.
    """

    def __init__(self) -> None:
        self.snapshots: Mapping[int, int] = {}
        """The entry of the last snapshot of each cell that has one."""
        self._loads: Mapping[int, CellLoad] = {}
        self._shares: Mapping[int, float] = {}
        self._seconds = deque[Mapping[int, float]](maxlen=SHARED_OVER)  # of cells, by batches
        self._needed: dict[int, int] = {}  # the first document whose text a cell needs

    def note(
        self, cells: Sequence[int], tasks: Iterable[CellTask], answers: Iterable[CellAnswer]
    ) -> None:
        """Note the answers to the tasks of a batch."""
        loads = {one.cell: one.load for one in answers if one.load is not None}
        self._loads = {**self._loads, **loads}
        self._seconds.append({cell: load.seconds for cell, load in loads.items()})
        seconds: Counter[int] = Counter()
        for one in self._seconds:
            seconds.update(one)
        whole = sum(seconds[cell] for cell in cells)
        self._shares = {cell: seconds[cell] / whole for cell in cells} if whole else {}
        taken = {one.cell: one.after for one in tasks if one.snapshot}
        self.snapshots = {**self.snapshots, **taken}
        for cell, load in loads.items():
            if load.held_from is not None:
                self._needed[cell] = load.held_from

    def of(self, cell: int) -> CellLoad | None:
        """Return the last load of a cell, None if it has not run at its place yet."""
        return self._loads.get(cell)

    def forget(self, cells: Iterable[int]) -> None:
        """Forget the loads of cells that have left their place."""
        gone = frozenset(cells)
        self._loads = {cell: load for cell, load in self._loads.items() if cell not in gone}

    # -- The texts that the cells need -----------------------------------------------------

    def needed_from(self, cells: Sequence[int]) -> int | None:
        """Return the first document whose text a cell needs; None if a cell has not said it."""
        if not self._needed.keys() >= set(cells):
            return None
        return min(self._needed[cell] for cell in cells)

    def need(self, cell: int, first: int) -> None:
        """Note that a cell also needs the texts from a document on."""
        if cell in self._needed:
            self._needed[cell] = min(first, self._needed[cell])

    def split(self, cell: int, child: int) -> None:
        """Note that a new cell needs what the one needs that it is split from."""
        if cell in self._needed:
            self._needed[child] = self._needed[cell]

    def remove(self, cell: int) -> None:
        """Note that a cell is none any more, and needs nothing."""
        self._needed.pop(cell, None)

    def forget_needs(self) -> None:
        """Keep all texts until each cell has said anew what it needs."""
        self._needed.clear()

    # -- Reports ---------------------------------------------------------------------------

    def states(
        self, cells: Sequence[int], counts: Mapping[int, int], sequenced: int, committed: int
    ) -> tuple[CellState, ...]:
        """Return the states of cells, from their numbers of subscriptions and two entries."""
        loads, shares, snapshots = self._loads, self._shares, self.snapshots
        lag, found = max(0, sequenced - committed), []
        for cell in cells:
            one = CellState(cell, counts.get(cell, 0), lag, snapshots.get(cell, 0), committed)
            if (load := loads.get(cell)) is not None:
                one = replace(
                    one,
                    seconds=round(load.seconds, 4),
                    share=round(shares.get(cell, 0.0), 3),
                    documents=load.documents,
                    host=load.host,
                    process=load.process,
                    memory=load.memory,
                )
            found.append(one)
        return tuple(found)
