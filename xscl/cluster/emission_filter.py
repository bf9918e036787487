"""The emission filter: the results that a cell of the grid answers with.

A document whose designated variable binds several nodes is in several cells of a group, and two
such documents may meet in each of them.  A result belongs to the cell to which its own value
hashes; the others drop it.  This comes after the joins, when the bindings of the result are known.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.cluster.designated_joins import equalities
from xscl.cluster.grid import share_of
from xscl.engine.state import EngineState
from xscl.shredding.nodes.tree import string_value


class EmissionFilter:
    """The results of one cell of a group.

    `by` are the definitions of the designated join of each subscription of the grid, by its key;
    `alone` are the numbers of new documents all of whose values hash to this cell.
    """

    def __init__(
        self,
        share: int,
        width: int,
        by: Mapping[str, tuple[str, str]],
        alone: npt.NDArray[np.int64],
    ) -> None:
        self._share, self._width, self._by = share, width, by
        self._alone = alone

    def own(self, state: EngineState, found: pa.Table) -> pa.Table:
        """Return the results (`FOUND`) of a transaction that belong to this cell.

        Where subscriptions with the same row have other designated joins, one is enough.
        """
        places = self._places(state, found["qid"].unique().to_pylist())
        one, other = found["doc1"].to_numpy(), found["doc2"].to_numpy()
        is_known = np.isin(one, self._alone) | np.isin(other, self._alone)
        is_on_grid = np.isin(found["qid"].to_numpy(), list(places))
        (asked,) = np.nonzero(is_on_grid & ~is_known)
        if not len(asked):
            return found
        new = {int(doc) for arrivals in state.arrived for doc in arrivals.docs}
        shares: dict[tuple[int, int], int] = {}

        def share(doc: int, node: int) -> int:
            known = shares.get((doc, node))
            if known is None:
                value = string_value(state.documents.tree(doc).items[node])
                known = shares[doc, node] = share_of(value, self._width)
            return known

        stays = np.ones(found.num_rows, np.bool_)
        rows = found.take(asked).to_pylist()
        for at, row in zip(asked.tolist(), rows, strict=True):
            side = int(row["doc2"] in new)  # an earlier document may have no text here
            doc = row["doc2"] if side else row["doc1"]
            stays[at] = any(
                share(doc, row["nodes"][ends[side]]) == self._share for ends in places[row["qid"]]
            )
        return found.filter(pa.array(stays))

    def _places(self, state: EngineState, qids: list[int]) -> dict[int, list[tuple[int, int]]]:
        """Return the places of designated nodes in the results of joins of the grid."""
        found: dict[int, list[tuple[int, int]]] = {}
        for qid in qids:
            for one in state.subscriptions.by_qid.get(qid, ()):
                if (by := self._by.get(one.key)) is not None:
                    each = equalities(state.registry, one)
                    found.setdefault(qid, []).extend(e.places for e in each if e[:2] == by)
        return found
