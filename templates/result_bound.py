"""The bound of results: of an arriving document and a join the first N answers stay.

An answer pairs the document that arrived last, the *newcomer*, with an earlier *partner*.  Answers
of one join and one newcomer are in canonical order: the newest partner first, then by the bindings
of the output nodes.  What is beyond `RESULTS` in that order is cut.  So the bound is a function of
the newcomer and the join alone, whatever the batch, the evaluator or a restart, and a query that
was registered later sees a prefix of the same order.  (That is so for documents.  A composite
arrives with its newest part, and its parts may be older.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from templates.columns import Column, distinct

RESULTS = 10_000
"""Answers that one arriving document has with one join at most."""


@dataclass(frozen=True, slots=True)
class Cut:
    """That a join had more answers with a document than stay.

    `newcomer` is the document, by its number, `rank` its place in the order of arrival.
    """

    qid: int
    newcomer: int
    rank: int


def newcomers(doc1: Column, doc2: Column, ranks: Callable[[Column], Column]) -> tuple[Column, ...]:
    """Return of pairs of documents the newcomer, its rank, the partner, and the partner's rank."""
    docs = distinct(np.concatenate((doc1, doc2)))
    known = ranks(docs)
    rank1, rank2 = known[np.searchsorted(docs, doc1)], known[np.searchsorted(docs, doc2)]
    second = (rank2 > rank1) | ((rank2 == rank1) & (doc2 > doc1))
    return (
        np.where(second, doc2, doc1),
        np.where(second, rank2, rank1),
        np.where(second, doc1, doc2),
        np.where(second, rank1, rank2),
    )


def bounded(
    found: pa.Table, ranks: Callable[[Column], Column], most: int = RESULTS
) -> tuple[pa.Table, list[Cut]]:
    """Return what stays of results (`processor.FOUND`), in their order, and what was cut.

    `ranks` gives the places of documents in the order of arrival.
    """
    if found.num_rows <= most:
        return found, []
    qid = found["qid"].to_numpy()
    doc1, doc2 = found["doc1"].to_numpy(), found["doc2"].to_numpy()
    new, rank, old, old_rank = newcomers(doc1, doc2, ranks)
    groups, group, sizes = np.unique(
        np.stack((qid.astype(np.int64), rank)), axis=1, return_inverse=True, return_counts=True
    )
    large = np.flatnonzero(sizes > most)
    if not len(large):
        return found, []
    stays = np.ones(found.num_rows, np.bool_)
    nodes = found["nodes"].combine_chunks()
    cuts = []
    for one in large.tolist():
        rows = np.flatnonzero(group.ravel() == one)
        arrival = (old_rank[rows], old[rows], new[rows], doc1[rows] == new[rows])
        order = in_order(arrival, _matrix(nodes.take(pa.array(rows))))
        stays[rows[order[most:]]] = False
        newcomer = int(new[rows].max())
        cuts.append(Cut(int(groups[0, one]), newcomer, int(groups[1, one])))
    return found.filter(pa.array(stays)), cuts


def in_order(arrival: tuple[Column, ...], nodes: Column) -> Column:
    """Return answers in canonical order: `arrival` descending, then rows of `nodes` ascending."""
    keys = [*(nodes[:, at] for at in reversed(range(nodes.shape[1])))]
    keys += [-one.astype(np.int64) for one in reversed(arrival)]
    order: Column = np.lexsort(keys)
    return order


def _matrix(lists: pa.ListArray) -> Column:
    """Return lists of equal length as the rows of a matrix."""
    flat = lists.flatten().to_numpy()
    return flat.reshape(len(lists), -1) if len(lists) else np.empty((0, 0), np.int32)


class Newest:
    """Which partners the joins of a push have had enough of, by newcomer.

    A join that has `most` answers with a newcomer wants no partner older than that of the last one.
    """

    def __init__(self) -> None:
        self._oldest: dict[tuple[int, int], tuple[int, int]] = {}

    def clear(self) -> None:
        """Begin another push."""
        self._oldest.clear()

    def note(self, qid: int, rank: int, partner: tuple[int, int]) -> None:
        """Note of a join and the newcomer of a rank the oldest partner that is still wanted."""
        key = qid, rank
        self._oldest[key] = max(partner, self._oldest.get(key, partner))

    def oldest(self, qid: int, rank: int) -> tuple[int, int]:
        """Return the rank and the number of the oldest partner that is wanted."""
        return self._oldest.get((qid, rank), _ANY)

    def __bool__(self) -> bool:
        return bool(self._oldest)


_ANY = (-1, -1)
