"""One conjunctive query for all queries of a template (Hong 2009, section 6.4.4).

The query is built as a syntax tree from the template alone: for each pair of
adjacent pattern nodes one copy of a witness relation, for each comparison a
condition on values, and R_T, whose rows say which variables each registered
query puts in the template's places.  It comes in two forms: over R_bin and
R_doc (Algorithm 1), and over R_L and R_R, in which those are already joined
and reduced to the values that occur on both sides (Algorithm 4).

The order and window of section 6.4.4's Algorithm 3 are part of the query, so
that no row leaves the database only to be thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from templates.joingraph import LEFT, RIGHT, JoinGraph

OPERATORS = {"FOLLOWED BY": 0, "JOIN": 1}


@dataclass(frozen=True, slots=True)
class Sources:
    """The names of the relations that one side of a join is read from.

    `valued` holds pairs whose second node is compared by equality,
    `structural` all others.  Where `nodes` and `times` are named, keys and
    times are joined from there (Algorithm 1); otherwise `valued` and
    `structural` carry them (Algorithm 4).
    """

    valued: str
    structural: str
    nodes: str | None = None
    times: str | None = None


def conjunctive_query(graph: JoinGraph, r_t: str, left: Sources, right: Sources) -> str:
    """Return the SQL that computes R_out of a two-sided template.

    Columns: qid, doc1, doc2, node1 ... noden (as numbered in the template), wl.
    """
    body = _Body(graph, (left, right))
    body.read_pairs()
    body.compare()
    body.conditions.append(_in_time(body.time(LEFT), body.time(RIGHT)))
    nodes = [exp.alias_(body.node(i), f"node{i + 1}") for i in range(len(graph.nodes))]
    head = [
        _column("t", "qid"),
        exp.alias_(_column(body.anchor(LEFT), "doc"), "doc1"),
        exp.alias_(_column(body.anchor(RIGHT), "doc"), "doc2"),
        *nodes,
        _column("t", "wl"),
    ]
    return body.sql(r_t, head)


def filter_query(graph: JoinGraph, r_t: str, source: Sources) -> str:
    """Return the SQL that computes R_out of a template with one side only."""
    body = _Body(graph, (source, source))
    body.read_pairs()
    nodes = [exp.alias_(body.node(i), f"node{i + 1}") for i in range(len(graph.nodes))]
    document = _column(body.anchor(LEFT), "doc")
    head = [_column("t", "qid"), exp.alias_(document, "doc1"), exp.alias_(document, "doc2")]
    return body.sql(r_t, [*head, *nodes, _column("t", "wl")])


class _Body:
    """The relations and conditions of a query that is being built."""

    def __init__(self, graph: JoinGraph, sources: tuple[Sources, Sources]) -> None:
        self.graph = graph
        self.sources = sources
        self.pairs = list(graph.pairs())
        self.tables: list[exp.Expr] = []
        self.conditions: list[exp.Expr] = []
        self.keys: dict[int, exp.Expr] = {}

    def read_pairs(self) -> None:
        """Add one copy of a witness relation for each pair, bound to R_T and to its neighbours."""
        by_equality = self.graph.compared("=")
        compared = self.graph.compared()
        for index, (parent, child) in enumerate(self.pairs):
            alias, side = f"b{index}", self.graph.nodes[child].side
            source = self.sources[side]
            relation = source.valued if child in by_equality else source.structural
            self.tables.append(_table(relation, alias))
            self._where(_column(alias, "pair"), _column("t", f"p{index}"))
            self._where(_column(alias, "doc"), _column(self.anchor(side), "doc"))
            self._where(_column(alias, "node1"), self.node(parent))
            self._where(_column(alias, "node2"), self.node(child))
            if child in compared:
                self.keys[child] = self._key(child, alias, source)

    def _key(self, node: int, alias: str, source: Sources) -> exp.Expr:
        if source.nodes is None:
            return _column(alias, "key")
        self.tables.append(_table(source.nodes, f"d{node}"))
        self._where(_column(f"d{node}", "doc"), _column(alias, "doc"))
        self._where(_column(f"d{node}", "node"), _column(alias, "node2"))
        return _column(f"d{node}", "key")

    def compare(self) -> None:
        """Add a condition for each comparison between the sides."""
        for edge in self.graph.edges:
            equal = edge.operator == "="
            self.conditions.append(
                (exp.EQ if equal else exp.NEQ)(
                    this=self.keys[edge.left].copy(), expression=self.keys[edge.right].copy()
                )
            )

    def time(self, side: int) -> str:
        """Return the alias of the relation that has the times of a side's document."""
        times = self.sources[side].times
        if times is None:
            return self.anchor(side)
        alias = f"ts{side}"
        self.tables.append(_table(times, alias))
        self._where(_column(alias, "doc"), _column(self.anchor(side), "doc"))
        return alias

    def anchor(self, side: int) -> str:
        """Return the alias of a side's first pair."""
        return next(
            f"b{i}" for i, (_, c) in enumerate(self.pairs) if self.graph.nodes[c].side == side
        )

    def node(self, number: int) -> exp.Expr:
        """Return the column that binds a node: of the pair that it ends, else of one it begins."""
        ending = [i for i, (_, child) in enumerate(self.pairs) if child == number]
        if ending:
            return _column(f"b{ending[0]}", "node2")
        beginning = [i for i, (parent, _) in enumerate(self.pairs) if parent == number]
        return _column(f"b{beginning[0]}", "node1")

    def _where(self, left: exp.Expr, right: exp.Expr) -> None:
        if left != right:
            self.conditions.append(exp.EQ(this=left, expression=right))

    def sql(self, r_t: str, head: list[exp.Expr]) -> str:
        query = exp.select(*head).from_(_table(r_t, "t"))
        for table in self.tables:
            query = query.join(table, join_type="cross")
        return query.where(*self.conditions).sql(dialect="duckdb")


def _in_time(left: str, right: str) -> exp.Expr:
    """Return the order, window and arrival condition between two documents.

    The last part says what is "still kept": the newcomer of the two meets the
    earlier arrival iff no more than window plus lateness had passed on the
    stream clock when it came.
    """
    l_ts, r_ts = _column(left, "ts"), _column(right, "ts")
    distance = exp.Sub(this=r_ts, expression=l_ts)
    window = _column("t", "wl")
    followed = exp.and_(
        exp.GT(this=r_ts.copy(), expression=l_ts.copy()),
        exp.LTE(this=distance, expression=window),
    )
    joined = exp.LTE(this=exp.Abs(this=distance.copy()), expression=window.copy())
    operator = exp.EQ(this=_column("t", "op"), expression=exp.Literal.number(0))
    holds = exp.Case(ifs=[exp.If(this=operator, true=followed)], default=joined)
    different = exp.NEQ(this=_column(left, "base"), expression=_column(right, "base"))
    l_rank, r_rank = _column(left, "rank"), _column(right, "rank")
    after_left = exp.LTE(this=_column(right, "clock"), expression=_until(left))
    after_right = exp.LTE(this=_column(left, "clock"), expression=_until(right))
    kept = exp.Case(
        ifs=[
            exp.If(this=exp.LT(this=l_rank, expression=r_rank), true=after_left),
            exp.If(this=exp.GT(this=l_rank.copy(), expression=r_rank.copy()), true=after_right),
        ],
        default=exp.and_(after_left.copy(), after_right.copy()),
    )
    return exp.and_(holds, different, kept)


def _until(document: str) -> exp.Expr:
    """Return the stream time up to which a document is kept for a query."""
    return exp.Add(this=_column(document, "ts"), expression=_column("t", "keep"))


def _column(table: str, name: str) -> exp.Expr:
    return exp.column(name, table)


def _table(name: str, alias: str) -> exp.Expr:
    return exp.alias_(exp.to_table(name), alias, table=True)
