"""`capacity`: documents a second and core, and bytes, of the library, a service and Spark.

Of the library there are three runs over feed items: `documents` has a query of another stream,
`witnesses` joins titles with addresses and finds nothing, `matches` joins titles.  `disk_bytes`
are those of the store at the end, `binding_bytes` and `result_bytes` those of the witnesses and
matches in it, `kept_bytes` those of the join state in memory.  The rows of `service` and a point
of `spark` follow: a service has small documents of which each second one completes a match.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import service_cost
from benchmarks.feed_items import items
from benchmarks.harness import Options, Row, Value
from benchmarks.kept_bytes import sizes
from benchmarks.spark import QUICK, measured, session_on
from xscl import Retention
from xscl.engine.facade import Engine

NAME = "capacity"
JOIN = "feed//item->a[./title->t] FOLLOWED BY{{t = u, 1 d}} feed//item->b[./{}->u]"
QUERIES = ("other//item->a", JOIN.format("item_url"), JOIN.format("title"))
CHUNKS = "SELECT relation || '_bytes', sum(size) FROM state.chunk GROUP BY relation"


def run(options: Options) -> Iterator[Row]:
    """Yield a row for each run of the library, those of a service, and one of Spark."""
    documents = [one.document() for one in items(5_000 if options.quick else 50_000, 2009)]
    with TemporaryDirectory() as folder:
        for kind, query in zip(("documents", "witnesses", "matches"), QUERIES, strict=True):
            path, began = Path(folder, kind), time.process_time()
            with Engine(path, retention=Retention.of(history="30 d")) as engine:
                engine.subscribe("query", query)
                engine.push(documents)
                rate = len(documents) / (time.process_time() - began)
                kept = sizes(engine) | dict(engine.transactions.store.fetch(CHUNKS))
            figures: dict[str, Value] = {**kept, "documents_per_s": rate}
            figures["disk_bytes"] = path.stat().st_size
            yield Row(NAME, {"of": kind, "documents": len(documents)}, figures)
        yield from service_cost.run(options)
        with session_on(Path(folder)) as spark:
            yield from measured(spark, Path(folder, "spark"), QUICK[0])
