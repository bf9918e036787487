"""The rows of R_T by template, and the templates that a batch can fire.

A template can fire only if for each of its places some pair of variables of a row
has bindings.  So templates are found by the pairs that have arrived, and cost
nothing otherwise, however many there are.

A batch touches few rows of R_T: those whose value joins are all among the batch's.  Only these
enter the template's query, so it costs the same with ten rows and with a million.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from templates.columns.columns import (
    Column,
    Columns,
    GrowingColumns,
    SortedRuns,
    among,
    distinct,
    pack,
)
from templates.model.conjunctive_query import ConjunctiveQuery, over_batch, over_views
from templates.model.join_graph import JoinGraph, TemporalRelation
from templates.model.template import Template


class Registered:
    """The rows of R_T of one template, indexed by value joins; see `registry` for the columns.

    Added rows are indexed on first use.  Removed rows stay until they are half of
    all.
    """

    def __init__(self, graph: JoinGraph) -> None:
        self._asked = [f"e{i}" for i, _ in enumerate(graph.equalities)]
        self._asked = self._asked or [f"p{i}" for i, _ in enumerate(graph.pairs)]
        self.names = (
            "qid",
            *(f"p{i}" for i, _ in enumerate(graph.pairs)),
            *(f"e{i}" for i, _ in enumerate(graph.equalities)),
            *("op", "lower", "wl", "keep"),
        )
        self._rows = GrowingColumns(dict.fromkeys((*self.names, "alive"), np.int64))
        self._found = 0  # rows that are indexed
        self._indexes = [SortedRuns() for _ in self._asked]
        self._dead = 0

    def add(self, rows: Mapping[str, Sequence[int]]) -> None:
        """Add rows as columns, which have the names of `names`."""
        alive = [1] * len(rows["qid"])
        self._rows.extend({**{name: rows[name] for name in self.names}, "alive": alive})

    def remove(self, qid: int) -> None:
        """Remove a row."""
        self._rows["alive"][np.flatnonzero(self._rows["qid"] == qid)] = 0
        self._dead += 1
        if self._dead > self._rows.size // 2:
            self._rows.only(np.flatnonzero(self._rows["alive"]))
            self._dead, self._found = 0, 0
            self._indexes = [SortedRuns() for _ in self._asked]

    def every(self) -> Columns:
        """Return all rows."""
        rows = np.flatnonzero(self._rows["alive"])
        return {name: self._rows[name][rows] for name in self.names}

    def touched(self, present: Column) -> Columns:
        """Return the rows whose value joins are all among some sorted, distinct ones.

        A value join is a number for two pairs of variables (`columns.pack`); of
        a template with one side it is the pairs of variables themselves.
        """
        _, rows = self.having(0, present)
        for name in self._asked[1:]:
            rows = rows[among(self._rows[name][rows], present)]
        rows.sort()
        return {name: self._rows[name][rows] for name in self.names}

    def any_of(self, present: Column) -> Columns:
        """Return the rows with a value join among some sorted, distinct ones."""
        found = [self.having(at, present)[1] for at, _ in enumerate(self._asked)]
        rows = distinct(np.concatenate(found))
        return {name: self._rows[name][rows] for name in self.names}

    def having(self, place: int, present: Column) -> tuple[Column, Column]:
        """Return the places of `present`, each with a row one of whose value joins it is."""
        self._settle()
        which, rows = self._indexes[place].rows(present, present)
        alive = self._rows["alive"][rows] > 0
        return which[alive], rows[alive]

    def column(self, name: str, rows: Column) -> Column:
        """Return a column of some rows."""
        return self._rows[name][rows]

    def _settle(self) -> None:
        """Index the rows added since the last call."""
        size = self._rows.size
        if self._found == size:
            return
        for name, index in zip(self._asked, self._indexes, strict=True):
            index.add(self._rows[name][self._found :], np.arange(self._found, size))
        self._found = size


Pairs: TypeAlias = "set[int]"
Ends: TypeAlias = "tuple[int, ...]"
"""A number for each value join of a row."""
Rows: TypeAlias = "Mapping[str, Sequence[int]]"
"""Rows of R_T as columns: those of `Registered`, and `apart`."""


class Row(NamedTuple):
    """One row of R_T: a distinct join.

    `apart` says that no two of its value joins can hold between the same two
    nodes, so that documents which match share at least two values.
    """

    template: int
    pairs: tuple[int, ...]
    relation: TemporalRelation
    keep: int
    apart: bool


@dataclass(eq=False)
class Members:
    """The rows of one template, as sets for each column, for a quick test whether it can fire.

    `seconds` is the time in which its query was evaluated.
    """

    template: Template
    columns: list[dict[int, int]]
    registered: Registered
    sides: tuple[Drives, Drives]  # the right and the left one
    equal: tuple[int, ...]  # the places of pairs that end in a node with an equality
    together: int = 0  # rows that are not `apart`
    seconds: float = 0.0

    @classmethod
    def of(cls, template: Template) -> Members:
        """Return a template without rows."""
        graph = template.graph
        columns: list[dict[int, int]] = [{} for _ in graph.pairs]
        equal = tuple(i for i, (_, child) in enumerate(graph.pairs) if child in graph.equal)
        return cls(template, columns, Registered(graph), (Drives(), Drives()), equal)

    @cached_property
    def alone(self) -> tuple[Members, ...]:
        """This template alone: one object for all pairs that no other one has."""
        return (self,)

    @cached_property
    def others(self) -> bool:
        """True if some pair ends in a node without an equality."""
        return len(self.equal) < len(self.columns)

    @cached_property
    def query(self) -> ConjunctiveQuery:
        """The conjunctive query of the template, for the batch's relations."""
        graph = self.template.graph
        return over_views(graph) if graph.two_sided else over_batch(graph)

    @cached_property
    def two_sided(self) -> bool:
        """True if the template joins; otherwise it is a filter."""
        return self.template.graph.two_sided

    @property
    def several(self) -> bool:
        """True if the template's query reads only documents with several value joins."""
        return len(self.template.graph.equalities) > 1 and not self.together

    @cached_property
    def _sides(self) -> tuple[int, ...]:
        """The side of each place."""
        graph = self.template.graph
        return tuple(graph.nodes[child].side for _, child in graph.pairs)

    def can_join(self, left: Pairs, right: Pairs) -> bool:
        """Return True if for each place with an equality some pair used there has arrived."""
        return all(self._has(place, left, right) for place in self.equal)

    def can_fire(self, left: Pairs, right: Pairs) -> bool:
        """Return True if for each place of the template some pair used there has arrived."""
        return all(self._has(place, left, right) for place in range(len(self.columns)))

    def _has(self, place: int, left: Pairs, right: Pairs) -> bool:
        return not self.columns[place].keys().isdisjoint(right if self._sides[place] else left)

    def add(self, rows: Rows) -> None:
        """Add rows; `count` has their pairs."""
        self.together += rows["apart"].count(False)
        self.registered.add(rows)
        joins = self.template.graph.value_joins
        if joins:
            edges = [rows[f"e{place}"] for place, _ in enumerate(joins)]
            self.sides[False].add([rows[f"p{right}"] for _, right in joins], edges)
            self.sides[True].add([rows[f"p{left}"] for left, _ in joins], edges)

    def remove(self, qid: int, row: Row) -> None:
        """Remove a row."""
        self.together -= not row.apart
        ends = [
            (row.pairs[left], row.pairs[right]) for left, right in self.template.graph.value_joins
        ]
        edges = [pack(left, right) for left, right in ends]
        if edges:
            self.sides[False].remove(tuple(right for _, right in ends), edges)
            self.sides[True].remove(tuple(left for left, _ in ends), edges)
        self.registered.remove(qid)

    def count(self, counted: Sequence[Mapping[int, int]], by: int) -> None:
        """Count the pairs of rows, at each place how often each occurs."""
        for column, counts in zip(self.columns, counted, strict=True):
            for pair, rows in counts.items():
                add(column, pair, by * rows)

    def uses(self, pair: int) -> bool:
        """Return True if some row has a pair."""
        return any(pair in column for column in self.columns)


class Drives:
    """The driving value join of each row, determined from the pairs of one side of its value joins.

    Rows with the same pairs there are evaluated together.  Added rows are counted on first use,
    which may never occur for the side of kept documents.

    Most pairs are those of one row where subscriptions have constants of their own.  Such a row has
    no counts, nor a set of its own: dictionaries of one entry would be a sixth of all memory.
    """

    def __init__(self) -> None:
        self._new: list[tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]] = []
        self._single: dict[Ends, Ends] = {}  # the value joins of the only row with some pairs
        self._counts: dict[Ends, tuple[dict[int, int], ...]] = {}  # those of several rows
        self._by_pair: dict[int, Ends | dict[Ends, None]] = {}  # by a pair that is rare
        self._sorted: dict[tuple[Ends, int], Column] = {}

    def add(self, pairs: Sequence[Sequence[int]], edges: Sequence[Sequence[int]]) -> None:
        """Add rows: the pairs of their value joins on this side, and the joins, as columns."""
        self._new.append((pairs, edges))

    def remove(self, pairs: Ends, edges: Sequence[int]) -> None:
        """Remove a row."""
        self._settle()
        if self._single.pop(pairs, None) is None:
            self._count(pairs, edges, -1)
        if pairs not in self._single and pairs not in self._counts:
            self._forget(pairs)

    def _settle(self) -> None:
        """Count the rows added since the last call."""
        for added in self._new:
            pairs, edges = (zip(*columns, strict=True) for columns in added)
            for row in zip(pairs, edges, strict=True):
                self._know(*row)
        self._new.clear()

    def _know(self, pairs: Ends, edges: Ends) -> None:
        if pairs not in self._counts:
            only = self._single.pop(pairs, None)
            if only is None:
                self._single[pairs] = edges
                self._remember(pairs)
                return
            self._counts[pairs] = tuple({edge: 1} for edge in only)
        self._count(pairs, edges, 1)

    def _count(self, pairs: Ends, edges: Sequence[int], by: int) -> None:
        known = self._counts[pairs]
        for place, (counts, edge) in enumerate(zip(known, edges, strict=True)):
            self._sorted.pop((pairs, place), None)
            add(counts, edge, by)
        if not known[0]:
            del self._counts[pairs]

    def _under(self, pair: int) -> Collection[Ends]:
        """Return the pairs of rows that are found by a pair."""
        known = self._by_pair.get(pair, {})
        return known if isinstance(known, dict) else (known,)

    def _remember(self, pairs: Ends) -> None:
        """Index a new set of pairs under its rarest pair."""
        rare = min(pairs, key=lambda pair: len(self._under(pair)))
        known = self._by_pair.get(rare)
        if known is None:
            self._by_pair[rare] = pairs
        elif isinstance(known, dict):
            known[pairs] = None
        else:
            self._by_pair[rare] = {known: None, pairs: None}

    def _forget(self, pairs: Ends) -> None:
        rare = next(pair for pair in pairs if pairs in self._under(pair))
        known = self._by_pair[rare]
        if isinstance(known, dict):
            del known[pairs]
        if not isinstance(known, dict) or not known:
            del self._by_pair[rare]

    def driving(self, weights: Mapping[int, int]) -> Iterator[Column]:
        """Yield the value joins that drive the rows whose pairs all have a weight."""
        self._settle()
        single = []
        for rare in self._by_pair.keys() & weights.keys():
            for pairs in self._under(rare):
                if all(pair in weights for pair in pairs):
                    lightest = min(range(len(pairs)), key=lambda place: weights[pairs[place]])
                    only = self._single.get(pairs)
                    if only is None:
                        yield self._edges_of(pairs, lightest)
                    else:
                        single.append(only[lightest])
        yield np.array(single, np.int64)

    def _edges_of(self, pairs: Ends, place: int) -> Column:
        found = self._sorted.get((pairs, place))
        if found is None:
            counts = self._counts[pairs][place]
            found = np.fromiter(counts, np.int64, len(counts))
            self._sorted[pairs, place] = found
        return found


@dataclass(frozen=True, slots=True)
class Driving:
    """The value joins that drive the rows of some templates: `edges`, packed, sorted, distinct."""

    edges: Column
    _members: Sequence[Members]
    _weights: Mapping[int, int]
    _back: bool

    def others(self, present: Column) -> tuple[Column, Column]:
        """Return the other value joins of the rows that some value joins drive.

        As places in `present`, and numbers.
        """
        pairs = np.fromiter(self._weights, np.int64, len(self._weights))
        weights = np.full(pairs.max() + 1, HEAVIEST)
        weights[pairs] = np.fromiter(self._weights.values(), np.int64, len(pairs))
        places, edges = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for members in self._members:
            for place, _ in enumerate(members.template.graph.value_joins):
                which, rows = self._driven(members, place, present, weights)
                for other, _ in enumerate(members.template.graph.value_joins):
                    if other != place:
                        places.append(which)
                        edges.append(members.registered.column(f"e{other}", rows))
        return np.concatenate(places), np.concatenate(edges)

    def _driven(
        self, members: Members, place: int, present: Column, weights: Column
    ) -> tuple[Column, Column]:
        """Return places in `present` and the rows that these drive from one of their places."""
        registered = members.registered
        which, rows = registered.having(place, present)
        ends = [
            registered.column(f"p{left if self._back else right}", rows)
            for left, right in members.template.graph.value_joins
        ]
        heavy = np.stack([weights[np.minimum(end, len(weights) - 1)] for end in ends])
        heavy[np.stack(ends) >= len(weights)] = HEAVIEST
        leads = (heavy.argmin(axis=0) == place) & (heavy.max(axis=0, initial=0) < HEAVIEST)
        return which[leads], rows[leads]


HEAVIEST = 1 << 62
"""The weight of a pair of variables that has not come."""


def add(counts: dict[int, int], key: int, by: int) -> None:
    """Add to the counts; a count of 0 has no entry."""
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        del counts[key]


_ByPair: TypeAlias = "dict[int, tuple[Members, ...]]"


class Firing:
    """All templates, indexed by the pairs of variables of their rows."""

    def __init__(self) -> None:
        self._templates: tuple[_ByPair, _ByPair] = ({}, {})  # with one side, with two

    def add(self, members: Members, pairs: Iterable[int]) -> None:
        """Index a template by the pairs of a new row."""
        templates = self._templates[members.two_sided]
        for pair in pairs:
            known = templates.get(pair, ())
            if members not in known:
                templates[pair] = (*known, members) if known else members.alone

    def remove(self, members: Members, pairs: Iterable[int]) -> None:
        """Remove a template from the index of pairs that only a removed row had."""
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

    def reached(self, pairs: Iterable[int], *, two_sided: bool) -> list[Members]:
        """Return the templates with a row with one of some pairs, in their order."""
        templates = self._templates[two_sided]
        if not templates:
            return []
        groups = set(map(templates.get, pairs))  # which are few
        found = {
            members.template.number: members
            for group in groups
            if group is not None
            for members in group
        }
        return [found[number] for number in sorted(found)]

    def driving(self, weights: Mapping[int, int], back: bool) -> Driving:
        """Return the value joins that drive, by the weights of the pairs of a side."""
        reached = self.reached(weights, two_sided=True)
        found = [edges for members in reached for edges in members.sides[back].driving(weights)]
        edges = distinct(np.concatenate([np.empty(0, np.int64), *found]))
        return Driving(edges, reached, weights, back)

    def joined(self, left: Pairs, right: Pairs) -> list[Members]:
        """Return the templates that may have rows if bindings of these pairs join."""
        reached = self.reached(left | right, two_sided=True)
        return [members for members in reached if members.can_join(left, right)]
