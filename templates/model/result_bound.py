"""The bound of results: all or nothing for each join and arriving document.

An answer pairs the document that arrived last, the *newcomer*, with an earlier *partner*.  A join
(a row of R_T) that has more than `RESULTS` answers with a newcomer has none with it, which is
reported as a `Cut`.  The decision depends on the number of answers alone.  So it is independent of
the batch, the order of evaluation, the evaluator and a restart, and shares of the answers that were
found apart can be added up.

The output of a temporal operator counts as earlier than all documents (rank 0).  The clock decides
in which of two pushes it appears.  So each such partner is a group of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import compress
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from templates.columns import Column, distinct, numbered, steps

Ranks = Callable[[Column], Column]

RESULTS = 10_000
"""Answers that one arriving document has with one join at most."""

GROUP = ("qid", "rank", "own")
"""The columns that name a group of answers: see `Cut`."""


class Cut(NamedTuple):
    """A group of results that is cut: a row of R_T has more with one newcomer than the bound.

    `qid` is that of the row, `rank` the newcomer's place in the order of arrival.  A partner of
    rank 0, which is a row over time, makes a group of its own: `own` is its number, else 0.
    """

    qid: int
    rank: int
    own: int = 0


def newcomers(doc1: Column, doc2: Column, ranks: Ranks) -> tuple[Column, Column]:
    """Return for each pair of documents the newcomer's rank, and `own` of their group (`Cut`).

    `own` is the number of a partner that makes a group of its own, else 0.
    """
    docs = distinct(np.concatenate((doc1, doc2)))
    known = ranks(docs)
    rank1, rank2 = known[np.searchsorted(docs, doc1)], known[np.searchsorted(docs, doc2)]
    second = (rank2 > rank1) | ((rank2 == rank1) & (doc2 > doc1))
    own = np.where(np.minimum(rank1, rank2) == 0, np.where(second, doc1, doc2), 0)
    return np.maximum(rank1, rank2), own


def grouped(found: pa.Table, ranks: Ranks) -> pa.Table:
    """Return results with added columns `rank` and `own`, which name their group (`Cut`).

    `ranks` is a function from documents to their ranks.
    """
    rank, own = newcomers(found["doc1"].to_numpy(), found["doc2"].to_numpy(), ranks)
    return found.append_column("rank", pa.array(rank)).append_column("own", pa.array(own))


def bounded(
    found: pa.Table, most: int = RESULTS, cuts: Collection[Cut] = ()
) -> tuple[pa.Table, list[Cut]]:
    """Return the results of the groups that are within the bound, in their order, and all cuts.

    `found` has the columns of groups; `cuts` are groups that exceed the bound by results elsewhere.
    """
    groups, sizes, place = groups_of({name: found[name].to_numpy() for name in GROUP})
    every, above = dict.fromkeys(cuts), sizes > most
    if every:
        above |= np.array([one in every for one in map(Cut, *groups)], np.bool_)
    if above.any():
        every |= dict.fromkeys(map(Cut, *(list(compress(keys, above)) for keys in groups)))
        found = found.filter(pa.array(~above[place]))
    return found, list(every)


def groups_of(rows: Mapping[str, Column]) -> tuple[list[list[int]], Column, Column]:
    """Return the groups of some rows, the number of rows of each, and for each row its group's
    index.

    The groups are columns: the fields of `Cut`.
    """
    keys = [rows[name] for name in GROUP]
    order = np.lexsort(keys[::-1])
    first = steps(*(key[order] for key in keys))
    place = np.empty(len(order), np.int64)
    place[order] = numbered(first, len(order))
    groups = [key[order[first]].tolist() for key in keys]
    return groups, np.diff(first, append=len(order)), place
