"""Index of the sets of words that are similar to a given one: inverted lists, prefix filtering.

Two sets x and y with `|x & y| / |x | y| >= c` have at least `c * |x|` words in common.  So any
`|x| - ceil(c * |x|) + 1` words of x have one of y.  The rarest are looked up.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from templates.columns.columns import Column

POSTING_BYTES, WORD_BYTES = 150, 400
"""Of a word in a set, with its entry in an inverted list; of a distinct word."""


class WordSetIndex:
    """Sets of words by number; finds those that may be similar to a given one."""

    def __init__(self) -> None:
        self._sets: dict[int, frozenset[str]] = {}
        self._having: dict[str, dict[int, None]] = {}
        self._postings = 0

    def add(self, number: int, text: str) -> None:
        """Add a text under a number above all others."""
        words = self._sets[number] = frozenset(text.split())
        self._postings += len(words)
        for word in words:
            self._having.setdefault(word, {})[number] = None

    @property
    def nbytes(self) -> int:
        """The bytes of the sets and of the inverted lists, estimated."""
        return self._postings * POSTING_BYTES + len(self._having) * WORD_BYTES

    def remove(self, numbers: npt.NDArray[np.int64]) -> None:
        """Remove texts."""
        for number in numbers.tolist():
            words = self._sets.pop(number)
            self._postings -= len(words)
            for word in words:
                having = self._having[word]
                del having[number]
                if not having:
                    del self._having[word]

    def words(self, number: int) -> frozenset[str]:
        """Return the words of a text."""
        return self._sets[number]

    def candidates(self, words: frozenset[str], bound: float) -> Column:
        """Return the numbers of the sets that may be as similar as `bound`, ascending."""
        if bound <= 0:
            return np.fromiter(self._sets, np.int64, len(self._sets))
        # A similarity is rounded as is the bound, so the least common number is not rounded up
        # where it is whole but for that.
        least = math.ceil(bound * len(words) * (1 - 1e-9))
        known = [self._having.get(word, {}) for word in words]
        rarest = sorted(known, key=len)[: max(0, len(words) - least + 1)]
        found: dict[int, None] = {}
        for having in rarest:
            found.update(having)
        numbers = np.fromiter(found, np.int64, len(found))
        numbers.sort()
        return numbers
