"""Rows of a DataFrame as documents, in the order of their times; rows that cannot be taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

from feeds.documents import Document, DocumentColumns
from feeds.errors import MalformedDocument
from feeds.xml.encoding import without_declared_encoding
from feeds.xml.xmlparse import parse
from xscl.documents.document_validation import Reason, Refusal, separate_invalid
from xscl.errors import DocumentError
from xscl.language.names import NAME, NAME_HINT
from xscl.spark.match_files import REJECTED

_COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "stream": (StringType,),
    "id": (StringType,),
    "ts": (TimestampType, LongType, IntegerType),
    "xml": (StringType, BinaryType),
}
_CASTS = {"stream": "STRING", "id": "STRING", "ts": "TIMESTAMP", "xml": "STRING"}


def document_columns(frame: DataFrame) -> DataFrame:
    """Return the columns of documents, `ts` in microseconds since 1970.

    Raises AnalysisException for a column that is missing or of another type.
    """
    chosen: list[Column] = []
    for name, kinds in _COLUMNS.items():
        field = frame.select(name).schema[0]  # raises for a missing or an ambiguous name
        if not isinstance(field.dataType, kinds):
            allowed = " or ".join(kind().simpleString().upper() for kind in kinds)
            raise AnalysisException(
                f"the column {name!r} is {field.dataType.simpleString().upper()}, not {allowed}:"
                f" cast it, as CAST({name} AS {_CASTS[name]})"
            )
        column = F.col(name)
        if name == "ts":
            is_time = isinstance(field.dataType, TimestampType)
            column = F.unix_micros(column) if is_time else column.cast("bigint")
        chosen.append(column.alias(name))
    return frame.select(*chosen)


@dataclass(frozen=True, slots=True)
class DocumentRows:
    """Documents in the order of their times, and the rows that are none, with the reasons."""

    documents: DocumentColumns
    refused: tuple[tuple[tuple[str | None, str | None, int | None, bytes | None], Reason], ...]

    def refusals(self) -> Iterator[Refusal]:
        """Yield the rows that are no documents, as the engine records them."""
        for (stream, id_, ts, xml), reason in self.refused:
            yield Document(stream or "", id_ or "", ts or 0, xml or b""), reason

    def rejected(self) -> pa.Table:
        """Return a table with REJECTED: the rows that are no documents, and invalid documents.

        It parses all documents; call it if the engine has rejected some.
        """
        rows = [(*row, reason.reason_code, reason.message) for row, reason in self.refused]
        for at, reason in _invalid(self.documents):
            one = self.documents[at]
            rows.append(
                (one.streams[0], one.id, one.timestamp, one.xml, reason.reason_code, reason.message)
            )
        return rejected_table(rows)


def document_rows(table: pa.Table) -> DocumentRows:
    """Return the collected rows of `document_columns` as documents.

    Rows of equal times stay in the order of the table.
    """
    table = table.sort_by([("ts", "ascending")])
    streams, ids, times, texts = (table[name].to_pylist() for name in _COLUMNS)
    if not pa.types.is_binary(table["xml"].type) and not pa.types.is_large_binary(
        table["xml"].type
    ):
        # A text is decoded already: the encoding that it declares is that of a file.
        texts = [None if one is None else without_declared_encoding(one).encode() for one in texts]
    nameless = {one for one in set(streams) if one is not None and not NAME.fullmatch(one)}
    taken = DocumentColumns.of(())
    refused = []
    for row in zip(streams, ids, times, texts, strict=True):
        stream, id_, ts, xml = row
        if stream is None or id_ is None or ts is None or xml is None:
            refused.append((row, _null(row)))
        elif stream in nameless:
            refused.append((row, _stream_name(stream)))
        else:
            taken.streams.append((stream,))
            taken.ids.append(id_)
            taken.timestamps.append(ts)
            taken.xml.append(xml)
            taken.history.append(False)
            taken.origins.append("")
    return DocumentRows(taken, tuple(refused))


def rejected_table(rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Return rows as a table with REJECTED; times are in microseconds."""
    columns: Iterable[Sequence[object]] = list(zip(*rows, strict=True)) or [()] * len(REJECTED)
    arrays = [pa.array(one, kind) for one, kind in zip(columns, REJECTED.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=REJECTED)


def _null(row: Sequence[object]) -> DocumentError:
    empty = [name for name, value in zip(_COLUMNS, row, strict=True) if value is None]
    verb = "is" if len(empty) == 1 else "are"
    return DocumentError(f"{' and '.join(empty)} {verb} NULL", reason_code="null")


def _stream_name(stream: str) -> DocumentError:
    return DocumentError(
        f"{stream!r} cannot be the name of a stream: no query could write it; {NAME_HINT}",
        reason_code="stream_name",
    )


def _invalid(documents: DocumentColumns) -> Iterator[tuple[int, Reason]]:
    """Yield the places of invalid documents, and why."""
    _, refused = separate_invalid(documents)
    for at, xml in enumerate(documents.xml):
        if at in refused:
            yield at, refused[at]
            continue
        try:
            parse(xml)
        except MalformedDocument as error:
            yield at, error
