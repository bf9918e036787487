"""The interface of executors, and their results as a push takes them in.

Executors number the documents that they get from `FIRST` on, in each run of a process anew; an
engine numbers those that it accepts.  A document of an earlier run has the engine's number on
executors, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from feeds.documents import DocumentColumns
from templates.columns import Column, among
from templates.model.result_bound import Cut
from templates.processor import FOUND
from xscl.documents.document_log import AcceptedDocuments
from xscl.engine.state import EngineState
from xscl.errors import XsclError
from xscl.inspection.replay import witnesses
from xscl.planning.planned_subscriptions import is_leaf
from xscl.shredding.arrivals import Arrivals, RemoteBindings
from xscl.store.queries.documents import documents_from
from xscl.store.queries.tables import LEVELS

FIRST = 1 << 40
"""The number of the first document of a run; above all numbers of an engine."""

RESULTS = FOUND.append(pa.field("ts", pa.int64()))
"""Results of executors: doc1 and doc2 are numbers on executors, `ts` is the time of the older
document in ticks."""


class ExecutorResults(NamedTuple):
    """The outcome of documents on executors, where they have the `numbers`, ascending.

    `elsewhere` has their witnesses if executors shredded them, `results` the joins that they
    complete (`RESULTS`), `cuts` pairs of a qid and a document's number with too many results.
    Documents at the indexes in `poison` were not read.
    """

    numbers: Column
    elsewhere: RemoteBindings | None
    results: pa.Table
    cuts: Sequence[tuple[int, int]]
    poison: frozenset[int] = frozenset()


class DocumentsUnderWay(XsclError):
    """Executors have documents for so long that a registration does not wait for them."""

    code = "busy"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"nothing was changed: documents are on Spark's executors for more than {seconds:g} s",
            hint="try again later; 'xscl status' says whether executors are there",
        )


class Executors(Protocol):
    """The evaluator of stage 1, and of rows of R_T with a designated equality."""

    def between(self) -> AbstractContextManager[None]:
        """Return the context in which a batch is evaluated and committed; entering it raises
        ExecutorsAway."""

    def changing(self) -> AbstractContextManager[None]:
        """Return a context in which no documents are on executors: plans may change in it.

        Raises DocumentsUnderWay.
        """

    def evaluate(
        self,
        segments: Sequence[int],
        documents: DocumentColumns,
        poison: Collection[int] = frozenset(),
    ) -> ExecutorResults:
        """Evaluate the documents of segments of the spool; the caller is in `between`.

        Documents at the indexes in `poison` are not read.  Segments that were evaluated and then
        not consumed may come again, and have the same outcome.
        """

    def reason_here(self, qid: int) -> str:
        """Return why the engine evaluates a row of R_T itself; the caller has the engine's lock."""

    def forget(self) -> None:
        """Delete all files with documents and plans on executors; the caller is in `changing`."""

    def stop(self) -> None:
        """End a running evaluation; from any thread or signal handler."""


class NumberedDocuments(NamedTuple):
    """Accepted documents by their numbers on executors, which are in order, and their times."""

    numbers: Column
    docs: Column
    ts: Column

    @classmethod
    def of(cls, numbers: Column, accepted: AcceptedDocuments) -> NumberedDocuments:
        """Return the accepted documents of a batch, given the `numbers` of all on executors."""
        return cls(numbers[accepted.places], accepted.arrivals.docs, accepted.arrivals.ts)

    def chosen(self, mask: Column) -> NumberedDocuments:
        """Return the documents for which a mask is True."""
        return NumberedDocuments(self.numbers[mask], self.docs[mask], self.ts[mask])

    def documents(self, numbers: Column) -> Column:
        """Return the engine's numbers for numbers on executors; -1 for unknown ones."""
        if not len(self.numbers):
            return np.full(len(numbers), -1)
        at = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return np.where(self.numbers[at] == numbers, self.docs[at], -1)


_NONE = np.empty(0, np.int64)


class Numbering:
    """The documents of an engine by their numbers on executors; guarded by the engine's lock."""

    def __init__(self) -> None:
        self._known = NumberedDocuments(_NONE, _NONE, _NONE)

    def add(self, accepted: NumberedDocuments, oldest: int) -> None:
        """Add the documents of a transaction that ends, and remove those from before `oldest`.

        They are added before the commit, which may succeed although it is reported as failed.
        """
        known = self._known.chosen(self._known.ts >= oldest)
        self._known = NumberedDocuments(*map(np.concatenate, zip(known, accepted, strict=True)))

    def documents(self, numbers: Column) -> Column:
        """Return the engine's numbers for numbers on executors; -1 for unknown ones."""
        return np.where(numbers < FIRST, numbers, self._known.documents(numbers))

    def results(
        self,
        state: EngineState,
        evaluated: ExecutorResults,
        newcomers: NumberedDocuments,
        arrivals: Arrivals,
    ) -> tuple[pa.Table, list[Cut]]:
        """Return results of executors (`FOUND`) that arrivals complete, and cuts.

        Executors also evaluate documents that are not accepted, and rows of R_T that were removed
        meanwhile.  They know only the clock before the batch, so they may find more than the
        documents' own clocks allow; these results are dropped.
        """
        elsewhere = state.registry.elsewhere.rows
        if len(newcomers.numbers):  # later ones were not committed
            self._known = self._known.chosen(self._known.numbers < newcomers.numbers[0])

        def documents(numbers: Column) -> Column:
            return np.maximum(self.documents(numbers), newcomers.documents(numbers))

        rows = evaluated.results
        qids = rows["qid"].to_numpy().astype(np.int64)
        ones, others = (documents(rows[name].to_numpy()) for name in ("doc1", "doc2"))
        newest = np.maximum(ones, others)
        stays = among(qids, elsewhere) & (np.minimum(ones, others) >= 0)
        stays &= among(newest, arrivals.docs)
        of_rows, place = np.unique(qids[stays], return_inverse=True)
        keeps = np.array([state.registry.row(qid).keep for qid in of_rows.tolist()], np.int64)
        at = np.searchsorted(arrivals.docs, newest[stays])
        # A partner that is older than the row's retention may be forgotten here, so it is dropped
        # before versions are looked up.
        near = arrivals.clocks[at] - rows["ts"].to_numpy()[stays] <= keeps[place]
        stays[stays] = near
        stays[stays] = ~_are_versions(state, arrivals, at[near], np.minimum(ones, others)[stays])
        columns = {name: rows[name].filter(pa.array(stays)) for name in ("qid", "nodes")}
        columns |= {"doc1": pa.array(ones[stays]), "doc2": pa.array(others[stays])}
        found = pa.table(columns).select(FOUND.names).cast(FOUND)
        cuts = []
        for qid, number in evaluated.cuts:
            (doc,) = documents(np.array([number])).tolist()
            if among(np.array([qid]), elsewhere).any() and among(np.array([doc]), arrivals.docs):
                cuts.append(Cut(qid, doc * LEVELS))
        return _in_order(found), cuts


def _in_order(found: pa.Table) -> pa.Table:
    """Return results in their order, by doc2, doc1, qid, and then the nodes."""
    nodes = found["nodes"].combine_chunks()
    starts, flat = nodes.offsets.to_numpy(), np.append(nodes.flatten().to_numpy(), 0)
    most = int(np.diff(starts).max(initial=0))
    # All results of a qid have as many nodes: what is read behind those decides nothing.
    columns = [flat[np.minimum(starts[:-1] + at, len(flat) - 1)] for at in reversed(range(most))]
    keys = [*columns, *(found[name].to_numpy() for name in ("qid", "doc1", "doc2"))]
    return found.take(pa.array(np.lexsort(keys)))


def _are_versions(state: EngineState, arrivals: Arrivals, at: Column, partners: Column) -> Column:
    """Return a mask of the partners that are earlier versions of the arrivals at indexes `at`."""
    bases = arrivals.bases[at]
    again = bases != arrivals.docs[at]
    stored = state.documents.stored(set(partners[again].tolist()))
    found: Column = again.copy()
    pairs = zip(bases[again].tolist(), partners[again].tolist(), strict=True)
    found[again] = [stored[partner].base == base for base, partner in pairs]
    return found


def recall(state: EngineState, qids: Iterable[int]) -> None:
    """Withdraw rows of R_T from executors: the engine evaluates them from now on.

    The witnesses of kept documents for them are added to the join state.
    """
    qids = sorted(qids)
    docs = documents_from(state.store, state.oldest_elsewhere())
    needed = {pair for qid in qids for pair in state.registry.row(qid).pairs}
    numbers = sorted(needed - state.dataflow.pairs.refused.keys())
    pairs = [pair for pair in map(state.registry.pairs.describe, numbers) if not is_leaf(pair)]
    state.registry.withdraw(qids)
    for some in list(witnesses(state.store, pairs, docs)):
        state.processor.state.replace(some)
