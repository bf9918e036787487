"""The same queries as in `templates.sql.conjunctive`, over NumPy columns, for small batches.

A push of a few documents meets a handful of kept rows, for which DuckDB takes ten times as long
(decision 052).  `Body` is the conjunctive query of a template, to be read side by side with the
SQL, which says the same for any number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from templates.columns.columns import Column, Columns, Index, TooManyRows, chosen, equal_rows
from templates.model.join_graph import LEFT, RIGHT, Edge, JoinGraph
from templates.model.relations import OPERATORS
from templates.registry.members import Members
from templates.sql.queries import Evaluator
from templates.sql.views import Views

FOLLOWED_BY = OPERATORS["FOLLOWED BY"]


def in_time(rows: Columns, times: Columns) -> Column:
    """Return whether order, window and arrival hold: see `conjunctive._in_time`.

    `rows` are of R_T, `times` have the gap, the lead and the age of two documents for each.
    """
    gap, lead, window = times["gap"], times["lead"], rows["wl"]
    followed = (lead > 0) & (gap <= window)
    holds = np.where(rows["op"] == FOLLOWED_BY, followed, abs(gap) <= window)
    found: Column = holds & (times["age"] <= rows["keep"])
    return found


class SmallBatch:
    """The evaluator over NumPy columns.

    A join of more than `columns.MOST` pairs of rows is left to another evaluator.
    """

    def __init__(self, otherwise: Evaluator) -> None:
        self.made = 0
        self._otherwise = otherwise

    def answers(self, members: Members, rows: Columns, views: Views) -> Columns:
        """Return R_out of a template with two sides over the views of a batch."""
        joins = views.several if members.several else views.joins
        bindings = views.joins if views.bindings is None else views.bindings
        try:
            found = _answers(members.template.graph, Touched(rows), joins, bindings)
        except TooManyRows:
            return self._otherwise.answers(members, rows, views)
        self.made += len(found["qid"])
        return found

    def filtered(self, members: Members, rows: Columns, bindings: Columns) -> Columns:
        """Return R_out of a template with one side over the bindings of a batch."""
        try:
            found = _filtered(members.template.graph, Touched(rows), bindings)
        except TooManyRows:
            return self._otherwise.filtered(members, rows, bindings)
        self.made += len(found["qid"])
        return found


class Touched:
    """Rows of a template's R_T, to be found by one of its columns."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._indexes: dict[str, Index] = {}

    def by(self, column: str) -> Index:
        """Return the index of a column."""
        if column not in self._indexes:
            self._indexes[column] = Index(self.columns[column])
        return self._indexes[column]


class Body:
    """A conjunctive query that is being answered: what its relations so far have in common.

    `_rows` are rows of R_T; all other columns go along with them, one entry for each answer.
    """

    def __init__(self, graph: JoinGraph, registered: Touched) -> None:
        self.graph = graph
        self._registered = registered
        self._pairs = list(graph.pairs)
        self._rows: Column | None = None
        self._documents: dict[int, Column] = {}
        self._keys: dict[int, Column] = {}
        self._nodes: dict[int, Column] = {}
        self._joined: Columns = {}  # of the first row of R_vj

    def read_value_join(self, number: int, joins: Columns, edge: Edge) -> None:
        """Join R_vj for one comparison: it binds both nodes and those above them."""
        known = [] if self._rows is None else [(self._joined["docs"], joins["docs"])]
        for side, child in ((1, edge.left), (2, edge.right)):
            known += self._bound(self._above(child), joins[f"above{side}"])
            known += self._bound(child, joins[f"node{side}"])
        found = self._read(joins, f"e{number}", "pairs", known)
        if not number:
            self._joined = found
        for side, child in ((1, edge.left), (2, edge.right)):
            self._documents.setdefault(side - 1, found[f"doc{side}"])
            self._keys.setdefault(child, found["key"])
            found = self._bind(self._above(child), f"above{side}", found)
            found = self._bind(child, f"node{side}", found)

    def read_others(self, bindings: Columns) -> None:
        """Join the bindings of the nodes that no comparison has bound yet."""
        for index, (_, child) in enumerate(self._pairs):
            if child not in self._keys:
                self.read_pair(index, bindings)

    def read_pair(self, index: int, bindings: Columns) -> None:
        """Join the bindings of a pair of nodes."""
        parent, child = self._pairs[index]
        side = self.graph.nodes[child].side
        if child in self.graph.compared:  # what has no value differs from nothing
            bindings = chosen(bindings, bindings["valued"])
        known = self._bound(parent, bindings["node1"]) + self._bound(child, bindings["node2"])
        if side in self._documents:
            known.append((self._documents[side], bindings["doc"]))
        found = self._read(bindings, f"p{index}", "pair", known)
        self._documents.setdefault(side, found["doc"])
        self._keys[child] = found["key"]
        found = self._bind(parent, "node1", found)
        self._bind(child, "node2", found)

    def differ(self) -> None:
        """Keep what fulfils the comparisons that are no equalities."""
        for edge in self.graph.edges:
            if edge.operator != "=":
                self._keep(self._keys[edge.left] != self._keys[edge.right])

    def in_time(self) -> None:
        """Keep what fulfils order, window and arrival."""
        rows = {name: self._column(name) for name in ("op", "wl", "keep")}
        self._keep(in_time(rows, self._joined))

    def answer(self) -> Columns:
        """Return R_out: qid, doc1, doc2, node1 ... noden, wl."""
        nodes = {f"node{i + 1}": self._nodes[i] for i in range(len(self.graph.nodes))}
        left = self._documents[LEFT]
        return {
            "qid": self._column("qid"),
            "doc1": left,
            "doc2": self._documents.get(RIGHT, left),
            **nodes,
            "wl": self._column("wl"),
        }

    # -- Parts -----------------------------------------------------------------------------

    def _above(self, child: int) -> int:
        return next(above for above, below in self._pairs if below == child)

    def _bound(self, node: int, column: Column) -> list[tuple[Column, Column]]:
        """Return what a column that binds a node has to equal, if the node is bound already."""
        return [(self._nodes[node], column)] if node in self._nodes else []

    def _read(
        self,
        relation: Columns,
        asked: str,
        column: str,
        equal: Sequence[tuple[Column, Column]],
    ) -> Columns:
        """Join a relation one of whose columns is a column of R_T; return its rows."""
        if self._rows is None:
            which, self._rows = self._registered.by(asked).rows(relation[column])
            return chosen(relation, which)
        ours = [self._column(asked), *(one for one, _ in equal)]
        theirs = [relation[column], *(other for _, other in equal)]
        kept, which = equal_rows(ours, theirs)
        self._keep(kept)
        return chosen(relation, which)

    def _bind(self, node: int, column: str, found: Columns) -> Columns:
        """Bind a node to a column of the rows just read; return those of them that agree."""
        values = found[column]
        known = self._nodes.setdefault(node, values)
        if known is values:
            return found
        agree = known == values
        self._keep(agree)
        return chosen(found, agree)

    def _keep(self, rows: Column) -> None:
        """Keep some of the answers so far, by their numbers or as a mask."""
        assert self._rows is not None
        self._rows = self._rows[rows]
        self._joined = chosen(self._joined, rows)
        for columns in (self._documents, self._keys, self._nodes):
            for name, column in columns.items():
                columns[name] = column[rows]

    def _column(self, name: str) -> Column:
        """Return a column of R_T for each answer."""
        return self._registered.columns[name][self._rows]


def _answers(graph: JoinGraph, registered: Touched, joins: Columns, others: Columns) -> Columns:
    """Return R_out of a two-sided template; see `conjunctive.query_over_views`.

    `others` are all bindings of the documents that are joined.
    """
    body = Body(graph, registered)
    for number, edge in enumerate(graph.equalities):
        body.read_value_join(number, joins, edge)
        if not number:
            body.in_time()
    body.read_others(others)
    body.differ()
    return body.answer()


def _filtered(graph: JoinGraph, registered: Touched, bindings: Columns) -> Columns:
    """Return R_out of a one-sided template over bindings; see `conjunctive.filter_query`."""
    body = Body(graph, registered)
    for index, _ in enumerate(graph.pairs):
        body.read_pair(index, bindings)
    return body.answer()
