"""Candidates for a comparison of texts, found by grams and words; the caller tests each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from templates.columns import Column

_FACTOR = np.uint32(0x9E3779B1)  # odd, near 2**32 divided by the golden ratio


def gram_hashes(text: str, length: int) -> Column:
    """Return a 32-bit hash of each substring of `length` characters, in their order."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    count = len(points) - length + 1
    if count <= 0:
        return np.empty(0, np.uint32)
    found = points[:count] + np.uint32(1)
    for at in range(1, length):
        found = found * _FACTOR + points[at : at + count]
    found = (found ^ (found >> np.uint32(15))) * _FACTOR
    mixed: Column = found ^ (found >> np.uint32(13))
    return mixed


# -- Parts of a text, and sets of words -------------------------------------------------------

# A part is kept under one of its grams, that with the smallest hash, so that a text that contains
# it has that gram, too.  Short parts have shorter grams.  Candidates depend on the texts alone, and
# so does the bound of the characters that are compared.
#
# A set of words is kept under each of them.  Two sets x and y with `|x & y| / |x | y| >= c` have at
# least `c * |x|` words in common.  So any `|x| - ceil(c * |x|) + 1` words of x have one of y, and
# the rarest are looked up (prefix filtering).

LENGTHS = (16, 8, 3, 1)
"""Characters of the grams; a part is kept under one of the longest that fit into it."""
LAST = (1 << 16) - 1
"""A mask of the last bits of a gram's number."""
ENTRY_BYTES, POSTING_BYTES, LIST_BYTES = 70, 100, 300
"""Estimated memory of a text, of its entry in a list, and of a list."""


class InvertedIndex:
    """Finds texts, which have numbers, by common words or as parts of another text.

    With `words` a text is in the list of each of its words.  Without, it is in the list of one of
    its grams.
    """

    def __init__(self, *, words: bool) -> None:
        self._words = words
        self._keys: dict[int, frozenset[Hashable]] = {}
        self._having: dict[Hashable, dict[int, None]] = {}
        self._postings = 0
        # by length: the number of parts that are kept under a gram of that length
        self._lengths = Counter[int]()
        # by the last bits of a gram's number: the parts kept under such a gram
        self._grams = np.zeros(LAST + 1, np.int32)

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
        """Remove the texts with the given numbers."""
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
            asked += grams[self._grams[grams & LAST] > 0].tolist()  # most have no parts
        return self._listed(set(asked))

    def words(self, number: int) -> frozenset[Hashable]:
        """Return the words of the text with a number."""
        return self._keys[number]

    def similar(self, words: frozenset[str], bound: float) -> list[int]:
        """Return the numbers of the sets of words that may be as similar as a bound, ascending."""
        if bound <= 0:
            return list(self._keys)
        # Rounding may put a whole number of common words just above itself; `ceil` must not make
        # the next one of it.
        least = math.ceil(bound * len(words) * (1 - 1e-9))
        rarest = sorted(words, key=lambda word: len(self._having.get(word, ())))
        return self._listed(rarest[: max(0, len(words) - least + 1)])

    def _count(self, gram: int, by: int) -> None:
        """Add `by` to the counts of the parts that are kept under a gram."""
        self._grams[gram & LAST] += by
        self._lengths[gram >> 32] += by

    def _listed(self, keys: Iterable[Hashable]) -> list[int]:
        found: dict[int, None] = {}
        for key in keys:
            found.update(self._having.get(key, {}))
        return sorted(found)


def _grams(text: str, length: int) -> Column:
    """Return a number above 0 for each substring of `length` characters of a text."""
    grams: Column = gram_hashes(text, length).astype(np.int64) + (length << 32)
    return grams


def _sample(part: str) -> int:
    """Return the gram (its number, `_grams`) under which a part is kept, 0 for an empty part."""
    length = next((one for one in LENGTHS if one <= len(part)), 0)
    return int(_grams(part, length).min()) if length else 0


# -- Texts that contain one -------------------------------------------------------------------

# Each text has a column of bits, one for each hash of a trigram.  The texts that have all trigrams
# of a given one are the conjunction of as many rows, and candidates: a bit may be set by another
# trigram, and trigrams may be in another order.  Columns are in blocks of `BLOCK` texts, so that a
# block is removed as a whole when its last text is.  Lists by trigram would take a hundred times
# the memory, as texts have many.

BLOCK = 1024
BUCKETS = 4096
LENGTH = 3
"""Characters of a gram; shorter texts have none, and every text is a candidate."""


class _Block:
    """A block of up to `BLOCK` texts in a `SuperstringIndex`: bits for the hashes of their grams.

    The numbers of the texts ascend.
    """

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
        """Add a text under a number, given the hashes of its grams (`buckets`)."""
        at = self.used
        self.numbers[at], self.alive[at] = number, True
        self._bits[buckets, at >> 3] |= np.uint8(1 << (at & 7))
        self.used += 1

    def having(self, buckets: Column) -> Column:
        """Return the numbers of the texts that have grams with all of some hashes (`buckets`)."""
        there = self.alive
        if len(buckets):
            both = np.bitwise_and.reduce(self._bits[buckets], axis=0)
            there = there & np.unpackbits(both, bitorder="little").view(np.bool_)
        return self.numbers[there]

    def remove(self, numbers: npt.NDArray[np.int64]) -> None:
        """Remove those texts of the block that have one of the given numbers."""
        self.alive[: self.used] &= ~np.isin(self.numbers[: self.used], numbers)


class SuperstringIndex:
    """Texts by number; it finds the texts that may contain a given text."""

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
        """Remove the texts with the given numbers."""
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
