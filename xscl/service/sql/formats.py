"""Streaming writers of rows as JSON, CSV or Parquet, up to limits of rows and bytes.

Maps from text to text or to lists are objects in JSON.
Values without a JSON type are text as DuckDB formats it: times, intervals, bytes (`\\xFF` for
non-ASCII bytes) and structures with such parts.  NaN and infinite numbers are null.  Integers are
exact whatever their size.

CSV follows RFC 4180.  A text that a spreadsheet would read as a formula (it begins with one of
= + - @, a tab or a carriage return) is prefixed by an apostrophe.  NULL and the empty text are both
empty.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.parquet as pq

from xscl.service.sql.errors import TooLarge
from xscl.service.sql.limits import Form

FORMULA = ("=", "+", "-", "@", "\t", "\r")

_WHOLE = re.compile(r"U?(TINY|SMALL|BIG)INT|U?INTEGER|U?HUGEINT")
_NUMBER = re.compile(r"FLOAT|DOUBLE|DECIMAL\(.*\)")
_LISTED = re.compile(r"(VARCHAR|BOOLEAN|U?(TINY|SMALL|BIG)INT|U?INTEGER)(\[\d*\])+")
_MAPPED = re.compile(rf"MAP\(VARCHAR, (VARCHAR|{_LISTED.pattern})\)")
_NATIVE = re.compile(r"U?(TINY|SMALL|BIG)INT|U?INTEGER|FLOAT|DOUBLE|VARCHAR|BOOLEAN")
_NO_TEXT = re.compile(rf"{_WHOLE.pattern}|{_NUMBER.pattern}|BOOLEAN|DATE|TIME.*")
_KEPT = re.compile(
    rf"{_NATIVE.pattern}|{_LISTED.pattern}|{_MAPPED.pattern}|{_NUMBER.pattern}|BLOB|DATE|TIMESTAMP.*|TIME"
)


def expressions(types: Sequence[str], form: Form) -> str:
    """Return the SELECT expressions that convert columns for a form."""
    return ", ".join(_expression(f"#{at}", kind, form) for at, kind in enumerate(types, 1))


def _expression(column: str, kind: str, form: Form) -> str:
    match form:
        case Form.JSON:
            plain = any(one.fullmatch(kind) for one in (_NATIVE, _LISTED, _MAPPED))
        case Form.CSV:
            plain = kind == "VARCHAR"
        case Form.PARQUET:
            if _WHOLE.fullmatch(kind) and "HUGE" in kind:
                return f"CAST({column} AS DECIMAL(38, 0))"
            plain = _KEPT.fullmatch(kind) is not None
        case _:
            assert_never(form)
    return column if plain else f"CAST({column} AS VARCHAR)"


class ResultWriter:
    """A result under construction, limited to a number of rows and of bytes.

    `take` returns whether there is room for more.
    """

    def __init__(
        self, names: Sequence[str], types: Sequence[str], form: Form, rows: int, size: int
    ) -> None:
        self._names, self._types, self._form = list(names), list(types), form
        self._rows, self._size = rows, size
        self._parts: list[bytes] = []
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self.count = 0
        self.truncated = False
        if form is Form.CSV:
            self._add(_csv([_harmless(name) for name in self._names]))
        self._write = _json_writer(types) if form is Form.JSON else _csv_writer(types)

    def take(self, batch: pa.RecordBatch) -> bool:
        """Write the rows of a batch up to the limits."""
        left = self._rows - self.count
        if batch.num_rows > left:
            batch, self.truncated = batch.slice(0, left), True
        if self._form is Form.PARQUET:
            self._keep(batch)
        else:
            self._write_rows(batch)
        return not self.truncated

    def _write_rows(self, batch: pa.RecordBatch) -> None:
        if batch.nbytes > 20 * self._size:
            batch = self._fewer(batch)
        columns = [column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns]
        for row in zip(*columns, strict=True):
            line = self._write(row)
            if self._bytes + len(line) > self._size:
                self._end()
                return
            self._add(line)
            self.count += 1

    def _fewer(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Cut a batch with long values before they are converted to text."""
        rows = batch.num_rows
        while rows > 1 and batch.slice(0, rows).get_total_buffer_size() > 20 * self._size:
            rows //= 2
        if rows < batch.num_rows:
            self.truncated = True
        return batch.slice(0, rows)

    def _keep(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows and self._bytes + batch.nbytes > self._size:
            batch, self.truncated = batch.slice(0, batch.num_rows // 2), True
        if not batch.num_rows:
            self._end()
            return
        self._batches.append(batch)
        self._bytes += batch.nbytes
        self.count += batch.num_rows

    def _end(self) -> None:
        self.truncated = True
        if not self.count:
            raise TooLarge(
                f"the answer's first row is larger than {self._size:,} bytes",
                hint="ask for less of it, such as left(text, 1000)",
            )

    def _add(self, line: bytes) -> None:
        self._parts.append(line)
        self._bytes += len(line)

    def body(self, schema: pa.Schema) -> bytes:
        """Return the whole result."""
        match self._form:
            case Form.JSON:
                return b"[" + b",\n".join(self._parts) + b"]"
            case Form.CSV:
                return b"".join(self._parts)
            case Form.PARQUET:
                sink = io.BytesIO()
                table = pa.Table.from_batches(self._batches, schema)
                pq.write_table(table.rename_columns(_distinct(self._names)), sink)
                return sink.getvalue()


def _distinct(names: Sequence[str]) -> list[str]:
    """Make column names unique, as Parquet keeps only the first of equal ones."""
    seen: set[str] = set()
    found = []
    for name in names:
        fresh, number = name, 1
        while fresh in seen:
            number += 1
            fresh = f"{name}_{number}"
        seen.add(fresh)
        found.append(fresh)
    return found


def _json_writer(types: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
    readers = [_reader(kind) for kind in types]

    def write(row: Sequence[Any]) -> bytes:
        values = [None if v is None else read(v) for read, v in zip(readers, row, strict=True)]
        return json.dumps(values, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")

    return write


def _reader(kind: str) -> Callable[[Any], Any]:
    """Return the converter of a type's non-NULL values to JSON."""
    if _WHOLE.fullmatch(kind):
        return int
    if _NUMBER.fullmatch(kind):
        return _finite
    return _same


def _same(value: Any) -> Any:
    return value


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _csv_writer(types: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
    plain = [_NO_TEXT.fullmatch(kind) is not None for kind in types]

    def write(row: Sequence[Any]) -> bytes:
        return _csv(list(_cells(row, plain)))

    return write


def _cells(row: Sequence[Any], plain: Sequence[bool]) -> Iterator[str]:
    for value, is_plain in zip(row, plain, strict=True):
        text = "" if value is None else str(value)
        yield text if is_plain else _harmless(text)


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA) else text


def _csv(cells: Sequence[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue().encode("utf-8", "replace")
