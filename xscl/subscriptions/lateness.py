"""Subscriptions that may have missed a late document: a rule that reads no join state.

A join has a window T and a lateness L, the larger one of its streams.  It joins a newcomer n with
an earlier arrival o iff the operator holds and M(n) <= o.ts + T + L.  M(n) is the latest time that
arrived before n.  So n may have missed an o iff there is a time for o at which the operator holds
and M(n) is larger.  The earliest time that the operator allows decides
(`TemporalRelation.delays`): for JOIN n.ts - T, so the bound of M(n) - n.ts is L on both sides; for
the earlier side of FOLLOWED BY n.ts + 1, and its bound is T + L + 1.

If there is none, the document has met all partners, whatever the order of arrival.  If there is,
the document *may* have missed some: the rule tests neither whether its pattern matches, nor whether
such an o arrived.  Where a side of a join has several documents, the rule holds for each with the
lateness of the innermost join around it, which is the smallest.  A join without a window misses
nothing.

A temporal operator misses documents that arrive after their epoch was closed; that is recorded
when it happens (`state.late`), for documents whose pattern matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from templates.columns import table_of
from templates.model.join_graph import INFINITE
from templates.registry import Registry
from templates.storage import sql_schema
from xscl.documents.results import Subscription
from xscl.language.normalform import JoinForm, forms, read_components
from xscl.planning.compile import CompiledQuery
from xscl.subscriptions.subscriptions import Subscriptions

StreamBounds: TypeAlias = dict[str, int]
"""By stream: how far behind the clock a document may come without missing anything, in ticks."""

_SCHEMA = sql_schema(
    "subscription VARCHAR, stream VARCHAR, since BIGINT, updates BOOLEAN, bound BIGINT,"
    " lateness BIGINT"
)


@dataclass(eq=False, repr=False)
class LatenessBounds:
    """Makes a table for SQL: how late a document may be for each subscription and stream.

    Its column `bound` is how far behind the clock a document may come without missing anything,
    NULL if nothing is ever missed.  `lateness` is that of the subscription's operators over time,
    NULL if it has none.  Both are in ticks.
    """

    _subscriptions: Subscriptions
    _registry: Registry
    _lateness: Callable[[str], int]
    _compiled: Callable[[str], CompiledQuery]
    _made_for: tuple[int, int] | None = field(default=None, init=False)
    _table: pa.Table = field(default_factory=_SCHEMA.empty_table, init=False)

    def table(self) -> pa.Table:
        """Return the table: a row for each subscription and each stream that it reads.

        It is cached until the subscriptions change.
        """
        state = self._subscriptions.state
        if state != self._made_for:
            rows = [row for subscription in self._subscriptions for row in self._rows(subscription)]
            self._table, self._made_for = table_of(rows, _SCHEMA), state
        return self._table

    def _rows(self, one: Subscription) -> Iterator[tuple[object, ...]]:
        bounds = self._bounds(one)
        waits = max(map(self._lateness, one.reads)) if one.ordered else None
        for stream in one.reads:
            yield one.name, stream, one.since, one.updates, bounds.get(stream), waits

    def _bounds(self, one: Subscription) -> StreamBounds:
        if one.relational or self._subscriptions.refusal(one):
            return {}
        if one.template:
            return self._of_row(one)
        compiled = self._compiled(one.query)
        streams = [block.stream for block in compiled.normal.blocks]
        bounds: StreamBounds = {}
        for component, bound in _of_query(compiled, streams, self._lateness):
            _lower(bounds, streams[component], bound)
        return bounds

    def _of_row(self, one: Subscription) -> StreamBounds:
        """Return the bounds by stream of a subscription that is one join of two blocks."""
        row = self._registry.row(one.qid)
        bounds: StreamBounds = {}
        graph = self._registry.members[row.template].template.graph
        if graph.two_sided and row.keep < INFINITE:
            left, right = row.relation.delays(row.keep)
            _lower(bounds, one.reads[0], left)
            _lower(bounds, one.reads[-1], right)
        return bounds


def _of_query(
    query: CompiledQuery, streams: list[str], lateness: Callable[[str], int]
) -> Iterator[tuple[int, int]]:
    """Yield (component, bound in ticks) for each side of each join with a window.

    `streams` has the stream of each component; `lateness` returns that of a stream in ticks.  A
    component below several joins may come several times.
    """
    for part in forms(query.normal.form):
        if isinstance(part, JoinForm) and part.relation.window is not None:
            late = max(lateness(streams[component]) for component in read_components(part))
            delays = part.relation.delays(part.relation.keep(late))
            for side, bound in zip((part.left, part.right), delays, strict=True):
                yield from ((component, bound) for component in read_components(side))


def _lower(bounds: StreamBounds, stream: str, bound: int) -> None:
    bounds[stream] = min(bound, bounds.get(stream, bound))
