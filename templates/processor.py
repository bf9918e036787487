"""The join processor: all registered joins over one batch of witnesses.

Hong 2009, Algorithms 2 and 4: store the batch, compute the views, evaluate
the conjunctive query of each template that can fire, and forget what no later
document can meet.  The caller owns the storage and its transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from templates.batch_join import Apart, BatchJoin, Pushed
from templates.columns.columns import Column, among
from templates.evaluators import ConjunctiveQueries, SmallBatch
from templates.model.join_graph import INFINITE
from templates.model.relations import TIMES, Witnesses
from templates.model.result_bound import RESULTS, Cut, bounded
from templates.registry.registry import UNDESIGNATED, Registry
from templates.state.join_state import StoredState
from templates.state.value_joins import BatchDocuments
from templates.storage import RELATIONS, Storage

SMALL_BATCH = 64
"""Documents that are joined at once up to which NumPy evaluates templates' queries, not DuckDB."""


class JoinedBatch(NamedTuple):
    """The results of a batch (`FOUND`), the joins over the bound, and the documents with bindings
    that are kept, ascending."""

    found: pa.Table
    cuts: list[Cut]
    stored: Column


class Processor:
    """Stage 2: from the witnesses of a batch to the rows of every registered join.

    The queries run over R_vj, made from R_L and R_R (Algorithm 4).
    `budget` is how many bytes of the join state may be in memory; None: all of it.
    A join has at most `most` answers with an arriving document, or none (`result_bound`).
    `pushed` are the input and output of the last batch, to be read between two pushes, `documents`
    its documents; `state` is the join state, of which the caller evicts what nothing needs.
    """

    evaluation = BatchJoin
    documents: BatchDocuments

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        *,
        budget: int | None = None,
        most: int = RESULTS,
    ) -> None:
        self.most = most
        self._registry = registry
        self.state = StoredState(storage, registry, budget)
        self._queries = ConjunctiveQueries()
        self._small_batch = SmallBatch(self._queries)
        self.pushed = Pushed(RELATIONS["binding"].empty_table(), TIMES.empty_table(), {}, {})

    def template_of(self, qid: int) -> int:
        """Return the number of the template of a registered join."""
        return self._registry.row(qid).template

    @property
    def result_rows(self) -> dict[str, int]:
        """The number of rows of R_out by evaluator since the start."""
        return {"duckdb": self._queries.made, "smallbatch": self._small_batch.made}

    # -- One batch -------------------------------------------------------------------------

    def join(self, witnesses: Witnesses, apart: Apart | None = None) -> JoinedBatch:
        """Store a batch; return what it completes and what is cut: see `BatchJoin.found`.

        `nodes` are the bindings of the template's output nodes in its order;
        rows are distinct.  doc1 and doc2 are the same for a join of one side.
        Rows of R_T with a designated equality are evaluated elsewhere.
        `apart` says which pairs of documents may be joined; None: all.
        Raises EvaluationError; the caller then rolls back.
        """
        times = witnesses.times
        bindings, usable = self.state.intern(witnesses)
        batch = self.evaluation(
            self._registry,
            self.state,
            bindings,
            times,
            evaluator=self._small_batch if times.num_rows <= SMALL_BATCH else self._queries,
            of_one=self._small_batch,
            most=self.most,
            apart=apart,
        )
        back = self._looks_back(times)
        stored = self.state.add(bindings, times, batch.columns, batch.documents.columns)
        try:
            batch.filter()
            batch.join(usable, back=back)
            found, cuts = batch.found()
        finally:
            if self._queries.lent:
                self._queries.release()
        self.pushed = Pushed(bindings, times, batch.out, batch.made)
        self.documents = batch.documents
        elsewhere = self._registry.elsewhere.rows
        if len(elsewhere):  # the batch may have some of their pairs, which others have, too
            here = ~among(found["qid"].to_numpy().astype(np.int64), elsewhere)
            found = found.filter(pa.array(here))
            cuts = [cut for cut in cuts if self._registry.lead(cut.qid) == UNDESIGNATED]
        return JoinedBatch(found, cuts, stored)

    def _looks_back(self, times: pa.Table) -> bool:
        """Return True if a batch document can be the earlier side of a kept one."""
        latest = INFINITE if self._registry.retention.looks_back else self.state.newest.time
        return bool((times["ts"].to_numpy() < latest).any())

    def bounded(self, found: pa.Table, cuts: Sequence[Cut]) -> tuple[pa.Table, list[Cut]]:
        """Return the results of several batches within the bound, and what exceeds it.

        `found` has the columns of groups: each batch counts as a share of what arrives.
        """
        return bounded(found, self.most, cuts)
