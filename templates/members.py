"""The rows of R_T by template, and which templates a batch can make fire.

A template can fire only if for each of its places some pair of variables that
a row has there has bindings.  So templates are found by the pairs that have
come, and cost nothing while those do not come, however many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from templates.conjunctive import OPERATORS
from templates.template import Template

Pairs: TypeAlias = "set[int]"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of R_T: a distinct join.

    `apart` says that no two of its value joins can hold between the same two
    nodes, so that documents which match share at least two values.
    """

    template: int
    pairs: tuple[int, ...]
    operator: int
    window: int
    keep: int
    apart: bool


@dataclass(eq=False)
class Members:
    """The rows of one template, as sets for each column, to see quickly whether it can fire."""

    template: Template
    columns: list[dict[int, int]]
    joins: int = 0  # rows with the operator JOIN
    together: int = 0  # rows that are not `apart`
    alone: Counter[tuple[int, int]] = field(default_factory=Counter)  # see `views.value_joins`
    changes: int = 0
    rows: int = 0

    @classmethod
    def of(cls, template: Template) -> Members:
        """Return a template without rows."""
        return cls(template, [{} for _ in template.graph.pairs])

    @cached_property
    def others(self) -> bool:
        """Whether some pair ends in a node without an equality."""
        return len(self._equal) < len(self.columns)

    @cached_property
    def two_sided(self) -> bool:
        """Whether it joins; one that does not is a filter."""
        return self.template.graph.two_sided

    @property
    def several(self) -> bool:
        """Whether the template's query looks only at documents with several value joins."""
        return len(self.template.graph.equalities) > 1 and not self.together

    @cached_property
    def _sides(self) -> tuple[int, ...]:
        """The side of each place."""
        graph = self.template.graph
        return tuple(graph.nodes[child].side for _, child in graph.pairs)

    @cached_property
    def _equal(self) -> tuple[int, ...]:
        """The places of pairs that end in a node with an equality."""
        graph = self.template.graph
        return tuple(i for i, (_, child) in enumerate(graph.pairs) if child in graph.equal)

    def can_join(self, left: Pairs, right: Pairs) -> bool:
        """Whether for each place with an equality some pair that is used there has arrived."""
        return all(self._has(place, left, right) for place in self._equal)

    def can_fire(self, left: Pairs, right: Pairs) -> bool:
        """Whether for each place of the template some pair that is used there has arrived."""
        return all(self._has(place, left, right) for place in range(len(self.columns)))

    def _has(self, place: int, left: Pairs, right: Pairs) -> bool:
        return not self.columns[place].keys().isdisjoint(right if self._sides[place] else left)

    def _alone(self, row: Row) -> list[tuple[int, int]]:
        """Return the pairs of variables by one join of which a row may be satisfied."""
        joins = self.template.graph.value_joins
        if row.apart and len(joins) > 1:
            return []
        return [(row.pairs[left], row.pairs[right]) for left, right in joins]

    def count(self, row: Row, by: int) -> None:
        """Add or take away one row."""
        self.changes += 1
        self.rows += by
        for variables in self._alone(row):
            self.alone[variables] += by
            if not self.alone[variables]:
                del self.alone[variables]
        for column, pair in zip(self.columns, row.pairs, strict=True):
            column[pair] = column.get(pair, 0) + by
            if not column[pair]:
                del column[pair]
        self.joins += by * (row.operator == OPERATORS["JOIN"])
        self.together += by * (not row.apart)

    def uses(self, pair: int) -> bool:
        """Whether some row has a pair."""
        return any(pair in column for column in self.columns)


class Firing:
    """All templates, found by the pairs of variables that their rows have."""

    def __init__(self) -> None:
        self._templates: dict[int, tuple[Members, ...]] = {}

    def count(self, members: Members, row: Row, by: int) -> None:
        """Add a row to its template or take one away."""
        members.count(row, by)
        for pair in row.pairs:
            known = self._templates.get(pair, ())
            if by > 0 and members not in known:
                self._templates[pair] = (*known, members)
            elif by < 0 and members in known and not members.uses(pair):
                left = tuple(one for one in known if one is not members)
                if left:
                    self._templates[pair] = left
                else:
                    del self._templates[pair]

    def reached(self, pairs: Iterable[int], *, two_sided: bool) -> list[Members]:
        """Return the templates some row of which has one of some pairs, in their order."""
        found = {
            members.template.number: members
            for pair in pairs
            for members in self._templates.get(pair, ())
            if members.two_sided is two_sided
        }
        return [found[number] for number in sorted(found)]

    def joined(self, left: Pairs, right: Pairs) -> list[Members]:
        """Return the templates that may have rows if bindings of these pairs join."""
        reached = self.reached(left | right, two_sided=True)
        return [members for members in reached if members.can_join(left, right)]
