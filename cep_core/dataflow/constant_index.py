"""The constant index: for which of many queries a condition holds that they share.

Queries of one shape differ in constants: `b.v > a.v * 1.02`, `b.v > a.v * 1.05`.  A condition
that reads no constant is tested once for all of them, any other once for each value that it reads.
One that is *monotone* in a constant, as these are, holds from one value on or up to one.  A binary
search finds this value, with as many tests as the logarithm of the number of values.

Rounding keeps the order of results, so that c * x, c + x, c - x and c / x are monotone in c among
numbers of one type and one sign, infinities and errors included.  x / c is not (x may be an integer
beyond all floats), nor is a number beyond 2 ** 53, which another type would round.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from math import copysign
from typing import Any, NamedTuple, TypeAlias

from cep_core.algebra.expressions import Arithmetic, Compare, Expression, Negative, Parameter, walk
from cep_core.events import Row

Constants: TypeAlias = tuple[Any, ...]
Holds: TypeAlias = Callable[[Any, Row, Sequence[Any]], bool]
_EXACT = 2**53
_FEW = 3  # so many queries or fewer are tested one by one
_MOST_SUMS = 1_000


class ConstantTest(NamedTuple):
    """A condition as a function of (cells of a run, row, constants of a query) that never raises.

    ``reads`` are the numbers of the constants that the condition reads; its truth is monotone in
    each of ``monotone`` while the others do not change.
    """

    holds: Holds
    reads: tuple[int, ...]
    monotone: tuple[int, ...]


class ConstantIndex:
    """An index of queries by their constants; finds the queries whose constants satisfy tests.

    A set of queries is a mask, in which each query has a bit.
    """

    __slots__ = ("_ladders", "_of_query", "only", "queries")

    def __init__(self) -> None:
        self.queries: dict[Constants, int] = {}
        self._of_query: dict[int, Constants] = {}
        self.only: Constants | None = None  # the constants if all queries have the same
        self._ladders: dict[ConstantTest, list[_Ladder]] = {}  # by test; built when first asked for

    def add(self, constants: Constants, query: int) -> None:
        """Add a query with its constants; ``query`` is the number of its bit in masks."""
        self.queries[constants] = self.queries.get(constants, 0) | 1 << query
        self._of_query[query] = constants
        self._forget()

    def remove(self, query: int) -> None:
        """Remove a query, given by the number of its bit."""
        constants = self._of_query.pop(query)
        self.queries[constants] &= ~(1 << query)
        if not self.queries[constants]:
            del self.queries[constants]
        self._forget()

    def of(self, query: int) -> Constants:
        """Return the constants of a query, given by the number of its bit."""
        return self._of_query[query]

    def _forget(self) -> None:
        self._ladders.clear()
        self.only = next(iter(self.queries)) if len(self.queries) == 1 else None

    def holding(
        self, tests: Sequence[ConstantTest], cells: tuple[Any, ...], row: Row, mask: int
    ) -> int:
        """Return the mask of those queries of a mask for which all tests hold.

        The tests read the cells of a run, a row and the constants of the query.
        """
        only = self.only
        if only is not None:
            for test in tests:
                if not test.holds(cells, row, only):
                    return 0
            return mask
        for test in tests:
            if not mask:
                return 0
            if not test.reads:
                mask = mask if test.holds(cells, row, ()) else 0
            elif mask.bit_count() <= _FEW:
                mask = self._one_by_one(test, cells, row, mask)
            else:
                found = 0
                for ladder in self._ladders_of(test):
                    if mask & ladder.everyone:
                        found |= ladder.holding(test.holds, cells, row)
                mask &= found
        return mask

    def _one_by_one(self, test: ConstantTest, cells: tuple[Any, ...], row: Row, mask: int) -> int:
        left = mask
        while left:
            query = left & -left
            left ^= query
            if not test.holds(cells, row, self._of_query[query.bit_length() - 1]):
                mask ^= query
        return mask

    def _ladders_of(self, test: ConstantTest) -> list[_Ladder]:
        known = self._ladders.get(test)
        if known is None:
            ways = [self._steps(test, slot) for slot in test.monotone or (None,)]
            known = [_Ladder(steps) for steps in min(ways, key=len)]
            self._ladders[test] = known
        return known

    def _steps(self, test: ConstantTest, slot: int | None) -> list[list[tuple[Constants, int]]]:
        """Return groups of (constants, mask of their queries), ascending in constant number `slot`.

        In a group all other constants that the test reads are equal; with `slot` None, all are.
        """
        found: dict[Hashable, dict[Hashable, tuple[Constants, int]]] = {}
        for constants, queries in self.queries.items():
            values = [constants[read] for read in test.reads if read != slot]
            key: tuple[Hashable, ...] = tuple(map(_identity, values))
            value = None if slot is None else constants[slot]
            if slot is not None:
                key += (_identity(value),) if _kind(value) is None else (_kind(value),)
            group, same = found.setdefault(key, {}), _identity(value)
            first, known = group.get(same, (constants, 0))
            group[same] = (first, known | queries)
        groups = [list(group.values()) for group in found.values()]
        if slot is not None:
            for steps in groups:
                steps.sort(key=lambda step: step[0][slot])
        return groups


class _Ladder:
    """The constants of queries, sorted by the one constant in which a test is monotone.

    So a search finds the queries for which the test holds: those before or behind one place.
    """

    __slots__ = ("_below", "_constants", "_queries", "_stride", "everyone")

    def __init__(self, steps: Sequence[tuple[Constants, int]]) -> None:
        self._constants = [constants for constants, _ in steps]
        self._queries = [queries for _, queries in steps]
        self._stride = 1 + len(steps) // _MOST_SUMS
        # masks: the queries of all items before each block of `_stride` items
        self._below: list[int] = []
        self.everyone = 0
        for place, queries in enumerate(self._queries):
            if not place % self._stride:
                self._below.append(self.everyone)
            self.everyone |= queries

    def holding(self, holds: Holds, cells: tuple[Any, ...], row: Row) -> int:
        """Return the mask of the queries for which a test holds.

        Queries are ordered by one constant: these are all before an index, or all from it on.
        """
        constants = self._constants
        first = holds(cells, row, constants[0])
        if len(constants) == 1 or holds(cells, row, constants[-1]) == first:
            return self.everyone if first else 0
        place = bisect_left(constants, True, key=lambda one: holds(cells, row, one) != first)
        block = place // self._stride
        below = self._below[block]
        for queries in self._queries[block * self._stride : place]:
            below |= queries
        return below if first else self.everyone & ~below


def constants_in(node: Expression) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the constants that a condition reads, and in which it is monotone."""
    times = Counter(one.index for one in walk(node) if isinstance(one, Parameter))
    monotone: list[int] = []
    if isinstance(node, Compare) and node.operator not in ("=", "!="):
        sides = (*_bare(node.left), *_bare(node.right))
        monotone = [slot for slot in sides if times[slot] == 1]
    return tuple(times), tuple(monotone)


def _bare(side: Expression) -> Iterator[int]:
    """Yield the numbers of the constants in which one side of a comparison is monotone.

    Only its form is considered: `k`, `-k`, `k / x`, and sums, differences and products with k.
    """
    match side:
        case Parameter(slot) | Negative(Parameter(slot)) | Arithmetic("/", Parameter(slot), _):
            yield slot
        case Arithmetic("+" | "-" | "*", left, right):
            yield from [one.index for one in (left, right) if isinstance(one, Parameter)]
        case _:
            return


def _kind(value: Any) -> Hashable | None:
    """Return the key of a class of numbers in which tests are monotone: their type and sign.

    None for any other value, and for numbers from 2 ** 53 on.
    """
    if type(value) not in (int, float) or not -_EXACT < value < _EXACT:
        return None
    return ("number", type(value), (value > 0) - (value < 0))


def _identity(value: Any) -> Hashable:
    """Return a key that identical values have in common (`expressions.is_same`)."""
    return (type(value), value, copysign(1, value) if isinstance(value, float) else 1)
