"""The batch form equals `Engine.push`, and leaves no row out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")

from feeds.documents import Document
from tests.xscl.spark.pipelines import QUERIES, SCHEMA, documents, found, oracle, rows
from xscl.engine.facade import Engine
from xscl.errors import QueryError
from xscl.spark import join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def frame_of(spark: SparkSession, some: Iterable[Document]) -> DataFrame:
    given = [(one.stream, one.id, one.timestamp, one.xml.decode()) for one in some]
    return spark.createDataFrame(given, SCHEMA)


def test_the_batch_form_equals_a_push(spark_session: SparkSession) -> None:
    given = list(documents(50))
    frame = frame_of(spark_session, reversed(given)).repartition(3)
    joined = join(frame, QUERIES)
    assert rows(joined.where("_rejected IS NULL")) == oracle(given)
    rejected = joined.where("_rejected IS NOT NULL").select("_rejected.*").collect()
    malformed = {one.id for one in given if not one.xml.endswith(b">")}
    assert {one.id for one in rejected} == malformed
    assert joined.where("_rejected IS NOT NULL").where("id IS NOT NULL").count() == 0


def test_waiting_matches_come_with_flush(spark_session: SparkSession) -> None:
    given = [Document("T", "t", 5, b"<item><a>k</a></item>")]
    queries = {"silence": QUERIES["silence"]}
    assert join(frame_of(spark_session, given), queries).count() == 0
    with Engine() as engine:
        engine.subscribe_many(queries.items())
        engine.push(given)
        expected = [found(one) for one in engine.flush()]
    assert len(expected) == 1
    assert rows(join(frame_of(spark_session, given), queries.items(), flush=True)) == expected


def test_each_row_that_is_no_document_is_told(spark_session: SparkSession) -> None:
    """Times are timestamps here, texts are bytes in an encoding that they declare, or not."""
    latin = '<?xml version="1.0" encoding="ISO-8859-1"?><a>gr\u00fc\u00df</a>'
    frame = spark_session.sql(
        """SELECT * FROM VALUES
        ('S', 'ok', TIMESTAMP '2026-03-02 10:00:00 UTC', '<a>grüß</a>'),
        (NULL, 'no stream', TIMESTAMP '2026-03-02 11:00:00 UTC', '<a/>'),
        ('S', NULL, TIMESTAMP '2026-03-02 11:00:00 UTC', '<a/>'),
        ('S', 'no time', NULL, '<a/>'),
        ('S', 'nothing', NULL, NULL),
        ('no name', 'name', TIMESTAMP '2026-03-02 11:00:00 UTC', '<a/>'),
        ('S', 'far', TIMESTAMP '+12026-03-02 11:00:00 UTC', '<a/>'),
        ('S', 'torn', TIMESTAMP '2026-03-02 11:00:00 UTC', '<a>')
        AS t(stream, id, ts, xml)"""
    )
    one = frame.sparkSession.createDataFrame([(latin,)], "latin string")
    other = one.selectExpr(
        "'S' stream", "'latin' id", "TIMESTAMP '2026-03-02 12:00:00 UTC' ts", "latin xml"
    )
    query = {"same": "S//a->x FOLLOWED BY{x=y, 1 d} S//a->y"}
    texts = join(frame.union(other), query)
    encoded = "CASE WHEN id = 'latin' THEN encode(xml, 'ISO-8859-1') ELSE CAST(xml AS BINARY) END"
    binary = join(frame.union(other).selectExpr("stream", "id", "ts", f"{encoded} xml"), query)
    for joined in (texts, binary):
        ((documents, t0),) = joined.where("id IS NOT NULL").select("documents", "t0").collect()
        assert documents == ["ok", "latin"]
        assert t0.timestamp() == 1772445600
        rejected = joined.where("id IS NULL").select("_rejected.id", "_rejected.reason")
        assert {(*one,) for one in rejected.collect()} == {
            ("no stream", "null"),
            (None, "null"),
            ("no time", "null"),
            ("nothing", "null"),
            ("name", "stream_name"),
            ("far", "timestamp"),
            ("torn", "xml_syntax"),
        }
        messages = joined.select("_rejected.message").where("message LIKE '%NULL'").collect()
        assert sorted(one.message for one in messages) == [
            *("id is NULL", "stream is NULL", "ts and xml are NULL", "ts is NULL"),
        ]


def test_a_wrong_query_is_an_error_with_its_place(spark_session: SparkSession) -> None:
    with pytest.raises(QueryError) as raised:
        join(frame_of(spark_session, ()), {"good": QUERIES["twice"], "wrong": "S//a->"})
    assert (raised.value.row, raised.value.line) == (2, 1)
