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
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from feeds.documents import DocumentColumns
from feeds.xml.encoding import without_declared_encoding
from xscl.documents.document_validation import Reason, separate_invalid
from xscl.errors import DocumentError
from xscl.language.names import NAME, NAME_HINT, in_short
from xscl.spark.rejected_rows import Rejected, rejected_batch
from xscl.time_format import LATEST

Types: TypeAlias = tuple[type[DataType], ...]

TIME: Types = (TimestampType, LongType, IntegerType)
_COLUMNS: Mapping[str, Types] = {
    "stream": (StringType,),
    "id": (StringType,),
    "ts": TIME,
    "xml": (StringType, BinaryType),
}
_OPTIONAL: Mapping[str, Types] = {"number": (LongType, IntegerType), "clock": TIME}
_KINDS = {
    "stream": pa.string(),
    "id": pa.string(),
    "ts": pa.int64(),
    "xml": pa.binary(),
    "number": pa.int64(),
    "clock": pa.int64(),
}
Columns: TypeAlias = dict[str, list[Any]]


def checked_columns(schema: StructType) -> list[str]:
    """Return the columns of documents as expressions for `DataFrame.selectExpr`.

    They are `stream`, `id`, `ts` and `xml`, then `number` and `clock` as far as the schema has
    them.  `ts` and `clock` become microseconds since 1970, `number` BIGINT; `xml` stays what it is.

    Raises AnalysisException for a column that is missing, ambiguous or of another type.
    """
    return chosen_columns(schema, _COLUMNS, _OPTIONAL)


def chosen_columns(
    schema: StructType, needed: Mapping[str, Types], optional: Mapping[str, Types]
) -> list[str]:
    """Return columns of given types as `checked_columns` does: the needed ones, then others."""
    chosen: list[str] = []
    for name, kinds in {**needed, **optional}.items():
        field = _field(schema, name)
        if field is None:
            if name in needed:
                raise AnalysisException(f"there is no column {name!r}, which is {_named(kinds)}")
            continue
        if not isinstance(field.dataType, kinds):
            kind = field.dataType.simpleString().upper()
            raise AnalysisException(
                f"the column {name!r} is {kind}, not {_named(kinds)}:"
                f" cast it, as CAST({name} AS {_names(kinds)[0]})"
            )
        if isinstance(field.dataType, TimestampType):
            chosen.append(f"unix_micros({name}) AS {name}")
        else:
            number = isinstance(field.dataType, IntegerType)
            chosen.append(f"CAST({name} AS BIGINT) AS {name}" if number else f"{name} AS {name}")
    return chosen


def _field(schema: StructType, name: str) -> StructField | None:
    """Return the field of a column, whose name Spark compares without regard to case."""
    found = [field for field in schema if field.name.lower() == name]
    if len(found) > 1:
        raise AnalysisException(f"there are {len(found)} columns {name!r}: choose one")
    return found[0] if found else None


def _names(kinds: Types) -> list[str]:
    return [kind().simpleString().upper() for kind in kinds]


def _named(kinds: Types) -> str:
    return " or ".join(_names(kinds))


def documents_of(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the documents among rows of `checked_columns`, and the other rows with REJECTED.

    Documents keep their order and have the columns of the batch, none of them NULL: `stream` and
    `id` string, `ts`, `number` and `clock` int64, `xml` binary, ready for the parser.

    Rejected are rows with NULL, with a stream that no query could name, with a number below 1, and
    those that `Engine.push` rejects for stream, id or time.  Nothing is parsed: stage 1 finds
    malformed XML (`rejected_batch` makes its rows).
    """
    columns = _columns(batch)
    refused = _refused(columns)
    arrays = [
        pa.array([one for at, one in enumerate(values) if at not in refused], _KINDS[name])
        for name, values in columns.items()
    ]
    documents = pa.RecordBatch.from_arrays(arrays, list(columns))
    return documents, rejected_batch([*_rejected(columns, refused)])


def _columns(rows: pa.RecordBatch) -> Columns:
    """Return rows as columns, with texts of documents as the parser takes them."""
    columns = {name: values_of(rows.column(name)) for name in rows.schema.names}
    columns["xml"] = [as_bytes(one) for one in columns["xml"]]
    return columns


def as_bytes(text: str | bytes | None) -> bytes | None:
    """Return a text for the parser."""
    if isinstance(text, str):
        # Spark has decoded it: the encoding that it declares is that of a file.
        return without_declared_encoding(text).encode("utf-8", "surrogateescape")
    return text


def values_of(column: pa.Array) -> list[Any]:
    """Return the values of a column; bytes that are no UTF-8 become lone surrogates."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:  # a cast from BINARY does not validate
        found = column.cast(pa.binary()).to_pylist()
        return [None if one is None else one.decode("utf-8", "surrogateescape") for one in found]


def _refused(columns: Columns) -> dict[int, Reason]:
    """Return the faults of rows that are no documents, by their places."""
    refused: dict[int, Reason] = {}
    nameless = {one for one in {*columns["stream"]} - {None} if not NAME.fullmatch(one)}
    for at, (stream, row) in enumerate(
        zip(columns["stream"], zip(*columns.values(), strict=True), strict=True)
    ):
        if None in row:
            refused[at] = null_error(dict(zip(columns, row, strict=True)))
        elif stream in nameless:
            refused[at] = _stream_name(stream)
    for name, least, greatest in (("number", 1, sys.maxsize), ("clock", -LATEST, LATEST)):
        for at, value in enumerate(columns.get(name, ())):
            if value is not None and not least <= value <= greatest:
                refused.setdefault(at, _out_of_range(name, value))
    given = [at for at in range(len(columns["id"])) if at not in refused]
    documents = _documents(columns).chosen(given)
    # Columns are taken to be texts that can be written; those of Spark need not be valid UTF-8.
    plain = "".join(documents.ids).isascii()
    _, invalid = separate_invalid(documents if plain else list(documents))
    return refused | {given[place]: reason for place, reason in invalid.items()}


def _documents(columns: Columns) -> DocumentColumns:
    count = len(columns["id"])
    return DocumentColumns(
        streams=[(one,) for one in columns["stream"]],
        ids=columns["id"],
        timestamps=columns["ts"],
        xml=columns["xml"],
        history=[False] * count,
        origins=[""] * count,
    )


def _rejected(columns: Columns, refused: Mapping[int, Reason]) -> Iterator[Rejected]:
    for at in sorted(refused):
        stream, id_, ts, xml = (columns[name][at] for name in _COLUMNS)
        yield Rejected(stream, id_, ts, xml, refused[at])


def null_error(row: Mapping[str, object]) -> DocumentError:
    """Return the error of a row with NULL, which names these columns."""
    empty = [name for name, value in row.items() if value is None]
    verb = "is" if len(empty) == 1 else "are"
    return DocumentError(f"{' and '.join(empty)} {verb} NULL", reason_code="null")


def _stream_name(stream: str) -> DocumentError:
    return DocumentError(
        f"{in_short(stream)} cannot be the name of a stream: no query could write it; {NAME_HINT}",
        reason_code="stream_name",
    )


def _out_of_range(name: str, value: int) -> DocumentError:
    return DocumentError(f"the {name} {value} is out of range", reason_code=name)
