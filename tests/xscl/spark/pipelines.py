"""Documents in files of JSON lines, and the pipeline from them through xscl to Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from feeds.documents import Document
from xscl.engine.facade import Engine
from xscl.spark import Consumption, consume, register
from xscl.subscriptions.match import Match

SCHEMA = "stream string, id string, ts bigint, xml string"
HOUR = 3_600_000_000
QUERIES: Mapping[str, str] = {
    "twice": "S//item[./a->x][./b->y] FOLLOWED BY{x = z, 12 h} S//item[./a->z]",
    "both": "SELECT <both>{x}</both> FROM S//item[./a->x] JOIN{x = y, 9 h} T//item[./a->y]"
    " PUBLISH pairs",
    "after": "pairs//both->p FOLLOWED BY{p = x, 5 h} S//item[./a->x]",
    "silence": "T//item[./a->x] NOT FOLLOWED BY{x = y, 2 h} S//item[./a->y]",
}
Found: TypeAlias = tuple[str, str, list[str], int, int, dict[str, list[str]], str]


def documents(count: int) -> Iterator[Document]:
    """Yield documents, one each hour; some malformed, some that no query reads."""
    for number in range(count):
        stream = ("S", "T", "S", "U")[number % 4]
        xml = f"<item><a>k{number % 5}</a><b>grüße {number}</b></item>"
        if number % 11 == 7:
            xml = f"<item>{number}"
        yield Document(stream, f"d{number}", number * HOUR, xml.encode())


def write(directory: Path, number: int, some: Iterable[Document]) -> None:
    """Write documents to a file, whole; Spark takes files in the order of modification."""
    directory.mkdir(exist_ok=True)
    rows = [
        {"stream": one.stream, "id": one.id, "ts": one.timestamp, "xml": one.xml.decode()}
        for one in some
    ]
    written = directory / f".{number}.tmp"
    written.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    os.utime(written, (1_700_000_000 + number,) * 2)
    written.rename(directory / f"{number}.json")


def fill(directory: Path, some: list[Document], files: int, first: int = 0) -> None:
    """Write documents to files of consecutive ones."""
    share = -(-len(some) // files)
    for number in range(files):
        part = some[number * share : (number + 1) * share]
        write(directory, first + number, part)


def found(match: Match) -> Found:
    """Return a match as a row of `xscl_matches`, with times in ticks."""
    bindings = {name: [one.value for one in nodes] for name, nodes in match.bindings.items()}
    names = list(match.documents)
    xml = match.xml().decode()
    return match.id, match.subscription, names, match.t0, match.t1, bindings, xml


def oracle(some: Iterable[Document]) -> list[Found]:
    """Return the matches of an engine that gets all documents at once."""
    with Engine() as engine:
        engine.subscribe_many(QUERIES.items())
        return [found(one) for one in engine.push(some)]


def rows(frame: DataFrame) -> list[Found]:
    """Return rows of matches, with times in ticks."""
    chosen = frame.selectExpr(
        *("id", "subscription", "documents", "unix_micros(t0)", "unix_micros(t1)"),
        *("bindings", "xml"),
    )
    return [(*one,) for one in chosen.collect()]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The places of a pipeline: incoming files, data directory, checkpoints, Parquet."""

    home: Path

    @property
    def incoming(self) -> Path:
        return self.home / "incoming"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def results(self) -> Path:
        return self.data / "results"

    @property
    def checkpoint(self) -> Path:
        return self.home / "consumed"

    @property
    def parquet(self) -> Path:
        return self.home / "parquet"

    def subscribe(self) -> None:
        """Register the queries in the data directory."""
        self.data.mkdir(mode=0o700, parents=True)
        with Engine(self.data / "state.sqlite") as engine:
            engine.subscribe_many(QUERIES.items())

    def documents(self, spark: SparkSession) -> DataFrame:
        """Return the documents of the incoming files, a file for each micro-batch."""
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return stream.json(str(self.incoming))

    def consume(self, spark: SparkSession, **options: Any) -> Consumption:
        """Begin to consume what is there."""
        options.setdefault("trigger", {"availableNow": True})
        return consume(self.documents(spark), self.data, checkpoint=self.checkpoint, **options)

    def drain(self, spark: SparkSession) -> None:
        """Append the matches that are there to Parquet files."""
        register(spark)
        matches = spark.readStream.format("xscl_matches").option("maxFilesPerTrigger", 2)
        writer = matches.load(str(self.results)).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.home / "drained"))
        writer.trigger(availableNow=True).start(str(self.parquet)).awaitTermination()
