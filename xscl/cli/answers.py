"""The answer of a SELECT as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from xscl.cli.output import Misuse, clean, table

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_answer(answer: pa.Table, form: str, output: Path | None) -> None:
    """Write an answer to a file, or to standard output."""
    if output is None:
        if form == "parquet" and sys.stdout.isatty():
            raise Misuse("Parquet is nothing for a terminal", hint="use --output FILE")
        sys.stdout.flush()
        _write(answer, form, sys.stdout.buffer, show=sys.stdout.isatty())
        sys.stdout.buffer.flush()
        return
    try:
        with open(output, "wb") as file:
            _write(answer, form, file)
    except OSError as error:
        raise Misuse(f"{output} cannot be written: {error.strerror}") from None


def _write(answer: pa.Table, form: str, file: BinaryIO, *, show: bool = False) -> None:
    if form == "parquet":
        pq.write_table(answer, file)
        return
    lines = {"table": _table, "csv": _csv, "json": _json}[form](answer)
    file.writelines((clean(line) if show else line).encode() for line in lines)


def _rows(answer: pa.Table) -> Iterator[list[Any]]:
    columns = [column.to_pylist() for column in answer.columns]
    yield from map(list, zip(*columns, strict=True))


def _table(answer: pa.Table) -> Iterator[str]:
    rows = [["NULL" if cell is None else _text(cell) for cell in row] for row in _rows(answer)]
    for line in table(answer.column_names, rows):
        yield line + "\n"
    yield f"({len(rows)} row{'' if len(rows) == 1 else 's'})\n"


def _csv(answer: pa.Table) -> Iterator[str]:
    """Yield lines of CSV as in RFC 4180, which end in CR and LF.

    What a spreadsheet would run as a formula gets a quote.
    """
    for row in [answer.column_names, *_rows(answer)]:
        line = io.StringIO()
        csv.writer(line).writerow([_cell(cell) for cell in row])
        yield line.getvalue()


def _json(answer: pa.Table) -> Iterator[str]:
    """Yield one JSON array of objects, a row a line."""
    names = answer.column_names
    before = "["
    for row in _rows(answer):
        yield f"{before}\n  {json.dumps(dict(zip(names, map(_value, row), strict=True)))}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


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
    """Return a value that JSON has: bytes as text, numbers that are none as null."""
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
