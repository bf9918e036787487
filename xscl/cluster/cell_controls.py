"""The controls that a cell knows ahead of their entries: splits, copies, skipped documents."""

from __future__ import annotations

from xscl.cluster.cell_ancestry import CellAncestry
from xscl.cluster.controls import Control, CopyPublisher, Skip, Split
from xscl.cluster.sealed_log import SealedLog


class CellControls:
    """The controls up to the entry of a task.  Each entry is read once in an epoch.

    A driver that begins may have a log that another one has written differently from some entry on,
    so a new epoch reads everything again.
    """

    def __init__(self, cell: int, log: SealedLog) -> None:
        self._cell = cell
        self._log = log
        self._epoch = self._upto = 0  # up to where the log is known, and of which driver
        self._known: list[tuple[int, Control]] = []
        self.ancestry = CellAncestry(cell)
        self.copies: dict[tuple[str, int], int] = {}
        """Entries of copies of publishers, by these and the entry of their registration."""
        self.skipped: dict[int, frozenset[int]] = {}
        """Numbers of documents that are not evaluated, by their entries."""

    def read(self, upto: int, epoch: int) -> None:
        """Read what is new up to an entry; forget what comes after it."""
        if epoch != self._epoch or upto < self._upto:
            self._epoch, self._upto, self._known = epoch, 0, []
        is_first = not self._upto
        entries = self._log.controls(self._upto, upto)
        new = [
            (number, one)
            for number, some in entries
            for one in some
            if isinstance(one, Split | CopyPublisher | Skip)
        ]
        self._upto = upto
        if not (new or is_first):
            return
        self._known += new
        self.ancestry = CellAncestry(self._cell, self._known)
        self.copies, self.skipped = {}, {}
        for number, one in self._known:
            if isinstance(one, CopyPublisher) and one.cell == self.ancestry.at(number):
                self.copies[one.key, one.registered] = number
            elif isinstance(one, Skip):
                before = self.skipped.get(one.entry, frozenset())
                self.skipped[one.entry] = before.union(one.numbers)
