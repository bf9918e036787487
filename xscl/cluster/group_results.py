"""The results of subscriptions that several cells share, as one engine has them.

Each cell of a group has its own results of a join with an arriving document.  Together they are in
the order of one engine, and the bound of results (`templates.model.result_bound`) applies to all:
a cell cuts only what comes after as many results that the others or itself have found.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from templates.model.result_bound import Cut, bounded, newcomers
from xscl.documents.document_log import LEVELS, DocumentLog


def unite_results(
    found: pa.Table,
    qids: Collection[int],
    documents: DocumentLog,
    moments: Sequence[int],
    most: int,
) -> tuple[pa.Table, list[Cut]]:
    """Return results (`FOUND`) with those of some joins in order and bounded, and what is cut.

    `moments` are numbers of documents: the ends of the entries of the log, whose results come one
    after the other.
    """

    def ranks(docs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        stored = documents.stored(set(docs.tolist()))
        return np.array([stored[doc].rank for doc in docs.tolist()], np.int64)

    is_shared = pc.is_in(found["qid"], pa.array(sorted(qids), pa.int32()))
    some, cuts = bounded(found.filter(is_shared).combine_chunks(), ranks, most)
    if not some.num_rows:
        return found, cuts
    one, other = some["doc1"].to_numpy(), some["doc2"].to_numpy()
    entry = np.zeros(len(one), np.int64)
    if len(moments) > 1:
        _, newest, _, _ = newcomers(one, other, ranks)
        entry = np.searchsorted(np.array(moments) * LEVELS, newest, side="right")
    nodes = _matrix(some["nodes"].combine_chunks())
    keys = [nodes[:, at] for at in reversed(range(nodes.shape[1]))]
    order = np.lexsort([*keys, some["qid"].to_numpy(), one, other, entry])
    return pa.concat_tables([found.filter(pc.invert(is_shared)), some.take(order)]), cuts


def _matrix(lists: pa.ListArray) -> npt.NDArray[np.int32]:
    """Return lists as the rows of a matrix, filled up with -1."""
    lengths = lists.value_lengths().to_numpy()
    matrix = np.full((len(lists), lengths.max(initial=0)), -1, np.int32)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = lists.flatten().to_numpy()
    return matrix
