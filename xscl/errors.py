"""The errors of xscl.

    XsclError                 whatever a caller can mend; `hint` says how
    ├── QueryError            the text of a query is wrong, with the place
    │   ├── NotSupported      it is XSCL, but this release does not evaluate it
    │   └── TooComplex        it is over a limit
    ├── NameTaken             a subscription of that name exists
    ├── UnknownSubscription   none of that name exists
    ├── StreamCycle           a published stream would reach the query that makes it
    ├── StreamsTooDeep        published streams would be made from one another too often
    ├── StreamInUse           others still read the stream
    ├── SqlError              the SQL is no single SELECT, or DuckDB refuses it
    ├── TooLong               a trial or `why` would take longer than it may
    ├── Stopping              the service ends, and takes or answers nothing more
    ├── EvaluationFailed      the joins of a batch cannot be evaluated
    ├── DocumentError         a document cannot be accepted
    └── StoreError            the state cannot be opened or read (kinds: `xscl.store.store_errors`)

`code` is a stable name of the kind of error, for programs.  Packages that xscl
composes have trees of their own.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from typing import ClassVar, Self

_WIDTH = 100  # characters of a source line that a message shows


class XsclError(Exception):
    """A mistake that the caller can mend; `row` is its position in a list of inputs, from 1."""

    code: ClassVar[str] = "error"
    row: int | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class WrongSubscriptionName(XsclError):
    """A subscription cannot have that name: its characters, its length or its use in addresses."""

    code = "subscription_name"


class QueryError(XsclError):
    """A query that cannot be read or evaluated; line and column count from 1."""

    code = "query"

    def __init__(
        self, message: str, source: str, line: int, column: int, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.source = source
        self.line = line
        self.column = column

    @classmethod
    def at(cls, offset: int, message: str, source: str, hint: str | None = None) -> Self:
        """Return the error at an offset of the source."""
        before = source[:offset]
        column = offset - (before.rfind("\n") + 1) + 1
        return cls(message, source, before.count("\n") + 1, column, hint)

    def __str__(self) -> str:
        text, caret = _excerpt(self.source, self.line, self.column)
        parts = [f"line {self.line}, column {self.column}: {self.message}", f"  {text}", caret]
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.source, self.line, self.column, self.hint)


class NotSupported(QueryError):
    """A construct of the language that is not evaluated yet."""

    code = "query_not_supported"


class TooComplex(QueryError):
    """A query that is over one of the limits on its size."""

    code = "query_too_complex"


class NameTaken(XsclError):
    """A subscription of that name exists."""

    code = "name_taken"


class UnknownSubscription(XsclError):
    """No subscription has that name."""

    code = "unknown_subscription"


class StreamCycle(XsclError):
    """A published stream would reach the query that makes it."""

    code = "stream_cycle"


class StreamsTooDeep(XsclError):
    """Published streams would be made from one another in more levels than ranks can count."""

    code = "streams_too_deep"


class StreamInUse(XsclError):
    """Subscriptions that read the stream prevent the change."""

    code = "stream_in_use"


class SqlError(XsclError):
    """The SQL is no single SELECT, or it fails."""

    code = "sql"


class TooLong(XsclError):
    """A trial took longer than it may, or a question about documents would."""

    code = "too_long"

    def __init__(
        self,
        message: str = "trying the query on all that is kept takes too long",
        hint: str = "try it on less: since",
    ) -> None:
        super().__init__(message, hint=hint)


class Stopping(XsclError):
    """The service ends, and takes or answers nothing more."""

    code = "stopping"

    def __init__(self) -> None:
        super().__init__("the service is stopping", hint="try again when it is back")


class EvaluationFailed(XsclError):
    """The joins of a batch cannot be evaluated; nothing of it is kept."""

    code = "evaluation"


class DocumentError(XsclError):
    """A document that cannot be accepted; `reason_code` is a stable name of the reason."""

    code = "document"
    line: int | None = None
    column: int | None = None

    def __init__(self, message: str, *, reason_code: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason_code = reason_code


class StoreError(XsclError):
    """The state of an engine cannot be opened or read."""

    code = "store"


def near_miss(
    name: str,
    known: Iterable[str],
    *,
    most: int = 1,
    likeness: float = 0.6,
    quoted: bool = False,
) -> str | None:
    """Return a hint with the known names nearest to a name in any case, None if none is near.

    `likeness` is the minimum similarity, as difflib measures it.
    """
    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=most, cutoff=likeness)
    meant = [repr(folded[one]) if quoted else folded[one] for one in near]
    return f"did you mean {' or '.join(meant)}?" if meant else None


def _excerpt(source: str, line: int, column: int) -> tuple[str, str]:
    """Return the part of a source line around a column, and the line with the caret."""
    lines = source.split("\n")
    text = lines[line - 1] if line <= len(lines) else ""
    start = max(0, min(column - 1 - _WIDTH // 2, len(text) - _WIDTH))
    shown = "".join(map(_visible, text[start : start + _WIDTH]))
    before = "…" if start else ""
    after = "…" if start + _WIDTH < len(text) else ""
    space = sum(map(_cells, before + shown[: column - 1 - start]))
    return f"{before}{shown}{after}", " " * (space + 2) + "^"


def _visible(character: str) -> str:
    """Return a printable form of a character: none that moves the cursor or reverses the line."""
    if character in "\t\r":
        return " "
    shown = character.isprintable() or unicodedata.category(character) == "Mn"
    return character if shown else "\N{REPLACEMENT CHARACTER}"


def _cells(character: str) -> int:
    """Return the width of a character in terminal columns."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
