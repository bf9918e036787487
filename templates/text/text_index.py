"""The distinct texts of the join state that are compared otherwise than by equality, by role.

An index has the texts of all pairs of variables with one role, so subscriptions that differ in
constants or in their other nodes share it.  It has texts by key, and rows of the join state are
found by the keys.  It is made from the storage on first use, and follows what is added and
evicted.  Its bytes count against the budget of the join state.

The texts that remain after the index are tested one by one.  The caller bounds the characters that
a text is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from sys import getsizeof
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from templates.columns import Column, Columns, among, distinct, pack, portions
from templates.model.join_graph import LEFT, RIGHT
from templates.state.join_state import StoredState
from templates.state.value_joins import PART, Pass
from templates.storage import Storage, scan
from templates.text.candidates import InvertedIndex, SuperstringIndex
from templates.text.text_comparisons import (
    BOUNDS,
    PARTS,
    TextEdges,
    TextOperator,
    TextRole,
    jaccard,
    text_operator,
)


class Similar(NamedTuple):
    """The keys of the texts that satisfy a comparison with one text, and the characters compared.

    With `cut` no text was compared, as that would have taken more characters than allowed.
    """

    keys: Column
    characters: int
    cut: bool


ENTRY_BYTES = 240
"""Of one text in the three dictionaries, with their numbers."""


class TextIndex:
    """The texts of one role."""

    def __init__(self, role: TextRole) -> None:
        self.pairs: set[int] = set()
        self._role = role
        self._wholes, self._lists = SuperstringIndex(), InvertedIndex(words=role == "words")
        self._made = self._wholes if role == "whole" else self._lists
        self._numbers: dict[int, int] = {}  # by key
        self._keys: dict[int, int] = {}  # by number
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
        """Remove the texts with other keys."""
        stays = set(keys.tolist())
        gone = [number for key, number in self._numbers.items() if key not in stays]
        for number in gone:
            del self._numbers[self._keys.pop(number)]
            self._text_bytes -= getsizeof(self._texts.pop(number))
        self._made.remove(np.array(gone, np.int64))

    def similar(self, text: str, compared: TextOperator, most: int) -> Similar:
        """Return the texts that compare with one; at most so many characters are compared."""
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
        """Return the candidates that pass; a test reads `own` characters and the candidate's."""
        spent = sum(own + len(self._texts[number]) for number in candidates)
        if spent > most:
            return Similar(np.empty(0, np.uint64), spent, True)
        found = [self._keys[number] for number in candidates if test(number)]
        return Similar(np.array(found, np.uint64), spent, False)


PairsOfRole: TypeAlias = "Callable[[TextRole], Mapping[int, int]]"


class TextIndexes:
    """The indexes of all roles over one join state; `pairs` are those of a role."""

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
        # A row that has expired may be there still, without its text.
        asked = distinct(self._rows(pairs)["key"].to_numpy())
        stored = scan(
            self._storage, "value", where=lambda rows: among(rows["key"].to_numpy(), asked)
        )
        return sorted(zip(*(column.to_pylist() for column in stored.columns), strict=True))

    def _rows(self, pairs: Iterable[int]) -> pa.Table:
        """Return the rows of some pairs that have values, with their keys."""
        every = np.array(sorted(pairs))
        rows = scan(
            *(self._storage, "binding", ("pair", "key")),
            where=lambda rows: among(rows["pair"].to_numpy(), every),
        )
        return rows.filter(rows["key"].is_valid())

    def add(self, pairs: Column, keys: Column, texts: Mapping[int, str]) -> None:
        """Add the texts of new rows, given by their keys."""
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


# -- R_vj of comparisons of texts ------------------------------------------------------------

# Each distinct text of the batch asks the index of the other side's role for the texts that compare
# with it; their rows in the join state are found by their keys.  A document compares at most
# `CHARACTERS` for each pair of variables.  Beyond that its joins are cut (`result_bound.Cut`).

CHARACTERS = 20_000_000
"""Characters that a document's texts of one pair of variables are compared with: some 30 ms."""
FOUND = 2_000_000
"""Texts found for the texts of one pair of variables of a document at most."""


@dataclass(frozen=True)
class TextPass:
    """The comparisons of texts in one pass.

    `cut` is called with a document and those of its value joins that were not looked for.
    """

    half: Pass
    state: StoredState
    edges: TextEdges
    cut: Callable[[int, Column], None]
    _known: dict[tuple[int, str], Similar] = field(default_factory=dict)

    @property
    def _side(self) -> int:
        """The side of the batch."""
        return LEFT if self.half.back else RIGHT

    def joins(self, batch: Columns) -> Iterator[Columns]:
        """Yield R_vj in parts; all rows between two documents are in the same part."""
        which: list[Column] = [np.empty(0, np.int64)]
        keys: list[Column] = [np.empty(0, np.uint64)]
        size = 0
        order = np.lexsort((batch["pair"], batch["doc"]))
        starts = np.flatnonzero(
            (np.diff(batch["doc"][order], prepend=-1) != 0)
            | (np.diff(batch["pair"][order].astype(np.int64), prepend=-1) != 0)
        )
        doc = -1
        for places in np.split(order, starts[1:]):
            if size >= PART and int(batch["doc"][places[0]]) != doc:
                yield from self._parts(batch, np.concatenate(which), np.concatenate(keys))
                which, keys, size = which[:1], keys[:1], 0
            doc = int(batch["doc"][places[0]])
            for place, found in self._of_pair(batch, places):
                which.append(np.full(len(found), place))
                keys.append(found)
                size += len(found)
        if size:
            yield from self._parts(batch, np.concatenate(which), np.concatenate(keys))

    def _of_pair(self, batch: Columns, places: Column) -> Iterator[tuple[int, Column]]:
        """Yield rows of one document and pair of variables, with the keys that compare."""
        pair = int(batch["pair"][places[0]])
        far = self.edges.far(pair, self._side)
        characters, number = CHARACTERS, FOUND
        for place, key in zip(places.tolist(), batch["key"][places].tolist(), strict=True):
            found = self._similar(key, next(iter(far.values())), characters)
            characters -= found.characters
            number -= len(found.keys)
            if found.cut or number < 0:
                self.cut(int(batch["doc"][place]), distinct(self._packed(pair, list(far))))
                break
            yield place, found.keys

    def _packed(self, near: int, far: list[int]) -> Column:
        ends = np.full(len(far), near, np.int64), np.array(far, np.int64)
        packed: Column = pack(*(ends if self.half.back else ends[::-1]))
        return packed

    def _similar(self, key: int, operator: str, characters: int) -> Similar:
        known = self._known.get((key, operator))
        if known is not None and known.characters <= characters:
            return known
        compared = text_operator(operator)
        index = self.state.texts.index(compared.role(left=not self.half.back))
        found = index.similar(self.state.text(key), compared, characters)
        if not found.cut:
            self._known[key, operator] = found
        return found

    def _parts(self, batch: Columns, which: Column, keys: Column) -> Iterator[Columns]:
        """Yield R_vj of rows of the batch with the kept rows that have some keys."""
        at, rows = self.half.kept.of_values(keys)
        which = which[at]
        near = batch["pair"][which].astype(np.int64)
        far = self.half.kept.rows(rows, ("pair",))["pair"].astype(np.int64)
        edges = pack(*((near, far) if self.half.back else (far, near)))
        every = [
            self._packed(one, list(self.edges.far(one, self._side))) for one in set(near.tolist())
        ]
        joined = np.flatnonzero(among(edges, distinct(np.concatenate([edges[:0], *every]))))
        which, rows, edges = which[joined], rows[joined], edges[joined]
        docs, counts = np.unique(batch["doc"][which], return_counts=True)
        heavy = docs[counts > PART]
        light = ~among(batch["doc"][which], heavy)
        yield self.half.made(batch, which[light], rows[light])
        for doc in heavy.tolist():
            own = np.flatnonzero(batch["doc"][which] == doc)
            yield from self._in_parts(doc, batch, which[own], rows[own], edges[own])

    def _in_parts(
        self, doc: int, batch: Columns, which: Column, rows: Column, edges: Column
    ) -> Iterator[Columns]:
        """Yield R_vj of one heavy document with some partners at a time."""
        kept = self.half.kept.rows(rows, ("doc", "rank"))
        _, place, counts = np.unique(kept["doc"], return_inverse=True, return_counts=True)
        for part in portions(counts, PART):
            here = np.flatnonzero((place >= part[0]) & (place <= part[-1]))
            here = here[~self.half.unneeded(doc, kept["rank"][here], edges[here])]
            if len(here):
                yield self.half.made(batch, which[here], rows[here])
