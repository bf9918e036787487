"""The ancestry of a cell: the cells from which it was split off, each up to the entry of a split.

Its state is a function of the log, as that of each cell: it is made from the log, or from a
snapshot of the other cell, and becomes itself at that entry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xscl.cluster.controls import Control, Split
from xscl.documents.results import Subscription


class CellAncestry:
    """The cell that a cell was at each entry, by the controls of the log with their entries."""

    def __init__(self, cell: int, controls: Iterable[tuple[int, Control]] = ()) -> None:
        splits = {one.target: (number, one) for number, one in controls if isinstance(one, Split)}
        self._began: list[tuple[int, int]] = []  # entries and cells, the newest first
        while cell in splits:
            number, split = splits[cell]
            self._began.append((number, cell))
            cell = split.source
        self._began.append((0, cell))

    def at(self, number: int) -> int:
        """Return the cell that it was at an entry; at that of a split it is the new cell."""
        return next(cell for began, cell in self._began if began <= number)

    def lost(
        self, number: int, split: Split, present: Iterable[Subscription], copied: Collection[str]
    ) -> list[str]:
        """Return the keys that it loses at the entry of a split, of the present subscriptions.

        It keeps those that a later entry has `copied` to it, as if they had always been there.
        """
        keys, stay = frozenset(split.keys), {*split.publishers, *copied}
        names = [one.name for one in present if one.name not in stay]
        here = self.at(number)
        if here == split.target:
            return [name for name in names if name not in keys]
        return [name for name in names if name in keys] if here == split.source else []
