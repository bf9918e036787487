"""The join processor: all registered joins over one batch of witnesses.

Hong 2009, Algorithms 1, 2 and 4: store the batch, compute the views, evaluate
the conjunctive query of each template that can fire, and forget what no later
document can meet.  The caller owns the connection and the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from templates.columns import Columns, TooManyRows, chosen, columns_of
from templates.conjunctive import Base, filter_query, query_over_base, query_over_views
from templates.fewrows import FewRows
from templates.inmemory import value_joins as value_joins_in_memory
from templates.joingraph import JoinGraph
from templates.lending import Lender
from templates.registry import Registry, r_t
from templates.relations import BINDINGS, INFINITE, TIMES, VALUES, Witnesses
from templates.values import Hash, Values, keys_of
from templates.views import (
    BACKWARD,
    FORWARD,
    HEAVY,
    JOINS,
    Pass,
    Views,
    make_others,
    make_several,
    value_joins,
    written_order,
)

FOUND = pa.schema(
    [
        ("qid", pa.int32()),
        ("doc1", pa.int64()),
        ("doc2", pa.int64()),
        ("nodes", pa.list_(pa.int32())),
    ]
)

Numbers = npt.NDArray[np.int64]


class Processor:
    """Stage 2: from the witnesses of a batch to the rows of every registered join.

    With `views` the queries run over R_vj, made from R_L and R_R (Algorithm 4),
    without over R_bin and R_doc (Algorithm 1); the results are the same.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        registry: Registry,
        *,
        views: bool = True,
        hashed: Hash = keys_of,
    ) -> None:
        self._connection = connection
        self.lender = Lender(connection)
        self._registry = registry
        self._views = views
        self._values = Values(connection, self.lender, hashed)
        self._swept = -INFINITE
        self._made: dict[Pass, pa.Table] = {}  # R_vj of the last push
        self._few = FewRows(connection, self.lender, registry)
        connection.execute("RESET disabled_optimizers")  # which a failure may have left set
        self._joins = 0  # value joins in the last push
        self._latest: int | None = None  # time of the latest document that was joined
        self.out: dict[int, pa.Table] = {}
        self._lend_batch(*_nothing())

    # -- One batch -------------------------------------------------------------------------

    def join(self, witnesses: Witnesses) -> pa.Table:
        """Store a batch and return what it completes: qid, doc1, doc2, nodes (see FOUND).

        `nodes` are the bindings of the template's output nodes in its order;
        rows are distinct.  doc1 and doc2 are the same for a join of one side.
        """
        values = witnesses.values
        interned = self._values.intern(values["strVal"].to_pylist())
        bindings = _timed(witnesses, interned.keys)
        self._lend_batch(bindings, witnesses.times)
        self._store(bindings)
        self.out = {}
        self._filter(bindings)
        self._made = {}
        common = pa.array(interned.known | (values["docs"].to_numpy() > 1))
        side = bindings.filter(common.take(witnesses.bindings["value"]))
        if side.num_rows:
            self._join(side, witnesses.times)
        if witnesses.times.num_rows:
            self._latest = max(pc.max(witnesses.times["ts"]).as_py(), self._latest or -INFINITE)
        return self._found()

    def keep(self, witnesses: Witnesses) -> None:
        """Put witnesses of earlier documents into the join state, in place of what is there.

        They are complete for the pairs of variables and the documents that they have.
        """
        interned = self._values.intern(witnesses.values["strVal"].to_pylist())
        bindings = _timed(witnesses, interned.keys)
        self._lend_batch(bindings, witnesses.times)
        self._connection.execute(
            "DELETE FROM state.binding b USING batch_binding w"
            " WHERE (b.doc, b.pair) = (w.doc, w.pair)"
        )
        self._store(bindings)
        self._lend_batch(*_nothing())
        if witnesses.times.num_rows:
            self._latest = max(pc.max(witnesses.times["ts"]).as_py(), self._latest or -INFINITE)

    def show_views(self) -> None:
        """Let readers have R_vj of the last push, of both passes."""
        for half in (FORWARD, BACKWARD):
            self.lender.lend(half.views.joins, self._made.get(half, JOINS.empty_table()))

    def _lend_batch(self, bindings: pa.Table, times: pa.Table) -> None:
        self.lender.lend("batch_binding", bindings)
        self.lender.lend("batch_times", times)

    def _store(self, bindings: pa.Table) -> None:
        """Maintain the join state (Algorithm 2); witnesses of filters need not be kept."""
        passing = self._registry.passing(pc.unique(bindings["pair"]).to_pylist())
        if passing:
            listed = pa.array(sorted(passing), pa.int32())
            bindings = bindings.filter(pc.invert(pc.is_in(bindings["pair"], listed)))
        if bindings.num_rows:
            self.lender.lend("kept_binding", bindings)
            self._connection.execute("INSERT INTO state.binding SELECT * FROM kept_binding")

    def _filter(self, bindings: pa.Table) -> None:
        """Evaluate the templates with one side, which see the batch only."""
        arrived = set(pc.unique(bindings["pair"]).to_pylist())
        for members in self._registry.firing.reached(arrived, two_sided=False):
            if members.can_fire(arrived, arrived):
                number = members.template.number
                self._evaluate(number, _filter_sql(members.template.graph, r_t(number)))

    def _join(self, side: pa.Table, times: pa.Table) -> None:
        """Evaluate the templates with two sides (Algorithm 1, line 2; Algorithm 4, line 9)."""
        first = pc.min(times["doc"]).as_py()
        kept = self._few.kept(side["key"].to_numpy()) if self._views else None
        self.lender.lend("common", pa.table({"key": pc.unique(side["key"])}))
        self.lender.lend("batch_side", side)
        _, rows = np.unique(side["key"].to_numpy(), return_counts=True)
        self._joins = max(self._joins, int((rows * rows).sum()))
        passes = [FORWARD, BACKWARD] if self._looks_back(times) else [FORWARD]
        for half in passes:
            if kept is None or not self._half_in_memory(half, first, columns_of(side), kept):
                self._half(half, first)

    def _half_in_memory(self, half: Pass, first: int, batch: Columns, kept: Columns) -> bool:
        """Evaluate one pass over few rows; False if too much would come of them."""
        earlier = chosen(kept, kept["doc"] < first)
        left, right = (batch, earlier) if half.right.old else (kept, batch)
        try:
            joins = value_joins_in_memory(left, right, self._registry.bounds())
            found = self._few.found(joins) if len(joins["docs"]) else {}
        except TooManyRows:
            return False
        columns = [pa.array(joins[field.name], field.type) for field in JOINS]
        self._made[half] = pa.table(columns, schema=JOINS)
        for number, rows in found.items():
            self._take(number, pa.table(dict(rows)))
        return True

    def _looks_back(self, times: pa.Table) -> bool:
        """Whether a document of the batch can be the earlier side of something kept before."""
        if self._registry.looks_back:
            return True
        earliest = pc.min(times["ts"]).as_py()
        return self._latest is None or bool(earliest < self._latest)

    def _half(self, half: Pass, first: int) -> None:
        if not self._views:
            self._half_over_base(half, first)
            return
        selective = self._joins > HEAVY
        if selective:
            self.lender.lend("alone", self._registry.alone())
        joins = value_joins(self._connection, half, first, self._registry.bounds(), selective)
        self._joins = max(joins.num_rows, self._joins // 2)
        self._made[half] = joins
        if not joins.num_rows:
            return
        self.lender.lend(half.views.joins, joins)
        left, right = (set(pc.unique(joins[name]).to_pylist()) for name in ("pair1", "pair2"))
        live = self._registry.firing.joined(left, right)
        if any(m.others for m in live):
            more = make_others(self._connection, half, first)
            left, right = left | more[0], right | more[1]
            live = [m for m in live if m.can_fire(left, right)]
        if any(m.several for m in live):
            make_several(self._connection, half.views)
        with written_order(self._connection):
            for members in live:
                number, apart = members.template.number, not members.together
                query = _views_sql(members.template.graph, r_t(number), half.views, apart)
                self._evaluate(number, query)

    def _half_over_base(self, half: Pass, first: int) -> None:
        """Evaluate one pass without views (Algorithm 1)."""
        self._connection.execute(
            "CREATE OR REPLACE TEMP VIEW old_binding AS"
            f" SELECT * FROM state.binding WHERE doc < {first};" + _BASE_VIEWS
        )
        sides = (_BATCH, _OLD) if half.right.old else (_KEPT, _BATCH)
        for members in self._registry.members.values():
            if not members.two_sided:
                continue
            table = r_t(members.template.number)
            self._evaluate(
                members.template.number, _base_sql(members.template.graph, table, *sides)
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

        Deletions are batched: nothing happens until the clock has moved by an
        eighth of the shortest window since the last time.
        """
        shortest = self._registry.shortest
        if shortest is not None and clock < self._swept + max(1, shortest // 8):
            return False
        self._swept = clock
        keeps = self._registry.keeps()
        finite = [(pair, clock - keep) for pair, keep in keeps.items() if keep < INFINITE]
        bounds = pa.table({"pair": [p for p, _ in finite], "bound": [b for _, b in finite]})
        self.lender.lend("bounds", bounds.cast(_BOUNDS))
        ((deleted,),) = self._connection.execute(
            "DELETE FROM state.binding USING bounds WHERE binding.pair = bounds.pair"
            " AND binding.ts < bounds.bound"
        ).fetchall()
        if deleted:
            self._values.sweep()
        return bool(deleted)

    def forget_pairs(self, pairs: Sequence[int]) -> None:
        """Delete the witnesses of pairs that no join uses any more."""
        if pairs:
            listed = ", ".join(str(int(pair)) for pair in pairs)
            self._connection.execute(f"DELETE FROM state.binding WHERE pair IN ({listed})")
            self._values.sweep()


_BOUNDS = pa.schema([("pair", pa.int32()), ("bound", pa.int64())])


_KEPT = Base("state.binding", "base_node", "base_times")
_OLD = Base("old_binding", "base_node", "base_times")
_BATCH = Base("batch_binding", "batch_node", "batch_times")

_BASE_VIEWS = """
CREATE OR REPLACE TEMP VIEW base_node AS
    SELECT DISTINCT doc, node2 AS node, key FROM state.binding WHERE key IS NOT NULL;
CREATE OR REPLACE TEMP VIEW batch_node AS
    SELECT DISTINCT doc, node2 AS node, key FROM batch_binding WHERE key IS NOT NULL;
CREATE OR REPLACE TEMP VIEW base_times AS
    SELECT DISTINCT doc, start, ts, clock, rank, base FROM state.binding;
"""
"""R_doc of compared nodes, and R_docTS."""


@lru_cache(maxsize=4096)
def _views_sql(graph: JoinGraph, table: str, views: Views, apart: bool) -> str:
    return query_over_views(graph, table, views, apart=apart)


@lru_cache(maxsize=4096)
def _base_sql(graph: JoinGraph, table: str, left: Base, right: Base) -> str:
    return query_over_base(graph, table, left, right)


@lru_cache(maxsize=4096)
def _filter_sql(graph: JoinGraph, table: str) -> str:
    return filter_query(graph, table, "batch_binding")


def _project(rows: pa.Table, graph: JoinGraph) -> pa.Table:
    """Return the rows of R_out with the bindings of the output nodes only, without doubles."""
    outputs = [i for i, node in enumerate(graph.nodes) if node.output]
    names = ["qid", "doc1", "doc2", *(f"node{i + 1}" for i in outputs)]
    table = np.stack([rows[name].to_numpy().astype(np.int64) for name in names], axis=1)
    table = table[np.lexsort(table.T[::-1])]
    if len(outputs) < len(graph.nodes):
        repeated = (table[1:] == table[:-1]).all(axis=1)
        table = table[np.concatenate(([True], ~repeated))]
    nodes: Numbers = table[:, 3:]
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


def _timed(witnesses: Witnesses, keys: npt.NDArray[np.uint64]) -> pa.Table:
    """Return bindings as they are kept: with keys in place of rows of values, and times."""
    bindings, times = witnesses.bindings, witnesses.times
    by_row = pa.array(keys, pa.uint64())
    timed = bindings.drop_columns("value").append_column("key", by_row.take(bindings["value"]))
    place = pa.array(np.searchsorted(times["doc"].to_numpy(), bindings["doc"].to_numpy()))
    for name in times.column_names[1:]:
        timed = timed.append_column(name, times[name].take(place))
    return timed


def _nothing() -> tuple[pa.Table, pa.Table]:
    nothing = Witnesses(*(schema.empty_table() for schema in (BINDINGS, TIMES, VALUES)))
    return _timed(nothing, np.empty(0, dtype=np.uint64)), nothing.times
