"""Limits of a query, and the type of its result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Form(StrEnum):
    """Output format of rows."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a query.

    `seconds` is the time limit, counted from the start of the child, which is killed `grace` later.
    `memory` is in bytes above the fork server's size; DuckDB's own limit is three quarters of it.
    `text` is the length of a query in characters.  `together` queries run concurrently, one of each
    user, with `waiting` more in the user's queue.
    """

    seconds: float = 2.0
    grace: float = 0.8
    rows: int = 1_000
    most_rows: int = 100_000
    size: int = 5_000_000
    columns: int = 1_000
    memory: int = 512 << 20
    text: int = 50_000
    together: int = 4
    waiting: int = 2


@dataclass(frozen=True, slots=True)
class AsOf:
    """The moment that a snapshot shows: a boundary between two batches.

    `position` is that of the last match that the asker may see, `clock` the latest event time in
    ticks (None before the first document), `taken` the time of day in ticks; `age` in seconds.
    """

    position: int
    clock: int | None
    taken: int
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer, with DuckDB's name of its type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows, written in a form; `truncated` says that there are more.

    As JSON the body is an array of rows, and a row an array of values.
    """

    columns: tuple[Column, ...]
    count: int
    truncated: bool
    seconds: float
    as_of: AsOf
    form: Form
    body: bytes

    def rows(self) -> list[list[Any]]:
        """Return the rows of an answer as JSON."""
        rows: list[list[Any]] = json.loads(self.body)
        return rows
