"""Arguments and options of the form `@FILE`, and files that options name."""

from __future__ import annotations

import sys
from pathlib import Path

from xscl.cli.output import UsageError


def file_text(path: Path, what: str = "") -> str:
    """Return the text of a UTF-8 file; raises UsageError, with `what` before its name."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(f"{what} {path}".lstrip(), error) from None


def file_bytes(path: Path, limit: int = -1) -> bytes:
    """Return at most so many bytes of a file, or of standard input for `-`."""
    if str(path) == "-":
        return sys.stdin.buffer.read(limit)
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise _unreadable(str(path), error) from None


def query_text(argument: str) -> str:
    """Return the text of a query: the argument, or after an @ the contents of a file."""
    if not argument.startswith("@"):
        return argument
    return file_text(Path(argument[1:]), "the query file")


def _unreadable(name: str, error: OSError | UnicodeDecodeError) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
    return UsageError(f"{name} cannot be read: {reason}")
