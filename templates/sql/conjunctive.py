"""One conjunctive query for all queries of a template (Hong 2009, section 6.4.4).

The query is built as a syntax tree from the template alone: a relation for
each pair of adjacent pattern nodes or for each value join, conditions that
say which of their columns bind the same node, and R_T, whose rows say which
variables each registered query puts in the template's places.  It comes in two
forms: over R_bin and R_doc (Algorithm 1), and over the materialised R_vj
(Algorithm 4; see `templates.sql.views`).

The order and window of section 6.4.4's Algorithm 3 are part of the query, so
that no row leaves the database only to be thrown away.
"""

from __future__ import annotations

from sqlglot import exp

from templates.model.join_graph import LEFT, RIGHT, Edge, JoinGraph
from templates.sql.queries import Base
from templates.sql.views import FORWARD, OTHERS, SEVERAL


def query_over_views(graph: JoinGraph, r_t: str, *, apart: bool) -> str:
    """Return the SQL that computes R_out of a two-sided template from R_vj.

    Columns: qid, doc1, doc2, node1 ... noden (as numbered in the template), wl.
    `apart`: no row of R_T has two value joins that one row of R_vj can satisfy.
    """
    body = _Body(graph)
    joins = SEVERAL if apart and len(graph.equalities) > 1 else FORWARD
    for number, edge in enumerate(graph.equalities):
        body.read_value_join(number, joins, edge)
    for index, (_, child) in enumerate(body.pairs):
        if child not in body.keys:
            side = graph.nodes[child].side
            body.read_pair(index, f"b{index}", OTHERS, body.documents[side])
            body.keys[child] = _column(f"b{index}", "key")
    body.compare([edge for edge in graph.edges if edge.operator != "="])
    body.conditions.append(
        _in_time(_column("v0", "gap"), _column("v0", "lead"), _column("v0", "age"))
    )
    return body.sql(r_t)


def query_over_base(graph: JoinGraph, r_t: str, left: Base, right: Base) -> str:
    """Return the SQL that computes R_out of a two-sided template from R_bin and R_doc."""
    body = _Body(graph)
    compared = graph.compared
    for index, (_, child) in enumerate(body.pairs):
        side, alias = graph.nodes[child].side, f"b{index}"
        base = right if side else left
        body.read_pair(index, alias, base.bindings, body.documents.get(side))
        if child in compared:
            body.read(base.nodes, f"d{child}", doc=_column(alias, "doc"), node=body.node(child))
            body.keys[child] = _column(f"d{child}", "key")
    body.compare(graph.edges)
    for side, base in ((LEFT, left), (RIGHT, right)):
        body.read(base.times, f"ts{side}", doc=body.documents[side])
    different = exp.NEQ(this=_column("ts0", "base"), expression=_column("ts1", "base"))
    body.conditions.extend((different, _in_time(*_times())))
    return body.sql(r_t)


def filter_query(graph: JoinGraph, r_t: str, bindings: str) -> str:
    """Return the SQL that computes R_out of a template with one side only."""
    body = _Body(graph)
    for index in range(len(body.pairs)):
        body.read_pair(index, f"b{index}", bindings, body.documents.get(LEFT))
    body.documents[RIGHT] = body.documents[LEFT]
    return body.sql(r_t)


class _Body:
    """The relations and conditions of a query that is being built.

    `documents` are the columns that hold each side's document, `keys` those
    with a node's value; the column that binds a node is the first one met.
    """

    def __init__(self, graph: JoinGraph) -> None:
        self.graph = graph
        self.pairs = list(graph.pairs)
        self.documents: dict[int, exp.Expr] = {}
        self.keys: dict[int, exp.Expr] = {}
        self.conditions: list[exp.Expr] = []
        self._tables: list[exp.Expr] = []
        self._nodes: dict[int, exp.Expr] = {}

    def read(self, relation: str, alias: str, **columns: exp.Expr) -> None:
        """Add a relation some of whose columns equal given ones."""
        self._tables.append(_table(relation, alias))
        for name, value in columns.items():
            self._equal(_column(alias, name), value)

    def read_pair(self, index: int, alias: str, relation: str, doc: exp.Expr | None) -> None:
        """Add the relation with the bindings of a pair of nodes, and bind them."""
        parent, child = self.pairs[index]
        self.read(relation, alias, pair=_column("t", f"p{index}"))
        if doc is not None:
            self._equal(_column(alias, "doc"), doc)
        self.documents.setdefault(self.graph.nodes[child].side, _column(alias, "doc"))
        self._bind(parent, _column(alias, "node1"))
        self._bind(child, _column(alias, "node2"))

    def read_value_join(self, number: int, relation: str, edge: Edge) -> None:
        """Add R_vj for one comparison: it binds both nodes and those above them."""
        alias = f"v{number}"
        self.read(relation, alias, pairs=_column("t", f"e{number}"))
        if number:
            self._equal(_column(alias, "docs"), _column("v0", "docs"))
        for side, child in ((1, edge.left), (2, edge.right)):
            parent = next(above for above, below in self.pairs if below == child)
            self._bind(parent, _column(alias, f"above{side}"))
            self._bind(child, _column(alias, f"node{side}"))
            self.documents.setdefault(side - 1, _column(alias, f"doc{side}"))
            self.keys.setdefault(child, _column(alias, "key"))

    def compare(self, edges: tuple[Edge, ...] | list[Edge]) -> None:
        """Add a condition for each comparison between the sides."""
        for edge in edges:
            comparison = exp.EQ if edge.operator == "=" else exp.NEQ
            left, right = self.keys[edge.left].copy(), self.keys[edge.right].copy()
            self.conditions.append(comparison(this=left, expression=right))

    def node(self, number: int) -> exp.Expr:
        """Return the column that binds a node."""
        return self._nodes[number]

    def _bind(self, number: int, column: exp.Expr) -> None:
        self._equal(column, self._nodes.setdefault(number, column))

    def _equal(self, left: exp.Expr, right: exp.Expr) -> None:
        if left != right:
            self.conditions.append(exp.EQ(this=left.copy(), expression=right.copy()))

    def sql(self, r_t: str) -> str:
        """Return the query with the head of R_out."""
        head = [
            _column("t", "qid"),
            exp.alias_(self.documents[LEFT], "doc1"),
            exp.alias_(self.documents[RIGHT], "doc2"),
            *(exp.alias_(self.node(i), f"node{i + 1}") for i in range(len(self.graph.nodes))),
            _column("t", "wl"),
        ]
        query = exp.select(*head).from_(_table(r_t, "t"))
        for table in self._tables:
            query = query.join(table, join_type="cross")
        return query.where(*self.conditions).sql(dialect="duckdb")


def _in_time(gap: exp.Expr, lead: exp.Expr, age: exp.Expr) -> exp.Expr:
    """Return the order, window and arrival condition between two documents.

    FOLLOWED BY asks the right one to begin after the left one has ended.  The
    last part says what is "still kept": the newcomer of the two meets the
    earlier arrival iff no more than window plus lateness had passed on the
    stream clock when it came.
    """
    window, keep = _column("t", "wl"), _column("t", "keep")
    followed = exp.and_(
        exp.GT(this=lead, expression=exp.Literal.number(0)),
        exp.LTE(this=gap, expression=window),
    )
    joined = exp.LTE(this=exp.Abs(this=gap.copy()), expression=window.copy())
    is_followed_by = exp.EQ(this=_column("t", "op"), expression=exp.Literal.number(0))
    holds = exp.Case(ifs=[exp.If(this=is_followed_by, true=followed)], default=joined)
    return exp.and_(holds, exp.LTE(this=age, expression=keep))


def _times() -> tuple[exp.Expr, exp.Expr, exp.Expr]:
    """Return the columns gap, lead and age of R_vj as expressions over R_docTS and R_docTSW."""
    gap = exp.Sub(this=_column("ts1", "ts"), expression=_column("ts0", "ts"))
    lead = exp.Sub(this=_column("ts1", "start"), expression=_column("ts0", "ts"))
    forth = exp.Sub(this=_column("ts1", "clock"), expression=_column("ts0", "ts"))
    back = exp.Sub(this=_column("ts0", "clock"), expression=_column("ts1", "ts"))
    ranks = _column("ts0", "rank"), _column("ts1", "rank")
    first = exp.LT(this=ranks[0], expression=ranks[1])
    last = exp.GT(this=ranks[0].copy(), expression=ranks[1].copy())
    together = exp.Anonymous(this="greatest", expressions=[forth.copy(), back.copy()])
    age = exp.Case(
        ifs=[exp.If(this=first, true=forth), exp.If(this=last, true=back)], default=together
    )
    return gap, lead, age


def _column(table: str, name: str) -> exp.Expr:
    return exp.column(name, table)


def _table(name: str, alias: str) -> exp.Expr:
    return exp.alias_(exp.to_table(name), alias, table=True)
