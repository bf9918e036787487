"""The join processor: all registered joins over one batch of witnesses.

Hong 2009, Algorithms 1, 2 and 4: store the batch, compute the views, evaluate
the conjunctive query of each template that can fire, and forget what no later
document can meet.  The caller owns the connection and the transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from templates.columns import (
    Column,
    Columns,
    TooManyRows,
    chosen,
    columns_of,
    distinct,
    together,
)
from templates.inmemory import Touched, answers, filtered, several
from templates.joingraph import LEFT, RIGHT, JoinGraph
from templates.leaving import Leaving
from templates.lending import Lender
from templates.members import Members
from templates.queries import Base, over_base, over_batch, over_views
from templates.registry import Registry, r_t
from templates.relations import BINDINGS, INFINITE, TIMES, VALUES, Witnesses
from templates.valuejoins import Pass
from templates.values import Hash, Values, keys_of
from templates.viewcache import ViewCache
from templates.views import BACKWARD, FORWARD, JOINS, Views, make_several, written_order

FEW_ROWS = 32_768
"""Value joins of a batch, and bindings of filters, up to which templates are joined in memory."""

_Touched: TypeAlias = "tuple[Members, Columns]"

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
    made: Mapping[Views, Sequence[Columns]]

    def joins(self, views: Views) -> pa.Table:
        """Return R_vj of one pass."""
        made = self.made.get(views)
        return _table(together(list(made)), JOINS) if made else _NO_JOINS


class Processor:
    """Stage 2: from the witnesses of a batch to the rows of every registered join.

    With `views` the queries run over R_vj, made from R_L and R_R (Algorithm 4),
    without over R_bin and R_doc (Algorithm 1); the results are the same.
    `budget` is how many bytes of the join state may be in memory; None: all of it.
    `lender` is that of the connection, if somebody else lends there, too.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        registry: Registry,
        *,
        views: bool = True,
        hashed: Hash = keys_of,
        budget: int | None = None,
        lender: Lender | None = None,
    ) -> None:
        self._budget = budget
        self._connection = connection
        self.lender = Lender(connection) if lender is None else lender
        self._registry = registry
        self._views = views
        self._values = Values(connection, self.lender, hashed)
        self._made: dict[Views, list[Columns]] = {}  # R_vj of the last push
        self._loaded: ViewCache | None = None
        self._leaving: Leaving | None = None  # made when it is next asked for
        connection.execute("RESET disabled_optimizers")  # which a failure may have left set
        self._latest: int | None = None  # time of the latest document that was joined
        ((newest,),) = connection.execute("SELECT max(doc) FROM state.times").fetchall()
        self._newest: int = newest or 0  # whose times are kept, by its number
        self.out: dict[int, pa.Table] = {}
        self._lend_batch(*_nothing())

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

    def reload(self) -> int:
        """Read what is kept again, after a rollback of the caller's; return how many rows it is."""
        self.lender.forget()
        self._loaded = None
        return len(self._kept)

    # -- One batch -------------------------------------------------------------------------

    def join(self, witnesses: Witnesses) -> pa.Table:
        """Store a batch and return what it completes: qid, doc1, doc2, nodes (see FOUND).

        `nodes` are the bindings of the template's output nodes in its order;
        rows are distinct.  doc1 and doc2 are the same for a join of one side.
        """
        if self._loaded is not None:
            self._loaded.trim()
        values = witnesses.values
        interned = self._values.intern(values["strVal"].to_pylist())
        bindings = _keyed(witnesses, interned.keys)
        self._lend_batch(bindings, witnesses.times)
        self._store(bindings, witnesses.times)
        self.out = {}
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
        return self._found()

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
        for views in (FORWARD, BACKWARD):
            self.lender.lend(views.joins, pushed.joins(views))

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
        for members in self._registry.firing.reached(pairs, two_sided=False):
            if not members.can_fire(pairs, pairs):
                continue
            rows = members.registered.touched(arrived)
            if not len(rows["qid"]):
                continue
            number, graph = members.template.number, members.template.graph
            if bindings.num_rows <= FEW_ROWS:
                with suppress(TooManyRows):  # then the database does it
                    found = filtered(graph, Touched(rows), _valued(bindings))
                    self._take(number, pa.table(dict(found)))
                    continue
            self._evaluate(number, over_batch(graph, self._lend_touched(number, rows)))

    def _join(self, bindings: Columns, usable: Column, times: pa.Table) -> None:
        """Evaluate the templates with two sides (Algorithm 4, line 9), in one pass or two.

        `usable` are the rows whose values another document has, too.
        """
        if not usable.any():
            return
        first = pc.min(times["doc"]).as_py()
        for views in [FORWARD, BACKWARD] if self._looks_back(times) else [FORWARD]:
            back = views is BACKWARD
            asked = self._registry.joined(LEFT if back else RIGHT)[bindings["pair"]] > 0
            batch = chosen(bindings, np.flatnonzero(usable & asked))
            half = Pass(self._kept, self._registry.bounds(), columns_of(times), back, first)
            self._made[views] = []
            for joins in half.joins(batch, partial(self._registry.firing.driving, back=back)):
                self._made[views].append(joins)
                if len(joins["docs"]):
                    self._answer(views, joins)

    def _looks_back(self, times: pa.Table) -> bool:
        """Whether a document of the batch can be the earlier side of something kept before."""
        if self._registry.looks_back:
            return True
        earliest = pc.min(times["ts"]).as_py()
        return self._latest is None or bool(earliest < self._latest)

    # -- The templates' queries ------------------------------------------------------------

    def _answer(self, views: Views, joins: Columns) -> None:
        """Evaluate the templates over some rows of R_vj: those with rows that these may satisfy."""
        left, right = (set(distinct(joins[name]).tolist()) for name in ("pair1", "pair2"))
        live = self._registry.firing.joined(left, right)
        others = None
        if any(members.others for members in live):
            others = self._bindings_of(np.concatenate((joins["doc1"], joins["doc2"])))
            either = set(distinct(others["pair"]).tolist())
            live = [m for m in live if m.can_fire(left | either, right | either)]
        present = distinct(joins["pairs"])
        touched = [(members, members.registered.touched(present)) for members in live]
        touched = [(members, rows) for members, rows in touched if len(rows["qid"])]
        if not touched:
            return
        if len(joins["docs"]) > FEW_ROWS or not self._answer_in_memory(joins, others, touched):
            self._answer_in_database(views, joins, others, touched)

    def _bindings_of(self, docs: Column) -> Columns:
        """Return all bindings of some documents."""
        rows = self._kept.of_documents(distinct(docs))
        return self._kept.rows(rows, ("doc", "pair", "node1", "node2", "key", "valued"))

    def _answer_in_memory(
        self, joins: Columns, others: Columns | None, touched: Sequence[_Touched]
    ) -> bool:
        """Evaluate templates without the database; False if too much would come of them."""
        bindings = joins if others is None else others
        apart = several(joins) if any(members.several for members, _ in touched) else joins
        found = {}
        try:
            for members, rows in touched:
                over = apart if members.several else joins
                graph = members.template.graph
                found[members.template.number] = answers(graph, Touched(rows), over, bindings)
        except TooManyRows:
            return False
        for number, columns in found.items():
            self._take(number, pa.table(dict(columns)))
        return True

    def _answer_in_database(
        self,
        views: Views,
        joins: Columns,
        others: Columns | None,
        touched: Sequence[_Touched],
    ) -> None:
        self.lender.lend(views.joins, _table(joins, JOINS))
        if others is not None:
            self.lender.lend(views.others, _bindings(others))
        if any(members.several for members, _ in touched):
            make_several(self._connection, views)
        with written_order(self._connection):
            for members, rows in touched:
                number, apart = members.template.number, not members.together
                lent = self._lend_touched(number, rows)
                query = over_views(members.template.graph, lent, views, apart=apart)
                self._evaluate(number, query)

    def _lend_touched(self, number: int, rows: Columns) -> str:
        """Lend some rows of R_T, and return their name."""
        name = f"touched_{number}"
        self.lender.lend(name, pa.table(dict(rows)))
        return name

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
            self._evaluate(
                members.template.number, over_base(members.template.graph, table, *sides)
            )

    def _evaluate(self, template: int, query: str) -> None:
        columns = self._connection.execute(query).fetchnumpy()
        self._take(template, pa.table({name: np.asarray(c) for name, c in columns.items()}))

    def _take(self, template: int, rows: pa.Table) -> None:
        if rows.num_rows:
            earlier = self.out.get(template)
            self.out[template] = rows if earlier is None else pa.concat_tables([earlier, rows])

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


def _table(columns: Columns, schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def _bindings(columns: Columns) -> pa.Table:
    """Return bindings as the database reads them: what has no value has no key."""
    plain = {name: columns[name] for name in ("doc", "pair", "node1", "node2")}
    return pa.table({**plain, "key": pa.array(columns["key"], mask=~columns["valued"])})


def _valued(bindings: pa.Table) -> Columns:
    """Return bindings as columns, with whether they have a value."""
    return {**columns_of(bindings), "valued": bindings["key"].is_valid().to_numpy()}


_NO_JOINS = JOINS.empty_table()


def _nothing() -> tuple[pa.Table, pa.Table]:
    nothing = Witnesses(*(schema.empty_table() for schema in (BINDINGS, TIMES, VALUES)))
    return _keyed(nothing, np.empty(0, dtype=np.uint64)), nothing.times
