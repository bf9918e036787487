"""The conjunctive query of Figure 6.7, in both forms, as text."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot

from templates.model.conjunctive_query import over_views, select
from templates.model.join_graph import JoinGraph
from tests.algorithm_1 import Base, over_base
from tests.templates.graphs import graph

GOLDEN = Path(__file__).parents[1] / "golden" / "sql"
TEMPLATE = graph((0, 1), (0, 1), [(0, 0), (1, 1)])  # Figure 6.5


def printed(query: str) -> str:
    return sqlglot.parse_one(query, dialect="duckdb").sql(dialect="duckdb", pretty=True) + "\n"


@pytest.mark.parametrize("form", ["views", "base"])
def test_figure_6_7(form: str) -> None:
    assert printed(of(TEMPLATE, form)) == (GOLDEN / f"figure_6_7_{form}.sql").read_text("utf-8")


def of(template: JoinGraph, form: str) -> str:
    if form == "views":
        return select(over_views(template), "R_T")
    kept = Base("R_bin", "R_doc", "R_docTS")
    return over_base(template, "R_T", kept, Base("R_binW", "R_docW", "R_docTSW"))


def test_a_query_grows_by_one_relation_for_each_value_join() -> None:
    for joins in range(1, 7):
        leaves = tuple(range(joins))
        query = of(graph(leaves, leaves, [(i, i) for i in leaves]), "views")
        assert query.count(" AS v") == joins
