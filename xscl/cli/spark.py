"""`xscl spark run`, `subscribe`, `unsubscribe`, `list`: joins on Spark's executors."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from xscl.cli.extras import require
from xscl.cli.options import Json, argument, command_group, option, query_text
from xscl.cli.output import UsageError, answer, echo, echo_json, list_rows, warn
from xscl.cli.query_options import refuse_bare_duration, refuse_bare_windows
from xscl.language.parser import parse_window
from xscl.plurals import counted
from xscl.server.termination import stopped_by_signals
from xscl.spark.catalog import Catalog, published_plan, published_queries, refuse_unfit

if TYPE_CHECKING:
    from xscl.spark.job import MicroBatch

app = command_group("Joins on Spark's executors: a job, and the catalog of its subscriptions.")

_Catalog: TypeAlias = Annotated[
    Path, option("The directory of the catalog, which all executors see.", "DIR")
]
_Name: TypeAlias = Annotated[str, argument("The name of the subscription.")]


@app.command("list")
def list_(catalog: _Catalog, as_json: Json = False) -> None:
    """List the subscriptions of a catalog; another process may have opened it.

    \b
    Example:
      xscl spark list --catalog /shared/catalog
    """
    queries = published_queries(published_plan(catalog.expanduser()))
    found = [{"name": name, "query": query} for name, query in queries.items()]
    list_rows("subscriptions", found, ("name", "query"), as_json=as_json)


@app.command()
def subscribe(
    name: _Name,
    query: Annotated[str, argument("The query.", "QUERY|@FILE")],
    catalog: _Catalog,
    forever: bool = option("Accept a window INF: executors keep all documents."),
    as_json: Json = False,
) -> None:
    """Add a subscription to a catalog, which is made if there is none.

    Jobs that run see it with their next micro-batch. A query that executors
    cannot evaluate is refused with the reason.

    \b
    Example:
      xscl spark subscribe --catalog /shared/catalog again \\
        'S//a[./k->x] FOLLOWED BY{x=y, 7 d} S//a[./k->y]'
    """
    text = query_text(query)
    refuse_bare_windows(text)
    refuse_unfit({name: text}, forever=forever)  # before a catalog is made
    with Catalog(catalog.expanduser(), forever=forever) as opened:
        opened.subscribe(name, text)
    answer({"name": name, "query": text}, [f"subscribed {name!r}"], as_json=as_json)


@app.command()
def unsubscribe(name: _Name, catalog: _Catalog, as_json: Json = False) -> None:
    """Remove a subscription from a catalog; jobs have no more matches of it.

    \b
    Example:
      xscl spark unsubscribe --catalog /shared/catalog again
    """
    directory = catalog.expanduser()
    published_plan(directory)
    with Catalog(directory) as opened:
        opened.unsubscribe(name)
    answer({"unsubscribed": name}, [f"unsubscribed {name!r}"], as_json=as_json)


@app.command()
def run(
    catalog: _Catalog,
    source: str = option(
        "The documents: parquet:DIR, json:DIR (JSON lines) or kafka:HOST:PORT/TOPIC.",
        "FORMAT:PLACE",
    ),
    sink: str = option("The matches: parquet:DIR.", "parquet:DIR"),
    checkpoint: str = option("The directory of progress and state, of this job alone.", "DIR"),
    buckets: Annotated[int, option("Parts of the state; of a checkpoint for good.", min=1)] = 16,
    lateness: str | None = option(
        "How far behind the latest document one may come: 2h.", "DURATION"
    ),
    order: Annotated[Literal["time", "number"], option("What orders documents.")] = "time",
    trigger: str | None = option(
        "Begin a micro-batch so often, such as 10s; once: take what is there, and end.",
        "DURATION|once",
    ),
    no_content: bool = option("Matches without texts and bindings; far less state."),
    master: str | None = option("The master of Spark, unless spark-submit has one."),
    given: list[str] | None = option(
        "Of Spark's source, as maxFilesPerTrigger=4; repeatable.", "NAME=VALUE", flags="--option"
    ),
    conf: list[str] | None = option(
        "A setting of Spark, as for spark-submit; repeatable.", "NAME=VALUE"
    ),
) -> None:
    """Write the matches of a catalog over documents that come, until Ctrl-C or SIGTERM.

    The micro-batch in progress is finished first. Each one writes its matches
    to the directory batch=N of the sink, and rows that were not taken to
    _rejected/batch=N. It is one line of output: of text on a terminal, else of JSON.

    A checkpoint keeps its buckets, lateness, order and content. The catalog,
    the checkpoint, the sink and files of the source must be on file systems
    that all executors see. The topic of a record of Kafka is the stream of a
    document, its key the id, its value the XML.

    \b
    Example:
      xscl spark run --catalog catalog --source parquet:incoming --sink parquet:matches \\
        --checkpoint checkpoint --lateness 2h
      xscl spark run --catalog /shared/catalog --source kafka:broker:9092/orders \\
        --sink parquet:hdfs://name/matches --checkpoint hdfs://name/checkpoint \\
        --conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0
    """
    form, place = _parsed("--source", source, ("parquet", "json", "kafka"))
    _, target = _parsed("--sink", sink, ("parquet",))
    refuse_bare_duration(lateness, "--lateness")
    options, settings = _named("--option", given), _named("--conf", conf)
    how = _trigger(trigger)
    require("spark", "'xscl spark run'")
    from xscl.spark.job import Job, JobSource, job_session, run_job

    job = Job(
        catalog=catalog.expanduser().absolute(),
        source=JobSource(form, place, options),
        sink=target,
        checkpoint=_absolute(checkpoint),
        settings={
            "buckets": buckets,
            "lateness": lateness or 0,
            "order": order,
            "content": not no_content,
            "trigger": how,
        },
    )
    published_plan(job.catalog)  # before Spark starts, which takes ten seconds
    stopping = threading.Event()

    def stop() -> None:
        stopping.set()
        warn("stopping after the micro-batch in progress")

    with stopped_by_signals(stop), job_session(master, settings, buckets) as session:
        if not stopping.is_set():
            run_job(session, job, print_micro_batch, stopping)


def print_micro_batch(done: MicroBatch) -> None:
    """Print a micro-batch: as text on a terminal, else as JSON."""
    if sys.stdout.isatty():
        parts = [counted(done.documents, "document"), counted(done.matches, "match")]
        rejected = [f"{done.rejected} rejected"] if done.rejected else []
        echo(f"{done.batch}: {', '.join(parts + rejected)}, {done.seconds:.1f} s")
    else:
        echo_json(done._asdict())
    sys.stdout.flush()


def _parsed(flag: str, text: str, forms: tuple[str, ...]) -> tuple[str, str]:
    """Return the format and the place of a source or a sink."""
    form, _, place = text.partition(":")
    if form not in forms or not place:
        raise UsageError(f"{flag} {text!r} is none of {', '.join(f'{one}:PLACE' for one in forms)}")
    if form == "kafka":
        if not all(place.rpartition("/")):
            raise UsageError(f"{flag} {text!r} has no topic", hint="kafka:HOST:PORT/TOPIC")
        return form, place
    return form, _absolute(place)


def _absolute(place: str) -> str:
    """Return the address of a directory; a path becomes an absolute one."""
    if re.match(r"[a-z][a-z0-9+.-]*:/", place):
        return place
    return str(Path(place).expanduser().absolute())


def _named(flag: str, texts: list[str] | None) -> dict[str, str]:
    """Return values of the form NAME=VALUE by their names."""
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"{flag} {text!r} is not of the form NAME=VALUE")
        found[name] = value
    return found


def _trigger(text: str | None) -> Mapping[str, Any]:
    """Return the arguments of Spark's trigger."""
    if text is None:
        return {}
    if text == "once":
        return {"availableNow": True}
    refuse_bare_duration(text, "--trigger")
    return {"processingTime": f"{parse_window(text) // 1_000} milliseconds"}
