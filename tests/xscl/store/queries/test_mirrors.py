"""Tables in Arrow and in DuckDB are those that the store has, whatever was read before."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from xscl.store.queries import mirrors, tables
from xscl.store.queries.tables import TABLES, column_of
from xscl.store.store import Store

ROW = {"watermark": 1, "lateness": 2}


def late(store: Store, doc: int) -> None:
    store.insert_rows("state.late", [{"doc": doc, "missed": f"m{doc}", **ROW}])


def document(store: Store, doc: int) -> None:
    row = dict.fromkeys(TABLES["document"].names) | {"doc": doc, "given": f"d{doc}"}
    store.insert_rows("state.document", [row])


OPERATIONS = st.lists(
    st.sampled_from(
        ["insert", "insert", "insert", "change", "remove", "read", "read", "roll back"]
    ),
    min_size=10,
    max_size=40,
)


@examples(100)
@given(operations=OPERATIONS)
@pytest.mark.parametrize(("insert", "text"), [(late, "missed"), (document, "given")])
def test_a_mirror_has_what_the_table_has(
    insert: Callable[[Store, int], None], text: str, operations: list[str]
) -> None:
    table = insert.__name__
    with closing(Store(None)) as store:
        for number, operation in enumerate(operations):
            chosen = store.fetch(
                f"SELECT doc FROM state.{table} ORDER BY doc % 3, doc LIMIT 1"
            ) or [(0,)]
            match operation:
                case "insert":
                    insert(store, number)
                case "change":
                    store.fetch(f"UPDATE state.{table} SET {text} = 'new' WHERE doc = ?", *chosen)
                case "remove":
                    store.fetch(f"DELETE FROM state.{table} WHERE doc = ?", *chosen)
                case "roll back":
                    with pytest.raises(KeyError), store.transaction():  # noqa: PT012
                        insert(store, 1_000)
                        assert store.mirror(table)["doc"].to_pylist()[-1] == 1_000
                        raise KeyError
                case _:
                    columns = TABLES[table].names
                    rows = list(store.rows(f"SELECT {', '.join(columns)} FROM state.{table}"))
                    assert store.mirror(table).to_pylist() == rows


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of values of each column that a mirror reads."""
    found: list[int] = []

    def counted(values: tuple[object, ...], kind: pa.DataType) -> pa.Array:
        found.append(len(values))
        return column_of(values, kind)

    monkeypatch.setattr(mirrors, "column_of", counted)
    return found


def test_a_mirror_reads_only_what_is_new(store: Store, read: list[int]) -> None:
    for doc in range(100):
        late(store, doc)
        assert store.mirror("state.late").num_rows == doc + 1
    assert set(read) == {1}
    store.fetch("DELETE FROM state.late WHERE doc = 5")
    assert store.mirror("late").num_rows == read[-1] == 99


def test_mirrors_are_kept_up_to_a_size(read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "MOST_BYTES", 50)
    with closing(Store(None)) as store:
        for doc in range(3):
            late(store, doc)
        for _ in range(2):
            assert store.mirror("late")["doc"].to_pylist() == [0, 1, 2]
    assert read == 2 * len(TABLES["late"]) * [3]


def test_a_mirror_is_as_old_as_its_snapshot(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "state.db")) as store:
        late(store, 1)
        other = store.connect_again()
        with other.reading():
            assert other.mirror("late")["doc"].to_pylist() == [1]
            late(store, 2)
            store.fetch("DELETE FROM state.late WHERE doc = 1")
            assert store.mirror("late")["doc"].to_pylist() == [2]
            assert other.mirror("late")["doc"].to_pylist() == [1]
        assert store.mirror("late")["doc"].to_pylist() == [2]
        assert other.mirror("late")["doc"].to_pylist() == [2]
        other.close()


def columns_in_duckdb(connection: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[str, str]]]:
    """Return the columns of the tables `state.*`, with their types."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns()"
        " WHERE schema_name = 'state' ORDER BY table_name, column_index"
    ).fetchall():
        found.setdefault(table, []).append((column, kind))
    return found


def test_tables_in_duckdb_have_the_types_that_users_know() -> None:
    """They are those of the statements that make the tables."""
    with duckdb.connect() as reference:
        reference.execute("CREATE SCHEMA state")
        for name, text in tables._TABLES.items():
            columns = ", ".join(f'"{one}" {kind}' for one, kind in tables._columns(text).items())
            reference.execute(f"CREATE TABLE state.{name} ({columns})")
        expected = columns_in_duckdb(reference)
    with closing(Store(None)) as store, closing(store.duck(*TABLES)) as connection:
        found = columns_in_duckdb(connection)
    assert {name: found[name] for name in TABLES} == expected


def test_rows_go_to_duckdb_as_they_came(store: Store) -> None:
    item = {"key": "k", "identity": "i", "hash": b"\0\xff", "versions": 1, "rule": None}
    item |= {"skipped": 0, "missing_since": None, "first_name": -(2**63), "all_names": 7}
    item |= {"time_from": "é\0", "clipped": True, "written": "", "alike": None}
    composite = {"doc": 1, "docs": [1, 2], "nodes": [], "vals": ["a", None, 'q"\\'], "start": -1}
    composite |= dict.fromkeys(("ts", "clock", "rank", "first", "version"), 0) | {"bases": None}
    for table, row in (("feed_item", item), ("composite", composite)):
        store.insert_rows(f"state.{table}", [row])
        columns = ", ".join(f'"{name}"' for name in row)
        assert list(store.rows(f"SELECT {columns} FROM state.{table}")) == [row]
        with closing(store.duck(table)) as connection:
            found = connection.sql(f"SELECT {columns} FROM state.{table}")
            assert found.to_arrow_table().to_pylist() == [row]
        assert store.arrow(f"SELECT {columns} FROM state.{table}").to_pylist() == [row]
        copied = store.mirror(table)
        store.insert_rows(f"state.{table}", [row | {"key": "l", "doc": 2}])
        store.fetch(f"DELETE FROM state.{table}")
        store.insert(table, copied.to_pydict())
        assert store.mirror(table) == copied


@pytest.mark.parametrize("texts", [['["a"]', None, '["a"]', "[]", '["a"]', '["a"]'], [None] * 3])
def test_equal_lists_are_what_others_are(texts: list[str | None]) -> None:
    kind = pa.list_(pa.string())
    expected = [None if one is None else json.loads(one) for one in texts]
    assert column_of(texts, kind) == pa.array(expected, kind)
