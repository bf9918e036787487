"""`xscl push`: documents from files into the spool of a data directory, and their matches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from feeds.documents import Document
from feeds.spool import Spool
from xscl.cli.inputs import Source, instant, load
from xscl.cli.options import DATA, Data, Json, home
from xscl.cli.output import Misuse, complain, say, say_json
from xscl.cli.telling import Heard, sink
from xscl.engine import Engine
from xscl.followed import ticks
from xscl.pipeline import BATCH, BATCH_BYTES, DirectConsumer
from xscl.retention import asked


def push(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="INPUT...", help="Files, directories, archives, JSON lines, feeds."),
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option("--stream", metavar="NAME", help="Their stream; repeatable."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="The time of documents without a date."),
    ] = None,
    native: Annotated[
        bool, typer.Option("--native", help="Feed items as published, not in canonical form.")
    ] = False,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Take documents into the data directory, durably, and print the matches.

    Lines of JSON may name a stream of their own. A document whose id and
    content are there already changes nothing; other content under an id is a
    new version. Documents go in in the order of their times.

    \b
    Example:
      xscl push --stream books catalogue.xml parcels.zip
    """
    if not inputs:
        raise Misuse("there is nothing to read", hint="name files, directories or archives")
    if not stream:
        raise Misuse("the documents need a stream", hint="name it with --stream")
    found = [Source(path, tuple(dict.fromkeys(stream))) for path in inputs]
    loaded = load(found, None if at is None else instant(at), native=native)
    place = home(data)
    heard = Heard(as_json)
    with place.hold("push"), Engine(place.database) as engine, Spool(place.spool) as spool:
        engine.retain(asked(engine.retention))
        for part in _parts(loaded.documents):
            spool.append(part, ticks())
        before = _refused(engine)
        with sink(engine, heard) as telling:
            DirectConsumer(spool, telling).run_once()
            refused = loaded.refused + _refused(engine) - before
            if as_json:
                say_json(
                    {
                        "documents": len(loaded.documents),
                        "not_read": refused,
                        "matches": heard.rows,
                    }
                )
                sys.stdout.flush()
    if not as_json:
        say(f"{len(loaded.documents)} documents, {refused} not read, {heard.shown} matches")
        if refused > loaded.refused:
            complain("what was refused, and why: xscl sql 'SELECT * FROM rejected'")
    if not loaded.documents:
        raise typer.Exit(1)


def _parts(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """Yield documents in order, as many together as make a batch."""
    part: list[Document] = []
    size = 0
    for document in documents:
        if part and (len(part) >= BATCH or size + len(document.xml) > BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(document)
        size += len(document.xml)
    if part:
        yield part


def _refused(engine: Engine) -> int:
    return int(engine.sql("SELECT count(*) AS n FROM rejected")["n"][0].as_py())
