"""Limits of a query, the forms of its result, and the first byte of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

BEGUN = b"+"
"""First byte of an answer: the child has read the query."""


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
    `rows` is the default number of rows of an answer, `most_rows` the maximum, `size` its maximum
    bytes.  `text` is the maximum length of a query in characters.  `together` queries run
    concurrently, one of each user, with `waiting` more in the user's queue.
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
