"""The distinct texts of the join state that are compared otherwise than by equality, by role.

An index has the texts of all pairs of variables with one role, so subscriptions that differ in
constants or in their other nodes share it.  It has texts by key, and rows of the join state are
found by the keys.  It is made from the storage on first use, and follows what is added and
evicted.  Its bytes count against the budget of the join state.

The texts that remain after the index are tested one by one.  The caller bounds the characters that
a text is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from sys import getsizeof
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from templates.columns import Column, among, distinct
from templates.storage import Storage, scan
from templates.text.candidates import InvertedIndex, SuperstringIndex
from templates.text.text_comparisons import BOUNDS, PARTS, TextOperator, TextRole, jaccard


class Similar(NamedTuple):
    """The keys of the texts that satisfy a comparison with one text, and the characters compared.

    With `cut` no text was compared, as that would have taken more characters than allowed.
    """

    keys: Column
    characters: int
    cut: bool


ENTRY_BYTES = 240
"""Estimated memory of a text's entries in the three dictionaries."""


class TextIndex:
    """The texts of one role by their keys, each once, with the index that finds candidates."""

    def __init__(self, role: TextRole) -> None:
        self.pairs: set[int] = set()
        self._role = role
        self._wholes, self._lists = SuperstringIndex(), InvertedIndex(words=role == "words")
        self._made = self._wholes if role == "whole" else self._lists
        self._numbers: dict[int, int] = {}  # by key of a text: its number in the index
        self._keys: dict[int, int] = {}  # by number of a text: its key
        self._texts: dict[int, str] = {}
        self._next = 0
        self._text_bytes = 0

    @property
    def nbytes(self) -> int:
        """The bytes of the texts and of the index, those of dictionaries estimated."""
        return self._text_bytes + ENTRY_BYTES * len(self._texts) + self._made.nbytes

    def add(self, texts: Iterable[tuple[int, str]]) -> None:
        """Add texts, each with its key."""
        for key, text in texts:
            if key not in self._numbers:
                number, self._next = self._next, self._next + 1
                self._numbers[key], self._keys[number], self._texts[number] = number, key, text
                self._made.add(number, text)
                self._text_bytes += getsizeof(text)

    def only(self, keys: Column) -> None:
        """Remove the texts whose keys are not in `keys`."""
        stays = set(keys.tolist())
        gone = [number for key, number in self._numbers.items() if key not in stays]
        for number in gone:
            del self._numbers[self._keys.pop(number)]
            self._text_bytes -= getsizeof(self._texts.pop(number))
        self._made.remove(np.array(gone, np.int64))

    def similar(self, text: str, compared: TextOperator, most: int) -> Similar:
        """Return the texts for which a comparison with `text` holds.

        At most `most` characters are compared.
        """
        if compared.sign:
            words = frozenset(text.split())
            holds = BOUNDS[compared.sign]

            def test(number: int) -> bool:
                other = self._lists.words(number)
                return holds(jaccard(words, other, len(words & other)), compared.bound)

            candidates = self._lists.similar(words, compared.bound)
            return self._tested(candidates, test, len(text), most)
        within, texts = PARTS[compared.test], self._texts
        if self._role == "whole":
            candidates = self._wholes.candidates(text).tolist()
            return self._tested(candidates, lambda number: within(texts[number], text), 0, most)
        candidates = self._lists.contained(text)
        return self._tested(candidates, lambda number: within(text, texts[number]), len(text), most)

    def _tested(
        self, candidates: list[int], test: Callable[[int], bool], own: int, most: int
    ) -> Similar:
        """Return the candidates that pass a test, none if tests would read over `most` characters.

        A test reads a candidate and `own` other characters.
        """
        spent = sum(own + len(self._texts[number]) for number in candidates)
        if spent > most:
            return Similar(np.empty(0, np.uint64), spent, True)
        found = [self._keys[number] for number in candidates if test(number)]
        return Similar(np.array(found, np.uint64), spent, False)


PairsOfRole: TypeAlias = "Callable[[TextRole], Mapping[int, int]]"


class TextIndexes:
    """The indexes by role over one join state; `pairs` returns the pairs of variables of a role."""

    def __init__(self, storage: Storage, pairs: PairsOfRole) -> None:
        self._storage = storage
        self._pairs = pairs
        self._indexes: dict[TextRole, TextIndex] = {}

    @property
    def nbytes(self) -> int:
        """The bytes of all indexes; thread-safe."""
        return sum(index.nbytes for index in list(self._indexes.values()))

    def index(self, role: TextRole) -> TextIndex:
        """Return the index of a role, with all stored texts of its pairs."""
        index = self._indexes.setdefault(role, TextIndex(role))
        missing = self._pairs(role).keys() - index.pairs
        if missing:
            index.add(self._stored(missing))
            index.pairs |= missing
        return index

    def _stored(self, pairs: Iterable[int]) -> Iterable[tuple[int, str]]:
        # An expired row may still be stored, although its text has been deleted.
        asked = distinct(self._rows(pairs)["key"].to_numpy())
        stored = scan(
            self._storage, "value", where=lambda rows: among(rows["key"].to_numpy(), asked)
        )
        return sorted(zip(*(column.to_pylist() for column in stored.columns), strict=True))

    def _rows(self, pairs: Iterable[int]) -> pa.Table:
        """Return the rows (pair, key) of stored bindings that have one of `pairs`, and a value."""
        every = np.array(sorted(pairs))
        rows = scan(
            *(self._storage, "binding", ("pair", "key")),
            where=lambda rows: among(rows["pair"].to_numpy(), every),
        )
        return rows.filter(rows["key"].is_valid())

    def add(self, pairs: Column, keys: Column, texts: Mapping[int, str]) -> None:
        """Add the texts of new rows to the indexes of their pairs; `texts` has them by key."""
        for index in self._indexes.values():
            own = np.isin(pairs, list(index.pairs))
            index.add((key, texts[key]) for key in keys[own].tolist())

    def evict(self) -> None:
        """Remove the texts that are not stored any more."""
        for role, index in list(self._indexes.items()):
            index.pairs &= self._pairs(role).keys()
            if not index.pairs:
                del self._indexes[role]
                continue
            index.only(self._rows(index.pairs)["key"].to_numpy())
