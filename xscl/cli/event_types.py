"""Conversion of file records to events: types of their values, and their times.

Types are those of a schema, or inferred from all records of a stream: int, float, bool, else str;
nothing is null.  What a file writes as text, as JSON's strings are, stays text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import isfinite

from cep_core import Schema
from cep_core.algebra import BoundedDecimal, decimal_value, integer_of, number_of
from xscl.cli.document_inputs import instant
from xscl.cli.event_records import EventRecord, Unreadable, Value
from xscl.cli.output import UsageError, one_line

SECOND = 1_000_000
UNITS: Mapping[str, Fraction] = {
    "ns": Fraction(1, 1_000),
    **dict.fromkeys(("us", "usec"), Fraction(1)),
    **dict.fromkeys(("ms", "msec"), Fraction(1_000)),
    **dict.fromkeys(("s", "sec"), Fraction(SECOND)),
}
_SINCE_1970 = {"seconds": 10**8, "milliseconds": 10**11, "nanoseconds": 10**17}  # 1973 and later
_MICROSECONDS_SINCE_1970 = 10**14
TIMES = ("time", "timestamp", "t1")
BEGIN = "t0"
_WORDS = {"true": True, "false": False}
_PARSERS: Mapping[type, Callable[[str], Value]] = {
    str: str,
    int: integer_of,
    float: number_of,
    BoundedDecimal: decimal_value,
    bool: lambda text: _WORDS.get(text.lower()),
}

# -- types ---------------------------------------------------------------------------------


def inferred_schema(records: Iterable[EventRecord], without: Sequence[str]) -> Schema:
    """Return the schema of records: the columns in order of appearance, with their types."""
    kinds: dict[str, set[type]] = {}
    for record in records:
        for name, value in record.values.items():
            if name not in without:
                found = kinds.setdefault(name, set())
                found |= {str} if record.typed and isinstance(value, str) else _kinds(value)
    return Schema(tuple(kinds), tuple(map(_common_type, kinds.values())))


def first_text(records: Iterable[EventRecord], name: str) -> EventRecord | None:
    """Return the first record whose value makes text of a column of numbers, None if none does."""
    texts: list[EventRecord] = []
    has_numbers = False
    for record in records:
        kinds = _kinds(record.values.get(name))
        has_numbers = has_numbers or bool(kinds & {int, float})
        texts += [record] if str in kinds and not texts else []
    return texts[0] if texts and has_numbers else None


def _kinds(value: Value) -> set[type]:
    """Return the types that a value may have."""
    if value is None:
        return set()
    if not isinstance(value, str):
        return {type(value)}
    if value[:1] in ("0", "-", "+") and not _NUMBER.fullmatch(value):
        return {str}  # as 007 is: a name that is made of digits
    if _INTEGER.fullmatch(value) and integer_of(value) is not None:
        return {int}
    found = number_of(value)
    if found is not None and isfinite(found):
        return {float}
    return {str if _PARSERS[bool](value) is None else bool}


_INTEGER = re.compile(r"[ \t]*[0-9-]+[ \t]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")


def _common_type(kinds: set[type]) -> type:
    """Return the narrowest type for values of several types."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return float if kinds == {int, float} else str


def typed(record: EventRecord, schema: Schema) -> tuple[Value, ...] | Unreadable:
    """Return a record's values under a schema; missing ones are None."""
    found: list[Value] = []
    for name, kind in zip(schema.names, schema.types, strict=True):
        value = record.values.get(name)
        if isinstance(value, str) and kind is not str:
            made = _PARSERS[kind](value)
            if made is None:
                said = one_line(repr(value), 60)
                return Unreadable(record.place, f"{name} is {said}, not of type {kind.__name__}")
            value = None if made != made else made  # NaN is null, as in leaves of documents
        elif value is not None and kind is str and not isinstance(value, str):
            value = json.dumps(value)
        elif isinstance(value, float) and kind is BoundedDecimal:
            value = decimal_value(value)
        found.append(value)
    fault = schema.fault(found)
    return tuple(found) if fault is None else Unreadable(record.place, fault)


# -- times ---------------------------------------------------------------------------------


def time_column(records: Sequence[EventRecord], wanted: str | None, stream: str) -> str | None:
    """Return the column with the times of records, None if they have none."""
    names = {name for record in records for name in record.values}
    if wanted is None:
        return next((name for name in TIMES if name in names), None)
    if wanted not in names:
        columns = ", ".join(sorted(names))
        raise UsageError(f"{stream} has no column {wanted}", hint=f"there are {columns}")
    return wanted


def column_like_times(records: Sequence[EventRecord]) -> str | None:
    """Return the first column whose values are all written times, not numbers; None without one."""
    found: dict[str, bool] = {}
    for record in records:
        for name, value in record.values.items():
            if value is not None and found.setdefault(name, True):
                found[name] = _number(value) is None and _ticks(value, Fraction(1)) is not None
    return next((name for name, is_time in found.items() if is_time), None)


def unit_warning(records: Iterable[EventRecord], column: str | None) -> str | None:
    """Return a reason why numeric times may not be microseconds, None without one."""
    if column is None:
        return None
    times = [time for record in records if (time := _number(record.values.get(column))) is not None]
    if not times:
        return None
    least, most = min(times), max(times)
    for unit, since in _SINCE_1970.items():
        if since <= least and most < 1_000 * since:
            return f"they look like {unit} since 1970"
    if least < most < least + SECOND and abs(most) < _MICROSECONDS_SINCE_1970:
        return f"all of them are within {one_line(repr(most - least))} of one another"
    return None


def interval(
    record: EventRecord, column: str | None, unit: Fraction
) -> tuple[int, int] | Unreadable:
    """Return the interval of a record in ticks; without times, one record a second."""
    if column is None:
        time = record.number * SECOND
        return time, time
    end = _ticks(record.values.get(column), unit)
    begin = end
    if column != BEGIN and record.values.get(BEGIN) is not None:
        begin = _ticks(record.values[BEGIN], unit)
    if end is None or begin is None:
        wrong = record.values.get(column if end is None else BEGIN)
        return Unreadable(record.place, f"{one_line(repr(wrong), 60)} is no time")
    return begin, end


def _ticks(value: Value, unit: Fraction) -> int | None:
    number = _number(value)
    if number is not None:
        return round(Fraction(number) * unit)
    try:
        return instant(value) if isinstance(value, str) else None
    except UsageError:
        return None


def _number(value: Value) -> int | float | None:
    """Return a finite number, parsed from a text if need be; None if it is not one."""
    if isinstance(value, str):
        value = integer_of(value) or number_of(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isfinite(value) else None
