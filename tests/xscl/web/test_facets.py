"""Facets: statements that are narrowed, whatever comes after their last word."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.web.facets import counting, narrowed

STATEMENTS = (
    "SELECT 1 AS k",
    "-- first; a comment\nSELECT 1 /* ; /* in */ */ AS k",
    "SELECT 1 AS k, '; -- no comment' AS t",
    "SELECT 1 AS k, 'it''s; /*' AS \"a;--\"\"b\"",
    "SELECT 1 AS k, $$ ; -- '$$ AS t, $x$ $$ ; $x$ AS u",
    "SELECT 1 AS k, e'\\'; --' AS t",
    "SELECT 3 - 2 AS k, 6 / 2 * 3 AS t",
)
TAILS = (";", " ", "\n", "-- last\n", "-- it's; /* \n", "/* ; */", "/* a /* b; */ -- c */")


@given(st.sampled_from(STATEMENTS), st.lists(st.sampled_from(TAILS)), st.booleans())
@pytest.mark.hypothesis
def test_comments_and_semicolons_after_a_statement_are_no_part_of_it(
    statement: str, tails: list[str], is_cut: bool
) -> None:
    text = f"{statement} {''.join(tails)}"
    if is_cut:  # the last line has no end
        text = text.rstrip("\n")
    with duckdb.connect() as connection:
        rows = connection.execute(statement).fetchall()
        assert connection.execute(text).fetchall() == rows
        assert connection.execute(narrowed(text, "k", "1")).fetchall() == rows
        assert connection.execute(narrowed(text, "k", "2")).fetchall() == []
        assert connection.execute(counting(text, "k")).fetchall() == [("1", 1)]
        assert connection.execute(narrowed(narrowed(text, "k", "1"), "k", None)).fetchall() == []
