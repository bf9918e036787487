"""The delivery of results: found rows are ordered and become matches.

Matches are ordered by (t1, registration, values, t0), so they do not depend on how they were
computed.  Rows of one query and time may be thousands: they are sorted and made into matches as a
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import groupby, islice, repeat
from operator import eq, itemgetter
from typing import Any

from cep_core.decimals import BoundedDecimal
from cep_core.events import TYPES, VALUES, Event, Match, Row, Schema, written
from cep_core.plan.fanout import FoundRow
from cep_core.runtime.queries import RegisteredQuery

_ALL_ORDERED = {str, int, bool}  # types all of whose values have an order
_BEGIN, _END, _VALUES = itemgetter(0), itemgetter(1), itemgetter(slice(VALUES, None))
_WHEN, _ROW = itemgetter(0, 1), itemgetter(2)  # of a found row
# what NamedTuple's own constructors do, without a call of Python for each
_new: Callable[[type[Any], Iterable[Any]], Any] = tuple.__new__


def matches(found: list[FoundRow], by_number: Mapping[int, RegisteredQuery]) -> list[Match]:
    """Return found rows as ordered matches."""
    found.sort(key=_WHEN)
    made: list[Match] = []
    for (_, number), group in groupby(found, key=_WHEN):
        rows = list(map(_ROW, group))
        query = by_number[number]
        values = _sorted_by_values(rows, query.schema)
        stream, name = query.publishes or query.name, query.name
        times = map(_BEGIN, rows), map(_END, rows)
        parts = zip(repeat(stream), values, *times, repeat(query.schema))
        events = map(_new, repeat(Event), parts)
        made.extend(map(_new, repeat(Match), zip(repeat(name), events)))
    return made


def _sorted_by_values(rows: list[Row], schema: Schema) -> list[tuple[Any, ...]]:
    """Sort rows of one query and time by their values; return the values in the same order.

    Nulls and NaN have a place (`_order`); rows with equal values come in order of their t0.  A null
    that matters raises TypeError: sorting compares all rows that end up side by side.
    """
    if len(rows) < 2:
        return list(map(_VALUES, rows))
    key: Callable[[Row], Any] = _careful
    if _ALL_ORDERED.issuperset(schema.types) or all(
        type(value) in TYPES and value == value for row in rows for value in row
    ):
        with suppress(TypeError):  # a null beside a value
            rows.sort(key=_VALUES)
            values = list(map(_VALUES, rows))
            if not any(map(eq, values, islice(values, 1, None))):
                return values
            key = _VALUES
    rows.sort(key=_BEGIN)
    rows.sort(key=key)
    return list(map(_VALUES, rows))


def _careful(row: Row) -> list[tuple[Any, ...]]:
    return [_order(value) for value in row[VALUES:]]


def _order(value: Any) -> tuple[Any, ...]:
    """Return a key that orders any values: null first, then by type."""
    if value is None:
        return (0,)
    if isinstance(value, int | float | BoundedDecimal):
        return (1, value != value, value if value == value else 0)
    return (2, type(value).__name__, value if isinstance(value, str) else written(value))
