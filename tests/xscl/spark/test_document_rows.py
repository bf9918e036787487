"""Rows as documents: the columns that they must have, and the rows that are none."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import types

from feeds.documents import Document
from xscl.documents.document_validation import LONGEST_ID
from xscl.engine.facade import Engine
from xscl.language.names import LONGEST_STREAM
from xscl.spark.document_rows import REJECTED, checked_columns, documents_of
from xscl.time_format import LATEST

DDL = "stream string, id string, ts timestamp, xml binary"
TOO_LONG = "s" * (LONGEST_STREAM + 21)


KINDS: Mapping[str, types.DataType] = {
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "timestamp": types.TimestampType(),
    "date": types.DateType(),
}


def schema_of(ddl: str) -> types.StructType:
    fields = (one.split() for one in ddl.split(", "))
    return types.StructType([types.StructField(name, KINDS[kind]) for name, kind in fields])


def undecodable(values: Sequence[bytes | None]) -> pa.Array:
    """A string column as a cast from BINARY makes it."""
    array = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers())


def batch(*rows: tuple[Any, ...], text: bool = False, names: str = "stream id ts xml") -> Any:
    """Rows as `checked_columns` gives them."""
    kinds = {"stream": pa.string(), "id": pa.string(), "xml": pa.string() if text else pa.binary()}
    columns = {
        name: pa.array([row[at] for row in rows], kinds.get(name, pa.int64()))
        for at, name in enumerate(names.split())
    }
    return pa.RecordBatch.from_pydict(columns)


def test_chosen_columns_are_those_of_documents() -> None:
    schema = schema_of(f"other int, {DDL}")
    assert checked_columns(schema) == [
        *("stream AS stream", "id AS id", "unix_micros(ts) AS ts", "xml AS xml")
    ]
    schema = schema_of("CLOCK timestamp, number int, xml string, ts int, id string, Stream string")
    assert checked_columns(schema)[2:] == [
        *("CAST(ts AS BIGINT) AS ts", "xml AS xml", "CAST(number AS BIGINT) AS number"),
        "unix_micros(clock) AS clock",
    ]


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("stream string, id string, ts bigint", "no column 'xml', which is STRING or BINARY"),
        ("id string, ts bigint, xml string", "no column 'stream', which is STRING"),
        (f"{DDL}, XML string", "there are 2 columns 'xml': choose one"),
        ("stream string, id bigint, ts bigint, xml string", "'id' is BIGINT, not STRING: cast it"),
        (
            "stream string, id string, ts string, xml string",
            r"'ts' is STRING, not TIMESTAMP or BIGINT or INT: cast it, as CAST\(ts AS TIMESTAMP\)",
        ),
        (f"{DDL}, number string", r"'number' is STRING, not BIGINT or INT"),
        (f"{DDL}, clock date", r"'clock' is DATE, not TIMESTAMP or BIGINT or INT"),
    ],
)
def test_wrong_columns_are_refused(ddl: str, message: str) -> None:
    with pytest.raises(AnalysisException, match=message):
        checked_columns(schema_of(ddl))


def test_documents_stay_as_they_are() -> None:
    rows: list[tuple[Any, ...]] = [("S", "a", 7, b"<a/>"), ("é.2", "b", -5, b"torn")]
    documents, rejected = documents_of(batch(*rows))
    assert documents.equals(batch(*rows))
    assert (rejected.num_rows, rejected.schema) == (0, REJECTED)
    names = "stream id ts xml number clock"
    rows = [("S", "a", 7, b"<a/>", 1, -3)]
    documents, rejected = documents_of(batch(*rows, names=names))
    assert documents.equals(batch(*rows, names=names))
    empty, rejected = documents_of(batch())
    assert (empty.num_rows, rejected.num_rows) == (0, 0)


def test_a_text_is_utf8_whatever_it_declares() -> None:
    text = '<?xml version="1.0" encoding="ISO-8859-1"?><a>grüß</a>'
    documents, _ = documents_of(batch(("S", "a", 0, text), ("S", "b", 0, "<a/>"), text=True))
    assert documents["xml"].to_pylist() == ['<?xml version="1.0"?><a>grüß</a>'.encode(), b"<a/>"]
    documents, _ = documents_of(batch(("S", "a", 0, text.encode("latin-1"))))
    assert documents["xml"].to_pylist() == [text.encode("latin-1")]


WRONG: Sequence[tuple[tuple[Any, ...], str, str]] = [
    ((None, "a", 0, b"<a/>"), "null", "stream is NULL"),
    (("S", None, None, b"<a/>"), "null", "id and ts are NULL"),
    (("S", "a", 0, None), "null", "xml is NULL"),
    (("no name", "a", 0, b"<a/>"), "stream_name", "'no name' cannot be the name of a stream"),
    (("", "a", 0, b"<a/>"), "stream_name", "'' cannot be the name of a stream"),
    ((TOO_LONG, "a", 0, b"<a/>"), "stream_name", "cannot be the name of a stream"),
    (("S", "i" * (LONGEST_ID + 1), 0, b"<a/>"), "id", "its id has 4,001 characters"),
    (("S", "a", LATEST + 1, b"<a/>"), "timestamp", "out of range"),
    (("S", "b", -LATEST - 1, b"<a/>"), "timestamp", "out of range"),
]


def test_each_row_that_is_no_document_is_rejected_with_its_reason() -> None:
    good = ("S", "ok", LATEST, b"<a/>")
    given = [good, *(row for row, _, _ in WRONG), good]
    documents, rejected = documents_of(batch(*given))
    assert documents.equals(batch(good, good))
    for row, (wrong, reason, message) in zip(rejected.to_pylist(), WRONG, strict=True):
        assert (row["stream"], row["id"], row["xml"]) == (wrong[0], wrong[1], wrong[3])
        assert row["reason"] == reason
        assert message in row["message"]


def test_the_engine_rejects_the_same(engine: Engine) -> None:
    """But for what is NULL, and for names of streams, which a push raises for."""
    given = [row for row, reason, _ in WRONG if reason in ("id", "timestamp")]
    engine.subscribe("all", "S//a")
    engine.push([Document(*row) for row in given])
    found = [*engine.sql("SELECT reason FROM rejected").to_pydict()["reason"]]
    _, rejected = documents_of(batch(*given))
    assert sorted(found) == sorted(rejected["reason"].to_pylist())


def test_numbers_and_clocks_are_in_range() -> None:
    names = "stream id ts xml number clock"
    rows = [
        *[("S", "a", 0, b"<a/>", 0, 0), ("S", "b", 0, b"<a/>", 1, LATEST + 1)],
        *[("S", "c", 0, b"<a/>", None, None), ("S", "d", 0, b"<a/>", 1, LATEST)],
    ]
    documents, rejected = documents_of(batch(*rows, names=names))
    assert documents["id"].to_pylist() == ["d"]
    assert rejected["reason"].to_pylist() == ["number", "clock", "null"]
    assert rejected["message"].to_pylist() == [
        "the number 0 is out of range",
        f"the clock {LATEST + 1} is out of range",
        "number and clock are NULL",
    ]


def test_texts_that_are_no_utf8_end_no_task() -> None:
    columns = {
        "stream": undecodable([b"S", b"\xff", b"S", b"S"]),
        "id": undecodable([b"\xff", b"b", b"c", b"d"]),
        "ts": pa.array([0, 0, 0, 0]),
        "xml": undecodable([b"<a/>", b"<a/>", b"<a>\xff</a>", "<a>é</a>".encode()]),
    }
    documents, rejected = documents_of(pa.RecordBatch.from_pydict(columns))
    assert documents.to_pydict() == {
        "stream": ["S", "S"],
        "id": ["c", "d"],
        "ts": [0, 0],
        "xml": [b"<a>\xff</a>", "<a>é</a>".encode()],  # stage 1 finds the first one malformed
    }
    assert rejected["reason"].to_pylist() == ["name", "stream_name"]
    assert rejected["id"].to_pylist() == ["?", "b"]
    # beside sound rows only: columns without a fault that shows are taken as they are
    batch = pa.RecordBatch.from_pydict({name: of.take([0, 3]) for name, of in columns.items()})
    documents, rejected = documents_of(batch)
    assert documents["id"].to_pylist() == ["d"]
    assert rejected["reason"].to_pylist() == ["name"]
