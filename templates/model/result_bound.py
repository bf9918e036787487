"""The bound of results: of an arriving document and a join the first N answers stay.

An answer pairs the document that arrived last, the *newcomer*, with an earlier *partner*.  Answers
of one join and one newcomer are in canonical order: the newest partner first, then by the bindings
of the output nodes.  Answers beyond `RESULTS` in that order are cut.  So the bound is a function of
the newcomer and the join alone, independent of the batch, the evaluator or a restart.  A query that
was registered later sees a prefix of the same order. (This holds for documents.  A composite
arrives with its newest part, and its parts may be older.)

The output of a temporal operator counts as earlier than all documents (rank 0).  The clock decides
in which of two pushes it appears.  So each such partner is a group of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from templates.columns.columns import Column, distinct

Ranks = Callable[[Column], Column]

RESULTS = 10_000
"""Answers that one arriving document has with one join at most."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A join that had more answers with a document than stay.

    `newcomer` is the document, by its number, `rank` its place in the order of arrival.
    """

    qid: int
    newcomer: int
    rank: int


def newcomers(doc1: Column, doc2: Column, ranks: Ranks) -> tuple[Column, ...]:
    """Return the newcomer of each pair of documents, its rank, the partner, and its rank."""
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


Group = tuple[int, int, int]
"""A row of R_T, the rank of the newcomer, and the partner if that is a group of its own, else 0."""


def own_group(partner: Column, rank: Column) -> Column:
    """Return partners that are groups of their own, given their ranks; 0 for others."""
    found: Column = np.where(rank == 0, partner, 0)
    return found


def counted(found: pa.Table, ranks: Ranks) -> dict[Group, int]:
    """Return the number of results of each join with each newcomer."""
    keys, _, sizes = _grouped(found, ranks)
    return dict(zip(zip(*keys.tolist(), strict=True), sizes.tolist(), strict=True))


def bounded(
    found: pa.Table, ranks: Ranks, most: int = RESULTS, spent: Mapping[Group, int] | None = None
) -> tuple[pa.Table, list[Cut]]:
    """Return the results that stay (`processor.FOUND`), in their order, and the cut ones.

    `ranks` returns the places of documents in the order of arrival; `spent` are the numbers of
    results that groups have already.
    """
    if (not spent and found.num_rows <= most) or not found.num_rows:
        return found, []
    keys, group, sizes = _grouped(found, ranks)
    limits = np.full(len(sizes), most)
    if spent:
        for at, key in enumerate(zip(*keys.tolist(), strict=True)):
            limits[at] = max(0, most - spent.get(key, 0))
    large = np.flatnonzero(sizes > limits)
    if not len(large):
        return found, []
    doc1, doc2 = found["doc1"].to_numpy(), found["doc2"].to_numpy()
    stays = np.ones(found.num_rows, np.bool_)
    nodes = found["nodes"].combine_chunks()
    cuts = []
    for one in large.tolist():
        rows = np.flatnonzero(group == one)
        new, _, old, old_rank = newcomers(doc1[rows], doc2[rows], ranks)
        arrival = (old_rank, old, new, doc1[rows] == new)
        order = in_order(arrival, _matrix(nodes.take(pa.array(rows))))
        stays[rows[order[limits[one] :]]] = False
        cuts.append(Cut(int(keys[0, one]), int(new.max()), int(keys[1, one])))
    return found.filter(pa.array(stays)), cuts


def _grouped(found: pa.Table, ranks: Ranks) -> tuple[Column, Column, Column]:
    """Return the groups of results (join, rank of the newcomer), that of each row, their sizes."""
    _, rank, old, old_rank = newcomers(found["doc1"].to_numpy(), found["doc2"].to_numpy(), ranks)
    qid = found["qid"].to_numpy().astype(np.int64)
    keys, group, sizes = np.unique(
        np.stack((qid, rank, own_group(old, old_rank))),
        axis=1,
        return_inverse=True,
        return_counts=True,
    )
    return keys, group.ravel(), sizes


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
