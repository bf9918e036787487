"""Rows as JSON, CSV or Parquet, up to limits of rows and bytes; DuckDB writes JSON and CSV.

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
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from xscl.service.sql.errors import TooLarge
from xscl.service.sql.limits import Form

_WHOLE = re.compile(r"U?(TINY|SMALL|BIG)INT|U?INTEGER|U?HUGEINT")
_FLOAT = re.compile(r"FLOAT|DOUBLE")
_NUMBER = re.compile(rf"{_WHOLE.pattern}|{_FLOAT.pattern}|DECIMAL\(.*\)")
_LISTED = re.compile(r"(VARCHAR|BOOLEAN|U?(TINY|SMALL|BIG)INT|U?INTEGER)(\[\d*\])+")
_MAPPED = re.compile(rf"MAP\(VARCHAR, (VARCHAR|{_LISTED.pattern})\)")
_IN_JSON = re.compile(rf"{_NUMBER.pattern}|VARCHAR|BOOLEAN|{_LISTED.pattern}|{_MAPPED.pattern}")
_IN_PARQUET = re.compile(rf"{_IN_JSON.pattern}|BLOB|DATE|TIMESTAMP.*|TIME")
_NO_TEXT = re.compile(rf"{_NUMBER.pattern}|BOOLEAN|DATE|TIME.*")
_FORMULA = r"^([=+@\t\r-])"
_BATCH = 256  # rows


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The rows within the limits: their number and bytes; `truncated` if the query has more."""

    count: int
    truncated: bool
    body: bytes


def written(relation: duckdb.DuckDBPyRelation, form: Form, rows: int, size: int) -> WrittenRows:
    """Return the first rows of a relation in a form: at most `rows` rows and `size` bytes."""
    columns = [(f"#{place}", str(kind)) for place, kind in enumerate(relation.types, 1)]
    match form:
        case Form.JSON:
            parts = f"json_array({', '.join(_json(*column) for column in columns)})::VARCHAR"
        case Form.CSV:
            empty = "" if len(columns) > 1 else '""'  # readers of CSV skip an empty line
            parts = f"concat_ws(',', {', '.join(_cell(*column, empty) for column in columns)})"
        case Form.PARQUET:
            parts = ", ".join(_stored(*column) for column in columns)
        case _:
            assert_never(form)
    reader = (
        _fitting(relation.limit(rows + 1), columns, size).project(parts).to_arrow_reader(_BATCH)
    )
    kept, count, left, truncated = list[pa.RecordBatch](), 0, size, False
    for batch in reader:
        part = batch.slice(0, rows - count)
        while part.num_rows and part.nbytes > left:
            fitting = part.num_rows * left // part.nbytes
            part = part.slice(0, max(fitting, min(1, part.num_rows - 1)))
        kept.append(part)
        count, left = count + part.num_rows, left - part.nbytes
        if truncated := part.num_rows < batch.num_rows:
            break
    if truncated and not count:
        raise TooLarge(
            f"the answer's first row is larger than {size:,} bytes",
            hint="ask for less of it, such as left(text, 1000)",
        )
    table = pa.Table.from_batches(kept, reader.schema)
    return WrittenRows(count, truncated, _body(table, relation.columns, form))


def _fitting(
    relation: duckdb.DuckDBPyRelation, columns: Sequence[tuple[str, str]], size: int
) -> duckdb.DuckDBPyRelation:
    """Return the rows before which the texts have at most `size` bytes: no later one would fit.

    DuckDB writes up to 2,048 rows at once: with long texts it would need more than its memory.
    """
    lengths = [f"coalesce(strlen({column}), 0)" for column, kind in columns if kind == "VARCHAR"]
    if not lengths:
        return relation
    length = " + ".join(lengths)
    before = f"sum({length}) OVER (ROWS UNBOUNDED PRECEDING) - ({length})"
    return relation.project(f"*, {before}").filter(f"#{len(columns) + 1} <= {size}")


def _body(table: pa.Table, names: Sequence[str], form: Form) -> bytes:
    """Return the bytes of an answer; `table` has rows for Parquet, else one column of lines."""
    if form is Form.PARQUET:
        sink = io.BytesIO()
        pq.write_table(table.rename_columns(_distinct(names)), sink)
        return sink.getvalue()
    lines = table.column(0).to_pylist()
    if form is Form.JSON:
        return ("[" + ",\n".join(lines) + "]").encode()
    text = io.StringIO()
    csv.writer(text).writerow([re.sub(_FORMULA, r"'\1", name) for name in names])
    text.writelines(f"{line}\r\n" for line in lines)
    return text.getvalue().encode()


def _json(column: str, kind: str) -> str:
    """Return the SQL expression whose value DuckDB writes into JSON for a column of a type."""
    if _FLOAT.fullmatch(kind):
        return f"CASE WHEN isfinite({column}) THEN {column} END"
    return column if _IN_JSON.fullmatch(kind) else f"{column}::VARCHAR"


def _cell(column: str, kind: str, empty: str) -> str:
    """Return the SQL expression of a CSV cell for a column of a type; `empty` is an empty cell."""
    text = f"{column}::VARCHAR"
    if not _NO_TEXT.fullmatch(kind):
        text = rf"regexp_replace({text}, '{_FORMULA}', '''\1')"
    quoted = f"""'"' || replace({text}, '"', '""') || '"'"""
    is_plain = rf"""regexp_full_match({text}, '[^",\r\n]+')"""
    return f"CASE WHEN {is_plain} THEN {text} WHEN {text} <> '' THEN {quoted} ELSE '{empty}' END"


def _stored(column: str, kind: str) -> str:
    """Return the SQL expression of the value that Parquet stores for a column of a type."""
    if "HUGEINT" in kind and _WHOLE.fullmatch(kind):
        return f"CAST({column} AS DECIMAL(38, 0))"
    return column if _IN_PARQUET.fullmatch(kind) else f"{column}::VARCHAR"


def as_stored(answer: pa.Table) -> pa.Table:
    """Return an answer as a Parquet file stores it: with distinct names, times and numbers."""
    with duckdb.connect() as connection:
        relation = connection.from_arrow(answer)
        parts = [_stored(f"#{place}", str(kind)) for place, kind in enumerate(relation.types, 1)]
        found = relation.project(", ".join(parts)).to_arrow_table()
    return found.rename_columns(_distinct(answer.column_names))


def _distinct(names: Sequence[str]) -> list[str]:
    """Make column names unique, as Parquet keeps only the first of equal ones."""
    seen: dict[str, None] = {}
    for name in names:
        fresh, number = name, 1
        while fresh in seen:
            number += 1
            fresh = f"{name}_{number}"
        seen[fresh] = None
    return list(seen)
