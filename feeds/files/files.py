"""Documents from files, directories and archives; the content decides the format.

| content              | documents                                                      |
|----------------------|----------------------------------------------------------------|
| RSS, Atom, JSON Feed | its items                                                      |
| any other XML        | the file itself                                                |
| JSON lines           | one a line, `{"stream","id","timestamp","xml"}`; `xml` is enough |
|                      | (`time` is another name of `timestamp`)                          |
| zip, tar, gz, bz2, xz | those of the files in it, but not of archives in it           |
| a directory          | those of the files below it, by path; not those named `.*`     |

A symbolic link in a directory is read if it leads to a file below that directory.  Any other is
rejected without its content: who may write into the directory need not be allowed to read what
the link names.

What cannot be read is a `RejectedFile` in its place among the documents; `read`
itself raises only if the path does not exist.

**Ids.**  A file has its path, relative to what was asked for (its name, if
that was the file); a member of an archive has `archive!member`; a line of JSON
has its `id`, else `path:line`.  An item has `feed#identity`, where `feed` is
the address that the feed gives for itself, else its atom:id, else the address
of its site with its title, else its path: two snapshots of one feed agree on
an item, two feeds with the same guid do not.

**Times**, in microseconds UTC.  `at`, else the time of the file (of the archive, for
members), is the time of a document that has none and the time at which items
were seen.
"""

from __future__ import annotations

import difflib
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, TypeAlias

from feeds.documents import Document
from feeds.errors import FeedError, MalformedDocument, NotAFeed
from feeds.files import archives
from feeds.formats.parse import ParsedFeed, parse_feed
from feeds.formats.times import parse_time
from feeds.xml.encoding import encoded
from feeds.xml.xmlparse import MAX_BYTES, parse

StreamNames: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RejectedFile:
    """A file, member or line that is no document; `reason` begins with a stable code.

    `line` and `column` count from 1, 0 means unknown; `body` are its bytes, if they could be read.
    """

    stream: StreamNames
    id: str
    reason: str
    line: int = 0
    column: int = 0
    body: bytes | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class _Request:
    """Options of the caller, with the default time of the current file."""

    streams: StreamNames
    at: int
    native: bool
    fault: Callable[[str], str | None]


def read(
    path: str | Path,
    *,
    streams: StreamNames,
    at: int | None = None,
    native: bool = False,
    fault: Callable[[str], str | None] = lambda stream: None,
) -> Iterator[Document | RejectedFile]:
    """The documents of a file, a directory or an archive, and what was no document.

    With `native`, items come in the format of their publisher instead of the
    canonical one.  `fault` returns why a name of a stream in a line of JSON is invalid, or None.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or directory {path}")
    found = sorted(_below(path)) if path.is_dir() else [(path.name, path)]
    for name, file in found:
        try:
            if path.is_dir() and file.is_symlink() and not _is_below(file, path):
                reason = "file_outside: the link leads out of the directory"
            elif not file.is_file():
                reason = archives.NOT_REGULAR
            else:
                time = file.stat().st_mtime_ns // 1000 if at is None else at
                yield from _documents(name, file, _Request(streams, time, native, fault))
                continue
        except OSError as error:
            reason = f"file_unreadable: {error.strerror or error}"
        yield RejectedFile(streams, _printable(name), reason)


def _below(directory: Path) -> Iterator[tuple[str, Path]]:
    """Relative and full path of all files, but for those with a dot before a name."""
    for file in directory.rglob("*"):
        parts = file.relative_to(directory).parts
        if not file.is_dir() and not any(part.startswith(".") for part in parts):
            yield "/".join(parts), file


def _is_below(link: Path, directory: Path) -> bool:
    """Return True if a link resolves to a path below a directory."""
    # Path.resolve raises RuntimeError for a link that leads to itself
    return Path(os.path.realpath(link)).is_relative_to(os.path.realpath(directory))


def _documents(name: str, file: Path, request: _Request) -> Iterator[Document | RejectedFile]:
    for member in archives.contents(name, file, MAX_BYTES):
        where = _printable(member.name)
        if member.reason:
            yield RejectedFile(request.streams, where, member.reason)
        elif member.body is not None:
            yield from _content(where, member.body, request)
        else:
            with file.open("rb") as lines:
                yield from _lines(where, lines, request)


def _content(name: str, body: bytes, request: _Request) -> Iterator[Document | RejectedFile]:
    if _is_json_lines(body):
        yield from _lines(name, io.BytesIO(body), request)
    else:
        yield from _whole(name, body, request)


def json_fault(body: bytes, fault: Callable[[str], str | None]) -> RejectedFile | None:
    """Return the fault of a JSON object without documents; None for other bytes (see `read`)."""
    if not body.lstrip(_BLANK).startswith(b"{"):
        return None
    found = next(_content("", body, _Request((), 0, False, fault)), None)
    return found if isinstance(found, RejectedFile) else None


def _printable(name: str) -> str:
    """The name of a file as text: undecodable bytes and control characters become `?`."""
    return "".join(
        "?" if character < " " or "\ud800" <= character <= "\udfff" else character
        for character in name
    )


# --- one file, one document or one feed ---


def _whole(name: str, body: bytes, request: _Request) -> Iterator[Document | RejectedFile]:
    """Yield the items of a feed, or the document, or its rejection; only feeds are mended."""
    try:
        try:
            feed = parse_feed(body, url=f"file:{name}", seen_at=request.at, native=request.native)
        except NotAFeed:
            if body.lstrip().startswith(b"{"):
                raise
            parse(body)
            yield Document(request.streams, name, request.at, body, origin=name)
        else:
            yield from _items(name, feed, request)
    except FeedError as error:
        reason = f"{error.reason_code}: {error.message}"
        place = (error.line, error.column) if isinstance(error, MalformedDocument) else (0, 0)
        yield RejectedFile(request.streams, name, reason, *place, body)


def _items(name: str, feed: ParsedFeed, request: _Request) -> Iterator[Document | RejectedFile]:
    for item in feed.items:
        yield Document(
            stream=request.streams,
            id=f"{feed.name}#{item.identity}",
            timestamp=item.timestamp,
            xml=item.native if request.native else item.in_feed(feed.name),
            origin=name,
        )
    if feed.omitted:
        reason = f"feed_too_long: the last {feed.omitted:,} items of the feed were left out"
        yield RejectedFile(request.streams, name, reason)


# --- JSON lines ---


_BLANK = b"\xef\xbb\xbf \t\r\n"
_KEYS = ("xml", "id", "stream", "timestamp", "time")


def _is_json_lines(body: bytes) -> bool:
    """Return True if the first line that is not blank is a JSON object meant as a document."""
    first = next((line for line in body[: 1 << 24].splitlines() if line.strip()), b"")
    if not first.lstrip(_BLANK).startswith(b"{"):
        return False
    try:
        value = json.loads(first.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict):
        return False
    # A JSON Feed has a version, and no id outside its items.
    is_meant = "id" in value or _near("xml", value) is not None
    return "xml" in value or ("version" not in value and is_meant)


def _near(name: str, names: Iterable[str]) -> str | None:
    """Return the closest of `names` that is like `name` but for spelling and case; None without."""
    folded = {one.casefold(): one for one in names if len(one) <= 40}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1)
    return folded[close[0]] if close else None


def _lines(name: str, lines: IO[bytes], request: _Request) -> Iterator[Document | RejectedFile]:
    """Yield a document or its rejection for each line of JSON that is not blank."""
    for number, line in enumerate(archives.bounded_lines(lines, 2 * MAX_BYTES), 1):
        if line is None:
            reason = f"json_size: the line has more than {2 * MAX_BYTES:,} bytes"
            yield RejectedFile(request.streams, f"{name}:{number}", reason, number, 1)
        elif line.strip(_BLANK):
            yield _line(name, number, line.removeprefix(b"\xef\xbb\xbf"), request)


def _line(name: str, number: int, line: bytes, request: _Request) -> Document | RejectedFile:
    where = f"{name}:{number}"
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        reason = f"json_syntax: {error.msg}"
        return RejectedFile(request.streams, where, reason, number, error.colno, line)
    except (ValueError, RecursionError) as error:  # not UTF-8, huge numbers, deep nesting
        return RejectedFile(request.streams, where, f"json_syntax: {error}", number, 1, line)
    problem = _problem(value, request.fault)
    if problem:
        return RejectedFile(request.streams, where, f"json_value: {problem}", number, 1, line)
    return Document(
        stream=_streams(value.get("stream")) or request.streams,
        id=value.get("id") or where,
        timestamp=_timestamp(value, request.at),
        xml=encoded(value["xml"]),
        origin=name,
    )


def _problem(value: Any, fault: Callable[[str], str | None]) -> str | None:
    """Return the error message for the object of a line, or None."""
    if not isinstance(value, dict) or not isinstance(value.get("xml", ""), str):
        return 'a line is an object with a string "xml"'
    unknown = [key for key in value if key not in _KEYS]
    if "xml" not in value:
        near = _near("xml", unknown)
        return 'the key "xml" is missing' + (f": did you mean it by {near!r}?" if near else "")
    for key in unknown:
        near = _near(key, [one for one in _KEYS if one not in value])
        told = f"did you mean {near}?" if near else f"a line has {', '.join(_KEYS)}"
        return f"unknown key {key[:40]!r}: {told}"
    if "time" in value and "timestamp" in value:
        return '"time" is another name of "timestamp": give one of them'
    stream, time = value.get("stream"), _time_of(value)
    names = stream if isinstance(stream, list) else [stream or "default"]
    if not names or not all(isinstance(name, str) and name for name in names):
        return '"stream" is the name of a stream or a list of names'
    if not isinstance(value.get("id") or "", str):
        return '"id" is a string'
    if any(_HALF.search(text) for text in (value["xml"], value.get("id") or "", *names)):
        return "a text has half of a surrogate pair"
    if isinstance(time, str) and parse_time(time) is None:
        return f'"timestamp" is no time: {time[:40]!r}'
    if time is not None and not isinstance(time, str) and not _is_time(time):
        return '"timestamp" is an integer, microseconds since 1970 (UTC), or a time in RFC 3339'
    return next(filter(None, map(fault, names)), None)


_HALF = re.compile("[\ud800-\udfff]")
_LAST = (datetime.max.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
    microseconds=1
)


def _is_time(value: Any) -> bool:
    """Return True if the value is an integer timestamp up to the year 9999."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LAST


def _streams(value: Any) -> StreamNames | None:
    return tuple(value) if isinstance(value, list) else value


def _time_of(value: dict[str, Any]) -> Any:
    """Return the value of `timestamp` or `time`, two names of one key; None without both."""
    return value.get("timestamp", value.get("time"))


def _timestamp(value: dict[str, Any], at: int) -> int:
    time = _time_of(value)
    time = parse_time(time) if isinstance(time, str) else time
    return at if time is None else time
