"""Files of events: CSV with a heading, JSON lines, or XML; which of them, the first sign says.

A record is a mapping of names to what was written; a record that cannot be read is reported with
its line, and the others are not disturbed.  Types are those of a schema, or inferred from all
records of a stream: int, float, bool, else str; nothing is null.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

from cep_core import Schema
from feeds.errors import MalformedDocument
from feeds.xmlparse import parse
from xscl.cli.inputs import instant
from xscl.cli.output import Misuse, one_line

UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000}
SECOND = 1_000_000
TIMES = ("time", "timestamp", "t1")
BEGIN = "t0"
_WORDS = {"true": True, "false": False}
Value: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Record:
    """Something that was read, and where it stands."""

    values: Mapping[str, Value]
    place: str
    number: int  # among the records of its file


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read, and why."""

    place: str
    reason: str


def read(path: str) -> Iterator[Record | Unread]:
    """Yield the records of a file, or of standard input for "-"."""
    name = "standard input" if path == "-" else path
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not data.lstrip().startswith(b"<"):
            yield Unread(name, f"it is not UTF-8 text: byte {error.start}")
            return
        text = ""
    first = text.lstrip()[:1]
    if first in ("<", "") and data.strip():
        yield from _xml(data, name)
    elif first in ("{", "["):
        yield from _json_lines(text, name)
    else:
        yield from _csv(text, name)


def _csv(text: str, name: str) -> Iterator[Record | Unread]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    heading: list[str] | None = None
    number = 0
    while True:
        try:
            row = next(lines, None)
        except csv.Error as error:
            yield Unread(f"{name}:{lines.line_num}", f"this is no CSV: {error}")
            continue
        if row is None:
            return
        if not row:
            continue
        if heading is None:
            heading = [_as_name(one) for one in row]
            continue
        place = f"{name}:{lines.line_num}"
        if len(row) != len(heading):
            yield Unread(place, f"{len(row)} values for the {len(heading)} columns")
            continue
        yield Record({key: v or None for key, v in zip(heading, row, strict=True)}, place, number)
        number += 1


def _json_lines(text: str, name: str) -> Iterator[Record | Unread]:
    number = 0
    for line, one in enumerate(text.split("\n"), 1):
        if not one.strip():
            continue
        place = f"{name}:{line}"
        try:
            found = json.loads(one)
        except ValueError as error:
            yield Unread(place, f"this is no JSON: {error}")
            continue
        if not isinstance(found, dict):
            yield Unread(place, "a line is one object")
            continue
        values = {_as_name(key): value for key, value in found.items()}
        wrong = [key for key, value in values.items() if isinstance(value, dict | list)]
        if wrong:
            yield Unread(place, f"{wrong[0]} is no single value")
            continue
        yield Record(values, place, number)
        number += 1


def _xml(data: bytes, name: str) -> Iterator[Record | Unread]:
    """Yield the children of the root: attributes and elements with text are their values."""
    try:
        root = parse(data)
    except MalformedDocument as error:
        yield Unread(name, str(error))
        return
    number = 0
    for element in root:
        if not isinstance(element.tag, str):
            continue
        place = f"{name}:{element.sourceline}"
        values: dict[str, Value] = {_as_name(str(k)): str(v) for k, v in element.attrib.items()}
        nested = [child for child in element if isinstance(child.tag, str)]
        deep = [child for child in nested if len(child)]
        if deep:
            yield Unread(place, f"{_local(deep[0].tag)} is no single value")
            continue
        values |= {_as_name(_local(child.tag)): (child.text or "").strip() for child in nested}
        yield Record({key: v or None for key, v in values.items()}, place, number)
        number += 1


def _local(tag: Any) -> str:
    return str(tag).rpartition("}")[2]


def _as_name(text: str) -> str:
    """Return a heading as a name that queries can say."""
    name = re.sub(r"\W", "_", text.strip())
    return f"_{name}" if not name or name[0].isdigit() else name


# -- types ---------------------------------------------------------------------------------


def inferred(records: Iterable[Record], without: Sequence[str]) -> Schema:
    """Return the schema of records: the columns in order of appearance, with their types."""
    kinds: dict[str, set[type]] = {}
    for record in records:
        for name, value in record.values.items():
            if name not in without:
                kinds.setdefault(name, set()).update(_kinds(value))
    return Schema(tuple(kinds), tuple(map(_common, kinds.values())))


def _kinds(value: Value) -> set[type]:
    """Return the types that a value may have."""
    if value is None:
        return set()
    if not isinstance(value, str):
        return {type(value)}
    if value[:1] in ("0", "-", "+") and not _NUMBER.fullmatch(value):
        return {str}  # as 007 is: a name that is made of digits
    return {next((k for k in (int, float, bool) if _parsed(value, k) is not None), str)}


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")


def _common(kinds: set[type]) -> type:
    """Return the type for values of several."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return float if kinds == {int, float} else str


def _parsed(text: str, kind: type) -> Value:
    """Return a text as a value of a type, None if it is none."""
    if kind in (int, float) and "_" in text:
        return None
    try:
        match kind.__name__:
            case "int":
                return int(text)
            case "float":
                number = float(text)
                return number if isfinite(number) else None
            case "bool":
                return _WORDS.get(text.lower())
            case _:
                return text
    except ValueError:
        return None


def typed(record: Record, schema: Schema) -> tuple[Value, ...] | Unread:
    """Return a record's values under a schema; what it lacks is null."""
    found: list[Value] = []
    for name, kind in zip(schema.names, schema.types, strict=True):
        value = record.values.get(name)
        if isinstance(value, str) and kind is not str:
            made = _parsed(value, kind)
            if made is None:
                said = one_line(repr(value), 60)
                return Unread(record.place, f"{name} is {said}, not of type {kind.__name__}")
            value = made
        elif value is not None and kind is str and not isinstance(value, str):
            value = json.dumps(value)
        found.append(value)
    fault = schema.fault(found)
    return tuple(found) if fault is None else Unread(record.place, fault)


# -- times ---------------------------------------------------------------------------------


def time_column(records: Sequence[Record], asked: str | None, stream: str) -> str | None:
    """Return the column with the times of records, None if they have none."""
    names = {name for record in records for name in record.values}
    if asked is None:
        return next((name for name in TIMES if name in names), None)
    if asked not in names:
        columns = ", ".join(sorted(names))
        raise Misuse(f"{stream} has no column {asked}", hint=f"there are {columns}")
    return asked


def interval(record: Record, column: str | None, unit: int) -> tuple[int, int] | Unread:
    """Return when a record begins and ends, in ticks; without times they come one a second."""
    if column is None:
        time = record.number * SECOND
        return time, time
    end = _ticks(record.values.get(column), unit)
    begin = end
    if column != BEGIN and record.values.get(BEGIN) is not None:
        begin = _ticks(record.values[BEGIN], unit)
    if end is None or begin is None:
        wrong = record.values.get(column if end is None else BEGIN)
        return Unread(record.place, f"{one_line(repr(wrong), 60)} is no time")
    return begin, end


def _ticks(value: Value, unit: int) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        number = _parsed(value, float)
        if number is None:
            try:
                return instant(value)
            except Misuse:
                return None
        value = _parsed(value, int) or number
    assert isinstance(value, int | float)
    return round(value * unit) if isfinite(value) else None
