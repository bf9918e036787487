"""Joins on executors compared with one engine: frames of documents, streams of files, matches."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import xscl
from feeds.documents import Document
from tests.xscl.spark.bucket_runs import Change, Found, found_in_row
from xscl.spark.catalog import Catalog
from xscl.spark.streaming import stream

SECOND, HOUR = 1_000_000, 3_600_000_000
COLUMNS = "number bigint, clock bigint, stream string, id string, ts bigint, xml binary"
_KINDS = dict(one.split() for one in COLUMNS.split(", "))

QUERIES = {
    "two": "S//book[./author->x][./chapter/title->t] FOLLOWED BY{x=y AND t=u, 6 h}"
    " S//blog[./author->y][.//title->u]",
    "nested": "S//blog[./post->p[./title->u][./tag->g]] FOLLOWED BY{u=t, 3 h}"
    " S//book[./chapter->c[./title->t][./page->q]][./year->z]",
    "unlike": "S//book[./author->x][./year->v] JOIN{x=y AND v != w, 5 h}"
    " S//book[./author->y][./year->w]",
    "join": 'S//blog[./author->x] JOIN{x=y, 2 h} S//book[./author->y][./chapter[./page="3"]->c]',
    "distinct": "SELECT DISTINCT <m>{x}{t}</m> FROM S//book[./author->x][./chapter/title->t]"
    " FOLLOWED BY{x=y, 4 h} S//blog[./author->y]",
    "first": "S//blog->b[./author->x] JOIN{x=y, 1 h} S//blog->c[./author->y]",
}
"""Joins of every kind that executors evaluate."""


def documents_of(count: int, *, late: int = 0) -> list[Document]:
    """Return books and blogs, three at a time; with `late` up to so much out of order."""
    drawn = random.Random(5)
    authors = [f"author {number}" for number in range(12)]
    found = []
    for place in range(count):
        names = drawn.sample(authors, drawn.randint(1, 3))
        many = range(drawn.randint(1, 3))
        texts = [(drawn.randrange(9), drawn.randrange(5)) for _ in many]
        if drawn.random() < 0.5:
            parts = [
                f"<chapter><title>t{title}</title><page>{page}</page></chapter>"
                for title, page in texts
            ]
            parts.append(f"<year>{1990 + drawn.randrange(3)}</year>")
        else:
            parts = [
                f"<post><title>t{title}</title><tag>g{tag}</tag></post>" for title, tag in texts
            ]
        name = "book" if parts[-1].startswith("<year") else "blog"
        content = "".join((*(f"<author>{one}</author>" for one in names), *parts))
        text = f"<{name}>{content}</{name}>".encode()
        found.append(Document("S", f"d{place}", place // 3 * HOUR // 4, text))
    if late:
        found.sort(key=lambda one: one.timestamp + drawn.randrange(late))
    return found


def in_order_of_time(documents: Iterable[Document]) -> list[Document]:
    """Return documents as `order="time"` takes them."""
    return sorted(documents, key=lambda one: (one.timestamp, one.streams[0], one.id))


def table_of(documents: Sequence[Document], *, first: int = 1, clock: int = -HOUR) -> pa.Table:
    """Return documents as a table of `COLUMNS`; numbers begin at `first`, the clock at `clock`."""
    rows: list[dict[str, object]] = []
    for number, one in enumerate(documents, first):
        place = {"number": number, "clock": clock, "stream": one.streams[0], "id": one.id}
        rows.append({**place, "ts": one.timestamp, "xml": one.xml})
        clock = max(clock, one.timestamp)
    kinds = {"bigint": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in _KINDS.items()])
    return pa.Table.from_pylist(rows, schema=schema)


def frame_of(
    session: SparkSession, documents: Sequence[Document], *, numbered: bool = False
) -> DataFrame:
    """Return documents as a DataFrame of three partitions, shuffled."""
    table = table_of(documents)
    columns = table.column_names if numbered else ["stream", "id", "ts", "xml"]
    places = random.Random(1).sample(range(len(documents)), len(documents))
    return session.createDataFrame(table.select(columns).take(places)).repartition(3)


def found_in(rows: Iterable[Any], *, content: bool = True) -> list[Found]:
    """Return rows of matches, sorted; fails if a row was rejected."""
    found = []
    for row in rows:
        assert row["_rejected"] is None, row["_rejected"]
        assert content or (row["xml"], row["bindings"]) == (None, None)
        found.append(found_in_row(row))
    return sorted(found)


def without_content(found: Iterable[Found]) -> list[Found]:
    """Return matches as they are without content."""
    return sorted(one._replace(values=(), xml="") for one in found)


def subscribing(name: str, query: str) -> Change:
    """Return a change that makes a subscription."""
    return lambda where: where.subscribe(name, query)


def unsubscribing(name: str) -> Change:
    """Return a change that removes a subscription."""

    def change(where: Catalog | xscl.Engine) -> None:
        if isinstance(where, Catalog):
            where.unsubscribe(name)
        else:  # ids of a name whose matches are kept would be others
            where.unsubscribe(name, purge=True)

    return change


class StreamRun:
    """A stream over a folder of files, one a micro-batch, whose sink keeps matches in memory."""

    def __init__(self, session: SparkSession, place: Path, catalog: Catalog) -> None:
        self.catalog = catalog
        self.rows: dict[int, list[Any]] = {}
        """The matches of each micro-batch."""
        self.in_sink: list[Change] = []
        """Changes that the next micro-batch makes before it writes."""
        self._session = session
        self._place = place
        (place / "in").mkdir(parents=True, exist_ok=True)
        self._files = len(list((place / "in").iterdir()))
        self._number, self._clock = 1, -HOUR
        self.query: StreamingQuery | None = None

    def start(self, **options: Any) -> StreamingQuery:
        """Start the query."""
        settings = {"buckets": 3, "order": "number", **options}
        source = self._session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        frame = source.parquet(str(self._place / "in"))
        settings.setdefault("sink", self._sink)
        settings.setdefault("checkpoint", self._place / "checkpoint")
        self.query = stream(frame, settings.pop("catalog", self.catalog), **settings)
        return self.query

    def _sink(self, matches: DataFrame, number: int) -> None:
        rows = matches.collect()  # a change before would be one before the micro-batch
        while self.in_sink:
            self.in_sink.pop(0)(self.catalog)
        self.rows[number] = rows

    def give(self, documents: Sequence[Document]) -> None:
        """Add a file, which is a micro-batch."""
        table = table_of(documents, first=self._number, clock=self._clock)
        self._number += len(documents)
        self._clock = max([self._clock, *(one.timestamp for one in documents)])
        self.give_table(table)

    def give_table(self, table: pa.Table) -> None:
        """Add a file with some rows."""
        self._files += 1
        hidden = self._place / "in" / f".{self._files:08d}"
        pq.write_table(table, hidden)
        moment = 1_000_000_000 + self._files  # Spark takes files in the order of their times
        os.utime(hidden, (moment, moment))
        hidden.rename(hidden.with_name(f"{self._files:08d}.parquet"))

    def wait(self) -> None:
        """Wait until all files were processed; raises what the query failed with."""
        assert self.query is not None
        self.query.processAllAvailable()

    def stop(self) -> None:
        """Stop the query."""
        assert self.query is not None
        self.query.stop()

    def found(self, *, content: bool = True) -> list[Found]:
        """Return all matches, each as often as the sink had it."""
        return found_in((row for rows in self.rows.values() for row in rows), content=content)
