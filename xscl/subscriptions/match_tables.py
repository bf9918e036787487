"""Matches as tables, for Arrow, pandas and Polars, and as HTML for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from xscl.time_format import moment

if TYPE_CHECKING:
    from xscl.subscriptions.match import Match

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

SHOWN = 20
"""Matches in the text and the HTML of a sequence."""


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
    for one in matches:
        values = values_of(one)
        one.forget()
        size += sum(len(text) for texts in values.values() for text in texts)
        if size > LARGEST:
            break
        rows.append(
            {
                "position": one.position,
                "subscription": one.subscription,
                "values": list(values.items()),
            }
        )
    return pa.Table.from_pylist(rows, schema=VALUES)


def sources_of(match: Match) -> list[dict[str, str | int]]:
    """Return the documents of a match as values of SOURCES."""
    return [
        {
            "document": one.document,
            "stream": one.stream,
            "id": one.id,
            "version": one.version,
            "root": one.root,
            "title": one.title,
        }
        for one in match.sources
    ]


def values_of(match: Match) -> dict[str, list[str]]:
    """Return the string values of the nodes of each variable."""
    return {name: [node.value for node in nodes] for name, nodes in match.bindings.items()}


def html_of(matches: Sequence[Match]) -> str:
    """Return the first matches as an HTML table; all text is escaped."""
    rows = (
        (match.subscription, moment(match.t1), ", ".join(match.names), _text(values_of(match)))
        for match in matches
    )
    return html_table(("subscription", "end", "documents", "values"), rows, len(matches))


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], number: int) -> str:
    """Return the first of a number of rows as an HTML table; all text is escaped."""
    shown = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
        for row in islice(rows, SHOWN)
    )
    head = "".join(f"<th>{one}</th>" for one in heads)
    more = f"<p>and {number - SHOWN:,} more</p>" if number > SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{shown}</tbody></table>{more}"


def text_of(matches: Sequence[Match]) -> str:
    """Return the `repr` of a sequence of matches: that of a list, cut after the first ones."""
    shown = ", ".join(map(repr, islice(matches, SHOWN)))
    more = f", ... and {len(matches) - SHOWN:,} more" if len(matches) > SHOWN else ""
    return f"[{shown}{more}]"


def _text(values: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{name} = {', '.join(texts)}" for name, texts in values.items())
