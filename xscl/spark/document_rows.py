"""Rows of a DataFrame as documents, and those that cannot be taken.

A document is a row with the columns `stream` STRING, `id` STRING, `ts` TIMESTAMP (or BIGINT,
microseconds since 1970) and `xml` STRING or BINARY; `number` BIGINT and `clock`, of the types of
`ts`, are optional.  Other columns are ignored.

    driver       frame.selectExpr(*checked_columns(frame.schema)).mapInArrow(...)
    executors    documents, rejected = documents_of(batch)

No row is dropped silently, and none ends a task: one that is no document is a row of `rejected`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from feeds.documents import DocumentColumns
from feeds.xml.encoding import without_declared_encoding
from templates.storage import sql_schema
from xscl.documents.document_validation import Reason, separate_invalid, stream_fault
from xscl.errors import DocumentError
from xscl.time_format import EARLIEST, LATEST

REJECTED = sql_schema(
    "stream VARCHAR, id VARCHAR, ts TIMESTAMPTZ, xml BLOB, reason VARCHAR, message VARCHAR"
)
"""A row that was not taken as it came, with the code of the reason and the error.

`ts` is NULL also if its year is none of 1 to 9999: Python could not read it.
"""

REJECTED_COLUMN = pa.field("_rejected", pa.struct(list(REJECTED)))
"""The column of rejected rows beside others; it is NULL in a row that was taken."""


def rejected_row(row: Mapping[str, Any], reason: Reason) -> dict[str, object]:
    """Return a row that is no document, with its time in microseconds, as a row of REJECTED."""
    ts = row["ts"]
    return {
        "stream": _shown(row["stream"]),
        "id": _shown(row["id"]),
        "ts": ts if ts is not None and EARLIEST <= ts <= LATEST else None,
        "xml": row["xml"],
        "reason": reason.reason_code,
        "message": reason.message,
    }


def rejected_batch(rows: Sequence[dict[str, object]]) -> pa.RecordBatch:
    """Return rejected rows as a batch of REJECTED."""
    return pa.RecordBatch.from_pylist(rows, REJECTED)


def _shown(name: str | None) -> str | None:
    """Return a name without lone surrogates, which no text of Arrow has."""
    return None if name is None else name.encode("utf-8", "replace").decode()


SparkTypes: TypeAlias = tuple[str, ...]
"""Names of types of Spark."""

TIME: SparkTypes = ("TIMESTAMP", "BIGINT", "INT")
_COLUMNS: Mapping[str, SparkTypes] = {
    "stream": ("STRING",),
    "id": ("STRING",),
    "ts": TIME,
    "xml": ("STRING", "BINARY"),
}
_OPTIONAL: Mapping[str, SparkTypes] = {"number": ("BIGINT", "INT"), "clock": TIME}
_READ = {"TIMESTAMP": "unix_micros({})", "INT": "CAST({} AS BIGINT)"}
_RANGES = ("number", 1, sys.maxsize), ("clock", -LATEST, LATEST)

RowValues: TypeAlias = Mapping[str, Any]


def checked_columns(schema: StructType) -> list[str]:
    """Return the columns of documents as expressions for `DataFrame.selectExpr`.

    They are `stream`, `id`, `ts` and `xml`, then `number` and `clock` as far as the schema has
    them.  `ts` and `clock` become microseconds since 1970, `number` BIGINT; `xml` stays what it is.

    Raises AnalysisException for a column that is missing, ambiguous or of another type.
    """
    return chosen_columns(schema, _COLUMNS, _OPTIONAL)


def chosen_columns(
    schema: StructType, needed: Mapping[str, SparkTypes], optional: Mapping[str, SparkTypes]
) -> list[str]:
    """Return columns of given types, as `checked_columns` does: needed, then optional ones."""
    chosen: list[str] = []
    for name, kinds in {**needed, **optional}.items():
        # Spark compares names without regard to case; a string may have a collation.
        types = [one.dataType.simpleString() for one in schema if one.name.lower() == name]
        if len(types) > 1:
            raise AnalysisException(f"there are {len(types)} columns {name!r}: choose one")
        if not types and name in needed:
            raise AnalysisException(f"there is no column {name!r}, which is {' or '.join(kinds)}")
        for kind in (one.partition(" ")[0].upper() for one in types):
            if kind not in kinds:
                raise AnalysisException(
                    f"the column {name!r} is {kind}, not {' or '.join(kinds)}:"
                    f" cast it, as CAST({name} AS {kinds[0]})"
                )
            chosen.append(f"{_READ.get(kind, '{}').format(name)} AS {name}")
    return chosen


def documents_of(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the documents among rows of `checked_columns`, and the others as rows of REJECTED.

    Documents keep their order and have the columns of the batch, none of them NULL: `stream` and
    `id` string, `ts`, `number` and `clock` int64, `xml` binary, ready for the parser.

    Rejected are rows with NULL, with a stream that no query could name, with a number below 1, and
    those that `Engine.push` rejects for stream, id or time.  Nothing is parsed: stage 1 finds
    malformed XML (`rejected_row` makes its rows).
    """
    rows = rows_of(batch, "xml")
    refused = _refused(rows)
    documents = [row for at, row in enumerate(rows) if at not in refused]
    rejected = [rejected_row(rows[at], refused[at]) for at in sorted(refused)]
    schema = batch.schema.set(batch.schema.get_field_index("xml"), pa.field("xml", pa.binary()))
    return pa.RecordBatch.from_pylist(documents, schema), rejected_batch(rejected)


def rows_of(batch: pa.RecordBatch, text: str) -> list[dict[str, Any]]:
    """Return rows as dictionaries; the values of the column `text` become bytes to parse."""
    columns = {name: _values(batch.column(name)) for name in batch.schema.names}
    columns[text] = [_as_bytes(one) for one in columns[text]]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _as_bytes(text: str | bytes | None) -> bytes | None:
    """Return a text for the parser."""
    if isinstance(text, str):
        # Spark has decoded it: the encoding that it declares is that of a file.
        return without_declared_encoding(text).encode("utf-8", "surrogateescape")
    return text


def _values(column: pa.Array) -> list[Any]:
    """Return the values of a column; bytes that are no UTF-8 become lone surrogates."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:  # a cast from BINARY does not validate
        found = column.cast(pa.binary()).to_pylist()
        return [None if one is None else one.decode("utf-8", "surrogateescape") for one in found]


def _refused(rows: Sequence[RowValues]) -> dict[int, Reason]:
    """Return the faults of rows that are no documents, by their places."""
    faults = ((at, _fault(row)) for at, row in enumerate(rows))
    refused: dict[int, Reason] = {at: fault for at, fault in faults if fault is not None}
    given = [at for at in range(len(rows)) if at not in refused]
    streams, ids, times, xml = (
        [rows[at][name] for at in given] for name in ("stream", "id", "ts", "xml")
    )
    count = len(given)
    documents = DocumentColumns(
        [(stream,) for stream in streams], ids, times, xml, [False] * count, [""] * count
    )
    _, invalid = separate_invalid(documents)
    return refused | {given[place]: reason for place, reason in invalid.items()}


def _fault(row: RowValues) -> DocumentError | None:
    """Return why a row can be no document; None if the checks of an engine decide."""
    if None in row.values():
        return null_error(row)
    if (fault := stream_fault(row["stream"])) is not None:
        return DocumentError(fault, reason_code="stream_name")
    for name, least, greatest in _RANGES:
        if name in row and not least <= row[name] <= greatest:
            return DocumentError(f"the {name} {row[name]} is out of range", reason_code=name)
    return None


def null_error(row: RowValues) -> DocumentError:
    """Return the error of a row with NULL, which names these columns."""
    empty = [name for name, value in row.items() if value is None]
    verb = "is" if len(empty) == 1 else "are"
    return DocumentError(f"{' and '.join(empty)} {verb} NULL", reason_code="null")
