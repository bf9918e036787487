"""Lists of subscriptions in files: CSV with a heading, or JSON lines."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from xscl.cli.output import UsageError
from xscl.errors import QueryError
from xscl.language.constants import Shape, marks, split
from xscl.language.windows import refuse_bare_windows

_COLUMNS = ("name", "query", "updates")
_YES = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A query to subscribe to."""

    name: str
    query: str
    updates: bool = False


def read_rows(file: Path) -> list[ImportRow]:
    """Return the rows of a file, of standard input if it is `-`; raises UsageError with the row."""
    try:
        given = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    try:
        text = given.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text: byte {error.start + 1} is wrong") from None
    is_csv = file.suffix == ".csv" if file.suffix else not text.lstrip().startswith("{")
    return list(_of_csv(text) if is_csv else _of_lines(text))


def refuse_bare(text: str) -> None:
    """Raise QueryError for a window without a unit; parse each shape of queries once."""
    cut = split(text)
    if cut is None or not _has_units(cut[0]):
        refuse_bare_windows(text)


@lru_cache(maxsize=1_000)
def _has_units(shape: Shape) -> bool:
    try:
        refuse_bare_windows(shape.text(marks(shape, first=True)))
    except QueryError:
        return False
    return True


def _of_csv(text: str) -> Iterator[ImportRow]:
    csv.field_size_limit(1_000_000)
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    number = 0
    try:
        heading = reader.fieldnames or ()
        if not {"name", "query"} <= set(heading) or not set(heading) <= set(_COLUMNS):
            raise UsageError(
                "the first line of the list has to name its columns",
                hint="they are name,query and, if you like, updates",
            )
        for number, row in enumerate(reader, 1):
            if None in row:
                raise _wrong(number, "it has more cells than the heading")
            updates = _YES.get((row.get("updates") or "").lower())
            if updates is None:
                raise _wrong(number, "updates is neither true nor false")
            yield _row(number, row["name"], row["query"], updates)
    except csv.Error as error:
        raise _wrong(number + 1, f"it is no CSV: {error}") from None


def _of_lines(text: str) -> Iterator[ImportRow]:
    lines = (line for line in text.split("\n") if line.strip())
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise _wrong(number, "it is no JSON") from None
        if not isinstance(value, dict) or not set(value) <= set(_COLUMNS):
            raise _wrong(number, "it is no object with name, query and updates")
        yield _row(number, value.get("name"), value.get("query"), value.get("updates", False))


def _row(number: int, name: object, query: object, updates: object) -> ImportRow:
    if not isinstance(name, str) or not name or not isinstance(query, str) or not query:
        raise _wrong(number, "it has no name or no query")
    if not isinstance(updates, bool):
        raise _wrong(number, "updates is neither true nor false")
    return ImportRow(name, query, updates)


def _wrong(number: int, reason: str) -> UsageError:
    return UsageError(
        f"row {number}: {reason}",
        hint='a row is {"name": "...", "query": "..."}, or name,query under a heading as CSV',
    )
