"""Relations that are lent to DuckDB: Arrow tables under fixed names, others for every batch.

Registering a table changes DuckDB's catalog, which costs as much as a small
query.  So a name is registered once, for a holder that hands out the table that
is there by now.  DuckDB reads a holder with one thread and does not know its
size, so a table of more than `FEW` rows is registered itself.
"""

from __future__ import annotations

from typing import Any

import duckdb
import numpy.typing as npt
import pyarrow as pa

FEW = 1024
"""Rows up to which a table is handed out by a holder."""
FEW_NUMBERS = 8
"""Numbers up to which a query names them; a join with more takes less time to plan."""


class _Holder:
    """Hands out whatever table it has when it is read."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Lender:
    """The relations that are lent on one connection, by their names."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._holders: dict[str, _Holder] = {}

    def lend(self, name: str, table: pa.Table) -> None:
        """Let a name stand for the rows of a table from now on."""
        if table.num_rows > FEW:
            self._holders.pop(name, None)
            self._connection.register(name, table)
            return
        holder = self._holders.get(name)
        if holder is not None and holder.table.schema.equals(table.schema):
            holder.table = table
            return
        holder = self._holders[name] = _Holder(table)
        self._connection.register(name, holder)

    def among(self, numbers: npt.NDArray[Any]) -> str:
        """Return SQL for some numbers, to be put in brackets after IN."""
        if len(numbers) <= FEW_NUMBERS:
            return ", ".join(str(number) for number in numbers.tolist()) or "NULL"
        name = f"asked_{numbers.dtype}"
        self.lend(name, pa.table({"number": numbers}))
        return f"SELECT number FROM {name}"

    def forget(self) -> None:
        """Register every name anew: a transaction that is rolled back takes them along."""
        self._holders.clear()
