"""The plan of a service for its executors: what they evaluate, and what they shred only.

A row of R_T is evaluated on executors if they can (`designation`), if no past belongs to it that
they do not have, and if no subscription publishes a stream that it reads: what is published never
reaches them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from xscl.documents.results import Subscription
from xscl.engine.elsewhere import recall
from xscl.engine.state import EngineState
from xscl.engine.transactions import Transactions
from xscl.language.parser import parse_block
from xscl.shredding.remote_bindings import Text
from xscl.spark.catalog import WHOLE_AFTER
from xscl.spark.designation import designated, reason_against_row
from xscl.spark.plan_files import PlanFiles
from xscl.store.queries.past import kept_rows
from xscl.store.queries.texts import documents_with_texts

SAMPLE = 500
"""The newest documents, from which the designated equality of a join is chosen."""


class ServicePlan:
    """Writes the plan of an engine; used by one thread, which excludes registrations."""

    def __init__(self, transactions: Transactions, files: PlanFiles) -> None:
        self._transactions = transactions
        self._files = files
        self._known: object = None  # changes with each registration and removal
        self._rows: dict[int, bool] = {}  # in the files; True: executors evaluate the row
        self._version = self._changes = 0
        self._first: int | None = None  # the first document that executors have not had

    def update(self) -> int:
        """Divide new rows of R_T, write the plan if it has changed, and return its version."""
        state = self._transactions.state
        if self._known != (state.subscriptions.state, state.registry.elsewhere):
            if state.registry.rows().keys() != self._rows.keys():
                self._divide()
            self._write()
            state = self._transactions.state
            self._known = state.subscriptions.state, state.registry.elsewhere
        self._first = state.documents.next
        return self._version

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
        return "it has documents that they have not; the next start of the service moves it there"

    # -- Division --------------------------------------------------------------------------

    def _divide(self) -> None:
        """Designate equalities of new rows, and recall rows that executors cannot evaluate more."""
        with self._transactions.change() as state:
            registry = state.registry
            held = {
                qid
                for one in state.subscriptions
                if self._has_past(state, one)
                for qid in state.dataflow.subscribed.qids(one)
            }
            published = set(state.subscriptions.published())
            elsewhere = set(registry.elsewhere.rows.tolist())
            back = {qid for qid in elsewhere if not published.isdisjoint(_streams(state, qid))}
            if back:
                recall(state, back)
            new = registry.rows().keys() - self._rows.keys() - held - elsewhere
            able = [
                qid
                for qid in sorted(new)
                if reason_against_row(registry, qid) is None
                and published.isdisjoint(_streams(state, qid))
            ]
            registry.designate(designated(registry, able, lambda: _sample(state)))
            if self._first is None:  # what is kept of earlier documents goes to the executors
                forget_witnesses(state)

    def _has_past(self, state: EngineState, one: Subscription) -> bool:
        """Return True if a subscription has documents that came before it."""
        if one.number in state.subscriptions.backfills:
            return True
        return self._first is not None and one.since < self._first

    # -- Files -----------------------------------------------------------------------------

    def _write(self) -> None:
        with self._transactions.committed() as state:
            elsewhere = set(state.registry.elsewhere.rows.tolist())
            refused = state.dataflow.pairs.refused.keys()
            rows = {
                qid: qid in elsewhere
                for qid, row in state.registry.rows().items()
                if refused.isdisjoint(row.pairs)
            }
            removed = [qid for qid, where in self._rows.items() if rows.get(qid) != where]
            added = [qid for qid in rows if self._rows.get(qid) != rows[qid]]

            def change(qids: Collection[int]) -> dict[str, pa.Table]:
                own = [qid for qid in qids if not rows[qid]]
                return {**state.registry.stored(sorted(qids)), "witness": _numbers(own)}

            is_whole = not self._version or bool(removed) or self._changes >= WHOLE_AFTER
            self._version += 1
            self._files.write(
                self._version,
                change(added) | {"removed_row": _numbers(removed)},
                change(rows) if is_whole else None,
            )
            self._changes = 0 if is_whole else self._changes + 1
            self._rows = rows


def _numbers(qids: Iterable[int]) -> pa.Table:
    return pa.table({"qid": pa.array(sorted(qids), pa.int32())})


def _streams(state: EngineState, qid: int) -> set[str]:
    """Return the streams that a row of R_T reads."""
    pairs = map(state.registry.pairs.describe, state.registry.row(qid).pairs)
    return {parse_block(pair.first, short=True).stream for pair in pairs}


def forget_witnesses(state: EngineState) -> None:
    """Delete the witnesses that only rows on executors would join."""
    registry = state.registry
    elsewhere = set(registry.elsewhere.rows.tolist())
    here = {
        pair for qid, row in registry.rows().items() if qid not in elsewhere for pair in row.pairs
    }
    there = {pair for qid in elsewhere for pair in registry.row(qid).pairs}
    state.processor.forget_pairs(sorted(there - here))
    state.processor.reload()


def _sample(state: EngineState) -> list[Text]:
    """Return the newest documents, as far as they are kept."""
    end = state.documents.next
    docs = documents_with_texts(state.store, first=end - SAMPLE, before=end)
    rows = kept_rows(state.store, docs)
    columns = (rows[name].to_pylist() for name in ("streams", "xml"))
    return [(tuple(streams), xml) for streams, xml in zip(*columns, strict=True)]
