"""Histories: a subscription that begins with what is kept (docs/decisions/histories.md).

The past is evaluated by a twin of the subscription (`xscl.engine.twin`).  At one position of the
log the subscription takes over the twin's results, and the shared operators take over its state:
the state of joins, composites of inner joins, and rows of operators over time.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_core.plan import Operator
from templates.model.join_graph import INFINITE
from xscl.documents.composite_events import composites_of
from xscl.documents.results import Subscription
from xscl.engine.ingest import append_results
from xscl.engine.state import EngineState
from xscl.engine.twin import Twin
from xscl.store.queries.results import results_of
from xscl.store.queries.rows import RowNumbers, rows_of
from xscl.store.queries.witnesses import documents_of_pairs, pairs_from
from xscl.store.store import Store

DAYS = "30 d"
"""Time between the begin of a history and the engine's clock."""
MATCHES = 1_000
"""Maximum number of matches of a history: the newest ones."""
DOCUMENTS = 100_000
"""Maximum number of documents between the begin of a history and the registration."""
SHARED = 0
"""Binding of operators over time with a history: they are not shared with those without."""


def bound_to(known: Iterable[Subscription], first: int) -> int:
    """Return the binding of the operators over time of a subscription that begins with `first`.

    It shares those of earlier histories, unless one of these began later than it does.
    """
    shorter = any(one.bound_to == SHARED and one.since > first for one in known)
    return first if shorter else SHARED


def adopt_state(
    state: EngineState,
    twin: Twin,
    over_time: Twin,
    subscription: Subscription,
    fresh: Container[Operator],
) -> None:
    """Take over the state of a twin, within a transaction at its clock.

    The `fresh` operators get the state that those of the twin `over_time` have; all others have
    it.  It is the twin in own time if there is one: what feeds held may begin a sequence, or an
    absence that is not due yet.  The witnesses of the kept documents are in the state of joins.
    """
    _keep_composites(state, twin, _numbered(state, twin, subscription))
    entries = (row["entry"] for row in rows_of(over_time.store, "core", order="number"))
    operators = over_time.operators(state, subscription)
    state.dataflow.state_log.adopt(entries, operators, fresh)


def adopt_results(
    state: EngineState,
    twin: Twin,
    own: Twin | None,
    subscription: Subscription,
    past: int,
    most: int | None,
) -> None:
    """Take over the results of a twin, within a transaction at its clock.

    Those up to the position `past` of its log are the past.  Of these the newest `most` are taken,
    if that is set, and of those that the twin `own` has found among what feeds held when first
    polled.
    """
    numbers = _numbered(state, twin, subscription)
    for row in rows_of(twin.store, "cut", order="doc"):
        state.dataflow.cuts.adopt(row["qid"], row["doc"])
    state.dataflow.cuts.save()
    delivered = state.acknowledged == state.position
    found = results_of(twin.store, subscription.qid)
    in_past = pc.less_equal(found["position"], past)
    results = found.drop_columns(["position"])
    _append(state, _newest(results.filter(in_past), most), numbers, subscription)
    if own is not None:
        state.composites.save()  # by which results of the twin are known
        again = _newest(_in_own_time(state, subscription, own), most)
        _append(state, again, _numbered_again(state, own, subscription), subscription)
    if delivered:  # backfilled matches are read by `matches`, not delivered
        state.acknowledged = state.position
    backfilled = state.position
    live = _append(state, results.filter(pc.invert(in_past)), numbers, subscription)
    state.subscriptions.end_backfill(subscription, backfilled, live)
    state.composites.save()
    if subscription.stories:
        state.stories.regroup(subscription.name)
    if subscription.ordered:
        state.registration.save_plan_state()
    state.store.set_progress(
        position=state.position, told=state.acknowledged, next_doc=state.documents.next
    )


def _in_own_time(state: EngineState, subscription: Subscription, own: Twin) -> pa.Table:
    """Return the results of history, except those that others would receive with it."""
    sharers = state.subscriptions.by_qid[subscription.qid]
    others = min((one.since for one in sharers if one is not subscription), default=INFINITE)
    chosen = [
        position
        for position, parts in own.history_matches()
        if min(part.first for part in parts) < others
        and max(part.doc for part in parts) >= state.eviction.oldest
    ]
    found = results_of(own.store, subscription.qid)
    chosen_rows = pc.is_in(found["position"], pa.array(chosen, pa.int64()))
    return found.filter(chosen_rows).drop_columns(["position"])


def _numbered_again(state: EngineState, own: Twin, subscription: Subscription) -> _Numbers:
    """Return the numbers of composites of results in own time, with the clocks of arrival.

    That of a result which exists keeps its number.
    """
    kept = composites_of(state.store, _in_results(state.store, subscription))
    known = {(one.docs, one.nodes, one.values): number for number, one in kept.items()}
    numbers = _Numbers()
    for number, composite in composites_of(
        own.store, _in_results(own.store, subscription).tolist()
    ).items():
        if composite.rank > 0:
            parts = state.documents.stored(set(composite.docs)).values()
            composite = composite._replace(clock=max(parts, key=lambda one: one.rank).clock)
        key = composite.docs, composite.nodes, composite.values
        numbers[number] = known.get(key) or state.composites.number(composite)
    return numbers


class _Numbers(dict[int, int]):
    """Numbers of documents and composites here by those of a twin."""

    def __missing__(self, number: int) -> int:
        return number


def _numbered(state: EngineState, twin: Twin, subscription: Subscription) -> _Numbers:
    """Return the numbers of a twin's composites: known ones keep theirs."""
    leaves = state.dataflow.subscribed.pairs(subscription)
    bound = documents_of_pairs(state.store, leaves)
    kept = np.concatenate((_in_results(state.store, subscription), bound))
    known = {composite: number for number, composite in composites_of(state.store, kept).items()}
    numbers = _Numbers()
    for number, composite in composites_of(twin.store).items():
        numbers[number] = known.get(composite) or state.composites.number(composite)
    return numbers


def _in_results(store: Store, subscription: Subscription) -> RowNumbers:
    """Return the documents and composites in the results of a subscription."""
    found = results_of(store, subscription.qid)
    return np.concatenate((found["doc1"].to_numpy(), found["doc2"].to_numpy()))


def _keep_composites(state: EngineState, twin: Twin, numbers: Mapping[int, int]) -> None:
    """Add the composites of inner joins to the state of joins."""
    kept = pairs_from(twin.store, twin.composites)
    composites = composites_of(twin.store)
    arrived = {
        (numbers[doc], int(state.registry.pairs.describe(pair).second[1:].partition("/")[0])): (
            composites[doc]
        )
        for doc, pair in kept
    }
    if arrived:
        state.dataflow.keep([(*key, composite) for key, composite in arrived.items()])


def _newest(found: pa.Table, most: int | None) -> pa.Table:
    return found if most is None else found.slice(max(0, found.num_rows - most))


def _append(
    state: EngineState, found: pa.Table, numbers: Mapping[int, int], subscription: Subscription
) -> list[int]:
    """Store results of a twin, except those that exist; return the positions of these.

    They are those after the registration of the subscription.  Results whose documents all precede
    the oldest with kept matches are omitted: subscriptions that share them may have received them.
    """
    if not found.num_rows:
        return []
    for name in ("doc1", "doc2"):
        column = [numbers[number] for number in found[name].to_pylist()]
        at = found.schema.get_field_index(name)
        found = found.set_column(at, found.schema.field(at), pa.array(column, pa.int64()))
    there, rows = results_of(state.store, subscription.qid), _keys(found)
    known = dict(zip(_keys(there), there["position"].to_pylist(), strict=True))
    oldest = state.eviction.oldest
    new = np.array([row not in known and max(row[:2]) >= oldest for row in rows])
    append_results(state, found.filter(pa.array(new)))
    shared = (known[row] for row in rows if row in known)
    return [position for position in shared if position > subscription.backfilled]


def _keys(found: pa.Table) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return the documents and nodes of results."""
    columns = (found[name].to_pylist() for name in ("doc1", "doc2", "nodes"))
    return [(one, other, tuple(nodes)) for one, other, nodes in zip(*columns, strict=True)]
