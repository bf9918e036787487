"""Index of the texts that contain a given one: signatures of trigrams, as bit slices.

Each text has a column of bits, one for each hash of a trigram.  The texts that have all trigrams
of a given one are the conjunction of as many rows, and candidates: a bit may be set by
another trigram, and trigrams may be in another order.  Columns are in blocks of `BLOCK` texts, so
that a block is removed as a whole when its last text is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from templates.columns.columns import Column
from templates.text.gram_hashes import gram_hashes

BLOCK = 1024
BUCKETS = 4096
LENGTH = 3
"""Characters of a gram; shorter texts have none, and every text is a candidate."""


class _Block:
    """Up to `BLOCK` texts by their numbers, which ascend."""

    def __init__(self) -> None:
        self.numbers = np.zeros(BLOCK, np.int64)
        self.alive = np.zeros(BLOCK, np.bool_)
        self.used = 0
        self._bits = np.zeros((BUCKETS, BLOCK // 8), np.uint8)

    @property
    def nbytes(self) -> int:
        """The bytes of the bit slices and of the numbers."""
        return self._bits.nbytes + self.numbers.nbytes + self.alive.nbytes

    def add(self, number: int, buckets: Column) -> None:
        """Add a text."""
        at = self.used
        self.numbers[at], self.alive[at] = number, True
        self._bits[buckets, at >> 3] |= np.uint8(1 << (at & 7))
        self.used += 1

    def having(self, buckets: Column) -> Column:
        """Return the numbers of the texts with all of some grams."""
        there = self.alive
        if len(buckets):
            both = np.bitwise_and.reduce(self._bits[buckets], axis=0)
            there = there & np.unpackbits(both, bitorder="little").view(np.bool_)
        return self.numbers[there]

    def remove(self, numbers: npt.NDArray[np.int64]) -> None:
        """Remove texts."""
        self.alive[: self.used] &= ~np.isin(self.numbers[: self.used], numbers)


class SuperstringIndex:
    """Texts by number; finds those that may contain a given one."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []

    def add(self, number: int, text: str) -> None:
        """Add a text under a number above all others."""
        if not self._blocks or self._blocks[-1].used == BLOCK:
            self._blocks.append(_Block())
        self._blocks[-1].add(number, _buckets(text))

    @property
    def nbytes(self) -> int:
        """The bytes of all blocks."""
        return sum(block.nbytes for block in self._blocks)

    def remove(self, numbers: npt.NDArray[np.int64]) -> None:
        """Remove texts."""
        for block in self._blocks:
            block.remove(numbers)
        self._blocks = [block for block in self._blocks if block.alive.any()]

    def candidates(self, text: str) -> Column:
        """Return the numbers of the texts that may contain one, ascending."""
        buckets = np.unique(_buckets(text))
        found: Column = np.concatenate([np.empty(0, np.int64), *self._having(buckets)])
        return found

    def _having(self, buckets: Column) -> Iterator[Column]:
        return (block.having(buckets) for block in self._blocks)


def _buckets(text: str) -> Column:
    return gram_hashes(text, LENGTH) & (BUCKETS - 1)
