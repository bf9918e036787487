"""Pushes that are known by their number, and the process that makes them until it is killed.

    python -m tests.xscl.store.numbered_pushes PATH ACKNOWLEDGED LAST

It continues behind the last push of the store, and appends a line to the file ACKNOWLEDGED for
each push that has returned: its number, and the size of the record of the simulated disk
(`tests.simulation.disk`).
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from xscl.store import chunks, database
from xscl.store.queries.tables import RELATIONS
from xscl.store.store import Store

KEPT = 25
"""Pushes whose results and documents are kept."""


class Push(NamedTuple):
    """The rows of a push."""

    bindings: list[tuple[int, int]]  # doc and node
    texts: list[str]
    documents: list[tuple[int, str]]  # doc and id


def push(number: int) -> Push:
    """Return the rows of a push: mostly few, sometimes many."""
    draw = random.Random(number)
    size = draw.choice([1, 1, 2, 3, 3, 8, 400])
    docs = range(number * 10, number * 10 + min(size, 10))
    return Push(
        [(doc, node) for doc in docs for node in range(size // len(docs))],
        [f"text {number} {place} {draw.random()}" for place in range(size)],
        [(doc, f"S/{doc}" + "x" * draw.randint(0, 300)) for doc in docs],
    )


def store_push(store: Store, number: int) -> None:
    """Store a push, and remove what is as old as `KEPT` pushes."""
    made = push(number)
    with store.transaction():
        columns = [[doc for doc, _ in made.bindings], [1] * len(made.bindings)]
        columns += [[0] * len(made.bindings), [node for _, node in made.bindings]]
        columns += [[(1 << 63) + node for _, node in made.bindings]]
        store.append("binding", table("binding", columns))
        store.append("value", table("value", [range(len(made.texts)), made.texts]))
        doc = dict.fromkeys(store.mirror("document").schema.names)
        rows = [doc | {"doc": number, "id": name} for number, name in made.documents]
        store.insert_rows("state.document", rows)
        store.fetch("DELETE FROM state.document WHERE doc < ?", [(number - KEPT) * 10])
        store.drop("binding", (number - KEPT) * 10 - 1)
        store.set_progress(position=number)


def add(store: Store, doc: int) -> None:
    """Store one row and one text, in one commit."""
    row = {"doc": doc, "missed": "x" * 3_000, "watermark": 0, "lateness": 0}
    with store.transaction():
        store.insert_rows("state.late", [row])
        keys = pa.array([doc], pa.uint64())
        store.append("value", pa.table({"key": keys, "strVal": [f"text {doc}"]}))


def table(relation: str, columns: Sequence[object]) -> pa.Table:
    schema = RELATIONS[relation].schema
    arrays = [pa.array(one, of.type) for one, of in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def expect_whole(store: Store, acknowledged: int, tried: int) -> int:
    """Raise AssertionError unless a store has exactly the pushes up to an acknowledged one.

    The next one, up to the last one that was `tried`, may be there, too.  Return the last push.
    """
    last = store.progress("position")
    assert acknowledged <= last <= tried, (acknowledged, last, tried)
    pushes = {number: push(number) for number in range(1, last + 1)}
    oldest = max(0, last - KEPT) * 10
    bindings = [one for of in pushes.values() for one in of.bindings if one[0] >= oldest]
    found = store.scan("binding")
    pairs = list(zip(found["doc"].to_pylist(), found["node2"].to_pylist(), strict=True))
    assert pairs == bindings
    texts = [text for of in pushes.values() for text in of.texts]
    assert store.scan("value")["strVal"].to_pylist() == texts
    documents = [one for of in pushes.values() for one in of.documents if one[0] >= oldest]
    assert store.fetch("SELECT doc, id FROM state.document ORDER BY doc") == documents
    return last


def main(path: str, acknowledged: str, last: str) -> None:
    """Make pushes, with small chunks and frequent checkpoints."""
    vars(chunks).update(LARGE=4_000, MANY=5)
    vars(database).update(CHECKPOINT=1 << 17, RESTART=1 << 18)
    told = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with closing(Store(path)) as store:
        for number in range(store.progress("position") + 1, int(last) + 1):
            store_push(store, number)
            record = os.environ.get("DISK_LOG")
            size = os.stat(record).st_size if record else 0
            os.write(told, f"{number} {size}\n".encode())


def acknowledged_in(told: Path, size: int | None = None) -> int:
    """Return the last acknowledged push, as of a size of the record."""
    last = 0
    for line in told.read_text().splitlines() if told.exists() else ():
        number, _, then = line.partition(" ")
        if number.isdigit() and then.isdigit() and (size is None or int(then) <= size):
            last = int(number)
    return last


if __name__ == "__main__":
    main(*sys.argv[1:])
