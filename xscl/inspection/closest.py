"""Combinations of documents that come close to a match, the closest first.

A beam search: the documents of one block after another join the best combinations so far, ranked
by the comparisons between them and then by their distance in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xscl.inspection.why.choices import Choices
from xscl.inspection.why.question import Known
from xscl.language.functions import number
from xscl.language.parser import parse
from xscl.language.scope import distinct_names, here, leaves, rewritten, variables, walk
from xscl.language.syntax import MIRRORED, Comparison, Operand, Operator, VariablePath
from xscl.language.valuejoin import is_numeric
from xscl.planning.compile import CompiledQuery
from xscl.shredding.conditions.residual import texts_of
from xscl.shredding.nodes.tree import COMPARISONS

BEAM = 60
"""Number of combinations that are kept from block to block."""
VALUES = 40
"""Maximum number of values of a variable in a document that are compared."""

_WITHOUT_CASE = 0.1
"""The distance of texts that differ in case and white space only."""
_LEAST = 0.2
"""The least distance of texts that differ in more."""


@dataclass(frozen=True, slots=True)
class _Between:
    """A comparison between a later block and an earlier one, seen from the later one."""

    operator: Operator
    mine: Operand
    other: Operand
    earlier: int


class _Values(NamedTuple):
    """The values of an operand in a document: texts, folded texts, and words."""

    texts: frozenset[str]
    folded: frozenset[str]
    words: frozenset[str]


@dataclass(order=True, slots=True)
class _Combination:
    distance: float
    span: int
    chosen: dict[int, Known] = field(compare=False)


class Closeness:
    """Distances between documents of the blocks of one query."""

    def __init__(self, query: CompiledQuery) -> None:
        self._query = query
        self._between: dict[int, list[_Between]] = {}
        self._known: dict[tuple[int, int, Operand], _Values] = {}
        self._choices: dict[tuple[int, int], Choices] = {}
        expression = distinct_names(parse(query.source).expression, query.source)
        for one in walk(expression):
            if isinstance(one, Comparison):
                self._add(one)

    def combinations(
        self, documents: Mapping[int, Sequence[Known]]
    ) -> Iterator[Mapping[int, Known]]:
        """Yield combinations of one document for each block, the closest ones first."""
        beam = [_Combination(0.0, 0, {})]
        for place, candidates in documents.items():
            longer = [
                one
                for before in beam
                for known in candidates
                if (one := self._extended(before, place, known)) is not None
            ]
            beam = sorted(longer)[:BEAM] if place else longer
        yield from (one.chosen for one in sorted(beam))

    def _add(self, comparison: Comparison) -> None:
        """Keep a comparison of values of two blocks."""
        places = self._query.normal.places
        sides = (comparison.left, comparison.right)
        if any(len(variables(side)) != 1 for side in sides):
            return
        left, right = (places.get(variables(side)[0]) for side in sides)
        if left is None or right is None or left == right:
            return
        if left < right:
            mirrored = MIRRORED[comparison.operator]
            self._between.setdefault(right, []).append(_Between(mirrored, *sides[::-1], left))
        else:
            self._between.setdefault(left, []).append(_Between(comparison.operator, *sides, right))

    def _extended(self, before: _Combination, place: int, known: Known) -> _Combination | None:
        """Return a combination with one document more, None if it is there already."""
        if any(one.stored.base == known.stored.base for one in before.chosen.values()):
            return None
        distance = before.distance
        for between in self._between.get(place, ()):
            if between.earlier in before.chosen:
                other = before.chosen[between.earlier]
                distance += _distance(
                    between.operator,
                    self._values(place, known, between.mine),
                    self._values(between.earlier, other, between.other),
                    numeric=is_numeric(between.mine) or is_numeric(between.other),
                )
        chosen = {**before.chosen, place: known}
        times = [one.stored.ts for one in chosen.values()]
        return _Combination(distance, max(times) - min(times), chosen)

    def _values(self, place: int, known: Known, operand: Operand) -> _Values:
        key = place, known.stored.doc, operand
        if key not in self._known:
            choices = self._choices.get(key[:2])
            if choices is None:
                trees = {place: known.tree}
                choices = self._choices[key[:2]] = Choices(self._query.patterns, trees)
            texts = texts_of(rewritten(operand, here))
            (name,) = {leaf.variable for leaf in leaves(operand) if isinstance(leaf, VariablePath)}
            found = frozenset(
                [text for item in choices.items(name) for text in texts(item)][:VALUES]
            )
            words = [text.casefold().split() for text in found]
            self._known[key] = _Values(
                found,
                frozenset(" ".join(one) for one in words),
                frozenset(word for one in words for word in one),
            )
        return self._known[key]


def _distance(operator: Operator, mine: _Values, others: _Values, *, numeric: bool) -> float:
    """Return the distance of values from a comparison that holds: 0 to 1."""
    if not mine.texts or not others.texts:
        return 1.0
    if operator == "=":
        if mine.texts & others.texts:
            return 0.0
        if mine.folded & others.folded:
            return _WITHOUT_CASE
        common = len(mine.words & others.words) / max(1, len(mine.words | others.words))
        return 1.0 - common * (1.0 - _LEAST)
    if operator == "!=":
        return 0.0 if len(mine.texts | others.texts) > 1 else 1.0
    if not numeric:
        holds = COMPARISONS[operator]
        return (
            0.0 if any(holds(one, other) for one in mine.texts for other in others.texts) else 1.0
        )
    return _order_distance(operator, list(map(number, mine.texts)), list(map(number, others.texts)))


def _order_distance(operator: Operator, mine: Sequence[float], others: Sequence[float]) -> float:
    """Return the distance of numbers from an order, relative to their size; 1 for no number."""
    gaps = [(left - right) / (1.0 + abs(left) + abs(right)) for left in mine for right in others]
    sign = 1 if operator in ("<", "<=") else -1
    real = [max(0.0, gap * sign) for gap in gaps if gap == gap]
    return min(real, default=1.0)
