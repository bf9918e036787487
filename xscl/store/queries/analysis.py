"""Statements that analyse whole tables, each with the stored tables that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from xscl.store.store import Store


class Analysis(NamedTuple):
    """A statement in the SQL of DuckDB over stored tables (`state.*`), which it names."""

    tables: tuple[str, ...]
    query: str


def analysed(
    store: Store, asked: Analysis, parameters: Sequence[object] = ()
) -> Iterator[dict[str, Any]]:
    """Return the rows of an analysis, each by the names of its columns."""
    return store.rows(asked.query, parameters)
