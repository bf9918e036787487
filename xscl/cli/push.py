"""`xscl push`: documents from files into the spool of a data directory, and their matches."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from feeds.documents import Document
from feeds.errors import MalformedDocument
from xscl.cli.connection import opened
from xscl.cli.document_inputs import DocumentInput, instant, load, placed
from xscl.cli.match_text import MatchReport
from xscl.cli.options import At, Call, Native, Verbose, argument, option
from xscl.cli.output import UsageError, echo, echo_json, warn, warn_not_read
from xscl.cli.progress import Quiet
from xscl.documents.document_validation import Rejection, error_of, expect_valid, push_fault
from xscl.documents.retention import DAY
from xscl.errors import DocumentError
from xscl.plurals import counted
from xscl.polling.feed_repository import ticks
from xscl.time_format import written


def push(
    call: Call,
    inputs: list[Path] | None = argument(
        "Files, directories, archives, JSON lines, feeds.", "INPUT..."
    ),
    stream: list[str] | None = option("Their stream; repeatable.", "NAME"),
    at: At = None,
    native: Native = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Take documents into the data directory, durably, and print the matches.

    A line of JSON is {"xml": ...} and may have an "id", a "stream" and a
    "timestamp" of its own. What is without an id has its path, from the root of
    the file system on. A document that its stream has already, with the same
    content, is not taken again; other content is a new version. Documents
    go in in the order of their times; all of them are held in memory. If some
    cannot be read, the others are taken and the exit code is 1.

    \b
    Example:
      xscl push --stream books catalogue.xml parcels.zip
    """
    if not inputs:
        raise UsageError("there is nothing to read", hint="name files, directories or archives")
    streams = tuple(dict.fromkeys(stream or ()))
    if not all(streams) or not (streams or inputs[0].exists()):
        raise _no_stream(inputs[0])
    for name in streams:
        if (fault := push_fault(name)) is not None:
            raise DocumentError(fault, reason_code="stream_name")
    found = [DocumentInput(path.absolute(), streams) for path in inputs]
    moment = None if at is None else instant(at)
    read, refused = load(found, moment, native=native, qualified=True, fault=push_fault)
    if not all(each.stream for each in read or refused):
        raise _no_stream(inputs[0])
    documents, wrong = _validated(read)
    not_read = len(refused) + len(wrong)
    for each in refused:
        if each.body is not None and each.stream:
            wrong.append((Document(each.stream, each.id, 0, each.body), error_of(each)))
    report = MatchReport(call.as_json, verbose=verbose)
    with (
        opened("push", call, missing="create") as service,
        service.take(documents, wrong, report) as counts,
    ):
        _echo({**counts, "not_read": not_read}, report)
        sys.stdout.flush()  # before the matches are acknowledged
    if not_read:
        warn(f"{not_read} of {counted(not_read + len(documents), 'document')} could not be read")
    if not_read or not documents:
        raise typer.Exit(1)


def _no_stream(first: Path) -> UsageError:
    named = "--stream" if first.exists() else f"--stream {first} FILE"
    return UsageError(
        "the documents need a stream",
        hint=f'name it with {named}; lines of JSON may have a "stream" each',
    )


def _echo(counts: Mapping[str, int | None], report: MatchReport) -> None:
    if report.as_json:
        named = {name: counts[name] for name in ("documents", "new", "not_read", "late")}
        echo_json({**named, "matches": report.rows})
        return
    new = "sent" if counts["new"] is None else f"{counts['new']:,} of them new"
    echo(
        f"{counted(counts['documents'] or 0, 'document')}, {new}; {counts['not_read']} not read;"
        f" {counted(report.shown, 'match')}"
    )
    if counts["late"]:
        warn(
            f"{counts['late']} came too late for some subscription:"
            " xscl sql 'SELECT * FROM late' says which"
        )


def _validated(documents: Sequence[Document]) -> tuple[list[Document], list[Rejection]]:
    """Return the valid documents, and the others with their errors; warn of each other one."""
    latest = ticks() + DAY
    fine: list[Document] = []
    wrong: list[Rejection] = []
    for document in documents:
        try:
            expect_valid([document])
            if document.timestamp > latest:
                raise DocumentError(
                    f"it is dated {written(document.timestamp)}: the clock of this machine says"
                    f" {written(latest - DAY)}, and a document may be 1 d ahead of it,"
                    " since the latest document closes windows",
                    reason_code="future",
                )
        except (MalformedDocument, DocumentError) as error:
            warn_not_read(placed(document), error.message, error.line, error.column)
            wrong.append((document, error))
        else:
            fine.append(document)
    return fine, wrong
