"""Short statements of DuckDB: parsed once, over Arrow tables lent under fixed names.

Rows are also inserted through a lent relation (`Lender.insert`).

Registering a table changes DuckDB's catalog, which costs as much as a small
query.  So a name is registered once, for a holder that returns the current table.
DuckDB reads a holder with one thread and does not know its size, so a table of more
than `FEW` rows is registered itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import numpy.typing as npt
import pyarrow as pa

FEW = 1024
"""Rows up to which a table is handed out by a holder."""
FEW_NUMBERS = 8
"""Numbers up to which a query names them; a join with more takes less time to plan."""
PLANNED_FOR = 16
"""Executions after which a planned statement is planned again."""
MOST_KEPT = 200
"""Statements that a connection keeps parsed."""
LONGEST_KEPT = 2_000
"""Characters of the longest statement that is kept parsed."""


class _Holder:
    """A holder that returns its current table when it is read."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_schema__(self) -> object:
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Statements:
    """The statements of a connection, each parsed once: a third of a short query's time."""

    def __init__(self) -> None:
        self._parsed: dict[str, duckdb.Statement] = {}

    def parsed(
        self, connection: duckdb.DuckDBPyConnection, statement: str
    ) -> duckdb.Statement | str:
        """Return a statement parsed; a long one, and several in one text, as they are."""
        known = self._parsed.get(statement)
        if known is not None:
            return known
        if len(statement) > LONGEST_KEPT:
            return statement
        found = connection.extract_statements(statement)
        if len(found) != 1:
            return statement
        if len(self._parsed) >= MOST_KEPT:
            self._parsed.clear()
        self._parsed[statement] = found[0]
        return found[0]


def among(numbers: Sequence[int]) -> tuple[str, list[object]]:
    """Return SQL for some numbers, for the brackets after IN, and its parameters.

    A list that is unnested takes longer to plan than the rest of a short query.
    """
    if len(numbers) <= FEW_NUMBERS:
        return ", ".join("?" * len(numbers)) or "NULL", list(numbers)
    return "SELECT unnest(?::BIGINT[])", [list(numbers)]


def named(columns: Iterable[str]) -> str:
    """Return SQL for a list of columns."""
    return ", ".join(f'"{name}"' for name in columns)


class Lender:
    """The relations lent on a connection; a connection has one lender, as it has each name once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._holders: dict[str, _Holder] = {}
        self._executed: dict[str, int] = {}  # how often each planned statement was
        self._parsed: dict[str, duckdb.Statement] = {}  # what executes it

    def lend(self, name: str, table: pa.Table) -> None:
        """Register a table under a name, in place of the former one."""
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
        self._executed.pop(name, None)

    def release(self) -> None:
        """Replace the tables of the holders by empty ones."""
        for holder in self._holders.values():
            holder.table = pa.Table.from_batches([], schema=holder.table.schema)

    def insert(self, table: str, rows: pa.Table) -> None:
        """Append rows to a table `state.*` of the database, column by column in its order.

        Few rows are inserted by a cached plan, since planning takes longer than the insertion.
        """
        if not rows.num_rows:
            return
        name = table.replace("state.", "new_")
        self.lend(name, rows)
        insert = f"INSERT INTO {table} SELECT {named(rows.column_names)} FROM {name}"
        if name in self._holders:
            self.execute_planned(name, insert)
        else:
            self._connection.execute(insert)

    @property
    def is_behind(self) -> bool:
        """Return whether the database may lack rows that were inserted (`xscl.store.tail`)."""
        return False

    def execute_planned(self, name: str, statement: str) -> duckdb.DuckDBPyConnection:
        """Execute a statement by the plan cached under a name.

        After a change of the catalog DuckDB plans anew at each execution, without caching.  So the
        statement is prepared again now and then.
        """
        executed = self._executed.get(name, 0)
        if not executed % PLANNED_FOR:
            self._connection.execute(f"PREPARE {name} AS {statement}")
        if name not in self._parsed:
            (self._parsed[name],) = self._connection.extract_statements(f"EXECUTE {name}")
        self._executed[name] = executed + 1
        return self._connection.execute(self._parsed[name])

    def among(self, numbers: npt.NDArray[Any]) -> str:
        """Return SQL for some numbers, for the brackets after IN."""
        if len(numbers) <= FEW_NUMBERS:
            return ", ".join(str(number) for number in numbers.tolist()) or "NULL"
        name = f"asked_{numbers.dtype}"
        self.lend(name, pa.table({"number": numbers}))
        return f"SELECT number FROM {name}"

    @contextmanager
    def rolled_back(self) -> Iterator[None]:
        """Run a block whose transaction is rolled back, and with it the names it registers.

        A name then stands for what was registered before, or for nothing, so it is registered anew
        when it is lent next.
        """
        before = dict(self._holders)
        try:
            yield
        finally:
            kept = {name: one for name, one in self._holders.items() if before.get(name) is one}
            self._holders = kept

    def forget(self) -> None:
        """Register every name anew: a rolled-back transaction drops them."""
        self._holders.clear()
        self._executed.clear()
