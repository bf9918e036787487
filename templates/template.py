"""Query templates: the isomorphism classes of minors, and their rows in R_T (Hong 2009, 6.4).

The sides of a join are distinguished, pattern nodes are not named.  Instead of a canonical form a
template keeps the numbering of the first minor of its class; a later minor finds its template among
those with equal refined colours by an explicit isomorphism (section 6.4.1).  Both the class and the
search space are memoised by the minor itself, so the thousandth query of a shape costs a look-up.

A template can fire only if for each of its places some pair of variables of a row has bindings.  So
templates are found by the pairs that have arrived, and cost nothing otherwise, however many there
are.  A batch touches few rows of R_T: those whose value joins are all among the batch's.  Only
these enter the template's query, so it costs the same with ten rows and with a million (6.4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from templates.columns import Column, Columns, GrowingColumns, Index, among, distinct
from templates.model.conjunctive_query import ConjunctiveQuery, over_batch, over_views
from templates.model.join_graph import JoinGraph, TemporalRelation

Colours = tuple[int, ...]
Adjacency = tuple[Mapping[int, tuple[str, ...]], ...]

TIES = 2_000  # embeddings compared between equal variables; then the best so far is taken


@dataclass(frozen=True, slots=True)
class Template:
    """A class of isomorphic minors; its nodes have the numbers that they have in `graph`, one of
    it.
    """

    number: int
    graph: JoinGraph


@dataclass(slots=True)
class Templates:
    """All templates in use, found by minor."""

    _classes: dict[tuple[object, ...], list[Template]] = field(default_factory=dict)
    _by_minor: dict[JoinGraph, Template] = field(default_factory=dict)
    _next: int = 1

    def __iter__(self) -> Iterator[Template]:
        return (template for group in self._classes.values() for template in group)

    def restore(self, template: Template) -> None:
        """Add a template under the number that it has; later ones get larger numbers."""
        self._classes.setdefault(refined(template.graph).signature, []).append(template)
        self._by_minor[template.graph] = template
        self._next = max(self._next, template.number + 1)

    def of(self, minor: JoinGraph) -> Template:
        """Return the template of a minor, a new one if no known one is isomorphic."""
        known = self.find(minor)
        if known is None:
            known = Template(self._next, minor)
            self.restore(known)
        return known

    def find(self, minor: JoinGraph) -> Template | None:
        """Return the template of a minor, None if no known one is isomorphic."""
        known = self._by_minor.get(minor)
        if known is not None:
            return known
        for template in self._classes.get(refined(minor).signature, ()):
            if embedding(template.graph, minor, (0,) * len(minor.nodes), ties=0) is not None:
                self._by_minor[minor] = template
                return template
        return None

    def drop(self, template: Template) -> None:
        """Drop an unused template; its number may be assigned again after a restart."""
        self._classes[refined(template.graph).signature].remove(template)
        self._by_minor = {m: t for m, t in self._by_minor.items() if t is not template}


def embedding(
    template: JoinGraph, minor: JoinGraph, variables: Sequence[int], ties: int = TIES
) -> tuple[int, ...] | None:
    """Return for each node of `template` its node of `minor`; None if they are not isomorphic.

    Of several ways (automorphisms) the one with the lexicographically
    smallest tuple of variables is taken, so that equal queries become equal
    rows whatever order they were written in.  Only the order of the variables
    matters, so the result for one order is cached.  `ties` bounds the search
    among equal variables (`TIES`).
    """
    places = {variable: place for place, variable in enumerate(sorted(set(variables)))}
    return _embedding(template, minor, tuple(map(places.__getitem__, variables)), ties)


@lru_cache(maxsize=65_536)
def _embedding(
    template: JoinGraph, minor: JoinGraph, variables: tuple[int, ...], ties: int
) -> tuple[int, ...] | None:
    wanted, offered = refined(template).colours, refined(minor).colours
    if sorted(wanted) != sorted(offered) or len(template.edges) != len(minor.edges):
        return None
    ours, theirs = adjacency(template), adjacency(minor)

    def fits(taken: tuple[int, ...], node: int) -> bool:
        """Return True if a node of `minor` may stand for the next node of `template`.

        `taken` are the nodes of `minor` that stand for the earlier ones.
        """
        at = len(taken)
        if node in taken or wanted[at] != offered[node]:
            return False
        parent = template.nodes[at].parent
        if (None if parent is None else taken[parent]) != minor.nodes[node].parent:
            return False
        return all(
            ours[at].get(earlier, ()) == theirs[node].get(other, ())
            for earlier, other in enumerate(taken)
        )

    def extended(taken: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the best completion of a partial embedding (depth first, variables in order).

        None if it has none.
        """
        nonlocal ties
        if len(taken) == len(template.nodes):
            return taken
        fitting = [node for node, _ in enumerate(minor.nodes) if fits(taken, node)]
        fitting.sort(key=variables.__getitem__)
        for _, equal in groupby(fitting, key=variables.__getitem__):
            best: tuple[int, ...] | None = None
            for node in equal:
                if best is not None:
                    ties -= 1
                    if ties < 0:
                        break
                found = extended((*taken, node))
                if found is not None and (best is None or key(found) < key(best)):
                    best = found
            if best is not None:
                return best
        return None

    def key(found: tuple[int, ...]) -> list[int]:
        return [variables[node] for node in found]

    return extended(())


@lru_cache(maxsize=4096)
def adjacency(graph: JoinGraph) -> Adjacency:
    """Return for each node the operators of its comparisons, by the other node of each."""
    neighbours: tuple[dict[int, tuple[str, ...]], ...] = tuple({} for _ in graph.nodes)
    for edge in sorted(graph.edges, key=lambda e: e.operator):
        for one, other in ((edge.left, edge.right), (edge.right, edge.left)):
            neighbours[one][other] = (*neighbours[one].get(other, ()), edge.operator)
    return neighbours


class ColourRefinement(NamedTuple):
    """Colours of nodes, which isomorphisms preserve; isomorphic graphs have equal signatures."""

    colours: Colours
    signature: tuple[object, ...]


@lru_cache(maxsize=4096)
def refined(graph: JoinGraph) -> ColourRefinement:
    """Return the refinement of a graph (1-dimensional Weisfeiler-Leman)."""
    colours, signature = _rank([(n.side, n.output, n.parent is None) for n in graph.nodes])
    signatures = [signature]
    while True:
        finer, signature = _rank([_surroundings(graph, colours, i) for i in range(len(colours))])
        signatures.append(signature)
        if len(set(finer)) == len(set(colours)):
            return ColourRefinement(finer, tuple(signatures))
        colours = finer


def _surroundings(graph: JoinGraph, colours: Colours, number: int) -> tuple[object, ...]:
    parent = graph.nodes[number].parent
    children = sorted(colours[i] for i, n in enumerate(graph.nodes) if n.parent == number)
    edges = sorted((ops, colours[other]) for other, ops in adjacency(graph)[number].items())
    above = -1 if parent is None else colours[parent]
    return colours[number], above, tuple(children), tuple(edges)


def _rank(labels: list[tuple[object, ...]]) -> tuple[Colours, tuple[object, ...]]:
    """Return the rank of each label among the distinct ones, and the labels as sorted texts.

    Isomorphic graphs have the same texts, however their nodes are numbered.
    """
    ordered = sorted(set(labels), key=repr)
    rank = {label: number for number, label in enumerate(ordered)}
    return tuple(rank[label] for label in labels), tuple(sorted(map(repr, labels)))


# -- Rows of R_T by template -----------------------------------------------------------------

K = TypeVar("K")

FEW = 1_000
"""Number of rows of a template up to which `TemplateRows.rarest` returns all, without an index."""


PairNumbers: TypeAlias = "set[int]"
RowColumns: TypeAlias = "Mapping[str, Sequence[int]]"
"""Rows of R_T as columns, whose names are in `TemplateRows.names`."""


class JoinRow(NamedTuple):
    """One row of R_T: a distinct join, with a pair of variables for each place of its template.

    `keep` is its retention in ticks.
    """

    template: int
    pairs: tuple[int, ...]
    relation: TemporalRelation
    keep: int


class TemplateRows:
    """The rows of R_T of one template, with an index for each column that is looked up.

    An index is made, and added rows enter it, on first use.  Removed rows stay until they are half
    of all.  `columns` counts for each place the rows that have each pair of variables, for a quick
    test whether the template can fire.  `seconds` is the total time in which its query was
    evaluated.
    """

    def __init__(self, template: Template) -> None:
        self.template, graph = template, template.graph
        self.seconds = 0.0
        self.two_sided = graph.two_sided  # it joins; otherwise it is a filter
        self.alone = (self,)  # the shared entry of `TemplateIndex` for pairs of this template only
        self.columns: list[dict[int, int]] = [{} for _ in graph.pairs]
        self._sides = [graph.nodes[child].side for _, child in graph.pairs]
        # indexes in `places` of the pairs that end in a node with an equality
        self._equal = [at for at, (_, child) in enumerate(graph.pairs) if child in graph.equal]
        # True if some pair ends in a node without an equality
        self.others = len(self._equal) < len(self.columns)
        self.places = [f"p{place}" for place, _ in enumerate(graph.pairs)]  # columns of R_T
        joins = [f"e{place}" for place, _ in enumerate(graph.equalities)]
        self._asked = joins or self.places
        self.names = ("qid", *self.places, *joins, "op", "lower", "wl", "keep")
        self._rows = GrowingColumns(dict.fromkeys((*self.names, "alive"), np.int64))
        self._dead = 0
        self._indexes: dict[str, Index] = {}

    @cached_property
    def query(self) -> ConjunctiveQuery:
        """The conjunctive query of the template."""
        graph = self.template.graph
        return over_views(graph) if graph.two_sided else over_batch(graph)

    # -- rows ------------------------------------------------------------------------------

    def add(self, rows: RowColumns) -> None:
        """Add rows; the caller adds their pairs by `count`."""
        alive = [1] * len(rows["qid"])
        self._rows.extend({**{name: rows[name] for name in self.names}, "alive": alive})

    def remove(self, qid: int) -> None:
        """Remove the row of R_T with a qid."""
        self._rows["alive"][np.flatnonzero(self._rows["qid"] == qid)] = 0
        self._dead += 1
        if self._dead > self._rows.size // 2:
            self._rows.only(np.flatnonzero(self._rows["alive"]))
            self._dead = 0
            self._indexes.clear()

    def every(self) -> Columns:
        """Return all rows of R_T of the template, as columns."""
        rows = np.flatnonzero(self._rows["alive"])
        return {name: self._rows[name][rows] for name in self.names}

    def touched(self, present: Column) -> Columns:
        """Return the rows whose value joins are all in `present`, which is sorted and distinct.

        A value join is a number for two pairs of variables (`columns.pack`); of
        a template with one side it is the pairs of variables themselves.
        """
        _, rows = self.having(self._asked[0], present)
        for name in self._asked[1:]:
            rows = rows[among(self._rows[name][rows], present)]
        rows.sort()
        return {name: self._rows[name][rows] for name in self.names}

    def any_of(self, present: Column) -> Columns:
        """Return the rows that have a value join in `present`, which is sorted and distinct."""
        rows = distinct(np.concatenate([self.having(name, present)[1] for name in self._asked]))
        return {name: self._rows[name][rows] for name in self.names}

    def having(self, name: str, present: Column) -> tuple[Column, Column]:
        """Return two columns: an index in `present`, and a row whose column `name` has that value.

        They have an item for each such row; `column` takes these row numbers.
        """
        which, rows = self._index(name).rows(present)
        alive = self._rows["alive"][rows] > 0
        return which[alive], rows[alive]

    def rarest(self, names: Iterable[str], present: Column) -> Column:
        """Return the rows with a value of `present` in the column of `names` where such rows are
        fewest.

        If the template has few rows (`FEW`), all are returned: looking them up would cost more.
        """
        if self._rows.size <= FEW:
            return np.flatnonzero(self._rows["alive"])
        counts = {name: self._index(name).counts(present).sum() for name in names}
        return self.having(min(counts, key=counts.__getitem__), present)[1]

    def longest_keep(self, pair: int) -> int:
        """Return the longest retention, in ticks, of the rows with a pair; -1 without rows."""
        rows = np.concatenate([self.having(name, np.array([pair]))[1] for name in self.places])
        return int(self._rows["keep"][rows].max(initial=-1))

    def column(self, name: str, rows: Column) -> Column:
        """Return the values of a column in rows that `having` or `rarest` returned."""
        return self._rows[name][rows]

    def _index(self, name: str) -> Index:
        """Return the index of a column, with the rows added since its last use."""
        index = self._indexes.setdefault(name, Index())
        known, size = len(index), self._rows.size
        if known < size:
            index.add(self._rows[name][known:], np.arange(known, size))
        return index

    # -- whether it can fire ---------------------------------------------------------------

    def can_join(self, left: PairNumbers, right: PairNumbers) -> bool:
        """Return True if for each place with an equality some pair used there has arrived.

        `left` and `right` are the pairs that have arrived, by the side on which they count.
        """
        return all(self._has(place, left, right) for place in self._equal)

    def can_fire(self, left: PairNumbers, right: PairNumbers) -> bool:
        """Return True if for each place of the template some pair used there has arrived.

        `left` and `right` are those of `can_join`.
        """
        return all(self._has(place, left, right) for place in range(len(self.columns)))

    def _has(self, place: int, left: PairNumbers, right: PairNumbers) -> bool:
        return not self.columns[place].keys().isdisjoint(right if self._sides[place] else left)

    def count(self, counted: Sequence[Mapping[int, int]], by: int) -> None:
        """Add `by` times the number of rows of R_T with each pair of variables to `columns`.

        `counted` has for each place of the template these numbers by pair.
        """
        for column, counts in zip(self.columns, counted, strict=True):
            for pair, rows in counts.items():
                add(column, pair, by * rows)

    def uses(self, pair: int) -> bool:
        """Return True if some row of R_T of the template has the pair of variables `pair`."""
        return any(pair in column for column in self.columns)


@dataclass(frozen=True)
class JoinDriver:
    """The driving value joins of some templates in a pass: those that are made first.

    For each row of R_T the value join drives that has the fewest kept links at its pair of
    variables on the side of the batch.  `weights` has the numbers of kept links by pair, HEAVIEST
    for a pair without any, and as its last item.  Rows with such a pair are joined with nothing.
    With `back` the batch is on the left side.
    """

    members: Sequence[TemplateRows]
    weights: Column
    back: bool

    @cached_property
    def edges(self) -> Column:
        """The driving value joins as packed pairs of variables, sorted and distinct."""
        found = [np.take_along_axis(joins, lead[None], 0)[0] for joins, lead in self._driven]
        return distinct(np.concatenate([np.empty(0, np.int64), *found]))

    def others(self, present: Column) -> tuple[Column, Column]:
        """Return the other value joins of the rows of R_T that are driven by one of `present`.

        Two columns, one item for each other value join: the index of its driving value join in
        `present`, and itself as packed pairs of variables.
        """
        places, edges = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for joins, lead in self._driven:
            drives = np.take_along_axis(joins, lead[None], 0)[0]
            rows = np.flatnonzero(among(drives, present))
            if len(joins) > 1 and len(rows):
                rest = np.arange(len(joins))[:, None] != lead[rows]
                which = np.searchsorted(present, drives[rows])
                places.append(np.broadcast_to(which, rest.shape)[rest])
                edges.append(joins[:, rows][rest])
        return np.concatenate(places), np.concatenate(edges)

    @cached_property
    def _driven(self) -> list[tuple[Column, Column]]:
        """For each template its value joins (packed pairs of variables, [equality, row of R_T]),
        and a column with the index of each row's driving equality.
        """
        found = []
        present, last = np.flatnonzero(self.weights < HEAVIEST), len(self.weights) - 1
        for members in self.members:
            ends = members.template.graph.value_joins
            if not ends:
                continue
            near = [f"p{left if self.back else right}" for left, right in ends]
            column, rows = members.column, members.rarest(near, present)
            # A pair beyond the end of `weights` takes the last item, HEAVIEST.
            heavy = np.stack([self.weights[np.minimum(column(n, rows), last)] for n in near])
            driven = np.flatnonzero(heavy.max(axis=0, initial=0) < HEAVIEST)
            if len(driven):
                joins = [column(f"e{place}", rows[driven]) for place, _ in enumerate(ends)]
                found.append((np.stack(joins), heavy[:, driven].argmin(axis=0)))
        return found


HEAVIEST = 1 << 62
"""The weight of a pair of variables without bindings in the batch."""


def add(counts: dict[K, int], key: K, by: int) -> None:
    """Add `by` to the count of a key; a count of 0 has no entry."""
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        del counts[key]


_ByPair: TypeAlias = "dict[int, tuple[TemplateRows, ...]]"


class TemplateIndex:
    """All templates, indexed by the pairs of variables of their rows."""

    def __init__(self) -> None:
        self._templates: tuple[_ByPair, _ByPair] = ({}, {})  # templates with one side, with two

    def add(self, members: TemplateRows, pairs: Iterable[int]) -> None:
        """Index the template of `members` by `pairs`, the pairs of variables of an added row."""
        templates = self._templates[members.two_sided]
        for pair in pairs:
            known = templates.get(pair, ())
            if members not in known:
                templates[pair] = (*known, members) if known else members.alone

    def remove(self, members: TemplateRows, pairs: Iterable[int]) -> None:
        """Remove a template from the index at those of `pairs` that none of its rows has."""
        templates = self._templates[members.two_sided]
        for pair in pairs:
            known = templates.get(pair, ())
            if members in known and not members.uses(pair):
                left = tuple(one for one in known if one is not members)
                if left:
                    templates[pair] = left
                else:
                    del templates[pair]

    @property
    def filters(self) -> bool:
        """True if there is a template with one side."""
        return bool(self._templates[False])

    def reached(self, pairs: Iterable[int], *, two_sided: bool) -> list[TemplateRows]:
        """Return the templates with a row that has one of `pairs`, by ascending number.

        With `two_sided` they are those of joins, else those with one side.
        """
        templates = self._templates[two_sided]
        if not templates:
            return []
        groups = set(map(templates.get, pairs))  # many pairs share a group of templates
        found = {
            members.template.number: members
            for group in groups
            if group is not None
            for members in group
        }
        return [found[number] for number in sorted(found)]

    def driving(self, weights: Mapping[int, int], back: bool) -> JoinDriver:
        """Return the driving value joins; `weights` has the numbers of kept links by pair.

        `back`: the batch is on the left side.
        """
        by_pair = np.full(max(weights, default=0) + 2, HEAVIEST)
        by_pair[list(weights)] = list(weights.values())
        return JoinDriver(self.reached(weights, two_sided=True), by_pair, back)

    def joined(self, left: PairNumbers, right: PairNumbers) -> list[TemplateRows]:
        """Return the templates that may have results.

        `left` and `right` are the pairs of variables with bindings, by the side on which they
        count.
        """
        reached = self.reached(left | right, two_sided=True)
        return [members for members in reached if members.can_join(left, right)]
