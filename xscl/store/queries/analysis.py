"""Statements that analyse whole tables, each with the stored tables that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from xscl.store.sqlite_store import SqliteStore
from xscl.store.store import Store


class Analysis(NamedTuple):
    """A statement in the SQL of DuckDB over stored tables (`state.*`), which it names."""

    tables: tuple[str, ...]
    query: str


@contextmanager
def analysing(store: Store, *tables: str) -> Iterator[Callable[[str], pa.Table]]:
    """Yield what answers queries in the SQL of DuckDB over stored tables, as of one commit."""
    if isinstance(store, SqliteStore):
        with closing(store.duck(*tables)) as connection:
            yield lambda query: connection.sql(query).to_arrow_table()
    else:
        yield store.arrow


def analysed(
    store: Store,
    asked: Analysis,
    parameters: Sequence[object] = (),
    lent: Mapping[str, pa.Table] | None = None,
) -> Iterator[dict[str, Any]]:
    """Return the rows of an analysis, each by the names of its columns.

    Tables in memory are `lent` to it by their names.
    """
    lent = lent or {}
    if isinstance(store, SqliteStore):
        with closing(store.duck(*asked.tables)) as connection:
            for name, table in lent.items():
                connection.register(name, table)
            answer = connection.execute(asked.query, list(parameters))
            names = [column[0] for column in answer.description]
            return iter([dict(zip(names, row, strict=True)) for row in answer.fetchall()])
    for name, table in lent.items():
        store.lend(name, table)
    try:
        return store.rows(asked.query, parameters)
    finally:
        for name, table in lent.items():
            store.lend(name, table.slice(0, 0))
