"""Facets: statements that are narrowed, whatever stands in them."""

from __future__ import annotations

import duckdb
import pytest

from xscl.web.facets import counting, narrowed


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 AS k",
        "SELECT 1 AS k ;\n;",
        "SELECT 1 AS k -- it's; /* ",
        "-- first; a comment\nSELECT 1 /* ; /* in */ */ AS k /* ; */",
        "SELECT 1 AS k, '; -- no comment' AS t",
        "SELECT 1 AS k, 'it''s; /*' AS \"a;--\"\"b\";",
    ],
)
def test_a_statement_is_narrowed_and_counted(statement: str) -> None:
    with duckdb.connect() as connection:
        rows = connection.execute(statement).fetchall()
        assert connection.execute(narrowed(statement, "k", "1")).fetchall() == rows
        assert connection.execute(narrowed(statement, "k", "2")).fetchall() == []
        assert connection.execute(counting(statement, "k")).fetchall() == [("1", 1)]
        again = narrowed(narrowed(statement, "k", "1"), "k", None)
        assert connection.execute(again).fetchall() == []
