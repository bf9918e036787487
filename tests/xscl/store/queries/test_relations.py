"""Declarations of the relations, and users' queries over them."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import duckdb
import pyarrow as pa
import pytest

from xscl import Engine
from xscl.service.names import owner
from xscl.store.queries.analysis import tables_of
from xscl.store.queries.owners import own_condition
from xscl.store.queries.relations import (
    LENT,
    PUBLIC,
    RELATIONS,
    answer,
    relations_for,
    relations_of_template,
)
from xscl.store.queries.tables import RELATIONS as CHUNKED
from xscl.store.queries.tables import TABLES
from xscl.store.store import Store


def test_what_a_query_reads_is_a_table_or_relation_or_a_part_of_it() -> None:
    with Engine() as engine:
        engine.subscribe("q", "S//a[./x->x] FOLLOWED BY{x = y, 1 d} S//b[./y->y]")
        graph = engine.state.registry.members[1].template.graph
    known = {*LENT, "out_1"}
    for one in (*RELATIONS, *relations_of_template(1, graph)):
        parts = set(re.findall(r"(\w+) AS \(", one.query))
        assert known | parts >= one.over, one.name
        assert tables_of(one.query) <= {*TABLES, *CHUNKED}, one.name
        read = set(re.findall(r"(?:FROM|JOIN)\s+([\w.]+)", one.query))
        assert read == one.over | {f"state.{table}" for table in tables_of(one.query)}, one.name
        known.add(one.name)


def test_the_relations_for_a_query_are_those_that_it_needs() -> None:
    assert [one.name for one in relations_for({"late"})] == ["arrival", "missed", "late"]
    assert [one.name for one in relations_for({"r_l"})] == ["named_pair", "value_join", "R_L"]
    assert relations_for({"relations"}) == []
    assert len(relations_for({name.lower() for name in PUBLIC})) == len(RELATIONS)


# -- A user's query ------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Callable[[str], pa.Table], set[str]]]:
    """What answers a query in a store in SQLite, and the tables that were read for queries."""
    read: set[str] = set()
    here, mirror = threading.get_ident(), Store.mirror

    def noted(store: Store, table: str) -> pa.Table:
        if threading.get_ident() == here:  # a service of another test may count matches meanwhile
            read.add(table)
        return mirror(store, table)

    monkeypatch.setattr(Store, "mirror", noted)
    with Engine() as engine, closing(Store(None)) as store:
        engine.subscribe("q", "S//a[./x->x] FOLLOWED BY{x = y, 1 d} S//b[./y->y]")
        state = engine.state
        graphs = {1: state.registry.members[1].template.graph}
        yield (
            lambda query: answer(store, query, engine.queries.lent, graphs),
            read,
        )


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT 1 AS documents", "document feed"),
        ("SELECT name, 'it''s' AS text FROM Subscriptions", "subscription"),
        ('SELECT count(*) FROM "State"."Document" JOIN state . late USING (doc)', "document late"),
        ("SELECT * FROM query_table('documents')", "document feed"),
        ("WITH w AS (FROM R_BINW) SELECT (SELECT count(*) FROM w)", "document pair variable"),
        ("SELECT * FROM R_T_1", "r_t pair variable"),
        ("SELECT * FROM R_out_1", "document"),
        ("SELECT count(*) FROM state.value", "value"),
        ("SELECT count(*) FROM batch_binding", ""),
        ("SELECT view_name FROM duckdb_views()", ""),
        ("SHOW ALL TABLES", ""),
        ("DESCRIBE late", "document late"),
    ],
)
def test_a_query_reads_the_tables_of_what_it_names(
    asked: tuple[Callable[[str], pa.Table], set[str]], query: str, tables: str
) -> None:
    ask, read = asked
    ask(query)
    assert read == set(tables.split())


def test_what_tells_of_relations_tells_of_all(
    asked: tuple[Callable[[str], pa.Table], set[str]],
) -> None:
    ask, read = asked
    found = ask("SELECT view_name AS name FROM duckdb_views() WHERE NOT internal")
    assert {*PUBLIC, "R_T_1", "R_out_1", "document", "binding"} <= set(found["name"].to_pylist())
    assert not read


@pytest.mark.parametrize("query", ["FROM R_T_2", "FROM document", "FROM state.chunk", "FROM read"])
def test_there_is_nothing_else(
    asked: tuple[Callable[[str], pa.Table], set[str]], query: str
) -> None:
    with pytest.raises(duckdb.Error, match="does not exist"):
        asked[0](query)


NAMES = ["a", "_7.a", "_7.", "_77.a", "_7a.b", "_.a", "__7.a", "_7", "a_7.b", "", "_7._8.a"]


@pytest.mark.parametrize("number", [0, 7, 77, 8])
def test_a_condition_finds_the_names_of_an_owner(number: int) -> None:
    with closing(Store(None)) as store:
        condition = own_condition("name", number)
        for name in NAMES:
            rows = store.fetch(f"SELECT {condition} FROM (SELECT ? AS name)", [name])
            assert rows == [(owner(name)[0] == number,)], name
