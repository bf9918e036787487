"""One conjunctive query for all queries of a template (Hong 2009, section 6.4.4).

R_out(qid, doc1, doc2, node1 ... noden, wl) :- R_T(...), relation(...), ..., conditions

The body has an atom for each value join or pair of adjacent pattern nodes.  A variable in several
atoms joins them; the column of R_T that an atom names says which pairs of variables a registered
query puts there.  `select` writes the query as SQL, `templates.evaluators` evaluates it
over columns.  Atoms are in the order of evaluation: each can only take rows away.

They read the materialised views of section 6.5.  R_vj joins the bindings of either side on their
value, once for all templates (`templates.state.value_joins` makes it).

Differs from section 6.5: there R_vj has the nodes only and each template's query joins R_L and R_R
again.  Sharing that join leaves a template's query one relation for each value join instead of two,
which is most of its cost.

A batch is joined in two passes.  In the first the right side is the batch and the left side the
whole state, the batch included; in the second the left side is the batch and the right side the
state before it.  For input in order of time only JOIN has results in the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from templates.columns import (
    Column,
    Columns,
    chosen,
    grouped_counts,
    pack,
    steps,
)
from templates.model.join_graph import (
    MEASURES,
    OPERATORS,
    SYMMETRIC_JOIN,
    UNEQUAL,
    JoinGraph,
)
from templates.storage import sql_schema

R_VJ = sql_schema(
    "doc1 BIGINT, doc2 BIGINT, key UBIGINT, pair1 INTEGER, above1 INTEGER, node1 INTEGER,"
    " pair2 INTEGER, above2 INTEGER, docs BIGINT, pairs BIGINT, node2 INTEGER,"
    " gap BIGINT, lead BIGINT, age BIGINT"
)
"""R_vj.

`docs` and `pairs` are both documents and both pairs of variables as one number
each, which is what queries join by (`columns.pack`); `gap`, `lead` and `age` are the
measures of `join_graph`.
"""

JOINS, BINDINGS, BATCH = "vj1", "others1", "batch_binding"
SIDES = ("left_binding", "right_binding")
"""Names of relations: R_vj, all bindings of the documents that it joins, the bindings of a batch,
and those of a left and a right document."""

FORWARD, BACKWARD = "vj1", "vj2"
"""The names of R_vj of the first and of the second pass, to be read after a push."""


@dataclass(frozen=True, slots=True)
class RelationAtom:
    """An atom of the body: a relation under an alias.

    `binds` are its columns with the variables that they bind.  `key` is a column and the column of
    R_T that it must equal.  Of a `valued` atom only rows with a value count, as NULL would satisfy
    `!=`.
    """

    alias: str
    relation: str
    binds: tuple[tuple[str, str], ...]
    key: tuple[str, str] | None = None
    valued: bool = False


@dataclass(frozen=True, slots=True)
class ConjunctiveQuery:
    """The body of a template's query, and its comparisons of variables (operator, left, right).

    `timed`: the temporal relation is a condition on the variables `MEASURES`.
    """

    nodes: int
    atoms: tuple[RelationAtom, ...]
    compared: tuple[tuple[str, str, str], ...] = ()
    timed: bool = False

    @property
    def head(self) -> tuple[str, ...]:
        """The variables of R_out between qid and wl."""
        return "doc1", "doc2", *map(node, range(self.nodes))


def node(number: int) -> str:
    """Return the name of the variable of a node, given the node's number."""
    return f"node{number + 1}"


def key(number: int) -> str:
    """Return the name of the variable of a node's value, given the node's number."""
    return f"key{number + 1}"


def over_views(graph: JoinGraph) -> ConjunctiveQuery:
    """Return the query of a template with two sides over R_vj (Algorithm 4)."""
    atoms = (*_value_joins(graph), *_others(graph))
    unequal = [edge for edge in graph.edges if edge.operator == UNEQUAL]
    compared = tuple(("<>", key(edge.left), key(edge.right)) for edge in unequal)
    return ConjunctiveQuery(len(graph.nodes), atoms, compared, timed=True)


def over_batch(graph: JoinGraph) -> ConjunctiveQuery:
    """Return the query of a template with one side over the bindings of a batch."""
    atoms = (
        binding(graph, place, BATCH, docs=("doc1", "doc2") if not place else ("doc1",))
        for place, _ in enumerate(graph.pairs)
    )
    return ConjunctiveQuery(len(graph.nodes), tuple(atoms))


def over_sides(graph: JoinGraph) -> ConjunctiveQuery:
    """Return the query of a template over the bindings of two documents, without R_vj.

    Nodes that have to be equal share the variable of their value.
    """
    keys = {child: key(child) for child in sorted(graph.compared)}
    for edge in graph.equalities:
        old, new = keys[edge.right], keys[edge.left]
        keys = {child: new if one == old else one for child, one in keys.items()}
    atoms = []
    for place, (_, child) in enumerate(graph.pairs):
        side, valued = graph.nodes[child].side, child in keys
        atom = binding(graph, place, SIDES[side], docs=(f"doc{side + 1}",), valued=valued)
        if valued:
            atom = replace(atom, binds=(*atom.binds[:-1], ("key", keys[child])))
        atoms.append(atom)
    unequal = [edge for edge in graph.edges if edge.operator == UNEQUAL]
    compared = tuple(("<>", keys[edge.left], keys[edge.right]) for edge in unequal)
    return ConjunctiveQuery(len(graph.nodes), tuple(atoms), compared)


def _value_joins(graph: JoinGraph) -> Iterator[RelationAtom]:
    """Yield an atom of R_vj for each equality: it binds both nodes and the nodes above them."""
    parents = {child: parent for parent, child in graph.pairs}
    valued: set[int] = set()
    for number, edge in enumerate(graph.equalities):
        binds = [("docs", "docs")]
        for side, child in ((1, edge.left), (2, edge.right)):
            binds += [(f"above{side}", node(parents[child])), (f"node{side}", node(child))]
        if not number:
            binds += [(name, name) for name in ("doc1", "doc2", *MEASURES)]
        binds += [("key", key(end)) for end in (edge.left, edge.right) if end not in valued]
        valued |= {edge.left, edge.right}
        yield RelationAtom(f"v{number}", JOINS, tuple(binds), ("pairs", f"e{number}"))


def _others(graph: JoinGraph) -> Iterator[RelationAtom]:
    """Yield an atom for each child of a pair of nodes that has no equality.

    It binds the child and the node above it in the relation of bindings.
    """
    for place, (_, child) in enumerate(graph.pairs):
        if child not in graph.equal:
            docs = (f"doc{graph.nodes[child].side + 1}",)
            valued = child in graph.compared
            yield binding(graph, place, BINDINGS, docs=docs, valued=valued)


def binding(
    graph: JoinGraph, place: int, relation: str, *, docs: tuple[str, ...], valued: bool = False
) -> RelationAtom:
    """Return the atom that binds the pair of nodes at index `place` of the graph's `pairs`.

    `relation` is the relation of bindings to read, `docs` are variables for its document.  A
    `valued` atom binds the child's value, too.
    """
    parent, child = graph.pairs[place]
    binds = [("doc", doc) for doc in docs]
    binds += [("node1", node(parent)), ("node2", node(child))]
    if valued:
        binds.append(("key", key(child)))
    return RelationAtom(f"b{place}", relation, tuple(binds), ("pair", f"p{place}"), valued)


# -- Time ----------------------------------------------------------------------------------


def in_time(rows: Columns, measures: Columns) -> Column:
    """Return a mask of rows of R_T: order, window and retention hold for the sides of each.

    `measures` has the columns gap, lead, age, doc1 and doc2 of the two sides of each row.
    """
    low = gap = measures["gap"]
    for one in OPERATORS:  # instead of np.choose, which takes 2 to 5 times as long
        if one.lowest != "gap":
            low = np.where(rows["op"] == one.number, measures[one.lowest], low)
    found: Column = (low >= rows["lower"]) & (gap <= rows["wl"]) & (measures["age"] <= rows["keep"])
    once = rows["op"] == SYMMETRIC_JOIN.number
    if once.any():
        found &= ~once | (gap > 0) | (measures["doc1"] < measures["doc2"])
    return found


def in_time_sql(measures: Mapping[str, str], row: str) -> str:
    """Return `in_time` in SQL: `measures` has their expressions, `row` is the alias of R_T."""
    low = " ".join(f"WHEN {one.number} THEN {measures[one.lowest]}" for one in OPERATORS)
    return (
        f"(CASE {row}.op {low} END >= {row}.lower AND {measures['gap']} <= {row}.wl"
        f" AND {measures['age']} <= {row}.keep AND ({row}.op <> {SYMMETRIC_JOIN.number}"
        f" OR {measures['gap']} > 0 OR {measures['doc1']} < {measures['doc2']}))"
    )


# -- Views ----------------------------------------------------------------------------------


IN_DATABASE = 100_000
"""Answers of a row of R_T up to which a query is left to the database, which makes all rows."""


@dataclass(frozen=True, eq=False)
class BatchView:
    """The bindings of a batch, which templates with one side read."""

    bindings: Columns

    @property
    def docs(self) -> Column:
        """The document of each binding, packed with itself: both documents, as in `Views.docs`."""
        return pack(self.bindings["doc"], self.bindings["doc"])

    def relations(self) -> dict[str, Columns]:
        """Return the bindings under the name of their relation in the query."""
        return {BATCH: self.bindings}

    def of(self, mask: Column) -> BatchView:
        """Return the view of the bindings for which `mask` is True."""
        return BatchView(chosen(self.bindings, mask))

    def of_row(self, graph: JoinGraph, row: Columns) -> BatchView:
        """Return the view of the bindings whose pair of variables is in one row of R_T."""
        return self.of(_have(self.bindings["pair"], row, "p", len(graph.pairs)))

    @cached_property
    def _largest(self) -> Column:
        return _largest(self.bindings, "doc", "pair")

    def may_be_many(self, graph: JoinGraph) -> bool:
        """Return True if one row of R_T of a template may have more than `IN_DATABASE` answers."""
        return bool((self._largest ** len(graph.pairs)).sum() > IN_DATABASE)


@dataclass(frozen=True, eq=False)
class Views:
    """The views of one part of a batch: R_vj, and all bindings of the documents that it joins.

    `bindings` is None where no template reads it: all its nodes have an equality.
    """

    joins: Columns
    bindings: Columns | None = None

    def relations(self) -> dict[str, Columns]:
        """Return the relations that a template's query reads, by their names in the query."""
        found = {JOINS: self.joins}
        return found if self.bindings is None else {**found, BINDINGS: self.bindings}

    @property
    def docs(self) -> Column:
        """Both documents of each row of R_vj, packed."""
        return self.joins["docs"]

    def of(self, mask: Column) -> Views:
        """Return the views with the rows of R_vj for which `mask` is True, and all bindings."""
        return Views(chosen(self.joins, mask), self.bindings)

    def of_row(self, graph: JoinGraph, row: Columns) -> Views:
        """Return the views with the rows of R_vj that one row of R_T needs, if in time for it."""
        has = _have(self.joins["pairs"], row, "e", len(graph.equalities))
        return self.of(has & in_time(row, self.joins))

    @cached_property
    def _largest(self) -> Column:
        return _largest(self.joins, "docs", "pairs")

    @cached_property
    def _largest_other(self) -> float:
        assert self.bindings is not None
        return float(_largest(self.bindings, "doc", "pair").max(initial=0))

    def may_be_many(self, graph: JoinGraph) -> bool:
        """Return True if one row of R_T may have more than `IN_DATABASE` answers.

        The bound is the largest number of value joins of *equal* pairs of variables that two
        documents have, to the power of the equalities.  The number of all their value
        joins as a base would exceed `IN_DATABASE` in nearly every batch.  The bound is not computed
        where all rows together have few combinations.
        """
        joins, free = len(self.joins["docs"]), len(graph.pairs) - len(graph.equal)
        others = 1 if self.bindings is None else len(self.bindings["doc"])
        if joins ** len(graph.equalities) * others**free <= IN_DATABASE:
            return False
        bound = self._largest ** len(graph.equalities)
        return bool(bound.sum() * (self._largest_other**free if free else 1) > IN_DATABASE)


PartViews: TypeAlias = BatchView | Views
"""The views of one part of a batch, which can be divided by its documents."""


def _have(column: Column, row: Columns, kind: str, places: int) -> Column:
    """Return a mask of the values in a column that a row of R_T has in one of its pairs or joins.

    These columns of R_T are called `kind`, `p` or `e`, followed by a number below `places`.
    """
    return np.isin(column, [row[f"{kind}{place}"][0] for place in range(places)])


def _largest(relation: Columns, docs: str, pairs: str) -> Column:
    """Return the largest number of rows with equal `pairs`, for each value of `docs`, ascending.

    Both are names of columns of `relation`.
    """
    groups, counts = grouped_counts(relation, docs, pairs)
    return np.maximum.reduceat(counts, steps(groups[docs])).astype(np.float64)


# -- SQL -------------------------------------------------------------------------------------

# Order and window of section 6.4.4's Algorithm 3 are part of the query, so that the database
# discards rows that do not satisfy them.


def select(query: ConjunctiveQuery, r_t: str, times: Mapping[str, str] | None = None) -> str:
    """Return a query as SQL; `r_t` is the table of R_T.

    `times` are expressions in place of the variables that `in_time_sql` reads.
    """
    held: dict[str, str] = {}  # by variable: the first column that binds it, as `alias.column`
    conditions = []
    for atom in query.atoms:
        if atom.key is not None:
            conditions.append(f"{atom.alias}.{atom.key[0]} = t.{atom.key[1]}")
        for column, variable in atom.binds:
            named = f"{atom.alias}.{column}"
            if held.setdefault(variable, named) != named:
                conditions.append(f"{named} = {held[variable]}")
    conditions += [f"{held[left]} {sign} {held[right]}" for sign, left, right in query.compared]
    if query.timed:
        conditions.append(in_time_sql(times or held, "t"))
    head = ", ".join(f"{held[variable]} AS {variable}" for variable in query.head)
    tables = " CROSS JOIN ".join(f"{atom.relation} AS {atom.alias}" for atom in query.atoms)
    return (
        f"SELECT t.qid, {head}, t.wl FROM {r_t} AS t CROSS JOIN {tables}"
        f" WHERE {' AND '.join(conditions)}"
    )
