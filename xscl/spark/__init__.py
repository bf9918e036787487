"""Joins on Spark's executors: of DataFrames, and of a service.

    match       the matches of queries over a batch DataFrame, on executors
    stream      the matches of a catalog over a streaming DataFrame, on executors, exactly once
    Catalog     subscriptions for executors, in a directory that all of them can read
    items       the items of feeds, from a DataFrame of their bodies
    start_session    the Spark session of this process, started if there is none

Documents are rows with the columns `stream` STRING, `id` STRING, `ts` TIMESTAMP (or BIGINT,
microseconds since 1970) and `xml` STRING or BINARY.  Matches have the columns `id`,
`subscription`, `documents`, `t0`, `t1`, `bindings` and `xml`.  A row that cannot be taken is a row
of `_rejected` with the reason.

    session          the session: its Java (java), its settings, its Python processes
    document_rows    rows of a DataFrame as documents, and those that cannot be taken
    feed_items       bodies of feeds as items, on executors
    catalog          subscriptions for executors; plan_files, plan_replica: their plan in workers
    designation      the equality by whose values documents of a join are divided
    parts            stage 1 on executors: documents to a part for each bucket
    bucket           stage 2 in a bucket; match_rows: its results as matches, the bound over all
    matching         `match`; streaming: `stream`
    executors        those of a service: their plan (service_plan), documents as a source of Spark
                     (offers), and in the buckets (offered_parts)
    job              `xscl spark run`, and the probe of executors
    hadoop_files     directories on any file system of Spark

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xscl.spark.catalog import Catalog as Catalog
    from xscl.spark.feed_items import items as items
    from xscl.spark.matching import match as match
    from xscl.spark.session import start_session as start_session
    from xscl.spark.streaming import stream as stream

_PLACES = {
    "Catalog": "xscl.spark.catalog",
    "items": "xscl.spark.feed_items",
    "match": "xscl.spark.matching",
    "start_session": "xscl.spark.session",
    "stream": "xscl.spark.streaming",
}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> object:
    """Import a name on first use: Spark's tasks do not need all of them."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("pyspark", "py4j", "pandas", "google"):
            raise
        from xscl.ingestion.pipeline import PipelineError

        raise PipelineError("Spark is not installed", hint="pip install 'xscl[spark]'") from missing
    return value
