"""The plan of a service for its executors: what they evaluate, and what they shred only.

A row of R_T is evaluated on executors if they can (`designation`) and have all earlier documents
that belong to it.  No subscription may publish a stream that it reads: published documents never
reach executors.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import pyarrow as pa

from templates.registry import DesignatedRows, Registry
from xscl.engine.executors import recall
from xscl.engine.state import EngineState
from xscl.engine.transactions import Transactions
from xscl.shredding.arrivals import Text
from xscl.shredding.automaton.pattern import stream_of
from xscl.spark.designation import designated, reason_against_row
from xscl.spark.plan_files import PlanFiles
from xscl.store.queries.documents import documents_with_texts, kept_rows, latest_document

SAMPLE = 500
"""The number of newest documents from which the designated equality of a join is chosen."""


class _Seen(NamedTuple):
    """The state of an engine that the last version of a plan describes."""

    registry: Registry | None
    elsewhere: DesignatedRows | None
    subscribed: tuple[int, int] | None


class ServicePlan:
    """Writes the plan of an engine; used by one thread, which excludes registrations.

    `is_behind` says that executors could evaluate more rows if they had all kept documents again.
    """

    def __init__(self, transactions: Transactions, files: PlanFiles) -> None:
        self.is_behind = False
        self._transactions = transactions
        self._files = files
        self._version = 0
        self._seen = _Seen(None, None, None)
        self._rows: dict[int, bool] = {}  # qids in the files; True: executors evaluate the row
        self._streams: dict[int, frozenset[str]] = {}  # by qid; of rows that executors can evaluate

    def update(self, *, is_rebuild: bool = False) -> int:
        """Choose where new rows of R_T are evaluated, and return the version of the plan.

        A plan that has changed is written.  With `is_rebuild`, executors get all kept documents
        next.
        """
        state = self._transactions.state
        seen = self._seen
        is_known = (
            seen.elsewhere is state.registry.elsewhere
            and seen.subscribed == state.subscriptions.state
        )
        if is_rebuild or not is_known:
            # A registry that was loaded again may reuse qids.
            known = self._rows if seen.registry is state.registry else {}
            self._divide(known.keys(), is_rebuild=is_rebuild)
            self._write()
            state = self._transactions.state
            registry = state.registry
            self._seen = _Seen(registry, registry.elsewhere, state.subscriptions.state)
        return self._version

    def is_current(self) -> bool:
        """Return True if the last version evaluates each row of R_T where the engine's state does,
        and no row on executors has to leave them.
        """
        with self._transactions.committed() as state:
            elsewhere = set(state.registry.elsewhere.rows.tolist())
            published = set(state.subscriptions.published())
            stays = all(self._streams[qid].isdisjoint(published) for qid in elsewhere)
            return stays and self._rows == {qid: qid in elsewhere for qid in _evaluated(state)}

    def reason_here(self, qid: int) -> str:
        """Return why a row of R_T is not evaluated on executors; the caller has the lock."""
        state = self._transactions.state
        reason = reason_against_row(state.registry, qid)
        if reason is not None:
            return reason
        if not set(state.subscriptions.published()).isdisjoint(_streams(state, qid)):
            return "it reads a stream that a subscription publishes"
        if qid not in self._rows:
            return "the next documents decide it"
        return "it joins documents that they have not; it moves there when they begin again"

    # -- Division --------------------------------------------------------------------------

    def _divide(self, known: Set[int], *, is_rebuild: bool) -> None:
        """Designate equalities of new rows, and recall rows that must leave executors."""
        with self._transactions.change() as state:
            registry = state.registry
            # Rows whose history is still being read, and others that see earlier documents.
            pending, older = set[int](), set[int]()
            latest = latest_document(state.store)
            for subscription in state.subscriptions:
                if subscription.number in state.subscriptions.backfills:
                    pending.update(state.dataflow.subscribed.qids(subscription))
                elif subscription.since <= latest:
                    older.update(state.dataflow.subscribed.qids(subscription))
            self._examine(state, known)
            published = set(state.subscriptions.published())
            able = {qid for qid, read in self._streams.items() if read.isdisjoint(published)}
            elsewhere = set(registry.elsewhere.rows.tolist())
            if elsewhere - able:
                recall(state, elsewhere - able)
            able -= elsewhere | pending
            new = able if is_rebuild else able - known - older
            registry.designate(designated(registry, sorted(new), lambda: _sample(state)))
            self.is_behind = len(able) > len(new)
            if is_rebuild:
                forget_witnesses(state)

    def _examine(self, state: EngineState, known: Set[int]) -> None:
        """Find the new rows that executors can evaluate, and forget those that are gone."""
        rows = _evaluated(state)
        self._streams = {qid: self._streams[qid] for qid in self._streams.keys() & rows & known}
        for qid in rows - known:
            if reason_against_row(state.registry, qid) is None:
                self._streams[qid] = _streams(state, qid)

    def _write(self) -> None:
        with self._transactions.committed() as state:
            elsewhere = set(state.registry.elsewhere.rows.tolist())
            rows = {qid: qid in elsewhere for qid in _evaluated(state)}
            own = sorted(rows.keys() - elsewhere)
            witness = pa.table({"qid": pa.array(own, pa.int32())})
            self._version = self._files.write(state.registry, rows, {"witness": witness})
            self._rows = rows


def _evaluated(state: EngineState) -> set[int]:
    """Return the qids of the rows of R_T that this release does not refuse."""
    refused = state.dataflow.pairs.refused.keys()
    return {qid for qid, row in state.registry.rows().items() if refused.isdisjoint(row.pairs)}


def _streams(state: EngineState, qid: int) -> frozenset[str]:
    """Return the streams that a row of R_T reads."""
    pairs = map(state.registry.pairs.describe, state.registry.row(qid).pairs)
    return frozenset(stream_of(pair.first) for pair in pairs)


def forget_witnesses(state: EngineState) -> None:
    """Delete the witnesses that only rows on executors would join."""
    registry = state.registry
    elsewhere = set(registry.elsewhere.rows.tolist())
    here = {
        pair for qid, row in registry.rows().items() if qid not in elsewhere for pair in row.pairs
    }
    there = {pair for qid in elsewhere for pair in registry.row(qid).pairs}
    state.processor.state.forget_pairs(sorted(there - here))
    state.processor.state.reload()


def _sample(state: EngineState) -> list[Text]:
    """Return the newest documents, as far as they are kept."""
    end = state.documents.next
    docs = documents_with_texts(state.store, first=end - SAMPLE, before=end)
    rows = kept_rows(state.store, docs)
    columns = (rows[name].to_pylist() for name in ("streams", "xml"))
    return [(tuple(streams), xml) for streams, xml in zip(*columns, strict=True)]
