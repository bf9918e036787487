"""Sequential, the paper's baseline: one SQL query for each registered query.

It runs on DuckDB over the same relations as the shared templates, with the
variables written into each query.  It may read base relations (R_bin, R_doc) or
the materialised R_L and R_R of section 6.5, as text or prepared statements.  Its
input is prepared outside its time, and the fastest form counts.  A second baseline
reads R_vj, the value joins that the shared side computes for all queries within its
time.  It gets half of the measured work for free, and shows the gain of sharing the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import duckdb

from templates import JoinGraph
from templates.template import JoinRow

Found: TypeAlias = tuple[int, int, int, tuple[int, ...]]  # query, doc1, doc2, nodes


class Sequential:
    """One SQL query for each registered query, over the relations of the shared join of d2.

    These are registered in the database of `connection`.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        rows: Sequence[JoinRow],
        graphs: Mapping[int, JoinGraph],
    ) -> None:
        self._connection = connection
        self._rows = rows
        self._graphs = graphs

    def prepare(self) -> None:
        """Prepare, after the shared join, the relations that a long-lived system would have."""
        for name, query in _READY.items():
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")
        for number, graph in self._graphs.items():
            parameters = [f"${i + 1}" for i, _ in enumerate(graph.pairs)]
            for relations in _QUERIES:
                query = _QUERIES[relations](graph, parameters)
                self._connection.execute(f"PREPARE {relations}_{number} AS {query}")

    def texts(self, form: str, queries: Iterable[int]) -> list[tuple[int, str]]:
        """Return the SQL of each of some queries, in one of `FORMS`."""
        relations, kind = form.split(", ")
        texts = []
        for query in queries:
            row = self._rows[query]
            pairs = [str(pair) for pair in row.pairs]
            if kind == "prepared":
                text = f"EXECUTE {relations}_{row.template}({', '.join(pairs)})"
            else:
                text = _QUERIES[relations](self._graphs[row.template], pairs)
            texts.append((query, text))
        return texts

    def run(self, texts: Iterable[tuple[int, str]]) -> list[Found]:
        """Run queries one after the other and return their results."""
        execute = self._connection.execute
        return [
            (query, found[0], found[1], found[2:])
            for query, text in texts
            for found in execute(text).fetchall()
        ]


_READY = {
    "seq_right": "SELECT doc, pair, node1, node2, key FROM batch_binding",
    "seq_node": "SELECT DISTINCT doc, node2 AS node, key FROM batch_binding WHERE key IS NOT NULL",
    "seq_kept": "SELECT doc, pair, node1, node2, key FROM kept_binding",
    "seq_kept_node": "SELECT DISTINCT doc, node2 AS node, key FROM kept_binding"
    " WHERE key IS NOT NULL",
    "seq_kept_times": "SELECT doc, ts FROM kept_times",
    "seq_times": "FROM batch_times",
    "seq_l": "SELECT doc, pair, node1, node2, key, ts FROM seq_kept JOIN seq_kept_times USING (doc)"
    " WHERE key IN (SELECT key FROM batch_binding)",
    "seq_r": "SELECT doc, pair, node1, node2, key, ts FROM seq_right JOIN seq_times USING (doc)"
    " WHERE key IN (SELECT key FROM kept_binding)",
    "seq_vj": "SELECT l.doc AS doc0, r.doc AS doc1, l.pair AS pair0, r.pair AS pair1,"
    " l.node1 AS above0, r.node1 AS above1, l.node2 AS node0, r.node2 AS node1"
    " FROM seq_l l JOIN seq_r r ON l.key = r.key WHERE l.ts < r.ts",
}


class _Body:
    """The relations and conditions of a query; the first column met binds a node or document."""

    def __init__(self) -> None:
        self.tables: list[str] = []
        self.conditions: list[str] = []
        self.nodes: dict[int, str] = {}
        self.documents: dict[int, str] = {}

    def equal(self, left: str, right: str) -> None:
        """Add an equality that is not trivial."""
        if left != right:
            self.conditions.append(f"{left} = {right}")

    def read_pair(self, graph: JoinGraph, number: int, relation: str, pair: str) -> str:
        """Add the bindings of a pair of nodes; return their alias."""
        upper, lower = list(graph.pairs)[number]
        alias, side = f"b{number}", graph.nodes[lower].side
        self.tables.append(f"{relation} {alias}")
        self.conditions.append(f"{alias}.pair = {pair}")
        self.equal(f"{alias}.doc", self.documents.setdefault(side, f"{alias}.doc"))
        self.equal(f"{alias}.node1", self.nodes.setdefault(upper, f"{alias}.node1"))
        self.equal(f"{alias}.node2", self.nodes.setdefault(lower, f"{alias}.node2"))
        return alias

    def sql(self, graph: JoinGraph) -> str:
        """Return the query: both documents and the nodes that belong to a match."""
        outputs = [self.nodes[i] for i, node in enumerate(graph.nodes) if node.output]
        head = ", ".join([self.documents[0], self.documents[1], *outputs])
        return f"SELECT {head} FROM {', '.join(self.tables)} WHERE {' AND '.join(self.conditions)}"


def over_base(graph: JoinGraph, pairs: Sequence[str]) -> str:
    """Return a query over R_bin, R_doc and R_docTS, with the given variables in its places."""
    body, compared, keys = _Body(), graph.compared, {}
    for number, (_, lower) in enumerate(graph.pairs):
        side = graph.nodes[lower].side
        relation, nodes = (("seq_kept", "seq_kept_node"), ("seq_right", "seq_node"))[side]
        alias = body.read_pair(graph, number, relation, pairs[number])
        if lower in compared:
            body.tables.append(f"{nodes} d{lower}")
            body.conditions.append(f"d{lower}.doc = {alias}.doc AND d{lower}.node = {alias}.node2")
            keys[lower] = f"d{lower}.key"
    for edge in graph.edges:
        body.equal(keys[edge.left], keys[edge.right])
    body.tables.extend(("seq_kept_times t0", "seq_times t1"))
    body.equal("t0.doc", body.documents[0])
    body.equal("t1.doc", body.documents[1])
    body.conditions.append("t0.ts < t1.ts")
    return body.sql(graph)


def over_sides(graph: JoinGraph, pairs: Sequence[str]) -> str:
    """Return a query over R_L and R_R."""
    body, compared, last = _Body(), graph.compared, ["", ""]
    keys = {}
    for number, (_, lower) in enumerate(graph.pairs):
        side = graph.nodes[lower].side
        wide = ("seq_kept", "seq_right")[side]
        relation = ("seq_l", "seq_r")[side] if lower in compared else wide
        alias = body.read_pair(graph, number, relation, pairs[number])
        if lower in compared:
            keys[lower], last[side] = f"{alias}.key", alias
    for edge in graph.edges:
        body.equal(keys[edge.left], keys[edge.right])
    body.conditions.append(f"{last[0]}.ts < {last[1]}.ts")
    return body.sql(graph)


def over_joins(graph: JoinGraph, pairs: Sequence[str]) -> str:
    """Return a query over R_vj, which holds R_L and R_R joined on the value."""
    body, compared = _Body(), graph.compared
    place = {lower: (n, upper) for n, (upper, lower) in enumerate(graph.pairs)}
    for number, edge in enumerate(graph.edges):
        alias = f"v{number}"
        body.tables.append(f"seq_vj {alias}")
        for side, lower in enumerate((edge.left, edge.right)):
            pair, upper = place[lower]
            body.conditions.append(f"{alias}.pair{side} = {pairs[pair]}")
            for node, column in ((upper, f"{alias}.above{side}"), (lower, f"{alias}.node{side}")):
                body.equal(column, body.nodes.setdefault(node, column))
            document = f"{alias}.doc{side}"
            body.equal(document, body.documents.setdefault(side, document))
    for number, (_, lower) in enumerate(graph.pairs):
        if lower not in compared:
            wide = ("seq_kept", "seq_right")[graph.nodes[lower].side]
            body.read_pair(graph, number, wide, pairs[number])
    return body.sql(graph)


_QUERIES = {"R_vj": over_joins, "R_L": over_sides, "R_bin": over_base}
KINDS = ("text", "prepared")
FORMS = tuple(f"{relations}, {kind}" for relations in ("R_L", "R_bin") for kind in KINDS)
WITH_JOINS = tuple(f"R_vj, {kind}" for kind in KINDS)
