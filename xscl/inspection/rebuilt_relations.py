"""The relations of joins that are evaluated elsewhere, made from kept documents when SQL asks.

The results of a row of R_T with a designated equality come from executors, so this engine has
neither its witnesses nor its R_vj and R_out.  They are made for a query that reads a relation in
`ASKED`: stage 1 is repeated over the kept documents of the windows of such rows, and stage 2 over
those of the last push.  That takes 0.1 ms for each row and document, and memory for all of their
witnesses; `Engine.sql` holds the lock of the engine meanwhile, a snapshot for users does not.  It
is refused for more than `MOST` documents.

The rows are those of an engine that evaluates all joins itself (`Reach`), except that R_vj
has what joins need, not all of a small push, that derived nodes may have other numbers, and that
R_out of other rows of R_T lacks results that no subscription sees: such an engine finds these in
witnesses that it has for the rows that are evaluated elsewhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from templates.columns import Columns, chosen, pack
from templates.model.join_graph import INFINITE
from templates.model.relations import Pair, Witnesses
from templates.processor import Processor, Pushed
from templates.registry import Registry, graph_of
from templates.storage import Mask, Numbers, scan
from xscl.documents.results import Subscription
from xscl.errors import SqlError
from xscl.inspection.replay import witnesses
from xscl.shredding.automaton.pattern import stream_of
from xscl.store.queries.documents import documents_of_past
from xscl.store.queries.join_storage import JoinStorage, designated_rows
from xscl.store.store import Store

Key = TypeVar("Key", int, str)

MOST = 250_000
"""Documents from which relations are made at most; they take some 20 s."""
ASKED = re.compile(r"\bR_((bin|doc|docTS)W?|vj|L|R|out_[0-9]+)\b", re.IGNORECASE)
"""The relations that have rows of documents in joins."""


VALUED = 1_000
"""Number of the newest matches that have `values` in the relation `matches`: they are read from the
texts of the documents.  It is null for older ones."""
_MATCHES = re.compile(r"\bmatches\b", re.IGNORECASE)


def may_read_values(query: str) -> bool:
    """Return False for a query in SQL that cannot read the values of matches.

    A query need not name the column `values`: `FROM matches`, `TABLE matches` and a whole row of
    `matches` contain it, too.
    """
    return _MATCHES.search(query) is not None


def may_read_joins(query: str) -> bool:
    """Return False for a query in SQL that names no relation of joins (`ASKED`), such as R_vj."""
    return ASKED.search(query) is not None


class _RowsInMemory:
    """Holds rebuilt relations of the join state in memory; no row comes twice, and none leaves."""

    def __init__(self, values: pa.Table) -> None:
        self._parts = defaultdict[str, list[pa.Table]](list, value=[values])

    def append(self, relation: str, rows: pa.Table) -> None:
        self._parts[relation].append(rows)

    def parts(
        self, relation: str, columns: Sequence[str] = (), docs: Numbers | None = None
    ) -> Iterator[pa.Table]:
        return (part.select(columns) if columns else part for part in self._parts[relation])

    def discard(self, relation: str, rows: pa.Table) -> None:
        """Delete nothing."""

    def keep(self, relation: str, stays: Mask) -> pa.Table:
        """Delete nothing; return a table without rows, as those that were deleted."""
        return pa.table({})


@dataclass(frozen=True, slots=True)
class RebuiltRelations:
    """The relations that an engine has that evaluates all joins itself.

    `pushed` has those of the last push, `state` the join state by the name of the relation.
    """

    pushed: Pushed
    state: Mapping[str, pa.Table]


def rebuilt(
    store: Store,
    pushed: Pushed,
    documents_seen: Callable[[], Mapping[int, int]],
    most: int,
    *,
    qids: Collection[int] | None = None,
    docs: Numbers | None = None,
) -> RebuiltRelations | None:
    """Return the relations with the rows of joins that are evaluated elsewhere; None without any.

    `store` sees the commit of the last push, `pushed`; `documents_seen` returns the first one that
    is seen by a subscription of each row of R_T, and `most` is the bound of results.  The joins are
    restricted to the rows `qids`, the witnesses to the documents `docs`.  Raises SqlError for too
    many documents.
    """
    storage = JoinStorage(store)
    elsewhere = [qid for qid in designated_rows(store) if qids is None or qid in qids]
    firsts = documents_seen() if elsewhere else {}
    qids = [qid for qid in elsewhere if qid in firsts]
    if not qids:
        return None
    stored = {name: scan(storage, name) for name in ("variable", "pair", "template", "r_t")}
    own = stored["r_t"].filter(pc.is_in(stored["r_t"]["qid"], pa.array(qids, pa.int32())))
    kept = _RowsInMemory(scan(storage, "value"))
    registry = Registry(kept)
    registry.add_stored({**stored, "r_t": own}, ((qid, 1) for qid in qids))
    pairs = registry.take_changed()
    reach = Reach.of(stored, firsts, max(pair.number for pair in pairs) + 1)
    last = pushed.times["doc"].to_numpy() if docs is None else docs[:0]
    clock = store.progress("clock")
    if docs is None:
        before = int(pushed.times["clock"].to_numpy().min(initial=clock))
        oldest = before - registry.retention.horizon().keep
        docs = _documents(store, pairs, oldest, int(reach.since.min()))
        if len(docs) > MOST:
            raise SqlError(
                f"the relations of joins would be made from {len(docs):,} documents,"
                f" more than {MOST:,}",
                hint="shorter windows of queries on Spark's executors need fewer",
            )
    processor = Processor(kept, registry, most=most)
    parts = [replace(pushed, answers=_without(pushed.answers, qids))]
    newer = [qid for qid in qids if firsts[qid] > last.max(initial=0)]  # seen after the last push
    for some in witnesses(store, pairs, np.setdiff1d(docs, last), last):
        if some.times["doc"][0].as_py() in last:
            processor.join(reach.installed(some))
            found = processor.pushed
            parts.append(replace(found, answers=_without(found.answers, newer)))
        else:
            processor.state.replace(reach.installed(some))
    times = scan(kept, "times").sort_by("doc")
    bindings = scan(kept, "binding")
    bindings = bindings.filter(reach.alive(bindings, times, clock))
    known = scan(storage, "times")
    new = pc.and_not(pc.is_in(times["doc"], bindings["doc"]), pc.is_in(times["doc"], known["doc"]))
    return RebuiltRelations(
        Pushed(
            _united(pushed.bindings, [part.bindings for part in parts[1:]]),
            pushed.times,
            _together([part.answers for part in parts]),
            _together([part.made for part in parts]),
        ),
        {
            "binding": _united(scan(storage, "binding"), [bindings]),
            "times": pa.concat_tables([known, times.filter(new)]),
            "value": scan(kept, "value"),
        },
    )


def _documents(store: Store, pairs: Sequence[Pair], begin: int, since: int) -> Numbers:
    """Return the numbers of kept documents on the streams of some pairs of variables.

    Their times are not before `begin`, in ticks, and their numbers not below `since`.
    """
    streams = {stream_of(pair.first) for pair in pairs}
    return documents_of_past(
        store,
        sorted(streams),
        begin=begin,
        end=INFINITE,
        first=since,
        updates=True,
        besides=(),
    )


def _united(theirs: pa.Table, ours: Sequence[pa.Table]) -> pa.Table:
    """Return `ours`, and those bindings of `theirs` whose document and pair `ours` lack."""
    rebuilt = pa.concat_tables([theirs.slice(0, 0), *ours])
    codes = [
        pack(*(t[n].to_numpy().astype(np.int64) for n in ("doc", "pair")))
        for t in (theirs, rebuilt)
    ]
    return pa.concat_tables([theirs.filter(pa.array(~np.isin(*codes))), rebuilt])


def _without(
    answers: Mapping[int, Sequence[Columns]], qids: Sequence[int]
) -> dict[int, list[Columns]]:
    """Return R_out, by template number, without the results of the rows `qids`."""
    return {
        number: [chosen(part, ~np.isin(part["qid"], qids)) for part in parts]
        for number, parts in answers.items()
    }


def _together(parts: Sequence[Mapping[Key, Sequence[Columns]]]) -> dict[Key, list[Columns]]:
    """Return one mapping that has, for each key, the rows of all `parts`."""
    found = defaultdict[Key, list[Columns]](list)
    for part in parts:
        for key, rows in part.items():
            found[key] += rows
    return found


# -- Which witnesses an engine has that evaluates all joins ------------------------------------

# A pair of variables has witnesses from the first document on that a subscription with it sees.
# Witnesses stay as long as a later document may be joined with them; they are deleted soon after.
# A removed subscription does not count, although witnesses stay if another one uses their pair.


def documents_seen(
    subscriptions: Iterable[Subscription], qids: Callable[[Subscription], Iterable[int]]
) -> dict[int, int]:
    """Return, by qid, the number of the first document that a subscription with this row sees.

    `qids` returns the rows of R_T that a subscription uses.
    """
    found: dict[int, int] = {}
    for subscription in subscriptions:
        for qid in qids(subscription):
            found[qid] = min(subscription.since, found.get(qid, subscription.since))
    return found


@dataclass(frozen=True, slots=True)
class Reach:
    """Tells which witnesses of each pair of variables an engine has that evaluates all joins.

    Arrays are indexed by the number of the pair.  Each of `spans` has first documents and
    retentions in ticks; a witness stays as long as one span of its pair contains its document.
    `valued` has the first documents whose witnesses have values.
    """

    spans: Sequence[tuple[Numbers, Numbers]]
    valued: Numbers

    @classmethod
    def of(cls, stored: Mapping[str, pa.Table], seen: Mapping[int, int], size: int) -> Reach:
        """Return the reach of the pairs of variables with numbers below `size`.

        `stored` has all rows of R_T and their templates, `seen` is as `documents_seen` returns it.
        """
        ids, texts = (stored["template"][name].to_pylist() for name in ("id", "graph"))
        graphs = {number: graph_of(text) for number, text in zip(ids, texts, strict=True)}
        spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        valued = np.full(size, INFINITE)
        rows = [row for row in stored["r_t"].to_pylist() if row["qid"] in seen]
        for row in sorted(rows, key=lambda row: (seen[row["qid"]], -row["keep"])):
            graph, span = graphs[row["template"]], (seen[row["qid"]], row["keep"])
            for pair, (_, child) in zip(row["pairs"], graph.pairs, strict=True):
                if pair >= size or not graph.two_sided:
                    continue
                if not spans[pair] or spans[pair][-1][1] < span[1]:
                    spans[pair].append(span)
                if child in graph.compared:
                    valued[pair] = min(valued[pair], span[0])
        columns = []
        for each in zip_longest(*spans.values(), fillvalue=(INFINITE, 0)):
            since, keep = np.full(size, INFINITE), np.zeros(size, np.int64)
            since[list(spans)], keep[list(spans)] = zip(*each, strict=True)
            columns.append((since, keep))
        return cls(columns, valued)

    @property
    def since(self) -> Numbers:
        """The number of the first document that has witnesses of a pair, by number of the pair."""
        return self.spans[0][0]

    def installed(self, made: Witnesses) -> Witnesses:
        """Return witnesses without those whose pair was registered after their document came.

        A value that a witness got only later is null.
        """
        rows = made.bindings
        docs, pairs = (rows[name].to_numpy() for name in ("doc", "pair"))
        there, has_value = docs >= self.since[pairs], docs >= self.valued[pairs]
        values = pc.if_else(pa.array(has_value), rows["value"], pa.scalar(None, pa.int32()))
        place = rows.column_names.index("value")
        rows = rows.set_column(place, rows.field(place), values).filter(pa.array(there))
        return replace(made, bindings=rows)

    def alive(self, rows: pa.Table, times: pa.Table, clock: int) -> pa.Array:
        """Return a mask of the witnesses `rows` that documents from a clock on may join.

        `times` has the columns `doc` and `ts` of the witnesses' documents, sorted by `doc`.
        """
        docs, pairs = (rows[name].to_numpy() for name in ("doc", "pair"))
        ts = times["ts"].to_numpy()[np.searchsorted(times["doc"].to_numpy(), docs)]
        spans = ((docs >= since[pairs]) & (ts >= clock - keep[pairs]) for since, keep in self.spans)
        return pa.array(np.logical_or.reduce([*spans]))
