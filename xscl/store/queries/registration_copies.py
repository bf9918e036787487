"""The rows of a registration in a store, copied to an empty one."""

from __future__ import annotations

from collections.abc import Collection

from xscl.store.queries.rows import among, found_numbers
from xscl.store.queries.tables import TABLES, named
from xscl.store.store import Store


def copy_registration(
    source: Store,
    target: Store,
    *,
    subscriptions: Collection[int],
    composite_streams: Collection[int],
    pairs: Collection[int],
    templates: Collection[int],
    joins: Collection[int],
) -> None:
    """Copy subscriptions, with the rows that they need, to a store without any.

    The rows are those of composite streams, pairs of variables, templates, and rows of R_T, each by
    its number.  The copies publish nothing, and no position bounds their results.
    """
    _copy(source, target, "state.subscription", "number", subscriptions)
    _copy(source, target, "state.composite_stream", "number", composite_streams)
    _copy(source, target, "state.pair", "id", pairs)
    _copy(source, target, "state.template", "id", templates)
    _copy(source, target, "state.r_t", "qid", joins)
    of_pairs = "SELECT var1 FROM state.pair UNION SELECT var2 FROM state.pair"
    _copy(source, target, "state.variable", "id", found_numbers(target, of_pairs).tolist())
    target.fetch("UPDATE state.subscription SET publish = NULL, after = 0, until = NULL")


def _copy(source: Store, target: Store, table: str, key: str, numbers: Collection[int]) -> None:
    """Copy the rows of a table that have some numbers as their `key`."""
    listed, parameters = among(numbers)
    columns = named(TABLES[table.removeprefix("state.")].names)
    query = f"SELECT {columns} FROM {table} WHERE {key} IN ({listed}) ORDER BY {key}"
    target.insert_rows(table, source.rows(query, parameters))
