"""The join processor: all registered joins over one batch of witnesses.

Hong 2009, Algorithms 2 and 4: store the batch, compute the views, evaluate
the conjunctive query of each template that can fire, and forget what no later
document can meet.  The caller owns the storage and its transactions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from templates.batch_join import Apart, BatchJoin, Pushed
from templates.columns.columns import Column, among
from templates.evaluators import ConjunctiveQueries, SmallBatch
from templates.model.join_graph import INFINITE
from templates.model.relations import BINDINGS, TIMES, VALUES, Witnesses
from templates.model.result_bound import RESULTS, Cut, bounded
from templates.registry.registry import UNDESIGNATED, Registry
from templates.state.join_state import ViewCache
from templates.state.stored_state import StoredState
from templates.storage import Storage

SMALL_BATCH = 64
"""Documents that are joined at once up to which NumPy evaluates templates' queries, not DuckDB."""


class Processor:
    """Stage 2: from the witnesses of a batch to the rows of every registered join.

    The queries run over R_vj, made from R_L and R_R (Algorithm 4).
    `budget` is how many bytes of the join state may be in memory; None: all of it.
    A join has at most `most` answers with an arriving document, or none (`result_bound`).
    """

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
        self._state = StoredState(storage, registry, budget)
        self._queries = ConjunctiveQueries()
        self._small_batch = SmallBatch(self._queries)
        self._latest: int | None = None  # time of the latest document that was joined
        nothing = Witnesses(*(schema.empty_table() for schema in (BINDINGS, TIMES, VALUES)))
        self._batch = self._begin(nothing, None)[0]

    def template_of(self, qid: int) -> int:
        """Return the number of the template of a registered join."""
        return self._registry.row(qid).template

    def are_stored(self, pairs: Column) -> Column:
        """Return which pairs of variables have bindings that the join state keeps."""
        return self._registry.retention.kept(pairs)

    @property
    def memory(self) -> ViewCache:
        """The join state in memory."""
        return self._state.memory

    @property
    def bytes_in_memory(self) -> int:
        """The bytes of the join state in memory; thread-safe."""
        return self._state.nbytes

    @property
    def result_rows(self) -> dict[str, int]:
        """The number of rows of R_out by evaluator since the start."""
        return {"duckdb": self._queries.made, "smallbatch": self._small_batch.made}

    @property
    def pushed(self) -> Pushed:
        """The input and output of the last batch; to be read between two pushes."""
        batch = self._batch
        return Pushed(batch.bindings, batch.documents.times, batch.out, batch.made)

    def reload(self) -> int:
        """Reload the join state after a rollback of the caller's; return the number of its rows."""
        self._state.reload()
        return len(self.memory)

    # -- One batch -------------------------------------------------------------------------

    def join(self, witnesses: Witnesses, apart: Apart | None = None) -> tuple[pa.Table, list[Cut]]:
        """Store a batch; return what it completes and what is cut: see `BatchJoin.found`.

        `nodes` are the bindings of the template's output nodes in its order;
        rows are distinct.  doc1 and doc2 are the same for a join of one side.
        Rows of R_T with a designated equality are evaluated elsewhere.
        `apart` says which pairs of documents may be joined; None: all.
        Raises EvaluationError; the caller then rolls back.
        """
        try:
            return self._join(witnesses, apart)
        finally:
            if self._queries.lent:
                self._queries.release()

    def _join(self, witnesses: Witnesses, apart: Apart | None) -> tuple[pa.Table, list[Cut]]:
        batch, usable = self._begin(witnesses, apart)
        self._batch, times = batch, witnesses.times
        self._state.add(batch.bindings, times, batch.columns, batch.documents.columns)
        batch.filter()
        back = bool(times.num_rows) and self._looks_back(times)
        batch.join(usable, back=back)
        self._note(times)
        found, cuts = batch.found()
        elsewhere = self._registry.elsewhere.rows
        if len(elsewhere):  # the batch may have some of their pairs, which others have, too
            here = ~among(found["qid"].to_numpy().astype(np.int64), elsewhere)
            found = found.filter(pa.array(here))
            cuts = [one for one in cuts if self._registry.lead(one.qid) == UNDESIGNATED]
        return found, cuts

    def bounded(self, found: pa.Table, cuts: Sequence[Cut]) -> tuple[pa.Table, list[Cut]]:
        """Return the results of several batches within the bound, and what exceeds it.

        `found` has the columns of groups: each batch counts as a share of what arrives.
        """
        return bounded(found, self.most, cuts)

    def keep(self, witnesses: Witnesses) -> None:
        """Replace the witnesses of earlier documents in the join state.

        They are complete for the pairs of variables and the documents that they have.
        """
        self._state.replace(witnesses)
        self._note(witnesses.times)

    def _begin(self, witnesses: Witnesses, apart: Apart | None) -> tuple[BatchJoin, Column]:
        """Return a batch to be joined, and which of its bindings have values met before."""
        bindings, usable = self._state.intern(witnesses)
        small = witnesses.times.num_rows <= SMALL_BATCH
        return BatchJoin(
            self._registry,
            self._state,
            bindings,
            witnesses.times,
            evaluator=self._small_batch if small else self._queries,
            of_one=self._small_batch,
            most=self.most,
            apart=apart,
        ), usable

    def _note(self, times: pa.Table) -> None:
        """Note the time of the latest document."""
        if times.num_rows:
            self._latest = max(int(times["ts"].to_numpy().max()), self._latest or -INFINITE)

    def _looks_back(self, times: pa.Table) -> bool:
        """Return True if a batch document can be the earlier side of a kept one."""
        if self._registry.retention.looks_back:
            return True
        return self._latest is None or bool(times["ts"].to_numpy().min() < self._latest)

    def ranks(self, docs: Column) -> Column:
        """Return the places of documents in the order of arrival; see `BatchDocuments`."""
        return self._batch.documents.ranks(docs)

    # -- Forgetting ------------------------------------------------------------------------

    def evict(self, clock: int) -> bool:
        """Evict the state that no document arriving from `clock` on can join.

        Return True if any was evicted.  Nothing happens until an eighth of the state is expected
        to have expired, so that deletions cost in proportion to what they delete.
        """
        return self._state.evict(clock)

    def forget_pairs(self, pairs: Sequence[int]) -> None:
        """Delete the witnesses of unused pairs."""
        self._state.forget_pairs(pairs)
