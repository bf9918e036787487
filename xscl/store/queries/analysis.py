"""Statements that analyse whole tables, each with the stored tables that it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from xscl.store.store import Store

_WORD = re.compile(r"\w+")


class Analysis(NamedTuple):
    """A statement in the SQL of DuckDB over stored tables (`state.*`), which it names."""

    tables: tuple[str, ...]
    query: str


@lru_cache(100)
def words(*queries: str) -> frozenset[str]:
    """Return the words of queries, which have the names of all columns that they read."""
    return frozenset(chain.from_iterable(map(_WORD.findall, queries)))


def answers(store: Store, tables: Sequence[str], queries: Mapping[str, str]) -> dict[str, pa.Table]:
    """Return the answers of queries in the SQL of DuckDB over stored tables, as of one commit."""
    with closing(store.duck(*tables, columns=words(*queries.values()))) as connection:
        return {name: connection.sql(query).to_arrow_table() for name, query in queries.items()}


def analysed(
    store: Store,
    asked: Analysis,
    parameters: Sequence[object] = (),
    lent: Mapping[str, pa.Table] | None = None,
) -> Iterator[dict[str, Any]]:
    """Return the rows of an analysis, each by the names of its columns.

    Tables in memory are `lent` to it by their names.
    """
    with closing(store.duck(*asked.tables, columns=words(asked.query))) as connection:
        for name, table in (lent or {}).items():
            connection.register(name, table)
        answer = connection.execute(asked.query, list(parameters))
        names = [column[0] for column in answer.description]
        return iter([dict(zip(names, row, strict=True)) for row in answer.fetchall()])
