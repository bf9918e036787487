"""Facets of an SQL answer: counts of its rows by a column's values, each with a statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

MOST = 3
"""Maximum number of columns by which one answer is counted."""
VALUES = 20
"""Maximum number of values listed of a column; one with more in the rows shown is not suggested."""


def suggested(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield the names of columns with 2 to `VALUES` distinct values in `rows`, some repeated."""
    for column, values in zip(names, zip(*rows, strict=True), strict=False):
        distinct = len(set(map(str, values)))
        if 1 < distinct <= VALUES and distinct < len(values):
            yield column


def counting(statement: str, column: str) -> str:
    """Return the statement that counts the rows of another one by the values of a column."""
    return (
        f"SELECT CAST({_quoted(column)} AS VARCHAR), count(*) FROM ({_inner(statement)})"
        f" GROUP BY ALL ORDER BY 2 DESC, 1 LIMIT {VALUES + 1}"
    )


def facet(statement: str, column: str, counts: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return the facet of a column, given the rows of `counting`.

    It has the most frequent values, None for NULL, each with its number of `rows` and the statement
    for these; `is_more` is True if there are more values.
    """
    values = [
        {"value": value, "rows": number, "statement": narrowed(statement, column, value)}
        for value, number in counts[:VALUES]
    ]
    return {"column": column, "values": values, "is_more": len(counts) > VALUES}


def narrowed(statement: str, column: str, value: str | None) -> str:
    """Return the statement for the rows of another one with a value in a column; None is NULL."""
    is_it = "IS NULL" if value is None else "= '{}'".format(value.replace("'", "''"))
    tested = _quoted(column) if value is None else f"CAST({_quoted(column)} AS VARCHAR)"
    return f"SELECT * FROM ({_inner(statement)})\nWHERE {tested} {is_it}"


def _inner(statement: str) -> str:
    """Return a statement for use in parentheses: on its own lines, as a comment may end it."""
    return "\n{}\n".format(statement.rstrip("; \t\r\n"))


def _quoted(column: str) -> str:
    return '"{}"'.format(column.replace('"', '""'))
