"""The grid: cells that share subscriptions and divide the documents by values.

Slices divide the subscriptions, groups of cells divide the documents.  Cells are numbered through.
With two slices and two groups of three cells:

    cell   0  1     2  3  4     5  6  7     8 ...
           slices   group 2     group 5     slices that were split off later

In each group a value belongs to the cell first + `share_of(value, 3)`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Routes: TypeAlias = Sequence[Sequence[int]]
"""The cells of the grid to which each document goes."""

_MIX = 0x9E3779B1


@dataclass(frozen=True, slots=True)
class Grid:
    """Groups of `width` cells each, after the `slices`; a group is known by its first cell.

    Cells that are split off later are slices, and come after the groups.
    """

    slices: int
    groups: int = 0
    width: int = 0

    @property
    def cells(self) -> int:
        """The number of cells that a cluster begins with, those of slices included."""
        return self.slices + self.groups * self.width

    def __str__(self) -> str:
        grid = f" and {self.groups} groups of {self.width}" if self.groups else ""
        return f"{self.slices} cells{grid}"

    @property
    def firsts(self) -> range:
        """The groups, by their first cells."""
        return range(self.slices, self.cells, max(1, self.width))

    def cells_of(self, cell: int) -> range:
        """Return the cells of a subscription that was placed in a slice or a group."""
        return range(cell, cell + (1 if self.is_slice(cell) else self.width))

    def is_slice(self, cell: int) -> bool:
        """Return whether a cell is in no group."""
        return not self.slices <= cell < self.cells


def share_of(value: str, width: int) -> int:
    """Return the cell of a group to which a value hashes, equal in all processes."""
    mixed = zlib.crc32(value.encode()) * _MIX & 0xFFFFFFFF  # low bits of CRCs are alike
    return (mixed >> 8) % width
