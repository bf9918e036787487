"""Validation of documents, and the record of rejected ones."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from feeds.documents import Document, DocumentColumns
from feeds.errors import MalformedDocument
from feeds.files.files import RejectedFile, json_fault
from feeds.xml.xmlparse import parse
from xscl.errors import DocumentError
from xscl.language.names import EVERYTHING, LONGEST_STREAM, NAME, PREFIX, in_short
from xscl.language.syntax import CALENDAR
from xscl.time_format import LATEST

LONGEST_ID = 4_000
"""Maximum number of characters of a document's id."""

Reason: TypeAlias = MalformedDocument | DocumentError
Rejection: TypeAlias = tuple[Document, Reason]
"""A document that cannot be taken, and why."""

_NOTHING = Document("-", "", 0, b"")


@lru_cache(4096)
def stream_fault(name: str) -> str | None:
    """Return why no stream can have a name; None if one can.

    A name that begins with `_` may be longer, as it begins with the prefix of its owner.
    """
    most = LONGEST_STREAM + PREFIX * name.startswith("_")
    if len(name) <= most and re.fullmatch(NAME, name):
        return None
    return (
        f"{in_short(name)} cannot be the name of a stream: begin with a letter or '_', go on with"
        f" letters, digits, '.', '-' and '_', {LONGEST_STREAM} characters at most"
    )


def push_fault(name: str) -> str | None:
    """Return why no documents can be sent to a stream with a name; None if they can."""
    if name == EVERYTHING:
        return f"no documents can be sent to a stream named {name!r}: it has the items of all feeds"
    return stream_fault(name)


def check_stream(name: str) -> None:
    """Raise DocumentError for a name that no stream can have."""
    if (fault := stream_fault(name)) is not None:
        raise DocumentError(fault, reason_code="stream_name")


def expect_valid(documents: Iterable[Document]) -> None:
    """Raise the error of the first invalid document: DocumentError or MalformedDocument."""
    for document in documents:
        _check(document.streams, document.id, document.origin, document.timestamp)
        try:
            parse(document.xml)
        except MalformedDocument as error:
            raise _as_read(error, document.xml) from error


def separate_invalid(
    documents: Sequence[Document], poison: Collection[int] = ()
) -> tuple[DocumentColumns, dict[int, Reason]]:
    """Return documents as columns, and the faults of invalid ones by their indexes.

    Documents at the indexes in `poison` have crashed a process that read them.  An empty document
    replaces each invalid one.  No document is parsed.
    """
    columns = DocumentColumns.of(documents)
    refused: dict[int, Reason] = {}
    rows = zip(columns.streams, columns.ids, columns.origins, columns.timestamps, strict=True)
    for at, (streams, id, origin, timestamp) in enumerate(rows):
        try:
            _check(streams, id, origin, timestamp)
        except DocumentError as error:
            refused[at] = error
    for at in poison:
        fault = "a process ended while it read the document"
        refused[at] = DocumentError(fault, reason_code="poison")
    if not refused:
        return columns, refused
    found = [_NOTHING if at in refused else one for at, one in enumerate(documents)]
    return DocumentColumns.of(found), refused


def rejection_row(document: Document, error: Reason, clock: int) -> dict[str, Any]:
    """Return the row of `state.rejected` for a document rejected for an error, at a clock."""
    xml = document.xml if isinstance(document.xml, bytes) else b""
    error = _as_read(error, xml)
    return {
        "stream": _shown(document.streams[0])[:LONGEST_STREAM] if document.streams else None,
        "id": _shown(document.id)[:LONGEST_ID],
        "reason": error.reason_code,
        "line": error.line or None,
        "column": error.column or None,
        "message": error.message,
        "sha256": hashlib.sha256(xml).hexdigest(),
        "beginning": _beginning(xml),
        "clock": clock,
    }


def _as_read(error: Reason, xml: bytes) -> Reason:
    """Return `error`, or that of a JSON file if the text is JSON in place of XML."""
    if error.reason_code == "xml_syntax" and (fault := json_fault(xml, stream_fault)) is not None:
        return error_of(fault)
    return error


def error_of(rejected: RejectedFile) -> MalformedDocument:
    """Return the error of a file, or line of a file, that is no document."""
    code, _, message = rejected.reason.partition(": ")
    return MalformedDocument(code, message, rejected.line, rejected.column)


def _check(streams: Sequence[str], id: str, origin: str, timestamp: int) -> None:
    """Raise DocumentError if no query could evaluate a document with this name, id or time."""
    if not streams or not all(streams):
        raise DocumentError("the document names no stream", reason_code="no_stream")
    if len(id) > LONGEST_ID:
        raise DocumentError(
            f"its id has {len(id):,} characters, and {LONGEST_ID:,} are allowed", reason_code="id"
        )
    for name in (id, origin, *streams):
        if not name.isascii() and _shown(name) != name:  # it has lone surrogates
            raise DocumentError(f"{name!r} is not a text that can be kept", reason_code="name")
    for name in streams:
        # the names of calendars, whose instants the engine pushes, are no names of streams
        if not name.startswith(CALENDAR):
            check_stream(name)
    if abs(timestamp) > LATEST:
        raise out_of_range(timestamp)


def out_of_range(timestamp: int) -> DocumentError:
    """Return the error of a time that is beyond the year 9999."""
    return DocumentError(
        f"the timestamp {timestamp} is out of range: in microseconds since 1970 it is"
        " beyond the year 9999",
        reason_code="timestamp",
    )


def _shown(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


def _beginning(xml: bytes) -> bytes:
    """Return the first 1,024 bytes, less those of a character of UTF-8 that is cut."""
    end = min(1024, len(xml))
    while end < len(xml) and end > 1020 and xml[end] & 0xC0 == 0x80:
        end -= 1
    return xml[:end]
