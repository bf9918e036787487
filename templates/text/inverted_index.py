"""Inverted lists of texts: by a gram of each part that others may contain, or by their words.

A part is kept under one of its grams, that with the smallest hash, so that a text that contains it
has that gram, too.  Short parts have shorter grams.  Candidates depend on the texts alone, and so
does the bound of the characters that are compared.

A set of words is kept under each of them.  Two sets x and y with `|x & y| / |x | y| >= c` have at
least `c * |x|` words in common.  So any `|x| - ceil(c * |x|) + 1` words of x have one of y, and the
rarest are looked up (prefix filtering).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable

import numpy as np
import numpy.typing as npt

from templates.columns.columns import Column
from templates.text.gram_hashes import gram_hashes

LENGTHS = (16, 8, 3, 1)
"""Characters of the grams; a part has the longest that it is as long as."""
LAST = (1 << 16) - 1
"""A mask of the last bits of a gram's number."""
ENTRY_BYTES, POSTING_BYTES, LIST_BYTES = 70, 100, 300
"""Of a text, of a text in a list, and of a list."""


class InvertedIndex:
    """Texts by number, in lists by their keys; of `words` these are all of them."""

    def __init__(self, *, words: bool) -> None:
        self._words = words
        self._keys: dict[int, frozenset[Hashable]] = {}
        self._having: dict[Hashable, dict[int, None]] = {}
        self._postings = 0
        self._lengths = Counter[int]()  # parts by the lengths of their grams
        self._grams = np.zeros(LAST + 1, np.int32)  # parts by the last bits of their grams

    @property
    def nbytes(self) -> int:
        """The bytes of all lists, estimated."""
        postings = self._postings * POSTING_BYTES + len(self._having) * LIST_BYTES
        return postings + len(self._keys) * ENTRY_BYTES

    def add(self, number: int, text: str) -> None:
        """Add a text under a number above all others."""
        if self._words:
            keys = frozenset[Hashable](text.split())
        else:
            keys = frozenset((gram := _sample(text),))
            self._count(gram, 1)
        self._keys[number] = keys
        self._postings += len(keys)
        for key in keys:
            self._having.setdefault(key, {})[number] = None

    def remove(self, numbers: npt.NDArray[np.int64]) -> None:
        """Remove texts."""
        for number in numbers.tolist():
            keys = self._keys.pop(number)
            self._postings -= len(keys)
            for key in keys:
                having = self._having[key]
                del having[number]
                if isinstance(key, int):
                    self._count(key, -1)
                if not having:
                    del self._having[key]

    def contained(self, text: str) -> list[int]:
        """Return the numbers of the parts that a text may contain, ascending."""
        asked = [0]
        for length in (one for one in LENGTHS if self._lengths[one]):
            grams = _grams(text, length)
            asked += grams[self._grams[grams & LAST] > 0].tolist()  # no part is kept under most
        return self._listed(set(asked))

    def words(self, number: int) -> frozenset[Hashable]:
        """Return the words of a text."""
        return self._keys[number]

    def similar(self, words: frozenset[str], bound: float) -> list[int]:
        """Return the numbers of the sets of words that may be as similar as a bound, ascending."""
        if bound <= 0:
            return list(self._keys)
        # A similarity is rounded as is the bound, so the least common number is not rounded up
        # where it is whole but for that.
        least = math.ceil(bound * len(words) * (1 - 1e-9))
        rarest = sorted(words, key=lambda word: len(self._having.get(word, ())))
        return self._listed(rarest[: max(0, len(words) - least + 1)])

    def _count(self, gram: int, by: int) -> None:
        """Count the parts that are kept under a gram."""
        self._grams[gram & LAST] += by
        self._lengths[gram >> 32] += by

    def _listed(self, keys: Iterable[Hashable]) -> list[int]:
        found: dict[int, None] = {}
        for key in keys:
            found.update(self._having.get(key, {}))
        return sorted(found)


def _grams(text: str, length: int) -> Column:
    """Return a number for each gram of a text, above 0."""
    grams: Column = gram_hashes(text, length).astype(np.int64) + (length << 32)
    return grams


def _sample(part: str) -> int:
    """Return the gram that a part is kept under, 0 of an empty one."""
    length = next((one for one in LENGTHS if one <= len(part)), 0)
    return int(_grams(part, length).min()) if length else 0
