"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a cell is one line, and its bars are escaped."""
    lines = [_row(heading), "|" + "---|" * len(heading), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(one.split()).replace("|", "\\|") for one in cells) + " |"
