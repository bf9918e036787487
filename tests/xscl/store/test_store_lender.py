"""Lent relations: a name stands for the table that was lent last, of whatever size and columns.

So does what is inserted, by a plan that is kept or not.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from xscl.store.lent_tables import FEW, FEW_NUMBERS, PLANNED_FOR, Lender


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def numbers(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.mark.parametrize("sizes", [(1, 2, 0, 3), (FEW + 1, 1, FEW + 2, FEW, 0)])
def test_the_last_one_counts(connection: duckdb.DuckDBPyConnection, sizes: tuple[int, ...]) -> None:
    lender = Lender(connection)
    for size in sizes:
        lender.lend("x", numbers(*range(size)))
        connection.execute("CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM x")
        found = connection.execute("SELECT count(*), count(DISTINCT a) FROM v").fetchall()
        assert found == [(size, size)]


def test_a_view_over_it_sees_the_next_one(connection: duckdb.DuckDBPyConnection) -> None:
    lender = Lender(connection)
    lender.lend("x", numbers(1))
    connection.execute("CREATE TEMP VIEW v AS SELECT a + 1 AS b FROM x")
    for value in (5, 7):
        lender.lend("x", numbers(value))
        assert connection.execute("SELECT b FROM v").fetchall() == [(value + 1,)]


def test_other_columns_under_the_same_name(connection: duckdb.DuckDBPyConnection) -> None:
    lender = Lender(connection)
    lender.lend("x", numbers(1))
    lender.lend("x", pa.table({"b": ["text"]}))
    assert connection.execute("SELECT b FROM x").fetchall() == [("text",)]


def test_after_a_rollback_names_are_registered_anew(connection: duckdb.DuckDBPyConnection) -> None:
    lender = Lender(connection)
    connection.execute("BEGIN TRANSACTION")
    lender.lend("x", numbers(1))
    connection.execute("ROLLBACK")
    lender.forget()
    lender.lend("x", numbers(2))
    assert connection.execute("SELECT a FROM x").fetchall() == [(2,)]


@pytest.mark.parametrize("size", [0, 1, FEW_NUMBERS, FEW_NUMBERS + 1])
def test_among_some_numbers(connection: duckdb.DuckDBPyConnection, size: int) -> None:
    asked = np.arange(size, dtype=np.uint64) + np.uint64(2**63)
    among = Lender(connection).among(asked)
    connection.execute(
        "CREATE TABLE t AS SELECT 9223372036854775808::UBIGINT + range AS n FROM range(20)"
    )
    ((found,),) = connection.execute(f"SELECT count(*) FROM t WHERE n IN ({among})").fetchall()
    assert found == size


@pytest.fixture
def kept(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    return connection.execute("CREATE SCHEMA state; CREATE TABLE state.x(a BIGINT)")


def sums(connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    ((rows, total),) = connection.execute("SELECT count(*), sum(a) FROM state.x").fetchall()
    return rows, total


@pytest.mark.parametrize("size", [1, FEW, FEW + 1])
def test_what_is_inserted_is_what_was_given_last(
    kept: duckdb.DuckDBPyConnection, size: int
) -> None:
    lender, rows, total = Lender(kept), 0, 0
    for turn in range(PLANNED_FOR + 2):
        given = range(turn, turn + (size if turn % 5 == 4 else 2))
        lender.insert("state.x", numbers())
        lender.insert("state.x", numbers(*given))
        rows, total = rows + len(given), total + sum(given)
        assert sums(kept) == (rows, total)


def test_a_plan_that_is_kept_goes_on_after_the_catalog_changed(
    kept: duckdb.DuckDBPyConnection,
) -> None:
    lender = Lender(kept)
    lender.insert("state.x", numbers(1))
    kept.execute("CREATE TEMP VIEW other AS SELECT 1; CREATE TABLE another(a INTEGER)")
    lender.insert("state.x", numbers(2))
    lender.insert("state.x", pa.table({"b": pa.array([4], pa.int32())}))
    assert sums(kept) == (3, 7)


def test_after_a_rollback_insertions_are_planned_anew(kept: duckdb.DuckDBPyConnection) -> None:
    lender = Lender(kept)
    for number in (1, 2):
        kept.execute("BEGIN TRANSACTION")
        lender.insert("state.x", numbers(number))
        kept.execute("ROLLBACK")
        lender.forget()
    lender.insert("state.x", numbers(3))
    assert sums(kept) == (1, 3)
