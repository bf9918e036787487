"""Errors of users' SQL.

Refused               DuckDB refuses the query; the root of this package, an SqlError
├── NotSelect         it is not a single SELECT
├── NotAllowed        it uses a relation, function or setting that is not public
├── UnknownRelation   no relation has that name
├── TooLong           its text is too long, or nested too deeply
├── TooLarge          a row, the columns or its memory exceed the limits
├── TooSlow           it exceeded its time limit
├── Busy              too many queries are running
└── Unavailable       no query can be run now
"""

from __future__ import annotations

from typing import Any

from xscl.errors import SqlError


class QueryRefused(SqlError):
    """A query failed; `line` and `column` count from 1 if there is a position."""

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.column = column

    @classmethod
    def at(cls, offset: int, question: str, message: str, hint: str | None = None) -> QueryRefused:
        """Return the error at an offset in bytes, as DuckDB counts."""
        before = question.encode()[:offset].decode("utf-8", "ignore")
        line = before.count("\n") + 1
        return cls(message, hint=hint, line=line, column=len(before) - before.rfind("\n"))


class NotSelect(QueryRefused):
    """The text is not a single SELECT."""

    code = "sql_not_select"


class NotAllowed(QueryRefused):
    """The query uses something that is not public."""

    code = "sql_not_allowed"


class UnknownRelation(QueryRefused):
    """No relation has that name."""

    code = "sql_unknown_relation"


class QueryTooLong(QueryRefused):
    """The text is too long, or nested too deeply."""

    code = "sql_too_complex"


class TooLarge(QueryRefused):
    """The result, or the memory for it, is too large."""

    code = "sql_too_large"


class TooSlow(QueryRefused):
    """The query exceeded its time limit."""

    code = "sql_timeout"


class Busy(QueryRefused):
    """Too many concurrent queries."""

    code = "sql_busy"


class Unavailable(QueryRefused):
    """No query can be run now."""

    code = "sql_unavailable"


_KINDS = {kind.code: kind for kind in QueryRefused.__subclasses__()}


def as_data(error: QueryRefused) -> dict[str, Any]:
    """Return an error as a JSON value, which `from_data` reads in another process."""
    return {"code": error.code, **vars(error)}


def from_data(code: str, **data: Any) -> QueryRefused:
    """Return the error that another process wrote with `as_data`."""
    return _KINDS.get(code, QueryRefused)(**data)
