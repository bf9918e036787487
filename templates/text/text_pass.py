"""R_vj of comparisons of texts.

Each distinct text of the batch asks the index of the other side's role for the texts that compare
with it; their rows in the join state are found by their keys.  A document compares at most
`CHARACTERS` for each pair of variables.  Beyond that its joins are cut (`result_bound.Cut`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from templates.columns import Column, Columns, among, distinct, pack, portions
from templates.model.join_graph import LEFT, RIGHT
from templates.state.stored_state import StoredState
from templates.state.value_joins import PART, Pass
from templates.text.text_comparisons import TextEdges, text_operator
from templates.text.text_index import Similar

CHARACTERS = 20_000_000
"""Characters that a document's texts of one pair of variables are compared with: some 30 ms."""
FOUND = 2_000_000
"""Texts found for the texts of one pair of variables of a document at most."""


@dataclass(frozen=True)
class TextPass:
    """Makes R_vj of the comparisons of texts in one pass.

    `cut` is called with a document and with value joins (packed pairs of variables) for which the
    search was not completed.
    """

    half: Pass
    state: StoredState
    edges: TextEdges
    cut: Callable[[int, Column], None]
    _known: dict[tuple[int, str], Similar] = field(default_factory=dict)

    @property
    def _side(self) -> int:
        """The side of the batch in this pass, `LEFT` or `RIGHT`."""
        return LEFT if self.half.back else RIGHT

    def joins(self, batch: Columns) -> Iterator[Columns]:
        """Yield R_vj of the text comparisons of a batch in parts.

        All rows between two documents are in the same part.
        """
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
        """Yield (row, keys of the kept texts that match) for the rows `places` of the batch.

        These rows have one document and one pair of variables.
        """
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
        """Yield R_vj: rows of the batch, joined with kept rows whose texts compare with theirs.

        At the same index `which` has a row of the batch and `keys` the key of the kept texts.
        """
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
        """Yield R_vj of one heavy document `doc` with some partners at a time.

        At the same index `which` has a row of the batch, `rows` a kept row, `edges` their value
        join.
        """
        kept = self.half.kept.rows(rows, ("doc", "rank"))
        _, place, counts = np.unique(kept["doc"], return_inverse=True, return_counts=True)
        for part in portions(counts, PART):
            here = np.flatnonzero((place >= part[0]) & (place <= part[-1]))
            here = here[~self.half.unneeded(doc, kept["rank"][here], edges[here])]
            if len(here):
                yield self.half.made(batch, which[here], rows[here])
