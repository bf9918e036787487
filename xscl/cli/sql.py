"""`xscl sql`: one SELECT, its answer as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from xscl.cli.connection import opened
from xscl.cli.options import Call, argument, not_standard, option, query_text
from xscl.cli.output import UsageError, clean, table
from xscl.plurals import counted

_BATCH = 1_000
"""Rows of an answer that are converted to Python objects together."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class SqlFormat(StrEnum):
    """Output format of a table."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"


def sql(
    call: Call,
    query: str = argument("One SELECT statement.", "SELECT|@FILE"),
    form: Annotated[
        SqlFormat, option("How to write the answer.", flags="--format")
    ] = SqlFormat.TABLE,
    output: Path | None = option("Write to this file.", flags="--output -o", callback=not_standard),
) -> None:
    """Run one SELECT over the witness relations and all other public tables.

    CSV follows RFC 4180: lines end in CR LF. --json is --format jsonl, an object
    a line; --format json is one array.

    \b
    Example:
      xscl sql 'SELECT * FROM R_bin LIMIT 5' --format csv
    """
    chosen = SqlFormat.JSONL if call.as_json else form
    text = query_text(query)
    with opened("sql", call) as service:
        answer = service.select(text)
    _write_answer(answer, chosen, output)


# -- Formats -------------------------------------------------------------------------------


def _write_answer(answer: pa.Table, form: SqlFormat, output: Path | None) -> None:
    """Write an answer to a file, or to standard output."""
    if output is None:
        if form is SqlFormat.PARQUET and sys.stdout.isatty():
            raise UsageError("Parquet is nothing for a terminal", hint="use --output FILE")
        sys.stdout.flush()
        _write(answer, form, sys.stdout.buffer, show=sys.stdout.isatty())
        sys.stdout.buffer.flush()
        return
    try:
        with open(output, "wb") as file:
            _write(answer, form, file)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from None


def _write(answer: pa.Table, form: SqlFormat, file: BinaryIO, *, show: bool = False) -> None:
    if form is SqlFormat.PARQUET:
        pq.write_table(answer, file)
        return
    lines = {
        SqlFormat.TABLE: _table,
        SqlFormat.CSV: _csv,
        SqlFormat.JSON: _json,
        SqlFormat.JSONL: _jsonl,
    }[form](answer)
    file.writelines((clean(line) if show else line).encode() for line in lines)


def _rows(answer: pa.Table) -> Iterator[list[Any]]:
    for batch in answer.to_batches(max_chunksize=_BATCH):
        yield from map(list, zip(*map(_values, batch.columns), strict=True))


def _values(column: pa.Array) -> list[Any]:
    values: list[Any]
    try:
        values = column.to_pylist(maps_as_pydicts="lossy")
    except OverflowError:  # Python has no times beyond the year 9999
        values = column.cast(pa.string()).to_pylist()
    return values


def _table(answer: pa.Table) -> Iterator[str]:
    rows = [["NULL" if cell is None else _text(cell) for cell in row] for row in _rows(answer)]
    for line in table(answer.column_names, rows):
        yield line + "\n"
    yield f"({counted(len(rows), 'row')})\n"


def _csv(answer: pa.Table) -> Iterator[str]:
    """Yield lines of CSV as in RFC 4180, which end in CR and LF.

    A text that a spreadsheet would run as a formula gets a leading quote.
    """
    for row in chain([answer.column_names], _rows(answer)):
        line = io.StringIO()
        csv.writer(line).writerow([_cell(cell) for cell in row])
        yield line.getvalue()


def _jsonl(answer: pa.Table) -> Iterator[str]:
    """Yield each row as a line with a JSON object."""
    for row in _rows(answer):
        yield json.dumps(dict(zip(answer.column_names, map(_value, row), strict=True))) + "\n"


def _json(answer: pa.Table) -> Iterator[str]:
    """Yield one JSON array of objects, a line for each row."""
    before = "[\n  "
    for row in _jsonl(answer):
        yield before + row.rstrip()
        before = ",\n  "
    yield "\n]\n" if answer.num_rows else "[]\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = _text(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text


def _text(value: object) -> str:
    if isinstance(value, list | dict):
        return json.dumps(_value(value), ensure_ascii=False)
    return str(value if isinstance(value, float) else _value(value))


def _value(value: object) -> object:
    """Convert a value to one of JSON: bytes to text, NaN and infinities to null."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if abs(value) != float("inf") and value == value else None
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case list():
            return [_value(each) for each in value]
        case dict():
            return {str(key): _value(each) for key, each in value.items()}
        case _:
            return str(value)
