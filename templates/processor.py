"""The join processor: all registered joins over one batch of witnesses.

Hong 2009, Algorithms 1, 2 and 4: store the batch, compute the views, evaluate
the conjunctive query of each template that can fire, and forget what no later
document can meet.  The caller owns the connection and the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from templates.columns.arrow_tables import Lender, written_order
from templates.columns.columns import (
    Column,
    Columns,
    among,
    chosen,
    columns_of,
    distinct,
    together,
    unpack,
)
from templates.columns.values import Values
from templates.model.join_graph import LEFT, RIGHT, JoinGraph
from templates.model.relations import BINDINGS, INFINITE, TIMES, VALUES, Witnesses
from templates.model.result_bound import RESULTS, Cut, bounded
from templates.registry.members import Members
from templates.registry.registry import Registry, r_t
from templates.smallbatch.bounded_answers import BoundedAnswers
from templates.smallbatch.evaluator import SmallBatch
from templates.sql.queries import Base, ConjunctiveQueries, Evaluator, arrow_table, over_base
from templates.sql.views import BACKWARD, FORWARD, JOINS, Views
from templates.state.join_state import Leaving
from templates.state.value_joins import Dense, HeavyBatch, Pass, times_of
from templates.state.view_cache import ViewCache

SMALL_BATCH = 64
"""Documents that are joined at once up to which NumPy evaluates templates' queries, not DuckDB."""

SHOWN = 100_000
"""Rows of R_vj of one push that can be read afterwards; the evaluation has no such bound."""

Apart: TypeAlias = Callable[[Column, Column], Column]

FOUND = pa.schema(
    [
        ("qid", pa.int32()),
        ("doc1", pa.int64()),
        ("doc2", pa.int64()),
        ("nodes", pa.list_(pa.int32())),
    ]
)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What the last batch brought to stage 2; nothing of it changes any more.

    `bindings` and `times` are the witnesses, `out` are templates' rows of R_out.
    """

    bindings: pa.Table
    times: pa.Table
    out: Mapping[int, pa.Table]
    made: Mapping[str, Sequence[Columns]]

    def joins(self, name: str) -> pa.Table:
        """Return R_vj of one pass."""
        made = self.made.get(name)
        return arrow_table(together(list(made)), JOINS) if made else _NO_JOINS


class Processor:
    """Stage 2: from the witnesses of a batch to the rows of every registered join.

    With `views` the queries run over R_vj, made from R_L and R_R (Algorithm 4),
    without over R_bin and R_doc (Algorithm 1); the results are the same.
    `budget` is how many bytes of the join state may be in memory; None: all of it.
    `lender` is that of the connection, if somebody else lends there, too.  `most` answers
    of a join and an arriving document stay at most (`result_bound`).
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        registry: Registry,
        *,
        views: bool = True,
        budget: int | None = None,
        lender: Lender | None = None,
        most: int = RESULTS,
    ) -> None:
        self._budget = budget
        self._bounded = BoundedAnswers(self.ranks, self._bindings_of, most)
        self._queries = ConjunctiveQueries()
        self._small_batch = SmallBatch(self._queries)
        self._evaluator: Evaluator = self._small_batch
        self._connection = connection
        self.lender = Lender(connection) if lender is None else lender
        self._registry = registry
        self._views = views
        self._values = Values(connection, self.lender)
        self._made: dict[str, list[Columns]] = {}  # R_vj of the last push
        self._loaded: ViewCache | None = None
        self._leaving: Leaving | None = None  # made when it is next asked for
        connection.execute("RESET disabled_optimizers")  # which a failure may have left set
        self._apart: Apart | None = None
        self._latest: int | None = None  # time of the latest document that was joined
        ((newest,),) = connection.execute("SELECT max(doc) FROM state.times").fetchall()
        self._newest: int = newest or 0  # whose times are kept, by its number
        self.out: dict[int, pa.Table] = {}
        self._lend_batch(*_nothing())

    @property
    def most(self) -> int:
        """The bound of results: answers of a join and an arriving document that stay."""
        return self._bounded.most

    @property
    def _kept(self) -> ViewCache:
        """What is kept, read from the database when it is first needed."""
        if self._loaded is None:
            self._loaded = ViewCache(self._connection, self.lender, self._budget)
        return self._loaded

    @property
    def bytes_in_memory(self) -> int:
        """How many bytes of the join state are in memory; any thread may ask."""
        loaded = self._loaded  # another thread may let it go meanwhile
        return 0 if loaded is None else loaded.nbytes

    @property
    def result_rows(self) -> dict[str, int]:
        """How many rows of R_out each evaluator has made since the start."""
        return {"duckdb": self._queries.made, "smallbatch": self._small_batch.made}

    def reload(self) -> int:
        """Read what is kept again, after a rollback of the caller's; return how many rows it is."""
        self.lender.forget()
        self._loaded = None
        return len(self._kept)

    # -- One batch -------------------------------------------------------------------------

    def join(self, witnesses: Witnesses, apart: Apart | None = None) -> tuple[pa.Table, list[Cut]]:
        """Store a batch; return what it completes (qid, doc1, doc2, nodes: FOUND) and what is cut.

        `nodes` are the bindings of the template's output nodes in its order;
        rows are distinct.  doc1 and doc2 are the same for a join of one side.
        `apart` says which pairs of documents may be joined; None: all.
        """
        self._apart = apart
        if self._loaded is not None:
            self._loaded.trim()
        values = witnesses.values
        interned = self._values.intern(values["strVal"].to_pylist())
        bindings = _keyed(witnesses, interned.keys)
        self._lend_batch(bindings, witnesses.times)
        self._store(bindings, witnesses.times)
        self.out = {}
        self._bounded.begin()
        small = witnesses.times.num_rows <= SMALL_BATCH
        self._evaluator = self._small_batch if small else self._queries
        self._filter(bindings)
        self._made = {}
        if self._views:
            shared = pa.array(interned.known | (values["docs"].to_numpy() > 1))
            usable = shared.take(witnesses.bindings["value"].combine_chunks()).fill_null(False)
            self._join(columns_of(bindings), usable.to_numpy(zero_copy_only=False), witnesses.times)
        elif bindings.num_rows:
            self._join_over_base(witnesses.times)
        if witnesses.times.num_rows:
            self._latest = max(pc.max(witnesses.times["ts"]).as_py(), self._latest or -INFINITE)
        found, cuts = bounded(self._found(), self.ranks, self._bounded.most)
        return found, list(dict.fromkeys([*cuts, *self._bounded.cuts]))

    def keep(self, witnesses: Witnesses) -> None:
        """Put witnesses of earlier documents into the join state, in place of what is there.

        They are complete for the pairs of variables and the documents that they have.
        """
        interned = self._values.intern(witnesses.values["strVal"].to_pylist())
        bindings = _keyed(witnesses, interned.keys)
        self._lend_batch(bindings, witnesses.times)
        self._connection.execute(
            "DELETE FROM state.binding b USING batch_binding w"
            " WHERE (b.doc, b.pair) = (w.doc, w.pair)"
        )
        self._loaded = self._leaving = None  # which have only rows that are added
        self._store(bindings, witnesses.times)
        self._lend_batch(*_nothing())
        if witnesses.times.num_rows:
            self._latest = max(pc.max(witnesses.times["ts"]).as_py(), self._latest or -INFINITE)

    def show_views(self) -> None:
        """Let readers have R_vj of the last push, of both passes."""
        pushed = self.pushed
        for name in (FORWARD, BACKWARD):
            self.lender.lend(name, pushed.joins(name))

    @property
    def pushed(self) -> Pushed:
        """What the last batch has brought: to be asked for between two pushes."""
        return Pushed(*self._batch, self.out, self._made)

    def _lend_batch(self, bindings: pa.Table, times: pa.Table) -> None:
        self._batch = bindings, times
        self.lender.lend("batch_binding", bindings)
        self.lender.lend("batch_times", times)

    def _store(self, bindings: pa.Table, times: pa.Table) -> None:
        """Maintain the join state (Algorithm 2); witnesses of filters need not be kept."""
        kept = self._registry.kept(bindings["pair"].to_numpy())
        if not kept.all():
            bindings = bindings.filter(pa.array(kept))
        if bindings.num_rows:
            present = pc.is_in(times["doc"], pa.array(distinct(bindings["doc"].to_numpy())))
            times = times.filter(present).drop_columns("first")
            known = self._known(times)
            if self._loaded is not None:
                self._loaded.bring(known.to_numpy())
                self._loaded.add(bindings, times)
            self.lender.insert("state.binding", bindings)
            new = pc.invert(pc.is_in(times["doc"], known))
            self.lender.insert("state.times", times.filter(new))
            self._newest = max(self._newest, pc.max(times["doc"]).as_py())
            if self._leaving is not None:
                keeps = self._registry.keeps[bindings["pair"].to_numpy()]
                self._leaving.note(keeps, pc.max(times["ts"]).as_py())

    def _known(self, times: pa.Table) -> pa.ChunkedArray:
        """Return those of some documents that are kept already.

        So is a composite that comes in one round of a push and, by another stream, in a later one.
        """
        if pc.min(times["doc"]).as_py() > self._newest:
            return times["doc"].slice(0, 0)
        listed = self.lender.among(times["doc"].to_numpy())
        known = self._connection.sql(f"SELECT doc FROM state.times WHERE doc IN ({listed})")
        return known.to_arrow_table()["doc"]

    def _filter(self, bindings: pa.Table) -> None:
        """Evaluate the templates with one side, which see the batch only."""
        arrived = distinct(bindings["pair"].to_numpy())
        pairs = set(arrived.tolist())
        reached = self._registry.firing.reached(pairs, two_sided=False)
        touched = _touched([m for m in reached if m.can_fire(pairs, pairs)], arrived)
        if touched:
            valued = {**columns_of(bindings), "valued": bindings["key"].is_valid().to_numpy()}
            for members, found in self._bounded.filtered(self._evaluator, touched, valued):
                self._take(members, found)

    def _join(self, bindings: Columns, usable: Column, times: pa.Table) -> None:
        """Evaluate the templates with two sides (Algorithm 4, line 9), in one pass or two.

        `usable` are the rows whose values another document has, too.
        """
        if not usable.any():
            return
        filtered_out = dict(self.out)
        first = pc.min(times["doc"]).as_py()
        passes = [FORWARD, BACKWARD] if self._looks_back(times) else [FORWARD]
        try:
            for views in passes:
                self._join_pass(views, bindings, usable, times, first)
        except HeavyBatch:  # both documents of a pair are joined when the later one comes
            self.out = filtered_out
            self._made = {}
            self._evaluator = self._small_batch
            for doc in distinct(bindings["doc"][usable]).tolist():
                of_one = usable & (bindings["doc"] == doc)
                for views in (FORWARD, BACKWARD):
                    self._join_pass(views, bindings, of_one, times, doc, older=True)

    def _join_pass(
        self,
        views: str,
        bindings: Columns,
        usable: Column,
        times: pa.Table,
        first: int,
        *,
        older: bool = False,
    ) -> None:
        back = views is BACKWARD
        asked = self._registry.joined(LEFT if back else RIGHT)[bindings["pair"]] > 0
        batch = chosen(bindings, np.flatnonzero(usable & asked))
        bounds, columns = self._registry.bounds(), columns_of(times)
        half = Pass(self._kept, bounds, columns, back, first, self, older)
        shown = self._made.setdefault(views, [])
        size = sum(len(one["docs"]) for one in shown)
        for joins in half.joins(batch, partial(self._registry.firing.driving, back=back)):
            if isinstance(joins, Dense):
                self._answer_dense(joins)
                continue
            joins = self._joinable(joins)
            size += len(joins["docs"])
            if size <= SHOWN:
                shown.append(joins)
            if len(joins["docs"]):
                self._answer(joins)

    def _joinable(self, joins: Columns) -> Columns:
        """Return R_vj without the documents that may not be joined."""
        if self._apart is None or not len(joins["docs"]):
            return joins
        docs, place = np.unique(joins["docs"], return_inverse=True)
        apart = self._apart(*unpack(docs))
        return joins if apart.all() else chosen(joins, apart[place])

    def _looks_back(self, times: pa.Table) -> bool:
        """Whether a document of the batch can be the earlier side of something kept before."""
        if self._registry.looks_back:
            return True
        earliest = pc.min(times["ts"]).as_py()
        return self._latest is None or bool(earliest < self._latest)

    # -- The templates' queries ------------------------------------------------------------

    def _answer(self, joins: Columns) -> None:
        """Evaluate the templates over some rows of R_vj: those with rows that these may satisfy."""
        left, right = (set(distinct(joins[name]).tolist()) for name in ("pair1", "pair2"))
        live = self._registry.firing.joined(left, right)
        views = Views(joins)
        if any(members.others for members in live):
            bindings = self._bindings_of(np.concatenate((joins["doc1"], joins["doc2"])))
            views = Views(joins, bindings)
            either = set(distinct(bindings["pair"]).tolist())
            live = [m for m in live if m.can_fire(left | either, right | either)]
        touched = _touched(live, distinct(joins["pairs"]))
        for members, found in self._bounded.answers(self._evaluator, touched, views):
            self._take(members, found)

    def _answer_dense(self, dense: Dense) -> None:
        """Evaluate the templates over two documents of which no R_vj was made."""
        times = self._times_of(dense.left, dense.right)
        if times is None:
            return
        docs = dense.left, dense.right
        if self._apart is not None and not self._apart(*np.array(docs)[:, None]).all():
            return
        for members in self._registry.firing.reached(_ends(dense.edges), two_sided=True):
            graph = members.template.graph
            rows = members.registered.any_of(dense.edges)
            for found in self._bounded.dense(graph, rows, docs, times):
                self._take(members, found)

    def _times_of(self, left: int, right: int) -> Columns | None:
        """Return gap, lead and age of two documents; None: they are versions of one."""
        rows = self._kept.of_documents(distinct(np.array([left, right])))
        known = self._kept.rows(rows, ("doc", "start", "ts", "clock", "rank", "base"))
        one, other = (chosen(known, np.flatnonzero(known["doc"] == d)[:1]) for d in (left, right))
        if one["base"][0] == other["base"][0]:
            return None
        gap, lead, age = times_of(one, other)
        return {"gap": gap, "lead": lead, "age": age}

    def exhausted(self, newcomer: int, partner: int, edges: Column) -> Column:
        """Return which value joins want neither a partner nor an older one (`valuejoins.Stops`)."""
        rank, other = self.ranks(np.array([newcomer, partner])).tolist()
        gone = np.zeros(len(edges), np.bool_)
        if not self._bounded.newest or not other or other > rank:
            return gone
        gone[:] = True
        for members in self._registry.firing.reached(_ends(edges), two_sided=True):
            for place, _ in enumerate(members.template.graph.equalities):
                which, rows = members.registered.having(place, edges)
                qids = members.registered.column("qid", rows).tolist()
                for at, qid in zip(which.tolist(), qids, strict=True):
                    gone[at] &= (other, partner) < self._bounded.newest.oldest(qid, rank)
        return gone

    def ranks(self, docs: Column) -> Column:
        """Return the places of documents in the order of arrival.

        Of documents that are neither of the batch nor kept it is -1.
        """
        numbers, place = np.unique(docs, return_inverse=True)
        times = columns_of(self._batch[1])
        here = among(numbers, times["doc"])
        found = np.full(len(numbers), -1, np.int64)
        found[here] = times["rank"][np.searchsorted(times["doc"], numbers[here])]
        if not here.all():
            found[~here] = self._kept.ranks(numbers[~here])
        return found[place]

    def _bindings_of(self, docs: Column) -> Columns:
        """Return all bindings of some documents."""
        rows = self._kept.of_documents(distinct(docs))
        return self._kept.rows(rows, ("doc", "pair", "node1", "node2", "key", "valued"))

    def _join_over_base(self, times: pa.Table) -> None:
        """Evaluate the templates with two sides without views (Algorithm 1, line 2)."""
        first = pc.min(times["doc"]).as_py()
        for back in [False, True] if self._looks_back(times) else [False]:
            self._half_over_base(first, back)

    def _half_over_base(self, first: int, back: bool) -> None:
        self._connection.execute(
            "CREATE OR REPLACE TEMP VIEW old_binding AS"
            f" SELECT * FROM state.binding WHERE doc < {first};" + _BASE_VIEWS
        )
        sides = (_BATCH, _OLD) if back else (_KEPT, _BATCH)
        for members in self._registry.members.values():
            if not members.two_sided:
                continue
            table = r_t(members.template.number)
            query = over_base(members.template.graph, table, *sides)
            self._take(members, self._connection.execute(query).fetchnumpy())

    def _take(self, members: Members, columns: Columns) -> None:
        """Add rows to the R_out of a template."""
        if len(columns["qid"]):
            number, rows = members.template.number, pa.table(dict(columns))
            earlier = self.out.get(number)
            self.out[number] = rows if earlier is None else pa.concat_tables([earlier, rows])

    def _found(self) -> pa.Table:
        parts = [
            _project(rows, self._registry.members[number].template.graph)
            for number, rows in self.out.items()
        ]
        return pa.concat_tables(parts) if parts else FOUND.empty_table()

    # -- Forgetting ------------------------------------------------------------------------

    def evict(self, clock: int) -> bool:
        """Forget what no document that arrives from `clock` on can meet; whether anything was.

        Nothing happens until an eighth of what is kept is expected to be such.
        """
        keeps = self._registry.keeps
        if self._registry.take_keeps_changed() or self._leaving is None:
            self._leaving = self._leaving_of(keeps)
        if not self._leaving.due(clock):
            return False
        finite = np.flatnonzero((keeps >= 0) & (keeps < INFINITE))
        bounds = pa.table({"pair": finite, "bound": clock - keeps[finite]})
        self.lender.lend("bounds", bounds.cast(_BOUNDS))
        with written_order(self._connection):  # else documents and pairs are joined by time
            ((deleted,),) = self._connection.execute(_FORGET).fetchall()
        if self._loaded is not None:
            self._loaded.forget(keeps, clock)
        self._leaving = None
        if deleted:
            self._sweep()
        return bool(deleted)

    def _leaving_of(self, keeps: Column) -> Leaving:
        """Return when what is kept leaves."""
        if self._views and self._kept.whole:
            pairs, times = self._kept.ages()
        else:
            found = self._connection.execute(
                "SELECT pair, ts FROM state.binding JOIN state.times USING (doc)"
            ).fetchnumpy()
            pairs, times = np.asarray(found["pair"]), np.asarray(found["ts"])
        return Leaving.of(keeps[pairs], times)

    def forget_pairs(self, pairs: Sequence[int]) -> None:
        """Delete the witnesses of pairs that no join uses any more."""
        if pairs:
            listed = ", ".join(str(int(pair)) for pair in pairs)
            self._connection.execute(f"DELETE FROM state.binding WHERE pair IN ({listed})")
            if self._loaded is not None:
                self._loaded.forget(self._registry.keeps, -INFINITE)
            self._leaving = None
            self._sweep()

    def _sweep(self) -> None:
        """Delete the times and the texts that no binding needs any more."""
        self._connection.execute(
            "DELETE FROM state.times WHERE doc NOT IN (SELECT DISTINCT doc FROM state.binding)"
        )
        self._values.sweep()


_FORGET = """
DELETE FROM state.binding WHERE (doc, pair) IN (
    SELECT b.doc, b.pair FROM state.binding b JOIN state.times t ON t.doc = b.doc
    JOIN bounds ON bounds.pair = b.pair WHERE t.ts < bounds.bound)
"""
"""Not by `rowid`, in which DuckDB reads wrong rows (decision 030)."""
_BOUNDS = pa.schema([("pair", pa.int32()), ("bound", pa.int64())])


_KEPT = Base("state.binding", "base_node", "state.times")
_OLD = Base("old_binding", "base_node", "state.times")
_BATCH = Base("batch_binding", "batch_node", "batch_times")

_BASE_VIEWS = """
CREATE OR REPLACE TEMP VIEW base_node AS
    SELECT DISTINCT doc, node2 AS node, key FROM state.binding WHERE key IS NOT NULL;
CREATE OR REPLACE TEMP VIEW batch_node AS
    SELECT DISTINCT doc, node2 AS node, key FROM batch_binding WHERE key IS NOT NULL;
"""
"""R_doc of compared nodes."""


def _project(rows: pa.Table, graph: JoinGraph) -> pa.Table:
    """Return the rows of R_out with the bindings of the output nodes only, without doubles."""
    outputs = [i for i, node in enumerate(graph.nodes) if node.output]
    names = ["qid", "doc1", "doc2", *(f"node{i + 1}" for i in outputs)]
    table = np.stack([rows[name].to_numpy().astype(np.int64) for name in names], axis=1)
    table = table[np.lexsort(table.T[::-1])]
    if len(outputs) < len(graph.nodes):
        repeated = (table[1:] == table[:-1]).all(axis=1)
        table = table[np.concatenate(([True], ~repeated))]
    nodes: Column = table[:, 3:]
    offsets = np.arange(len(table) + 1, dtype=np.int32) * len(outputs)
    return pa.table(
        [
            pa.array(table[:, 0], pa.int32()),
            pa.array(table[:, 1]),
            pa.array(table[:, 2]),
            pa.ListArray.from_arrays(offsets, pa.array(nodes.ravel(), pa.int32())),
        ],
        schema=FOUND,
    )


def _keyed(witnesses: Witnesses, keys: npt.NDArray[np.uint64]) -> pa.Table:
    """Return bindings as they are kept: with keys in place of rows of values."""
    bindings = witnesses.bindings
    by_row = pa.array(keys, pa.uint64())
    return bindings.drop_columns("value").append_column("key", by_row.take(bindings["value"]))


def _ends(edges: Column) -> set[int]:
    """Return the pairs of variables of some value joins, which are packed."""
    return set(distinct(np.concatenate(unpack(edges))).tolist())


def _touched(templates: Sequence[Members], present: Column) -> list[tuple[Members, Columns]]:
    """Return the templates, each with the rows of R_T that may be satisfied (`Registered`)."""
    found = ((members, members.registered.touched(present)) for members in templates)
    return [(members, rows) for members, rows in found if len(rows["qid"])]


_NO_JOINS = JOINS.empty_table()


def _nothing() -> tuple[pa.Table, pa.Table]:
    nothing = Witnesses(*(schema.empty_table() for schema in (BINDINGS, TIMES, VALUES)))
    return _keyed(nothing, np.empty(0, dtype=np.uint64)), nothing.times
