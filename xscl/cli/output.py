"""Output of the commands: plain lines, JSON, errors with a hint.

Results go to standard output, everything else to standard error.  Control
characters that a feed may hold never reach a terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, TypeAlias

import typer

from feeds.file_descriptors import descriptor_of
from xscl.errors import XsclError
from xscl.time_format import to_second

# C0 and C1 but for tab and newline, DEL, and the marks that reorder or hide text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class UsageError(XsclError):
    """A command was called wrongly."""

    code = "misuse"


@contextmanager
def usage_errors() -> Iterator[None]:
    """Raise an XsclError of the block, which is about an argument, as UsageError."""
    try:
        yield
    except XsclError as error:
        raise UsageError(error.message, hint=error.hint) from error


def clean(text: str) -> str:
    """Remove control characters from a text, but for newlines and tabs."""
    return _CONTROL.sub("", text)


def one_line(text: str, width: int | None = None) -> str:
    """Return text as one clean line, cut to a width."""
    line = " ".join(clean(text).split())
    if width is None or len(line) <= width:
        return line
    return line[: width - 1] + "\N{HORIZONTAL ELLIPSIS}"


def echo(text: str = "") -> None:
    """Print a line of the answer."""
    sys.stdout.write(clean(text) + "\n")


def echo_xml(text: str) -> None:
    """Print XML; a character that the encoding of the output lacks is a reference there."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "xmlcharrefreplace").decode(encoding))


def echo_lines(lines: Iterable[str]) -> None:
    """Print lines of the answer."""
    for line in lines:
        echo(line)


def echo_json(value: Any) -> None:
    """Print a value as one line of JSON; control characters are escaped in it."""
    sys.stdout.write(json_line(value) + "\n")


def json_line(value: Any) -> str:
    """Return a value as one line of JSON; control characters are escaped in it.

    Models of the client may be inside; they become objects as in the API.
    """
    return json.dumps(value, default=lambda one: one.model_dump(mode="json"))


def warn(message: str, hint: str | None = None) -> None:
    """Print an error, a warning or a remark on standard error, with a hint.

    If it cannot be written, as on a full disk, it is lost: that must not end a service.
    """
    lines = [f"xscl: {clean(message)}\n", *([f"hint: {clean(hint)}\n"] if hint else [])]
    with suppress(OSError):
        sys.stderr.writelines(lines)
        sys.stderr.flush()


def warn_not_read(name: str, reason: str, line: int | None, column: int | None) -> None:
    """Report an unreadable input, with the place of the error in its text if that is known."""
    place = f" (line {line}, column {column})" if line else ""
    warn(f"not read: {name}: {reason}{place}")


def judge(what: str, read: int, not_read: int, *, strict: bool) -> None:
    """Report the numbers of read and unread documents or events (`what`), unless all were read.

    Exits with code 1 if none was read, or with `strict` if some were unreadable.
    """
    if not_read or not read:
        warn(f"{what} read: {read}, not read: {not_read}")
    if not read or (not_read and strict):
        raise typer.Exit(1)


def answer(value: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a value as JSON, a list as one line of JSON for each element, or its lines of text."""
    if as_json:
        for one in value if isinstance(value, Sequence) else [value]:
            echo_json(one)
    else:
        echo_lines(lines)


TableColumn: TypeAlias = str | tuple[str, str | Callable[[Any], object]]
"""A column of a table: an attribute or a key of its rows, which is also the heading; or a heading
with an attribute, a key or a function of a row."""


def list_rows(
    what: str,
    rows: Sequence[Any],
    columns: Iterable[TableColumn],
    *,
    as_json: bool,
    shown: Callable[[Any], Any] = lambda row: row,
) -> None:
    """Print rows as JSON, each as it is `shown`, or as a table; without rows warn `no <what>`."""
    if as_json:
        answer([shown(row) for row in rows], (), as_json=True)
    elif not rows:
        warn(f"no {what}")
    else:
        pairs = [column if isinstance(column, tuple) else (column, column) for column in columns]
        headings = [heading.replace("_", " ").upper() for heading, _ in pairs]
        echo_lines(table(headings, ([_cell(row, of) for _, of in pairs] for row in rows)))


def _cell(row: Any, of: str | Callable[[Any], object]) -> object:
    if callable(of):
        return of(row)
    value = row[of] if isinstance(row, Mapping) else getattr(row, of)
    if isinstance(value, datetime):
        return to_second(value)
    return ", ".join(value) if isinstance(value, tuple) else value


def table(headings: Iterable[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield rows as aligned lines, each cell one line of text."""
    cells = [[one_line("" if c is None else str(c)) for c in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    for row in [list(headings), *cells]:
        yield "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()


def confirm(question: str, told: str) -> None:
    """Ask before something is deleted for good; abort unless the answer is yes.

    Without a terminal raise UsageError with the message `told`.
    """
    if not sys.stdin.isatty():
        raise UsageError(told, hint="add --yes to confirm it")
    typer.confirm(question, abort=True, err=True)


ESCAPES = "backslashreplace"


def complete_streams() -> None:
    """Open the null device for closed standard streams; escape characters that encodings lack."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            break
        os.set_inheritable(descriptor, True)  # as standard streams are
    for place, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            made = os.fdopen(place, "w" if place else "r", encoding="utf-8", closefd=False)
            setattr(sys, name, made)
            setattr(sys, f"__{name}__", made)
        elif place and hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors=ESCAPES)


def flush_streams() -> None:
    """Flush standard output and error; raise the OSError of the first one that fails."""
    failures: list[OSError] = []
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            leave_stream(stream)
            failures.append(error)
        except ValueError:  # it is closed
            continue
    if failures:
        raise failures[0]


def leave_stream(stream: Any) -> None:
    """Redirect a stream to the null device: its reader is gone, or its disk is full."""
    with descriptor_of(os.devnull, os.O_WRONLY) as null:
        os.dup2(null, stream.fileno())
