"""Statements in the SQL of DuckDB that analyse whole stored tables, called `state.NAME` there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any

import pyarrow as pa

from xscl.store.store import Store
from xscl.time_format import UNITS

_OF_STATE = re.compile(r'\bstate"?\s*\.\s*"?(\w+)')


@lru_cache(100)
def tables_of(query: str) -> frozenset[str]:
    """Return the names of the stored tables that a query reads."""
    return frozenset(_OF_STATE.findall(query))


def answers(store: Store, queries: Mapping[str, str]) -> dict[str, pa.Table]:
    """Return the answers of queries by their names, over stored tables as of one commit."""
    tables = frozenset().union(*map(tables_of, queries.values()))
    with closing(store.duck(*tables)) as connection:
        return {name: connection.sql(query).to_arrow_table() for name, query in queries.items()}


def analysed(
    store: Store,
    query: str,
    parameters: Sequence[object] = (),
    lent: Mapping[str, pa.Table] | None = None,
) -> Iterator[dict[str, Any]]:
    """Return the rows of a query over stored tables, each by the names of its columns.

    Tables in memory are `lent` to it by their names.
    """
    with closing(store.duck(*tables_of(query))) as connection:
        for name, table in (lent or {}).items():
            connection.register(name, table)
        answer = connection.execute(query, list(parameters))
        names = [column[0] for column in answer.description]
        return iter([dict(zip(names, row, strict=True)) for row in answer.fetchall()])


DAY = UNITS["d"]


def days_ago(column: str) -> str:
    """Return SQL for a mapping of days ago to numbers of rows, by a column of times in ticks.

    Its parameters are the time now, and the time after which rows are counted.
    """
    return f"histogram((? - {column}) // {DAY}) FILTER (WHERE {column} > ?)"
