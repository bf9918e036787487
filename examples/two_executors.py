"""Joins on Spark's executors, of which one is killed: the matches stay those of one engine.

    make demo CLUSTER=1             (or python examples/two_executors.py)

Orders and invoices arrive in files.  A stream joins them on two executors, processes of their own.
After the second micro-batch one of them is killed; Spark repeats its tasks on the others.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import xscl
from xscl.spark import Catalog, start_session, stream

MASTER = "local-cluster[2,1,1024]"
"""Two executors of one core and 1,024 MB, as on two machines."""
ORDERS = 1_000
FILES, IN_FILE = 5, 400
BUCKETS = 4
HOUR = 3_600_000_000
SCHEMA = "stream string, id string, ts bigint, xml string"
QUERIES: Mapping[str, str] = {
    "another total": """
        orders//order[./number->n][./total->a]
        FOLLOWED BY{n = m AND a != b, 2 d}
        invoices//invoice[./order->m][./total->b]""",
    "no invoice": """
        orders//order[./number->n]
        NOT FOLLOWED BY{n = m, 2 d}
        invoices//invoice[./order->m]""",
}


def documents() -> Iterator[xscl.Document]:
    """Yield orders, an invoice for most of them, and another total in a few."""
    for number in range(ORDERS):
        order = f"<order><number>{number}</number><total>{number % 90}</total></order>"
        yield xscl.Document("orders", f"o{number}", number * HOUR, order.encode())
        if number < 20 or number % 25 == 0:
            continue  # invoices come 20 hours later, and some never
        invoiced = number - 20
        total = invoiced % 90 + int(invoiced % 40 == 0)
        invoice = f"<invoice><order>{invoiced}</order><total>{total}</total></invoice>"
        yield xscl.Document("invoices", f"i{number}", number * HOUR + 1, invoice.encode())


def found_by_one_engine(arrived: list[xscl.Document]) -> Counter[str]:
    """Return the matches of one engine by subscription."""
    with xscl.Engine() as engine:
        engine.subscribe_many(QUERIES.items())
        return Counter(match.subscription for match in engine.push(arrived))


def write(arrived: list[xscl.Document], directory: Path) -> None:
    """Write documents to files, which a stream reads one after the other."""
    for place in range(FILES):
        some = arrived[place * IN_FILE : (place + 1) * IN_FILE]
        rows = [
            {"stream": one.streams[0], "id": one.id, "ts": one.timestamp, "xml": one.xml.decode()}
            for one in some
        ]
        path = directory / f"{place}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
        os.utime(path, (place, place))


def executor(spark: SparkSession) -> int:
    """Return the process of an executor: the parent of the one that starts Python workers."""

    def parent(_: object) -> int:
        status = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2]
        return int(status.split()[1])

    return int(spark.sparkContext.parallelize([0], 1).map(parent).first())


def main() -> int:
    """Run the stream; return 0 if its matches are those of one engine."""
    arrived = list(documents())
    expected = found_by_one_engine(arrived)
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "documents").mkdir()
        write(arrived, place / "documents")
        print(f"demo: Spark starts with {MASTER}", flush=True)
        spark = start_session(MASTER, scratch=place / "spark")

        def show(matches: DataFrame, number: int) -> None:
            counts = Counter(row.subscription for row in matches.select("subscription").collect())
            seen.update(counts)
            listed = ", ".join(f"{count} of {name!r}" for name, count in sorted(counts.items()))
            print(f"demo: micro-batch {number}: {listed or 'no match'}", flush=True)
            if number == 1:
                victim = executor(spark)
                os.kill(victim, signal.SIGKILL)
                print(f"demo: the executor with the process {victim} is killed", flush=True)

        with closing(Catalog(place / "catalog")) as catalog:
            catalog.subscribe_many(QUERIES)
            rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
            query = stream(
                rows.parquet(str(place / "documents")),
                catalog,
                checkpoint=place / "checkpoint",
                sink=show,
                buckets=BUCKETS,
                trigger={"availableNow": True},
            )
            query.awaitTermination()
        spark.stop()
    for name in QUERIES:
        print(f"demo: {name}: {seen[name]} matches on executors, {expected[name]} of one engine")
    return int(seen != expected)


if __name__ == "__main__":
    sys.exit(main())
