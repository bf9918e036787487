"""The join processor: all registered joins over one batch of witnesses.

Hong 2009, Algorithms 1, 2 and 4: store the batch, compute the views, evaluate
the conjunctive query of each template that can fire, and forget what no later
document can meet.  The caller owns the connection and the transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from templates.conjunctive import Base, filter_query, query_over_base, query_over_views
from templates.joingraph import JoinGraph
from templates.registry import Members, Registry, r_t
from templates.relations import BINDINGS, INFINITE, NODES, TIMES, VALUES, Witnesses
from templates.values import Hash, intern_values, key_of
from templates.views import BACKWARD, FORWARD, HEAVY, Needs, Pass, Views, clear, materialise

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
        hashed: Hash = key_of,
    ) -> None:
        self._connection = connection
        self._registry = registry
        self._views = views
        self._hashed = hashed
        self._swept = -INFINITE
        self._filled: list[Pass] = []
        self._joins = 0  # value joins in the last push
        self._latest: int | None = None  # time of the latest document that was joined
        self.out: dict[int, pa.Table] = {}
        self._register_batch(_no_rows())

    # -- One batch -------------------------------------------------------------------------

    def join(self, witnesses: Witnesses) -> pa.Table:
        """Store a batch and return what it completes: qid, doc1, doc2, nodes (see FOUND).

        `nodes` are the bindings of the template's output nodes in its order;
        rows are distinct.  doc1 and doc2 are the same for a join of one side.
        """
        interned = intern_values(
            self._connection, witnesses.values["strVal"].to_pylist(), self._hashed
        )
        documents = witnesses.values["docs"].to_numpy()
        common = pa.table({"key": interned.keys[interned.known | (documents > 1)]})
        self._connection.register("common", common)
        self._register_batch(_with_keys(witnesses, interned.keys))
        self._store(witnesses.bindings)
        self.out = {}
        self._filter(witnesses.bindings)
        self._filled = []
        if common.num_rows and witnesses.bindings.num_rows:
            self._join(witnesses)
        if witnesses.times.num_rows:
            self._latest = max(pc.max(witnesses.times["ts"]).as_py(), self._latest or -INFINITE)
        return self._found()

    def keep(self, witnesses: Witnesses) -> None:
        """Put witnesses of earlier documents into the join state, in place of what is there.

        They are complete for the pairs of variables and the documents that they have.
        """
        texts = witnesses.values["strVal"].to_pylist()
        interned = intern_values(self._connection, texts, self._hashed)
        self._register_batch(_with_keys(witnesses, interned.keys))
        for statement in (
            "DELETE FROM state.binding b USING batch_binding w"
            " WHERE (b.doc, b.pair) = (w.doc, w.pair)",
            "UPDATE state.node SET key = w.key FROM batch_node w"
            " WHERE (node.doc, node.node) = (w.doc, w.node) AND node.key IS NULL",
        ):
            self._connection.execute(statement)
        self._store(
            witnesses.bindings,
            "(doc, node) NOT IN (SELECT doc, node FROM state.node)",
            "doc NOT IN (SELECT doc FROM state.times)",
        )
        self._register_batch(_no_rows())
        if witnesses.times.num_rows:
            self._latest = max(pc.max(witnesses.times["ts"]).as_py(), self._latest or -INFINITE)

    def complete_views(self) -> None:
        """Make the views of a pass that the last push did not need, empty, for readers."""
        for half in (FORWARD, BACKWARD):
            if half not in self._filled:
                clear(self._connection, half)
                self._filled.append(half)

    def _register_batch(self, tables: tuple[pa.Table, ...]) -> None:
        for name, table in zip(("binding", "node", "times"), tables, strict=True):
            self._connection.register(f"batch_{name}", table)

    def _store(self, bindings: pa.Table, new_node: str = "true", new_time: str = "true") -> None:
        """Maintain the join state (Algorithm 2); witnesses of filters need not be kept."""
        if not bindings.num_rows:
            return
        kept = "true"
        if passing := self._registry.passing(pc.unique(bindings["pair"]).to_pylist()):
            kept = "pair NOT IN (" + ", ".join(map(str, sorted(passing))) + ")"
        self._connection.execute(
            f"INSERT INTO state.binding SELECT * FROM batch_binding WHERE {kept}"
        )
        self._connection.execute(
            "INSERT INTO state.node SELECT * FROM batch_node n WHERE (doc, node) IN"
            f" (SELECT doc, unnest([node1, node2]) FROM batch_binding WHERE {kept}) AND {new_node}"
        )
        self._connection.execute(
            "INSERT INTO state.times SELECT * FROM batch_times WHERE doc IN"
            f" (SELECT doc FROM batch_binding WHERE {kept}) AND {new_time}"
        )

    def _filter(self, bindings: pa.Table) -> None:
        """Evaluate the templates with one side, which see the batch only."""
        arrived = set(pc.unique(bindings["pair"]).to_pylist())
        for number, members in self._registry.members.items():
            if not members.template.graph.two_sided and _can_fire(members, arrived, arrived):
                self._evaluate(number, _filter_sql(members.template.graph, r_t(number)))

    def _join(self, witnesses: Witnesses) -> None:
        """Evaluate the templates with two sides (Algorithm 1, line 2; Algorithm 4, line 9)."""
        first = pc.min(witnesses.times["doc"]).as_py()
        for half in (FORWARD, BACKWARD):
            if half is FORWARD or self._looks_back(witnesses):
                self._half(half, first)

    def _looks_back(self, witnesses: Witnesses) -> bool:
        """Whether a document of the batch can be the earlier side of something kept before."""
        if any(members.joins for members in self._registry.members.values()):
            return True
        earliest = pc.min(witnesses.times["ts"]).as_py()
        return self._latest is None or bool(earliest < self._latest)

    def _half(self, half: Pass, first: int) -> None:
        live = [m for m in self._registry.members.values() if m.template.graph.two_sided]
        if not self._views:
            self._half_over_base(half, first, live)
            return
        needs = Needs(
            several=any(_has_several(m) for m in live),
            others=any(_has_others(m.template.graph) for m in live),
            alone=self._registry.alone(),
            selective=self._joins > HEAVY,
        )
        made = materialise(self._connection, half, first, self._registry.bounds(), needs)
        self._filled.append(half)
        self._joins = max(made, self._joins // 2)
        if not made:
            return
        left, right = self._arrived(half.views, needs.others)
        with self._written_order():
            for members in live:
                if _can_fire(members, left, right):
                    number, apart = members.template.number, not members.together
                    query = _views_sql(members.template.graph, r_t(number), half.views, apart)
                    self._evaluate(number, query)

    @contextmanager
    def _written_order(self) -> Iterator[None]:
        """Join in the order in which queries are written: R_T first, then one join after the other.

        Each step can only take rows away, so no other order is needed; looking
        for one costs more than half of a query of six joins.
        """
        self._connection.execute("SET disabled_optimizers = 'join_order'")
        try:
            yield
        finally:
            self._connection.execute("RESET disabled_optimizers")

    def _half_over_base(self, half: Pass, first: int, live: list[Members]) -> None:
        """Evaluate one pass without views (Algorithm 1)."""
        self._connection.execute(
            "CREATE OR REPLACE TEMP VIEW old_binding AS"
            f" SELECT * FROM state.binding WHERE doc < {first}"
        )
        sides = (_BATCH, _OLD) if half.right.old else (_KEPT, _BATCH)
        for members in live:
            table = r_t(members.template.number)
            self._evaluate(
                members.template.number, _base_sql(members.template.graph, table, *sides)
            )

    def _arrived(self, views: Views, others: bool) -> tuple[set[int], set[int]]:
        """Return the pairs of variables that have rows on the left and on the right."""
        fetch = self._connection.execute
        joined = fetch(f"SELECT DISTINCT pair1, pair2 FROM {views.joins}").fetchall()
        found = {left for left, _ in joined}, {right for _, right in joined}
        if others:
            for pairs, other in zip(found, (views.left_other, views.right_other), strict=True):
                rows = fetch(f"SELECT DISTINCT pair FROM {other}").fetchall()
                pairs.update(pair for (pair,) in rows)
        return found

    def _evaluate(self, template: int, query: str) -> None:
        columns = self._connection.execute(query).fetchnumpy()
        rows = pa.table({name: np.asarray(column) for name, column in columns.items()})
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
        keeps = self._registry.keeps()
        shortest = min(keeps.values(), default=0)
        if keeps and clock < self._swept + max(1, shortest // 8):
            return False
        self._swept = clock
        finite = [(pair, clock - keep) for pair, keep in keeps.items() if keep < INFINITE]
        bounds = pa.table({"pair": [p for p, _ in finite], "bound": [b for _, b in finite]})
        self._connection.register("bounds", bounds.cast(_BOUNDS))
        ((deleted,),) = self._connection.execute(
            "DELETE FROM state.binding USING bounds, state.times WHERE binding.pair = bounds.pair"
            " AND times.doc = binding.doc AND times.ts < bounds.bound"
        ).fetchall()
        if deleted:
            self._sweep()
        return bool(deleted)

    def forget_pairs(self, pairs: Sequence[int]) -> None:
        """Delete the witnesses of pairs that no join uses any more."""
        if pairs:
            listed = ", ".join(str(int(pair)) for pair in pairs)
            self._connection.execute(f"DELETE FROM state.binding WHERE pair IN ({listed})")
            self._sweep()

    def _sweep(self) -> None:
        """Delete nodes, times and values that no binding refers to."""
        for statement in (
            "DELETE FROM state.node WHERE (doc, node) NOT IN"
            " (SELECT doc, unnest([node1, node2]) FROM state.binding)",
            "DELETE FROM state.times WHERE doc NOT IN (SELECT doc FROM state.binding)",
            "DELETE FROM state.value WHERE key NOT IN"
            " (SELECT key FROM state.node WHERE key IS NOT NULL)",
        ):
            self._connection.execute(statement)


_BOUNDS = pa.schema([("pair", pa.int32()), ("bound", pa.int64())])


_KEPT = Base("state.binding", "state.node", "state.times")
_OLD = Base("old_binding", "state.node", "state.times")
_BATCH = Base("batch_binding", "batch_node", "batch_times")


@lru_cache(maxsize=4096)
def _views_sql(graph: JoinGraph, table: str, views: Views, apart: bool) -> str:
    return query_over_views(graph, table, views, apart=apart)


@lru_cache(maxsize=4096)
def _base_sql(graph: JoinGraph, table: str, left: Base, right: Base) -> str:
    return query_over_base(graph, table, left, right)


@lru_cache(maxsize=4096)
def _filter_sql(graph: JoinGraph, table: str) -> str:
    return filter_query(graph, table, "batch_binding")


@lru_cache(maxsize=4096)
def _has_others(graph: JoinGraph) -> bool:
    """Whether some pair of the template ends in a node without an equality."""
    equal = graph.compared("=")
    return any(child not in equal for _, child in graph.pairs())


def _has_several(members: Members) -> bool:
    """Whether the template's query looks only at documents with several value joins."""
    return len(members.template.graph.equalities) > 1 and not members.together


def _can_fire(members: Members, left: set[int], right: set[int]) -> bool:
    """Whether for each place of the template some variable that is used there has arrived."""
    graph = members.template.graph
    return all(
        not column.keys().isdisjoint(right if graph.nodes[child].side else left)
        for column, (_, child) in zip(members.columns, graph.pairs(), strict=True)
    )


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


def _with_keys(witnesses: Witnesses, keys: npt.NDArray[np.uint64]) -> tuple[pa.Table, ...]:
    """Return bindings and nodes with keys in place of rows of values; and the times."""
    by_row = pa.array(keys, pa.uint64())
    keyed = [
        table.drop_columns("value").append_column("key", by_row.take(table["value"]))
        for table in (witnesses.bindings, witnesses.nodes)
    ]
    return (*keyed, witnesses.times)


def _no_rows() -> tuple[pa.Table, ...]:
    nothing = Witnesses(*(schema.empty_table() for schema in (BINDINGS, NODES, TIMES, VALUES)))
    return _with_keys(nothing, np.empty(0, dtype=np.uint64))
