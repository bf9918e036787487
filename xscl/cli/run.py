"""`xscl run`: queries over files, one shot, everything in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cep_core import is_calendar
from feeds.documents import Document
from xscl.cli.document_inputs import instant, load, sources
from xscl.cli.match_text import Format, Jsonl, MatchFormat, writer
from xscl.cli.options import At, Native, Timezone, Verbose, argument, option, query_text
from xscl.cli.output import UsageError, judge, warn, warn_not_read
from xscl.cli.progress import Quiet, progress
from xscl.cli.query_options import refuse_bare_windows
from xscl.cli.run_events import LANGUAGE_NAMES, EventRun, run_events
from xscl.engine.facade import Engine
from xscl.plurals import counted
from xscl.subscriptions.match import Match

BATCH = 1_000


def run(
    inputs: list[Path] | None = argument(
        "Files, directories, archives, JSON lines, feeds.", "[INPUT]..."
    ),
    query: list[str] | None = option("A query; repeatable.", "QUERY|@FILE", flags="--query -q"),
    stream: list[str] | None = option("An input of one stream; repeatable.", "NAME=PATH"),
    form: Format = MatchFormat.TEXT,
    as_json: Jsonl = False,
    verbose: Verbose = False,
    timezone: Timezone = "local",
    quiet: Quiet = False,
    at: At = None,
    native: Native = False,
    strict: bool = option("Fail if anything could not be read."),
    language: str | None = option("Event queries over files of events.", "|".join(LANGUAGE_NAMES)),
    schema: Path | None = option("With --language: what the streams hold.", "FILE"),
    time: str | None = option(
        "With --language: when events were (time, timestamp or t1; else a second apart).", "COLUMN"
    ),
    unit: str | None = option("With --language: of times in numbers (us).", "us|ms|s|ns"),
) -> None:
    """Run queries over files and print their matches.

    The queries are named q1, q2, ... in order. An input belongs to the stream
    that --stream gives it, otherwise to every stream that the queries read and
    no --stream names. Documents are taken in the order of their times: the
    dates of feed items, and for all others --at or the time of the file, so
    FOLLOWED BY between files needs files of different times.

    With --language the inputs are events: CSV with a heading, JSON (a line for
    each, or an array), or XML whose root has an element for each; - is standard
    input. An input belongs to the stream that --stream gives it, or to that of
    its own name, my_data for my-data.csv.
    Columns have the types of --schema (SOURCE trades (coin str, price float)),
    or those that all their values have.

    \b
    Example:
      xscl run -q 'S//book->b[./title->t] FOLLOWED BY{t=u, 30 d} S//blog->c[./title->u]' documents/
      xscl run -q @storms.xscl --stream weather=weather.rss --stream ferry=ferry.atom --format jsonl
      xscl run --language eql -q 'SELECT * FROM t A ; t B WHERE FILTER(A.acc = B.acc)' t.csv
    """
    if not query:
        raise UsageError(
            "there is no query to run", hint="give one with -q, or a file with -q @FILE"
        )
    if language is not None:
        _refuse("--language", {"--at": at, "--native": native, "--format": form is MatchFormat.XML})
        paths, as_json = [str(one) for one in inputs or []], as_json or form is MatchFormat.JSONL
        options = EventRun(language, query, paths, stream or [], schema, time, unit)
        run_events(options, strict=strict, as_json=as_json)
        return
    _refuse("documents", {"--schema": schema, "--time": time, "--unit": unit})
    with Engine(owns_process=True) as engine:
        for number, given in enumerate(query, 1):
            text = query_text(given)
            refuse_bare_windows(text)
            engine.subscribe(f"q{number}", text)
        published = {subscription.publish for subscription in engine.subscriptions}
        read = {
            name
            for subscription in engine.subscriptions
            for name in subscription.reads
            if not is_calendar(name)
        } - published
        found = sources(inputs or [], stream or [], read)
        documents, unread = load(found, None if at is None else instant(at), native=native)
        write = writer(MatchFormat.JSONL if as_json else form, verbose=verbose)
        matched = False
        for match in _matches(engine, documents):
            write(match)
            matched = True
        refused = _report_refused(engine)
    if not matched:
        warn(f"no match among {counted(len(documents), 'document')}")
    judge("documents", len(documents) - refused, len(unread) + refused, strict=strict)


def _refuse(what: str, options: Mapping[str, object]) -> None:
    """Raise UsageError for an option that has no meaning in this mode."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{name} means nothing with {what}")


def _matches(engine: Engine, documents: Sequence[Document]) -> Iterator[Match]:
    """Yield the matches of documents, batch by batch."""
    batches = [documents[i : i + BATCH] for i in range(0, len(documents), BATCH)]
    for batch in progress(batches, "joining", len(batches)):
        yield from engine.push(batch)
    yield from engine.flush()


def _report_refused(engine: Engine) -> int:
    """Print the documents that the engine rejected, and return their number."""
    rows = engine.sql('SELECT id, message, line, "column" FROM rejected').to_pylist()
    for row in rows:
        warn_not_read(row["id"], row["message"], row["line"], row["column"])
    return len(rows)
