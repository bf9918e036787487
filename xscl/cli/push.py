"""`xscl push`: documents from files into the spool of a data directory, and their matches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from feeds.documents import Document
from feeds.errors import MalformedDocument
from feeds.files import Rejected
from feeds.spool import Spool
from xscl.cli.inputs import Source, instant, load
from xscl.cli.options import DATA, At, Data, Json, Native, Token, Url, home
from xscl.cli.output import Misuse, complain, say, say_json, tracked
from xscl.cli.remote import Refused, Remote, place, reached
from xscl.cli.telling import Heard, latest, sink, told_since
from xscl.engine import Engine
from xscl.errors import DocumentError
from xscl.followed import ticks
from xscl.home import Home
from xscl.pipeline import BATCH, BATCH_BYTES, DirectConsumer
from xscl.refusing import Refusal, check
from xscl.retention import DAY, asked

_XML = {"Content-Type": "application/xml"}


def push(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="INPUT...", help="Files, directories, archives, JSON lines, feeds."),
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option("--stream", metavar="NAME", help="Their stream; repeatable."),
    ] = None,
    at: At = None,
    native: Native = False,
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Take documents into the data directory, durably, and print the matches.

    A line of JSON is {"xml": ...} and may have an "id", a "stream" and a
    "timestamp" of its own. What is without an id has its path, from the root of
    the file system on. A document that is there already, with the same content,
    is not taken again; other content under its id is a new version. Documents
    go in in the order of their times; all of them are held in memory.

    \b
    Example:
      xscl push --stream books catalogue.xml parcels.zip
    """
    if not inputs:
        raise Misuse("there is nothing to read", hint="name files, directories or archives")
    if not stream or not all(stream):
        raise Misuse("the documents need a stream", hint="name it with --stream")
    found = [Source(path.absolute(), tuple(dict.fromkeys(stream))) for path in inputs]
    moment = None if at is None else instant(at)
    loaded = load(found, moment, native=native, qualified=True)
    documents, wrong = _judged(loaded.documents)
    not_read = len(loaded.refused) + len(wrong)
    wrong += [_refused(each) for each in loaded.refused if each.body is not None]
    service = reached(data, url, token)
    if service is not None:
        with service:
            _send(service, documents, wrong, not_read, as_json=as_json)
    else:
        _take(home(data), documents, wrong, not_read, as_json=as_json)
    if not documents:
        raise typer.Exit(1)


def _take(
    at: Home,
    documents: Sequence[Document],
    wrong: Sequence[Refusal],
    not_read: int,
    *,
    as_json: bool,
) -> None:
    """Take documents into a data directory that nobody else uses, and tell the matches."""
    heard = Heard(as_json)
    with at.hold("push"), Engine(at.database) as engine, Spool(at.spool) as spool:
        engine.retain(asked(engine.retention))
        engine.host.ingest.refuse(wrong)
        before = _counted(engine)
        for part in _parts(documents):
            spool.append(part, ticks())
        with sink(engine, heard) as telling:
            DirectConsumer(spool, telling).run_once()
            after = _counted(engine)
            counts = {
                "documents": len(documents),
                "new": after["arrived"] - before["arrived"],
                "not_read": not_read,
                "late": after["late"] - before["late"],
            }
            if as_json:
                say_json({**counts, "matches": heard.rows})
                sys.stdout.flush()
    if not as_json:
        _say(counts, heard.shown)


def _send(
    service: Remote,
    documents: Sequence[Document],
    wrong: Sequence[Refusal],
    not_read: int,
    *,
    as_json: bool,
) -> None:
    """Send documents to a service, and tell the matches that are found from then on.

    Of the documents a service does not say which were new or late.  Those that are malformed are
    sent as well: it refuses them, and keeps what was refused.
    """
    malformed = [document for document, _ in wrong if _is_malformed(document)]
    if any(len(document.streams) > 1 for document in (*documents, *malformed)):
        raise Misuse(
            "a service takes a document for one stream",
            hint="name one --stream; without a service several can be named",
        )
    before = latest(service)
    for document in tracked(documents, "sending", len(documents)):
        service.ask(
            "POST",
            place("documents", *document.streams),
            # Four digits alone would be a year.
            params={"id": document.id, "time": f"{document.timestamp:06d}"},
            content=document.xml,
            headers=_XML,
        )
    for document in malformed:
        try:
            service.ask(
                "POST",
                place("documents", *document.streams),
                params={"id": document.id},
                content=document.xml,
                headers=_XML,
            )
        except Refused as refused:
            if not refused.problem.startswith("xml_"):  # what is wrong with the XML was told before
                raise
    heard = Heard(as_json)
    if service.caught_up():
        heard(told_since(service, before))
    else:
        complain("the matches come a little later: 'xscl matches NAME' lists them")
    counts = {"documents": len(documents), "new": None, "not_read": not_read, "late": None}
    if as_json:
        say_json({**counts, "matches": heard.rows})
    else:
        _say(counts, heard.shown)


def _is_malformed(document: Document) -> bool:
    """Return whether nobody can take a document, as it is no XML."""
    try:
        check([document])
    except (MalformedDocument, DocumentError) as error:
        return isinstance(error, MalformedDocument)
    return False


def _say(counts: Mapping[str, int | None], matches: int) -> None:
    new = "sent" if counts["new"] is None else f"{counts['new']} of them new"
    say(f"{counts['documents']} documents, {new}; {counts['not_read']} not read; {matches} matches")
    if counts["late"]:
        complain(
            f"{counts['late']} came too late for some subscription:"
            " xscl sql 'SELECT * FROM late' says which"
        )


def _judged(documents: Sequence[Document]) -> tuple[list[Document], list[Refusal]]:
    """Return the documents that can be taken, and the others, of which it says what is wrong."""
    latest = ticks() + DAY
    fine: list[Document] = []
    wrong: list[Refusal] = []
    for document in documents:
        try:
            check([document])
            if document.timestamp > latest:
                raise DocumentError(
                    "its time is more than a day ahead of the clock of this machine, and what is"
                    " kept is counted from the latest document",
                    reason_code="future",
                )
        except (MalformedDocument, DocumentError) as error:
            place = f" (line {error.line}, column {error.column})" if error.line else ""
            complain(f"not read: {document.id}: {error.message}{place}")
            wrong.append((document, error))
        else:
            fine.append(document)
    return fine, wrong


def _refused(found: Rejected) -> Refusal:
    """Return what was read and is no document as one that cannot be taken, and why."""
    code, _, message = found.reason.partition(": ")
    error = DocumentError(message, reason_code=code, line=found.line, column=found.column)
    return Document(found.stream, found.id, 0, found.body or b""), error


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


def _counted(engine: Engine) -> dict[str, int]:
    """Return how many documents have arrived, and how many of them were late for somebody."""
    (row,) = engine.sql(
        "SELECT (SELECT count(*) FROM documents WHERE NOT published) AS arrived,"
        " (SELECT count(*) FROM late) AS late"
    ).to_pylist()
    return dict(row)
