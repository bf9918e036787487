"""The rows of a relation are those that were appended and not dropped, in the order of appends."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from xscl.store import chunks
from xscl.store.queries.tables import RELATIONS
from xscl.store.store import Store
from xscl.store.store_errors import StoreDamaged

BINDING, VALUE = RELATIONS["binding"].schema, RELATIONS["value"].schema


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are a large chunk, and few chunks are many."""
    monkeypatch.setattr(chunks, "LARGE", 3_000)
    monkeypatch.setattr(chunks, "MANY", 4)
    monkeypatch.setattr(chunks, "MOST_ROWS", 150)


class Failed(Exception):
    """Ends a transaction."""


@dataclass
class Model:
    """The rows that a relation should have: (doc, node), in order."""

    rows: list[tuple[int, int]] = field(default_factory=list)
    node: int = 0
    doc: int = 0

    def added(self, size: int) -> pa.Table:
        """Return new rows, of one to three documents."""
        rows = []
        for place in range(size):
            self.node += 1
            rows.append((self.doc + 3 * place // size, self.node))
        self.doc += 3
        self.rows += rows
        columns = [[doc for doc, _ in rows], [1] * size, [0] * size, [node for _, node in rows]]
        keys = [None if node % 3 else (1 << 63) + node for _, node in rows]
        arrays = [pa.array(one, of.type) for one, of in zip([*columns, keys], BINDING, strict=True)]
        return pa.table(arrays, schema=BINDING)


def stored(store: Store) -> list[tuple[int, int]]:
    """Return the rows of the store."""
    table = store.scan("binding")
    return list(zip(table["doc"].to_pylist(), table["node2"].to_pylist(), strict=True))


KINDS = (*["append"] * 20, "upto", "dead", "fail", "forget")
OPERATIONS = st.tuples(st.sampled_from(KINDS), st.sampled_from([1, 1, 2, 3, 5, 12, 40, 120, 400]))


def apply(store: Store, model: Model, kind: str, number: int) -> None:
    """Apply an operation to a store and to the model."""

    divisor = 2 + number % 4

    def dead(batch: pa.RecordBatch) -> pa.Array:
        return pa.array([node % divisor == 0 for node in batch["node2"].to_pylist()])

    match kind:
        case "append":
            store.append("binding", model.added(number))
        case "upto":
            before = len(model.rows)
            model.rows = [row for row in model.rows if row[0] > number]
            assert store.drop("binding", number) == before - len(model.rows)
        case "dead":
            before = len(model.rows)
            model.rows = [row for row in model.rows if row[1] % divisor]
            assert store.drop("binding", dead=dead) == before - len(model.rows)
        case "fail":
            kept, doc, node = list(model.rows), model.doc, model.node
            with suppress(Failed), store.transaction():
                store.append("binding", model.added(number))
                store.drop("binding", model.doc // 2)
                raise Failed
            model.rows, model.doc, model.node = kept, doc, node
        case _:
            store._database.chunks.forget()


@examples(120)
@given(operations=st.lists(OPERATIONS, min_size=10, max_size=40), since=st.integers(0, 60))
def test_a_relation_is_a_list(operations: list[tuple[str, int]], since: int) -> None:
    model = Model()
    with closing(Store(None)) as store:
        for kind, number in operations:
            apply(store, model, kind, number)
            assert stored(store) == model.rows
        every = store.scan("binding")["doc"].to_pylist()
        found = store.scan("binding", since, since + 20)["doc"].to_pylist()
        assert found == [doc for doc in every if since <= doc <= since + 20]
        keys = store.scan("binding")["key"].to_pylist()
        nodes = store.scan("binding")["node2"].to_pylist()
        assert keys == [None if node % 3 else (1 << 63) + node for node in nodes]


def texts(first: int, size: int) -> pa.Table:
    keys = pa.array(range(first, first + size), pa.uint64())
    return pa.table([keys, [f"text {number}" for number in range(first, first + size)]], VALUE)


def test_a_relation_survives_an_end(tmp_path: Path) -> None:
    model = Model()
    for size in (3, 400, 2, 2, 2, 2, 2, 120, 1):
        with closing(Store(tmp_path / "state.db")) as store:
            store.append("binding", model.added(size))
            assert stored(store) == model.rows


def test_a_changed_chunk_is_found_when_it_is_read(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "state.db")) as store:
        store.append("value", texts(0, 3))
        assert store.read_all() == store.seen()
        change = "UPDATE state.chunk SET data = CAST(replace(data, 'text 1', 'text 7') AS BLOB)"
        store._database.writer.execute(change)
        with pytest.raises(StoreDamaged, match="chunk 1 of value has another checksum"):
            store.scan("value")
        with pytest.raises(StoreDamaged, match="chunk 1 of value"):
            store.read_all()
