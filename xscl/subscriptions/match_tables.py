"""Matches as tables, for Arrow, pandas and Polars."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from xscl.subscriptions.match import Match, values_of

_TIME = pa.timestamp("us", tz="UTC")
SOURCES = pa.list_(
    pa.struct(
        {
            "document": pa.string(),
            "stream": pa.string(),
            "id": pa.string(),
            "version": pa.int64(),
            "root": pa.string(),
            "title": pa.string(),
        }
    )
)
"""The documents of a match: name, the parts of it, name of the root element, title."""
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "subscription": pa.string(),
        "position": pa.int64(),
        "start": _TIME,
        "end": _TIME,
        "documents": pa.list_(pa.string()),
        "sources": SOURCES,
        "values": pa.map_(pa.string(), pa.list_(pa.string())),
        "history": pa.bool_(),
    }
)
"""One row for each match: `start` and `end` are its earliest and latest time, `values` the string
values of the nodes that each variable is bound to."""

VALUES = pa.schema([("position", pa.int64()), SCHEMA.field("subscription"), SCHEMA.field("values")])
"""The values of matches, for the SQL relation `matches`."""

LARGEST = 32_000_000
"""Characters of the values of all matches in that relation."""


def table_of(matches: Iterable[Match]) -> pa.Table:
    """Return matches as an Arrow table with SCHEMA."""
    rows = [
        {
            "id": match.id,
            "subscription": match.subscription,
            "position": match.position,
            "start": match.t0,
            "end": match.t1,
            "documents": list(match.documents),
            "sources": sources_of(match),
            "values": list(values_of(match).items()),
            "history": match.history,
        }
        for match in matches
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def values_table(matches: Iterable[Match]) -> pa.Table:
    """Return the values of the first matches as an Arrow table with VALUES."""
    rows, size = [], 0
    for match in matches:
        values = values_of(match)
        match.forget()
        size += sum(len(text) for texts in values.values() for text in texts)
        if size > LARGEST:
            break
        rows.append(
            {
                "position": match.position,
                "subscription": match.subscription,
                "values": list(values.items()),
            }
        )
    return pa.Table.from_pylist(rows, schema=VALUES)


def sources_of(match: Match) -> list[dict[str, str | int]]:
    """Return the documents of a match as values of SOURCES."""
    return [
        {
            "document": source.document,
            "stream": source.stream,
            "id": source.id,
            "version": source.version,
            "root": source.root,
            "title": source.title,
        }
        for source in match.sources
    ]
