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
    """The outcome of documents that executors evaluated.

    `numbers` are the numbers that executors gave all these documents, ascending.  `elsewhere` has
    their witnesses, None if executors did not shred them.  `results` are the joins that the
    documents complete (`RESULTS`).  `cuts` are pairs of a qid and the number on executors of a
    document that has too many results of it.  `poison` has the indexes of documents that were not
    read; they have numbers, but neither witnesses nor results.
    """

    numbers: Column
    elsewhere: RemoteBindings | None
    results: pa.Table
    cuts: Sequence[tuple[int, int]]
    poison: frozenset[int] = frozenset()


class DocumentsUnderWay(XsclError):
    """A change of the plan was given up: documents were on executors for too long (`seconds`)."""

    code = "busy"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"nothing was changed: documents are on Spark's executors for more than {seconds:g} s",
            hint="try again later; 'xscl status' says whether executors are there",
        )


class Executors(Protocol):
    """The executors of Spark that serve one engine: they shred documents and evaluate joins.

    The joins are the rows of R_T with a designated equality: documents are divided by its values.
    """

    def between(self) -> AbstractContextManager[None]:
        """Return the context in which a batch is evaluated and then committed.

        Entering it raises ExecutorsAway if no executors are available.
        """

    def changing(self) -> AbstractContextManager[None]:
        """Return a context in which executors evaluate no documents: the plan may change in it.

        Entering it waits for the documents that are there; it raises DocumentsUnderWay.
        """

    def evaluate(
        self,
        segments: Sequence[int],
        documents: DocumentColumns,
        poison: Collection[int] = frozenset(),
    ) -> ExecutorResults:
        """Evaluate `documents`, those of some segments of the spool; the caller is in `between`.

        Documents at the indexes in `poison` are not read.  Segments whose results were not
        committed may be given again, and have the same outcome.
        """

    def reason_here(self, qid: int) -> str:
        """Return in words why the engine evaluates the row of R_T of a qid itself.

        The caller holds the engine's lock.
        """

    def forget(self) -> None:
        """Delete all files of executors, with documents, plans and state.

        The caller is in `changing`.
        """

    def stop(self) -> None:
        """End a running `evaluate`; may be called from any thread and from a signal handler."""


class NumberedDocuments(NamedTuple):
    """Accepted documents in three columns, a row for each, ascending by `numbers`.

    `numbers` are the numbers on executors, `docs` those of the engine, `ts` the times in ticks.
    """

    numbers: Column
    docs: Column
    ts: Column

    @classmethod
    def of(cls, numbers: Column, accepted: AcceptedDocuments) -> NumberedDocuments:
        """Return the accepted documents of a batch.

        `numbers` are the numbers on executors of all its documents, also of those not accepted.
        """
        return cls(numbers[accepted.places], accepted.arrivals.docs, accepted.arrivals.ts)

    def chosen(self, mask: Column) -> NumberedDocuments:
        """Return the documents in whose rows a mask is True."""
        return NumberedDocuments(self.numbers[mask], self.docs[mask], self.ts[mask])

    def documents(self, numbers: Column) -> Column:
        """Return the engine's number for each number on executors; -1 for an unknown one."""
        if not len(self.numbers):
            return np.full(len(numbers), -1)
        at = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return np.where(self.numbers[at] == numbers, self.docs[at], -1)


_NONE = np.empty(0, np.int64)


class Numbering:
    """Translates numbers of documents on executors to numbers of the engine.

    It keeps the committed documents of this process that may still be joined.  Guarded by the
    engine's lock.
    """

    def __init__(self) -> None:
        self._known = NumberedDocuments(_NONE, _NONE, _NONE)

    def add(self, accepted: NumberedDocuments, oldest: int) -> None:
        """Add the documents of a transaction that ends; remove those of times before `oldest`.

        They are added before the commit, which may succeed although it is reported as failed.
        """
        known = self._known.chosen(self._known.ts >= oldest)
        self._known = NumberedDocuments(*map(np.concatenate, zip(known, accepted, strict=True)))

    def documents(self, numbers: Column) -> Column:
        """Return the engine's number for each number on executors; -1 for an unknown one.

        A number below `FIRST` is the engine's own.
        """
        return np.where(numbers < FIRST, numbers, self._known.documents(numbers))

    def results(
        self,
        state: EngineState,
        evaluated: ExecutorResults,
        newcomers: NumberedDocuments,
        arrivals: Arrivals,
    ) -> tuple[pa.Table, list[Cut]]:
        """Return the results (`FOUND`) and cuts of executors that are valid for a transaction.

        Both have the engine's numbers.  `arrivals` are the documents of the transaction, and
        `newcomers` their numbers on executors.  Results are dropped if a document was not accepted,
        or the row of R_T was removed meanwhile.  A document is not joined with earlier versions of
        it, nor beyond the row's retention at its own clock: executors know only the clock before
        the batch.
        """
        elsewhere = state.registry.elsewhere.rows
        if len(newcomers.numbers):  # numbers from here on are of a transaction that was rolled back
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
        # The engine may have forgotten a partner that is older than the retention of its row of
        # R_T.  So such results are dropped before the versions of partners are looked up.
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
    """Return results (`FOUND`) sorted by doc2, then doc1, qid and nodes."""
    nodes = found["nodes"].combine_chunks()
    starts, flat = nodes.offsets.to_numpy(), np.append(nodes.flatten().to_numpy(), 0)
    most = int(np.diff(starts).max(initial=0))
    # All results of one qid have equally many nodes.  What is read behind the nodes of a shorter
    # list decides nothing, because the qid comes before the nodes.
    columns = [flat[np.minimum(starts[:-1] + at, len(flat) - 1)] for at in reversed(range(most))]
    keys = [*columns, *(found[name].to_numpy() for name in ("qid", "doc1", "doc2"))]
    return found.take(pa.array(np.lexsort(keys)))


def _are_versions(state: EngineState, arrivals: Arrivals, at: Column, partners: Column) -> Column:
    """Return a mask of the `partners` that are earlier versions of the documents they joined.

    `partners` are numbers of documents; the document of each is the arrival at its index in `at`.
    """
    bases = arrivals.bases[at]
    again = bases != arrivals.docs[at]
    stored = state.documents.stored(set(partners[again].tolist()))
    found: Column = again.copy()
    pairs = zip(bases[again].tolist(), partners[again].tolist(), strict=True)
    found[again] = [stored[partner].base == base for base, partner in pairs]
    return found


def recall(state: EngineState, qids: Iterable[int]) -> None:
    """Make the engine evaluate rows of R_T that executors have evaluated.

    The witnesses that these rows need are found in the kept documents that executors may join, and
    are added to the join state.
    """
    qids = sorted(qids)
    docs = documents_from(state.store, state.oldest_elsewhere())
    needed = {pair for qid in qids for pair in state.registry.row(qid).pairs}
    numbers = sorted(needed - state.dataflow.pairs.refused.keys())
    pairs = [pair for pair in map(state.registry.pairs.describe, numbers) if not is_leaf(pair)]
    state.registry.withdraw(qids)
    for some in list(witnesses(state.store, pairs, docs)):
        state.processor.state.replace(some)
