"""The errors of cep_core.

    CepError                  whatever a caller can mend; `hint` says how
    ├── QueryError            the text of a query is wrong, with line, column and caret
    │   ├── UnknownName       a stream, attribute or function that does not exist
    │   │   └── UnknownStream a stream
    │   ├── TypeFault         operands whose types do not go together
    │   └── SchemaFault       schemas that do not fit: union, inclusion, names that collide
    ├── AlgebraError          the same faults in an expression that was built by hand
    ├── NameTaken             a stream or query of that name exists
    ├── UnknownQuery          no query of that name exists
    ├── StreamInUse           others still read the stream
    ├── Closed                the input has ended
    └── SnapshotError         the bytes are no snapshot that this version reads

`code` is a stable name of the kind of error, for programs.  An event that does not fit its schema
is no error: it is reported as a value (`Engine.rejected`) and disturbs nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

_WIDTH = 100  # characters of a source line that a message shows


class Extent(NamedTuple):
    """A place in the text of a query, as offsets; the end is exclusive."""

    start: int
    end: int


class CepError(Exception):
    """A mistake that the caller can mend."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class AlgebraError(CepError):
    """An expression of the algebra that is not well-formed.

    ``span`` is its place in the text of a query; ``kind`` is the class of the QueryError that is
    raised instead where there is such a text.
    """

    code = "algebra"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        span: Extent | None = None,
        kind: type[QueryError] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.span = span
        self.kind = kind


class QueryError(CepError):
    """A query that cannot be read or registered; line and column count from 1."""

    code = "query"

    def __init__(self, message: str, source: str, span: Extent, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        before = source[: span.start]
        self.source = source
        self.span = span
        self.line = before.count("\n") + 1
        self.column = span.start - (before.rfind("\n") + 1) + 1

    @classmethod
    def of(cls, error: AlgebraError, source: str) -> QueryError:
        """Return an algebra error as one of a query; without a span it marks the whole text."""
        kind = error.kind or cls
        return kind(error.message, source, error.span or Extent(0, len(source)), hint=error.hint)

    def __str__(self) -> str:
        text, caret = _excerpt(self.source, self.line, self.column, self.span)
        parts = [f"line {self.line}, column {self.column}: {self.message}", f"  {text}", caret]
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class UnknownName(QueryError):
    """A stream, attribute or function that does not exist; the hint names a near miss."""

    code = "unknown-name"


class UnknownStream(UnknownName):
    """A stream that does not exist; its name is what the error points at."""


class TypeFault(QueryError):
    """Operands whose types do not go together."""

    code = "type"


class SchemaFault(QueryError):
    """Schemas that do not fit one another, or names that collide."""

    code = "schema"


class NameTaken(CepError):
    """A stream or query of that name exists."""

    code = "name-taken"


class UnknownQuery(CepError):
    """No query of that name exists."""

    code = "unknown-query"


class StreamInUse(CepError):
    """Others still read the stream that the query publishes."""

    code = "stream-in-use"


class Closed(CepError):
    """The input has ended; nothing can be pushed any more."""

    code = "closed"


class SnapshotError(CepError):
    """The bytes are no snapshot, or one of another version, or need functions that are missing."""

    code = "snapshot"


def near_miss(name: str, known: Iterable[str]) -> str | None:
    """Return a hint: the nearest known name, or all of up to eight names; None without either."""
    names = list(known)
    folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1)
    if close:
        return f"did you mean {folded[close[0]]}?"
    return f"there are {', '.join(names)}" if 0 < len(names) <= 8 else None


def _excerpt(source: str, line: int, column: int, span: Extent) -> tuple[str, str]:
    """Return the line of the source, cut around the column, and the carets under the span."""
    lines = source.split("\n")
    text = lines[line - 1].expandtabs(1) if line <= len(lines) else ""
    start = max(0, min(column - 1 - _WIDTH // 2, len(text) - _WIDTH))
    shown = text[start : start + _WIDTH]
    at = column - 1 - start
    width = max(1, min(span.end - span.start, len(shown) - at))
    return shown, "  " + " " * at + "^" * width
