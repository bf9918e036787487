"""Index of the texts that are substrings of a given one: the hashes of a few of their grams.

A text is kept with `SAMPLES` of its grams: those with the smallest hashes, so that they depend on
the text alone.  A given text marks the hashes of all its grams in a bitmap, and candidates are the
texts whose samples are all marked.  Short texts have shorter grams.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from templates.columns.columns import Column
from templates.text.gram_hashes import gram_hashes

LENGTHS = (8, 3, 1)
"""Characters of the grams; a text has the longest that it is as long as."""
SAMPLES = 4
_BITS = 16
_SHIFT = np.uint32(32 - _BITS)


class _OfLength:
    """The texts whose grams have one length."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.size = 0
        self._numbers = np.zeros(64, np.int64)
        self._samples = np.zeros((SAMPLES, 64), np.uint16)

    @property
    def nbytes(self) -> int:
        """The bytes of the columns."""
        return self._numbers.nbytes + self._samples.nbytes

    def add(self, number: int, text: str) -> None:
        """Add a text under a number above all others."""
        if self.size == len(self._numbers):
            self._numbers = np.concatenate((self._numbers, np.zeros_like(self._numbers)))
            self._samples = np.concatenate((self._samples, np.zeros_like(self._samples)), axis=1)
        smallest = np.unique(gram_hashes(text, self.length))[:SAMPLES]
        self._numbers[self.size] = number
        self._samples[:, self.size] = np.resize(smallest * _SPREAD >> _SHIFT, SAMPLES)
        self.size += 1

    def remove(self, numbers: npt.NDArray[np.int64]) -> None:
        """Remove texts."""
        stays = ~np.isin(self._numbers[: self.size], numbers)
        self._numbers = np.resize(self._numbers[: self.size][stays], max(64, int(stays.sum())))
        self._samples = np.ascontiguousarray(self._samples[:, : self.size][:, stays])
        self.size = int(stays.sum())
        missing = len(self._numbers) - self.size
        self._samples = np.pad(self._samples, ((0, 0), (0, missing)))

    def candidates(self, text: str) -> Column:
        """Return the numbers of the texts that one may contain, ascending."""
        marked = np.zeros(1 << _BITS, np.bool_)
        marked[gram_hashes(text, self.length) * _SPREAD >> _SHIFT] = True
        found = np.flatnonzero(marked[self._samples[0, : self.size]])
        for sample in self._samples[1:]:
            found = found[marked[sample[found]]]
        return self._numbers[found]


_SPREAD = np.uint32(0x85EBCA6B)  # the smallest hashes differ in their lower bits only


class SubstringIndex:
    """Texts by number; finds those that a given one may contain."""

    def __init__(self) -> None:
        self._by_length = tuple(map(_OfLength, LENGTHS))
        self._empty: list[int] = []

    def add(self, number: int, text: str) -> None:
        """Add a text under a number above all others."""
        one = next((one for one in self._by_length if len(text) >= one.length), None)
        if one is None:
            self._empty.append(number)
        else:
            one.add(number, text)

    @property
    def nbytes(self) -> int:
        """The bytes of the columns."""
        return sum(one.nbytes for one in self._by_length) + 8 * len(self._empty)

    def remove(self, numbers: npt.NDArray[np.int64]) -> None:
        """Remove texts."""
        self._empty = [one for one in self._empty if one not in numbers]
        for one in self._by_length:
            one.remove(numbers)

    def candidates(self, text: str) -> Column:
        """Return the numbers of the texts that one may contain, ascending."""
        found = [one.candidates(text) for one in self._by_length if one.size]
        every: Column = np.concatenate((np.array(self._empty, np.int64), *found))
        every.sort()
        return every
