"""Declarations of the relations, and users' queries over them."""

import pkgutil
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from xscl import Engine
from xscl.service.names import owner
from xscl.store import queries
from xscl.store.queries.analysis import analysed, tables_of
from xscl.store.queries.documents import (
    bytes_of_texts,
    delete_texts,
    documents_with_texts,
    sizes_of_texts,
    texts_of,
)
from xscl.store.queries.owners import own_condition
from xscl.store.queries.relations import (
    LENT,
    PUBLIC,
    RELATIONS,
    answer,
    relations_for,
    relations_of_template,
)
from xscl.store.queries.rows import _FEW
from xscl.store.queries.tables import RELATIONS as CHUNKED
from xscl.store.queries.tables import TABLES
from xscl.store.store import Store


def test_what_a_query_reads_is_a_table_or_relation_or_a_part_of_it(engine: Engine) -> None:
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
    """The answers of queries in a store in SQLite, and the tables that were read for them."""
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
    described = ask("SELECT * FROM relations")
    assert described.column_names == ["relation", "column", "type", "what"]
    named = {"relations", *PUBLIC, "R_T_1", "R_out_1"}
    assert set(described["relation"].to_pylist()) == named
    assert None not in described["column"].to_pylist()
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


# -- Rows that are asked for, and deleted, by few numbers and by many ----------------------


DOCS = range(1, 2_000)


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store(None)
    store.insert("text", {"doc": DOCS, "xml": [b"x" * (doc % 7) for doc in DOCS]})
    yield store
    store.close()


@pytest.mark.parametrize("count", [0, 1, _FEW, _FEW + 1, len(DOCS)])
def test_texts_are_found_and_deleted_by_number(store: Store, count: int) -> None:
    docs = np.array(DOCS[:count], np.int64)
    sizes = [doc % 7 for doc in DOCS[:count]]
    before = bytes_of_texts(store)
    found = {doc: text.xml for doc, text in texts_of(store, docs.tolist()).items()}
    assert found == {doc: b"x" * size for doc, size in zip(DOCS, sizes, strict=False)}
    assert sizes_of_texts(store, docs) == sizes
    assert delete_texts(store, docs) == sum(sizes)
    assert bytes_of_texts(store) == before - sum(sizes)
    assert documents_with_texts(store, before=DOCS.stop).tolist() == list(DOCS[count:])


# -- Statements that analyse whole tables --------------------------------------------------


def _queries() -> list[str]:
    names = [one.name for one in pkgutil.iter_modules(queries.__path__)]
    modules = [import_module(f"{queries.__name__}.{name}") for name in names]
    values = {value for module in modules for value in vars(module).values() if type(value) is str}
    return [value for value in values if "state." in value and "SELECT" in value]


def test_the_stored_tables_of_a_query_are_known() -> None:
    for query in _queries():
        assert tables_of(query) <= {*TABLES, *CHUNKED}, query


def test_an_analysis_reads_stored_and_lent_tables() -> None:
    asked = (
        "SELECT name, lateness * factor AS product, [name] AS names FROM state.stream"
        " JOIN by_name USING (name) WHERE lateness > ? ORDER BY name"
    )
    columns = {"live": False, "attributes": None}
    with closing(Store(None)) as store:
        store.insert_rows(
            "state.stream",
            ({"name": name, "lateness": n, **columns} for n, name in enumerate("STU")),
        )
        for factor in (2, 3):
            lent = {"by_name": pa.table({"name": ["S", "T", "U"], "factor": [factor] * 3})}
            assert list(analysed(store, asked, [0], lent)) == [
                {"name": "T", "product": factor, "names": ["T"]},
                {"name": "U", "product": 2 * factor, "names": ["U"]},
            ]
