"""Bodies of feeds as items: those of the service, and the bodies that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.corpus import Corpus
from tests.xscl.polling.scripted import placed, reply, serving
from xscl.polling.feed import feed_key
from xscl.spark import items

SEEN = 1_790_000_000_000_000
"""A day of September 2026, in microseconds."""
SCHEMA = "url string, body binary, fetched bigint, content_type string"
TEXT = 'text/xml; charset="ISO-8859-1"'


def feeds(corpus: Corpus) -> Iterator[Path]:
    """Files of feeds, also damaged ones."""
    for folder in ("real-feeds", "rss-sync-open"):
        files = (one for one in sorted(corpus.folder(folder).rglob("*")) if one.is_file())
        yield from [one for one in files if one.suffix in (".xml", ".rdf", ".json", ".rss")][:150]


def taken(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The items of a frame, with times in microseconds."""
    rows = frame.where("_rejected IS NULL").selectExpr("stream", "id", "unix_micros(ts)", "xml")
    return [(one[0], one[1], one[2], bytes(one[3])) for one in rows.collect()]


def test_items_are_those_that_the_service_makes(
    spark_session: SparkSession, corpus: Corpus, tmp_path: Path
) -> None:
    """Each feed is polled once from a server; what cannot be read is no item there, too."""
    bodies = []
    with serving() as server, placed(tmp_path, server) as place:
        place.clock.now = SEEN
        for number, file in enumerate(feeds(corpus)):
            url, body = server.url(f"/{number}?token=secret"), file.read_bytes()
            server.says(f"/{number}?token=secret", reply(body, f"Content-Type: {TEXT}"))
            place.poll(place.follow(url, stream="news"))
            bodies.append((url, body, SEEN, TEXT))
        expected = [("feeds", one.id, one.timestamp, one.xml) for one in place.documents()]
    found = taken(items(spark_session.createDataFrame(bodies, SCHEMA).repartition(3)))
    assert sorted(found) == sorted(expected)
    assert len(expected) > 50


def test_bodies_that_cannot_be_read_are_rows_with_the_reason(spark_session: SparkSession) -> None:
    bodies = [
        ("http://user:word@feeds.example/a?key=1", b"<rss", SEEN, None),
        ("http://feeds.example/b", b"<html><body/></html>", SEEN, None),
        ("http://feeds.example/c", None, SEEN, None),
        (None, b"<rss/>", SEEN, None),
        ("http://[feeds.example/d", b"<rss/>", SEEN, None),
    ]
    found = items(spark_session.createDataFrame(bodies, SCHEMA))
    assert found.where("id IS NOT NULL OR stream IS NOT NULL OR xml IS NOT NULL").count() == 0
    rows = {one.reason: one for one in found.select("_rejected.*").collect()}
    first = rows["xml_syntax"]
    assert (first.id, bytes(first.xml), first.stream) == ("http://feeds.example/a", b"<rss", None)
    assert first.ts.replace(tzinfo=UTC) == datetime.fromtimestamp(SEEN / 1e6, UTC)
    assert rows["not_a_feed"].id == "http://feeds.example/b"
    assert rows["url"].id is None
    nulls = [one.message for one in found.select("_rejected.*").collect() if one.reason == "null"]
    assert sorted(nulls) == ["body is NULL", "url is NULL"]
    assert rows.keys() == {"xml_syntax", "not_a_feed", "url", "null"}


def test_other_columns_have_defaults(spark_session: SparkSession, tmp_path: Path) -> None:
    """A stream of texts, whose items without a time have that of the micro-batch."""
    body = (
        "<rss version='2.0'><channel><item><guid>1</guid><title>grüß</title></item></channel></rss>"
    )
    declared = f'<?xml version="1.0" encoding="ISO-8859-1"?>{body}'
    rows = [("http://a.example/", declared, None), ("http://b.example/", body, "weather")]
    frame = spark_session.createDataFrame(rows, "url string, body string, stream string")
    frame.write.parquet(str(tmp_path / "bodies"))
    incoming = spark_session.readStream.schema(frame.schema).parquet(str(tmp_path / "bodies"))
    found: list[tuple[Any, ...]] = []
    query = (
        items(incoming)
        .writeStream.foreachBatch(lambda some, number: found.extend(taken(some)))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    first, second = sorted(found)
    assert first[:2] == ("feeds", f"{feed_key('http://a.example/')}#1")
    assert second[:2] == ("weather", f"{feed_key('http://b.example/')}#1")
    assert "<title>grüß</title>".encode() in first[3]
    assert first[2] == second[2] > SEEN


def test_wrong_columns_are_refused(spark_session: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="no column 'body', which is BINARY or STRING"):
        items(spark_session.createDataFrame([], "url string"))
    with pytest.raises(AnalysisException, match="'fetched' is STRING, not TIMESTAMP or BIGINT"):
        items(spark_session.createDataFrame([], "url string, body binary, fetched string"))
