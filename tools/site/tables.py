"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a cell is one line, and its bars are escaped."""
    return "\n".join([_row(heading), "|" + "---|" * len(heading), *map(_row, rows)]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(one.split()).replace("|", "\\|") for one in cells) + " |"
