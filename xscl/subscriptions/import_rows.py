"""Lists of subscriptions: CSV with a heading, or JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from xscl.errors import XsclError

_OPTIONS = ("updates", "stories")
_BOOLEANS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off", ""), False),
}


class ImportRow(NamedTuple):
    """A row of a list: a query to register under a name, with tags and options."""

    name: str
    query: str
    updates: bool = False
    tags: tuple[str, ...] = ()
    stories: bool = False


class RowError(XsclError):
    """A row of a list cannot be read; `row` is its number, from 1."""

    code = "wrong_row"

    def __init__(self, row: int, message: str) -> None:
        hint = 'a row is {"name": "...", "query": "..."}, or name,query under a heading as CSV'
        super().__init__(message, hint=hint)
        self.row = row


def read_import_rows(text: str, *, is_csv: bool) -> Iterator[ImportRow]:
    """Yield the rows of a list in its order; raises RowError at the first that cannot be read.

    `text` is CSV with a heading if `is_csv`, else JSON lines.
    """
    return _csv(text) if is_csv else _json_lines(text)


def _csv(text: str) -> Iterator[ImportRow]:
    csv.field_size_limit(1_000_000)
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    number = 0
    try:
        if not {"name", "query"} <= set(reader.fieldnames or ()):
            raise RowError(1, "the first line of the list does not name the columns name and query")
        for number, row in enumerate(reader, 1):
            if None in row:
                raise RowError(number, "it has more cells than the heading")
            given = {name: value for name, value in row.items() if value}
            options = {name: _BOOLEANS.get((row.get(name) or "").lower()) for name in _OPTIONS}
            tags = (row.get("tags") or "").split()
            yield _row(number, {**given, **options, "tags": tags})
    except csv.Error as error:
        raise RowError(number + 1, f"it is no CSV: {error}") from None


def _json_lines(text: str) -> Iterator[ImportRow]:
    for number, line in enumerate(filter(str.strip, text.split("\n")), 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise RowError(number, "it is no JSON") from None
        if not isinstance(value, dict):
            raise RowError(number, "it is no object with name, query, updates and tags")
        yield _row(number, value)


def _row(number: int, fields: Mapping[str, Any]) -> ImportRow:
    if unknown := set(fields) - set(ImportRow._fields):
        raise RowError(number, f"it has the unknown field {min(unknown)!r}")
    name, query = fields.get("name"), fields.get("query")
    options = {option: fields.get(option, False) for option in _OPTIONS}
    if not isinstance(name, str) or not name or not isinstance(query, str) or not query:
        raise RowError(number, "it has no name or no query")
    for option, value in options.items():
        if not isinstance(value, bool):
            raise RowError(number, f"{option} is neither true nor false")
    tags = fields.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise RowError(number, "tags is no list of texts")
    return ImportRow(name, query, tags=tuple(tags), **options)
