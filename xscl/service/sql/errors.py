"""What can be wrong with a question.

SqlError              the SQL is no single SELECT, or DuckDB refuses it
├── NotSelect         it is no single SELECT
├── NotAllowed        it asks for what is not public: a relation, a function, a setting
├── UnknownRelation   there is no relation of that name
├── TooLong           its text is too long, or nested too deeply
├── TooLarge          what it brings is too large: a row, the columns, memory
├── TooSlow           it took longer than a question may
├── Busy              others are being answered
└── Unavailable       no question can be answered now
"""

from __future__ import annotations

from typing import Any

from xscl.errors import SqlError


class Refused(SqlError):
    """A question without an answer; `line` and `column` count from 1 where there is a place."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.column = column

    @classmethod
    def at(cls, offset: int, question: str, message: str, hint: str | None = None) -> Refused:
        """Return the error at an offset of the question's bytes, as DuckDB counts."""
        before = question.encode()[:offset].decode("utf-8", "ignore")
        line = before.count("\n") + 1
        return cls(message, hint=hint, line=line, column=len(before) - before.rfind("\n"))


class NotSelect(Refused):
    """The text is no single SELECT."""

    code = "sql_not_select"


class NotAllowed(Refused):
    """The question asks for what is not public."""

    code = "sql_not_allowed"


class UnknownRelation(Refused):
    """There is no relation of that name."""

    code = "sql_unknown_relation"


class TooLong(Refused):
    """The text is too long, or nested too deeply."""

    code = "sql_too_complex"


class TooLarge(Refused):
    """The answer, or what is needed for it, is too large."""

    code = "sql_too_large"


class TooSlow(Refused):
    """The answer takes too long."""

    code = "sql_timeout"


class Busy(Refused):
    """Too many questions at the same time."""

    code = "sql_busy"


class Unavailable(Refused):
    """No question can be answered now."""

    code = "sql_unavailable"


_KINDS = {kind.code: kind for kind in Refused.__subclasses__()}


def as_data(error: Refused) -> dict[str, Any]:
    """Return an error as another process can be told of it."""
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "line": error.line,
        "column": error.column,
    }


def from_data(data: dict[str, Any]) -> Refused:
    """Return the error that another process has told of."""
    kind = _KINDS.get(data["code"], Refused)
    return kind(data["message"], hint=data["hint"], line=data["line"], column=data["column"])
