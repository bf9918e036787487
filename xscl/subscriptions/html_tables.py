"""Rows as an HTML table, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import islice

SHOWN = 20
"""Matches in the text and the HTML of a sequence."""


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], number: int) -> str:
    """Return the first of a number of rows as an HTML table; all text is escaped."""
    shown = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
        for row in islice(rows, SHOWN)
    )
    head = "".join(f"<th>{one}</th>" for one in heads)
    more = f"<p>and {number - SHOWN:,} more</p>" if number > SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{shown}</tbody></table>{more}"
