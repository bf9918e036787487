"""The cell of a run: its first row, its last row, the number of its rows, its accumulators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

from cep_core.algebra import Part
from cep_core.algebra.function_bounds import ITEMS
from cep_core.algebra.patterns import RUN_AGGREGATES
from cep_core.dataflow.code import ATOM_ERRORS
from cep_core.events import VALUES, Row

COUNT = 2  # index of the number of rows in a loop's cell; accumulators follow
_NOTHING = {"COUNT": 0, "AVG": (0, 0), "LIST": ()}  # accumulators of no row; None for other roles


class RunAccumulator(NamedTuple):
    """An aggregate (``role``) of attribute number ``place`` over the rows of a run.

    The cell of the run has its value, for AVG (sum, number of values).
    """

    role: str
    place: int


def accumulators_of(parts: Iterable[Part], component: int) -> list[RunAccumulator]:
    """Return the accumulators that the parts of a repeated component need, each once.

    A part that reads a row by its number (`a[3].x`) needs the list of all values.
    """
    found: dict[RunAccumulator, None] = {}
    for part in parts:
        if part.component != component or part.index is None:
            continue
        if part.role in RUN_AGGREGATES:
            found[RunAccumulator(part.role, part.index)] = None
        elif part.role == "LIST" or part.offset:
            found[RunAccumulator("LIST", part.index)] = None
    return list(found)


def started(accumulators: Sequence[RunAccumulator], row: Row) -> Any:
    """Return the cell of a run that a row begins, with a value for each accumulator."""
    held = [
        _added(accumulator.role, _NOTHING.get(accumulator.role), row[accumulator.place + VALUES])
        for accumulator in accumulators
    ]
    return (row, row, 1, *held)


def longer(accumulators: Sequence[RunAccumulator], cell: Any, row: Row) -> Any:
    """Return the cell of a run with one more row; ``accumulators`` are those that the cell has."""
    first, _, count, *held = cell
    more = [
        _added(one.role, value, row[one.place + VALUES])
        for one, value in zip(accumulators, held, strict=True)
    ]
    return (first, row, count + 1, *more)


def nth(values: Sequence[Any] | None, place: int) -> Any:
    """Return the value at a place of a list (below 0 from its end), null if there is none."""
    return values[place] if values and -len(values) <= place < len(values) else None


def _added(role: str, held: Any, value: Any) -> Any:
    """Return the accumulator ``held`` of the aggregate ``role`` with one more value.

    All but LIST ignore null and NaN.  A list of more than `ITEMS` values is null.
    Sums of integers are exact; floats are added in the order of the rows.
    """
    if role == "LIST":
        return None if held is None or len(held) >= ITEMS else (*held, value)
    if value is None or value != value:
        return held
    match role:
        case "COUNT":
            return held + 1
        case "AVG":
            return (_sum(held[0], value) if held[1] else value, held[1] + 1)
        case _ if held is None:
            return value
        case "SUM":
            return _sum(held, value)
        case _:
            return _better(role, value, held)


def _better(role: str, value: Any, held: Any) -> Any:
    """Return the lesser (MIN) or larger of two values; ``held`` if they cannot be compared."""
    try:
        return value if (value < held if role == "MIN" else held < value) else held
    except ATOM_ERRORS:  # from a tuple with nulls, or from a type of the user's
        return held


def _sum(held: Any, value: Any) -> Any:
    """Return a sum; where an integer is beyond all floats it is infinite."""
    try:
        return held + value
    except OverflowError:
        return inf if (held if isinstance(held, int) else value) > 0 else -inf


def average(held: tuple[Any, int]) -> float | None:
    """Return the average of (sum, number of values), null without values."""
    try:
        return held[0] / held[1] if held[1] else None
    except OverflowError:
        return inf if held[0] > 0 else -inf
