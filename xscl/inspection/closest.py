"""Combinations of documents that come close to a match, the closest first.

A beam search: the documents of one block after another join the best combinations so far, ranked
by the comparisons between them and then by their distance in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xscl.inspection.why.choices import Choices
from xscl.inspection.why.question import Known
from xscl.language.functions import number
from xscl.language.parser import parse
from xscl.language.scope import distinct_names, here, rewritten, variables, walk
from xscl.language.syntax import Comparison, Operand
from xscl.language.valuejoin import is_numeric
from xscl.planning.compile import CompiledQuery
from xscl.shredding.conditions.residual import texts_of
from xscl.shredding.nodes.tree import COMPARISONS

BEAM = 60
"""Number of combinations that are kept from block to block."""
VALUES = 40
"""Maximum number of values of a variable in a document that are compared."""

_LEAST = 0.2
"""The least distance of texts that are not equal."""


class _Values(NamedTuple):
    """The values of an operand in a document: texts, and their words in small letters."""

    texts: frozenset[str]
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
        self._between: dict[int, list[tuple[int, Comparison]]] = {}  # of two blocks, by the later
        self._known: dict[tuple[int, int, Operand], _Values] = {}
        self._choices: dict[tuple[int, int], Choices] = {}
        expression = distinct_names(parse(query.source).expression, query.source)
        for one in walk(expression):
            if isinstance(one, Comparison):
                sides = [self._place(side) for side in (one.left, one.right)]
                known = [side for side in sides if side is not None]
                if len(set(known)) == 2:
                    self._between.setdefault(max(known), []).append((min(known), one))

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

    def _place(self, operand: Operand) -> int | None:
        """Return the block of the only variable of an operand; None of any other."""
        names = variables(operand)
        return self._query.normal.places.get(names[0]) if len(names) == 1 else None

    def _extended(self, before: _Combination, place: int, known: Known) -> _Combination | None:
        """Return a combination with one document more, None if it is there already."""
        if any(one.stored.base == known.stored.base for one in before.chosen.values()):
            return None
        chosen = {**before.chosen, place: known}
        distance = before.distance
        for earlier, comparison in self._between.get(place, ()):
            if earlier in chosen:
                sides = (self._values(chosen, side) for side in (comparison.left, comparison.right))
                distance += _distance(comparison, *sides)
        times = [one.stored.ts for one in chosen.values()]
        return _Combination(distance, max(times) - min(times), chosen)

    def _values(self, chosen: Mapping[int, Known], operand: Operand) -> _Values:
        place = self._place(operand)
        assert place is not None, "only operands of one block are compared"
        key = place, chosen[place].stored.doc, operand
        if key not in self._known:
            choices = self._choices.get(key[:2])
            if choices is None:
                trees = {place: chosen[place].tree}
                choices = self._choices[key[:2]] = Choices(self._query.patterns, trees)
            texts, (name,) = texts_of(rewritten(operand, here)), variables(operand)
            found = [text for item in choices.items(name) for text in texts(item)][:VALUES]
            words = (word for text in found for word in text.casefold().split())
            self._known[key] = _Values(frozenset(found), frozenset(words))
        return self._known[key]


def _distance(comparison: Comparison, left: _Values, right: _Values) -> float:
    """Return the distance of values from a comparison that holds: 0 to 1."""
    operator = comparison.operator
    if not left.texts or not right.texts:
        return 1.0
    if operator == "=":
        common = len(left.words & right.words) / max(1, len(left.words | right.words))
        return 0.0 if left.texts & right.texts else 1.0 - common * (1.0 - _LEAST)
    if operator != "!=" and (is_numeric(comparison.left) or is_numeric(comparison.right)):
        return _order_distance(operator, map(number, left.texts), list(map(number, right.texts)))
    holds = COMPARISONS[operator]
    return 1.0 - any(holds(one, other) for one in left.texts for other in right.texts)


def _order_distance(operator: str, lefts: Iterable[float], rights: Sequence[float]) -> float:
    """Return the distance of numbers from an order, relative to their size; 1 for no number."""
    sign = 1 if operator in ("<", "<=") else -1
    gaps = [
        sign * (one - other) / (1.0 + abs(one) + abs(other)) for one in lefts for other in rights
    ]
    return min((max(0.0, gap) for gap in gaps if gap == gap), default=1.0)
