"""The answers of a conjunctive query up to a number, in bounded memory and work.

Two documents of 40 equal nodes each, joined by four value joins, have 40^4 answers.  Of these only
so many are enumerated as show that they exceed the bound of results:

1. Remove rows that no answer uses (semi-joins).
2. Join the relations, giving up as soon as an intermediate result exceeds `columns.MOST` rows.
3. On giving up, split the domain of an output variable with several values, and answer each range
   until enough answers are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from templates.columns import columns
from templates.columns.columns import (
    Column,
    Columns,
    TooManyRows,
    among,
    chosen,
    distinct,
    equal_rows,
    steps,
)
from templates.model.conjunctive_query import ConjunctiveQuery

WORK = 5_000_000
"""Rows that are joined for one group of answers at most: about a second.

Only cyclic queries without answers come near it.
"""
RANGES = 16
"""Ranges that a domain is split into at first."""

Relation = Mapping[str, Column]
"""The rows of one relation by variable; a variable in several relations joins them."""


@dataclass(slots=True)
class Enumeration:
    """A conjunctive query over some relations.

    `outputs` are its head; `unequal` are pairs of variables that have to differ.  `work` is the
    remaining number of rows that may be joined.  `gave_up` is True if it was too small: answers may
    be missing then.
    """

    outputs: Sequence[str]
    unequal: Sequence[tuple[str, str]] = ()
    work: int = field(default=WORK)
    gave_up: bool = field(default=False, init=False)

    def answer(self, relations: Sequence[Relation], most: int) -> Column:
        """Return all distinct answers, a row each; of more than `most` so many."""
        self.gave_up = False
        if not all(map(_size, relations)):
            return self._none()
        projected = [
            self._projected(one, [*relations[:at], *relations[at + 1 :]])
            for at, one in enumerate(relations)
        ]
        return self._enumerate(projected, most)

    def _enumerate(self, relations: Sequence[Relation], most: int) -> Column:
        reduced = _reduced(relations)
        if reduced is None:
            return self._none()
        if self.work <= 0:
            self.gave_up = True
            return self._none()
        try:
            return self._joined(reduced)[:most]
        except TooManyRows:
            pass
        split = self._split(reduced)
        if split is None:  # the head is fixed: one answer at most, if any binding of the rest is
            most, split = 1, _widest(reduced)
        found = [self._none()]
        for part in self._ranges(reduced, split):
            self.work -= sum(map(_size, part))
            found.append(self._enumerate(part, most))
            most -= len(found[-1])
            if most <= 0 or self.gave_up:
                break
        return np.concatenate(found)

    def _none(self) -> Column:
        return np.empty((0, len(self.outputs)), np.int64)

    def _split(self, relations: Sequence[Relation]) -> str | None:
        """Return the first output variable with more than one value; None if the head is fixed."""
        for name in self.outputs:
            column = next(relation[name] for relation in relations if name in relation)
            if column.min() < column.max():
                return name
        return None

    def _ranges(self, relations: Sequence[Relation], name: str) -> Iterator[Sequence[Relation]]:
        """Yield the relations for one range of a variable's values after the other."""
        values = distinct(next(relation[name] for relation in relations if name in relation))
        step = max(1, len(values) // RANGES)
        for start in range(0, len(values), step):
            some = values[start : start + step]
            yield [
                chosen(relation, among(relation[name], some)) if name in relation else relation
                for relation in relations
            ]

    def _joined(self, relations: Sequence[Relation]) -> Column:
        """Return all distinct answers; raises TooManyRows."""
        left = sorted(relations, key=_size)
        answer = dict(left.pop(0))
        while left:
            shared = [one for one in left if not answer.keys().isdisjoint(one)]
            following = min(shared or left, key=_size)
            left = [one for one in left if one is not following]
            answer = _join(answer, following)
            self.work -= _size(answer)
            if any(self._is_done(name, left) for name in answer):
                answer = self._projected(answer, left)
        for one, other in self.unequal:
            answer = dict(chosen(answer, answer[one] != answer[other]))
        if not answer.keys() <= {*self.outputs}:
            answer = _distinct(answer, self.outputs)
        rows = [answer[name].astype(np.int64) for name in self.outputs]
        return np.stack(rows, axis=1) if rows else np.empty((_size(answer), 0), np.int64)

    def _is_done(self, name: str, left: Sequence[Relation]) -> bool:
        """Return True if no relation reads a variable any more."""
        return not self._reads(name) and all(name not in one for one in left)

    def _reads(self, name: str) -> bool:
        return name in self.outputs or any(name in pair for pair in self.unequal)

    def _projected(self, answer: Relation, left: Sequence[Relation]) -> dict[str, Column]:
        """Return an intermediate result projected to the needed variables, without duplicates."""
        return _distinct(answer, [name for name in answer if not self._is_done(name, left)])


def _size(relation: Relation) -> int:
    return len(next(iter(relation.values())))


def _distinct(relation: Relation, names: Sequence[str]) -> dict[str, Column]:
    """Return the distinct rows of some columns; of none, one row at most as it is."""
    if not names:  # that there is a row is all that matters
        return {name: column[:1] for name, column in relation.items()}
    order = np.lexsort([relation[name] for name in names])
    first = steps(*(relation[name][order] for name in names))
    return {name: relation[name][order[first]] for name in names}


def _join(left: Relation, right: Relation) -> dict[str, Column]:
    """Return the natural join of two relations; raises TooManyRows."""
    names = [name for name in left if name in right]
    if names:
        ours, theirs = equal_rows([left[name] for name in names], [right[name] for name in names])
    else:
        if _size(left) * _size(right) > columns.MOST:
            raise TooManyRows
        ours = np.repeat(np.arange(_size(left)), _size(right))
        theirs = np.tile(np.arange(_size(right)), _size(left))
    others = {name: column for name, column in right.items() if name not in left}
    return {**chosen(left, ours), **chosen(others, theirs)}


def _widest(relations: Sequence[Relation]) -> str:
    """Return the variable with the most values."""
    sizes = {
        name: len(distinct(column)) for relation in relations for name, column in relation.items()
    }
    return max(sizes, key=sizes.__getitem__)


def _reduced(relations: Sequence[Relation]) -> list[Relation] | None:
    """Return the relations reduced by semi-joins; None if one becomes empty.

    As many rounds as there are relations suffice for an acyclic query: then some answer uses every
    remaining row.  In a cyclic one each round may remove one row only.
    """
    relations = list(relations)
    for _ in range(len(relations)):
        changed = False
        for name in {name for relation in relations for name in relation}:
            having = [at for at, one in enumerate(relations) if name in one]
            if len(having) < 2:
                continue
            common = distinct(relations[having[0]][name])
            for at in having[1:]:
                common = common[among(common, distinct(relations[at][name]))]
            for at in having:
                stays = among(relations[at][name], common)
                if not stays.all():
                    relations[at] = chosen(relations[at], stays)
                    changed = True
        if not changed:
            break
    return relations if all(map(_size, relations)) else None


def relations_of(
    query: ConjunctiveQuery, row: Columns, relations: Mapping[str, Columns]
) -> list[Relation]:
    """Return the rows of relations that the atoms of a query read for one row of R_T."""
    made = []
    for atom in query.atoms:
        assert atom.key is not None
        relation, (column, asked) = relations[atom.relation], atom.key
        here = relation[column] == row[asked][0]
        if atom.valued:
            here = here & relation["valued"]
        bound: dict[str, Column] = {}
        for one, name in atom.binds:
            values = relation[one]
            if bound.setdefault(name, values) is not values:  # twice in this atom
                here = here & (bound[name] == values)
        made.append(chosen(bound, here))
    return made
