"""`match` over a batch DataFrame gives what one engine gives, and leaves no row out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from feeds.documents import Document
from tests.corpus import Corpus
from tests.xscl.spark.bucket_runs import in_engine
from tests.xscl.spark.spark_runs import (
    HOUR,
    QUERIES,
    SECOND,
    documents_of,
    found_in,
    frame_of,
    in_order_of_time,
    without_content,
)
from xscl.errors import QueryError
from xscl.spark import Catalog, items, match


def test_matches_are_those_of_one_engine(spark_session: SparkSession) -> None:
    documents = documents_of(90)
    expected = in_engine(QUERIES, [in_order_of_time(documents)])
    assert Counter(one.subscription for one in expected).keys() == QUERIES.keys()
    frame = frame_of(spark_session, documents)
    assert found_in(match(frame, QUERIES).collect()) == expected
    found = match(frame, QUERIES, buckets=1, content=False).collect()
    assert found_in(found, content=False) == without_content(expected)


def test_the_order_of_numbers_is_that_of_arrivals(spark_session: SparkSession) -> None:
    """Documents come up to two hours after later ones."""
    documents = documents_of(90, late=2 * HOUR)
    expected = in_engine(QUERIES, [documents])
    assert len(expected) < len(in_engine(QUERIES, [in_order_of_time(documents)]))
    frame = frame_of(spark_session, documents, numbered=True)
    found = match(frame, QUERIES, order="number", content=False, buckets=5).collect()
    assert found_in(found, content=False) == without_content(expected)


def test_each_row_that_is_no_document_is_told(spark_session: SparkSession) -> None:
    """Rows without names are reported one by one; so are documents of no bucket."""
    frame = spark_session.sql(
        """SELECT * FROM VALUES
        ('S', 'one', TIMESTAMP '2026-03-02 10:00:00 UTC', '<e><a>v</a></e>'),
        ('S', 'two', TIMESTAMP '2026-03-02 10:00:01 UTC', '<e><a>v</a></e>'),
        (NULL, NULL, TIMESTAMP '2026-03-02 11:00:00 UTC', '<a/>'),
        (NULL, NULL, TIMESTAMP '2026-03-02 11:00:00 UTC', '<a/>'),
        ('S', NULL, TIMESTAMP '2026-03-02 11:00:00 UTC', '<a/>'),
        ('S', 'no time', NULL, '<a/>'),
        ('S', 'malformed', TIMESTAMP '2026-03-02 11:00:00 UTC', '<a>'),
        ('S', 'malformed', TIMESTAMP '2026-03-02 11:00:00 UTC', '<a>'),
        ('no stream', 'x', TIMESTAMP '2026-03-02 11:00:00 UTC', '<a/>')
        AS t(stream, id, ts, xml)"""
    )
    query = "S//e->e[./a->x] FOLLOWED BY{x=y, 1 h} S//e->f[./a->y]"
    found = match(frame, {"pair": query}).collect()
    (pair,) = (one for one in found if one["_rejected"] is None)
    assert pair["documents"] == ["one", "two"]
    rejected = [one["_rejected"] for one in found if one["_rejected"] is not None]
    assert all(one["id"] is None and one["subscription"] is None for one in found if one != pair)
    assert Counter((one["id"], one["reason"]) for one in rejected) == {
        (None, "null"): 3,
        ("no time", "null"): 1,
        ("malformed", "xml_syntax"): 2,
        ("x", "stream_name"): 1,
    }


def test_errors_of_the_caller_are_raised_at_once(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    frame = frame_of(spark_session, documents_of(3))
    with pytest.raises(QueryError, match="executors cannot evaluate the subscription 'f'"):
        match(frame, {"f": "S//book->b"})
    with pytest.raises(QueryError, match="line 1"):
        match(frame, {"f": "S//book->"})
    with pytest.raises(AnalysisException, match="no column 'xml'"):
        match(frame.drop("xml"), QUERIES)
    with pytest.raises(AnalysisException, match="needs the column 'number'"):
        match(frame, QUERIES, order="number")
    with pytest.raises(ValueError, match="neither 'time' nor 'number'"):
        match(frame, QUERIES, order="arrival")
    with pytest.raises(ValueError, match="buckets"):
        match(frame, QUERIES, buckets=0)
    with Catalog(tmp_path / "empty") as catalog:
        assert match(frame, catalog).collect() == []


def test_nothing_gives_nothing(spark_session: SparkSession) -> None:
    frame = frame_of(spark_session, documents_of(3)).where("id = 'none'")
    assert match(frame, QUERIES).collect() == []
    assert match(frame, {}).collect() == []


REAL = {
    "same": "S//item[./title->t] FOLLOWED BY{t=u, 3000 d} S//item[./title->u]",
    "by": "S//item[./author->a][./title->t] JOIN{a=b AND t != u, 10 min}"
    " S//item[./author->b][./title->u]",
    "topic": "SELECT DISTINCT <m>{c}</m> FROM S//item[./category->c]"
    " FOLLOWED BY{c=d, 60 d} S//item[./category->d]",
    "seller": "S//person[./@id->k] FOLLOWED BY{k=s, 1 h} S//open_auction[./seller/@person->s]",
    "speaks": "S//SPEECH[./SPEAKER->s] FOLLOWED BY{s=z, 1 min} S//SPEECH[./SPEAKER->z][./LINE->l]",
}
"""Joins of items of feeds, of parts of an auction and of a play."""


def bodies(corpus: Corpus) -> Iterator[tuple[str, bytes, int, str]]:
    """Yield feeds with their addresses, also damaged ones."""
    for folder in ("real-feeds", "rss-sync-open"):
        files = (one for one in sorted(corpus.folder(folder).rglob("*")) if one.is_file())
        some = [one for one in files if one.suffix in (".xml", ".rdf", ".json", ".rss")][:25]
        for place, file in enumerate(some):
            yield f"http://feeds.example/{folder}/{place}", file.read_bytes(), place * HOUR, "S"


def parts(corpus: Corpus) -> Iterator[Document]:
    """Yield parts of large documents."""
    for file in sorted(corpus.folder("xml-docs").glob("*.xml")):
        for place, part in enumerate(ElementTree.parse(file).getroot().iter()):
            if part.tag in ("open_auction", "person", "SPEECH"):
                text = ElementTree.tostring(part)
                yield Document("S", f"{file.stem}-{place}", place * SECOND, text)


def test_real_feeds_and_documents(spark_session: SparkSession, corpus: Corpus) -> None:
    """Items are those of `xscl.spark.items`; a damaged body is a rejected row there."""
    schema = "url string, body binary, fetched bigint, stream string"
    found = items(spark_session.createDataFrame(list(bodies(corpus)), schema))
    columns = ("stream", "id", "unix_micros(ts) AS ts", "xml")
    taken = found.where("_rejected IS NULL").selectExpr(*columns)
    of_parts = frame_of(spark_session, list(parts(corpus))).select("stream", "id", "ts", "xml")
    frame = taken.union(of_parts).cache()
    documents = [Document(one.stream, one.id, one.ts, bytes(one.xml)) for one in frame.collect()]
    expected = in_engine(REAL, [in_order_of_time(documents)])
    assert "by" in {one.subscription for one in expected}
    assert found_in(match(frame, REAL, buckets=5).collect()) == expected
    frame.unpersist()


def test_a_repeated_row_is_the_same_document(spark_session: SparkSession) -> None:
    documents = documents_of(12)
    again = [*documents, *documents[:5], Document("S", "d1", 5 * HOUR, documents[1].xml)]
    expected = in_engine(QUERIES, [in_order_of_time(again)])
    found = match(frame_of(spark_session, again), QUERIES).collect()
    assert found_in(found) == expected
