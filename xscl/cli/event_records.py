"""Readers of event files: CSV with a heading, JSON, or XML, told apart by their first character.

A record maps names to values.  An unreadable one is reported with its line, and reading goes on.
After a CSV error it resumes in the line after the first one of the record, so a quote that is not
closed costs one line.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from cep_core.algebra import DecimalOrDouble, number_of
from feeds.errors import MalformedDocument
from feeds.xml.xmlparse import parse

RecordValue: TypeAlias = str | int | DecimalOrDouble | bool | None
_DELIMITERS = ",;\t|"
_UNCLOSED = "unexpected end of data"  # the csv module's words for a quote that is not closed
_OBJECT = re.compile(r"\n[ \t]*\{")
Pairs: TypeAlias = Sequence[tuple[str, Any]]  # an object of JSON is a tuple of them
_DECODER = json.JSONDecoder(object_pairs_hook=tuple)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A record of a file and its place; with ``typed`` its texts are never parsed as numbers."""

    values: Mapping[str, RecordValue]
    place: str
    number: int = 0  # among the records of its file
    typed: bool = False


@dataclass(unsafe_hash=True)
class Unreadable(Exception):
    """An unreadable record: its place, the reason, and a remedy."""

    place: str
    reason: str
    hint: str | None = None


ReadRecords: TypeAlias = Iterator[EventRecord | Unreadable]


def read(path: str, columns: Sequence[str] = ()) -> ReadRecords:
    """Yield the records of a file, or of standard input for "-".

    ``columns`` are those of a CSV file without a heading, in their order.
    """
    name = "standard input" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        yield Unreadable(path, error.strerror or str(error))
        return
    number = 0
    for one in _found(data, name, columns):
        if isinstance(one, EventRecord):
            yield replace(one, number=number)
            number += 1
        else:
            yield one


def _record(place: str, pairs: Pairs, *, typed: bool = False) -> EventRecord | Unreadable:
    """Return names and values as a record; Unreadable for a duplicate name or a list as value."""
    twice = _duplicate([key for key, _ in pairs])
    if twice is not None:
        return Unreadable(place, f"{twice} is there twice")
    wrong = [key for key, value in pairs if isinstance(value, list)]
    if wrong:
        return Unreadable(place, f"{wrong[0]} is no single value")
    return EventRecord(dict(pairs), place, typed=typed)


def _found(data: bytes, name: str, columns: Sequence[str]) -> ReadRecords:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not data.lstrip().startswith(b"<"):
            yield Unreadable(name, f"it is not UTF-8 text: byte {error.start}")
            return
        text = ""
    first = text.lstrip()[:1]
    if not data.strip():
        yield Unreadable(name, "it is empty")
    elif first in ("<", ""):
        yield from _xml(data, name)
    elif first == "[":
        yield from _json_array(text, name)
    elif first == "{":
        yield from _json_lines(text, name)
    else:
        yield from _csv(text, name, columns)


def identifier(text: str) -> str:
    """Return a heading, or the name of a file, as an identifier of the query languages."""
    name = re.sub(r"\W", "_", text.strip())
    return f"_{name}" if not name or name[0].isdigit() else name


# -- CSV -----------------------------------------------------------------------------------


def _csv(text: str, name: str, columns: Sequence[str]) -> ReadRecords:
    lines = list(io.StringIO(text, newline=""))
    heading: list[str] | None = None
    is_empty = True
    for line, row in _rows(lines):
        place = f"{name}:{line}"
        if isinstance(row, csv.Error):
            closed = str(row) != _UNCLOSED
            reason = (
                f"this is no CSV: {row}" if closed else "a quote is opened here and never closed"
            )
            yield Unreadable(place, reason)
            continue
        if heading is None:
            if _is_event(row, columns):
                if len(row) != len(columns):
                    hint = "name all its columns, in their order, with --schema"
                    yield Unreadable(place, "there are values where the heading should be", hint)
                    return
                heading = list(columns)
            else:
                heading = [identifier(one) for one in row]
                twice = _duplicate(heading)
                if twice is not None:
                    yield Unreadable(
                        place, f"two columns are called {twice}", "give each its own name"
                    )
                    return
                continue
        if len(row) != len(heading):
            yield Unreadable(place, f"{len(row)} values for the {len(heading)} columns")
        else:
            is_empty = False
            yield _record(place, [(key, v or None) for key, v in zip(heading, row, strict=True)])
    if heading is not None and is_empty:
        yield Unreadable(name, "it has no event below its heading")


def _is_event(row: Sequence[str], columns: Sequence[str]) -> bool:
    """Return True if a first row is no heading: all numbers, or some and no known column."""
    numbers = [number_of(one) is not None for one in row]
    return all(numbers) or (any(numbers) and len(row) == len(columns) and not {*row} & {*columns})


def _rows(lines: Sequence[str]) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Yield the rows that are not empty, or their errors, with the number of their first line."""
    delimiter = _delimiter(lines)
    begun = 0  # lines before the next row
    while begun < len(lines):
        reader = csv.reader(islice(lines, begun, None), delimiter=delimiter, strict=True)
        start = begun
        try:
            for row in reader:
                if row:
                    yield begun + 1, row
                begun = start + reader.line_num
        except csv.Error as error:
            yield begun + 1, error
            begun += 1


def _delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter of the columns: the most frequent candidate in the heading."""
    heading = next((line for line in lines if line.strip()), "")
    bare = re.sub(r'"[^"]*"', "", heading)
    return max(_DELIMITERS, key=bare.count)


# -- JSON ----------------------------------------------------------------------------------


def _json_lines(text: str, name: str) -> ReadRecords:
    for line, one in enumerate(text.split("\n"), 1):
        if one.strip():
            place = f"{name}:{line}"
            try:
                yield _event(place, _DECODER.decode(one))
            except (ValueError, RecursionError) as error:
                hint = "a line is one object, or the file is one array of objects"
                yield Unreadable(place, f"this is no JSON: {error}", hint)


def _json_array(text: str, name: str) -> ReadRecords:
    """Yield the objects of arrays; after a syntax error, resume at a line that begins with `{`."""
    at, line, counted = 0, 1, 0
    inside = False
    while True:
        at = _skip(text, at, ", \t\r\n" if inside else " \t\r\n")
        line, counted = line + text.count("\n", counted, at), at
        place = f"{name}:{line}"
        if at == len(text):
            if inside:
                yield Unreadable(place, "the array is not closed")
            return
        if text[at] in "[]" and inside is (text[at] == "]"):
            inside, at = not inside, at + 1
            continue
        try:
            found, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            yield Unreadable(place, f"this is no JSON: {error}")
            again = _OBJECT.search(text, at)
            if again is None:
                return
            at = again.end() - 1
            continue
        yield _event(place, found)


def _skip(text: str, at: int, signs: str) -> int:
    """Return the offset of the first character that is not in `signs`."""
    while at < len(text) and text[at] in signs:
        at += 1
    return at


def _event(place: str, found: Any) -> EventRecord | Unreadable:
    """Return an object, which the decoder leaves as pairs, as a record."""
    if not isinstance(found, tuple):
        return Unreadable(place, "an event is one object")
    return _record(place, list(_flat(found)), typed=True)


def _flat(pairs: Pairs) -> Iterator[tuple[str, Any]]:
    """Yield names and values of an object; the value b of an inner object a is named a_b."""
    left = [(identifier(key), value) for key, value in reversed(pairs)]
    while left:
        name, value = left.pop()
        if not isinstance(value, tuple):
            yield name, value
            continue
        left += [(f"{name}_{identifier(key)}", inner) for key, inner in reversed(value)]


# -- XML -----------------------------------------------------------------------------------


def _xml(data: bytes, name: str) -> ReadRecords:
    """Yield the children of the root as records, with their attributes and child elements."""
    try:
        root = parse(data)
    except MalformedDocument as error:
        yield Unreadable(name, str(error))
        return
    is_empty = True
    for element in root:
        if not isinstance(element.tag, str):
            continue
        is_empty = False
        pairs: list[tuple[str, Any]] = [
            (identifier(_local(key)), str(value) or None) for key, value in element.attrib.items()
        ]
        for child in element:
            if isinstance(child.tag, str):
                value = list(child) or (child.text or "").strip() or None
                pairs.append((identifier(_local(child.tag)), value))
        yield _record(f"{name}:{element.sourceline}", pairs)
    if is_empty:
        yield Unreadable(name, "its root has no element that is an event")


def _local(tag: Any) -> str:
    return str(tag).rpartition("}")[2]


def _duplicate(names: Sequence[str]) -> str | None:
    """Return the first name that repeats an earlier one; None without one."""
    return next((name for at, name in enumerate(names) if name in names[:at]), None)
