"""The form of an answer: what a cell has found in the entries of a task, as an Arrow file.

Documents have the driver's numbers in all cells.  What a cell has made itself has numbers of its
own, so an answer describes it, and has in place of them:

    MADE_FROM + 3 i       composite i of the answer
    MADE_FROM + 3 i + 1   published document i of the answer
    MADE_FROM + 3 i + 2   instant i of the answer

An answer has one row of lists.  It follows from the log alone, so a repeated task has equal bytes.
`findings` makes it in a cell, `adoption` stores it in the driver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.batch_join import FOUND
from xscl.cluster.cell_task import CellAnswer
from xscl.cluster.shared_directory import ClusterError
from xscl.documents.composite_events import Composite, composite_of
from xscl.engine.state import MADE_FROM

COMPOSITE = pa.struct(
    [
        ("docs", pa.list_(pa.int64())),
        ("nodes", pa.list_(pa.int32())),
        ("vals", pa.list_(pa.string())),
        *((name, pa.int64()) for name in ("start", "ts", "clock", "rank", "first")),
        ("version", pa.int32()),
        ("bases", pa.list_(pa.int64())),
    ]
)
PUBLISHED = pa.struct(
    [
        ("id", pa.string()),
        ("given", pa.string()),
        ("streams", pa.list_(pa.string())),
        *((name, pa.int64()) for name in ("ts", "clock", "rank", "first")),
        ("version", pa.int32()),
        ("history", pa.bool_()),
        ("xml", pa.binary()),  # null if it was published before these entries
    ]
)
ANSWER = pa.schema(
    {
        "results": pa.list_(pa.struct(FOUND)),
        "readers": pa.list_(
            pa.struct({"qid": pa.int32(), "key": pa.string(), "outputs": pa.list_(pa.string())})
        ),
        "composites": pa.list_(COMPOSITE),
        "published": pa.list_(PUBLISHED),
        "instants": pa.list_(pa.struct({"calendar": pa.string(), "second": pa.int64()})),
        "cuts": pa.list_(pa.struct({"key": pa.string(), "row": pa.int32(), "doc": pa.int64()})),
        "late": pa.list_(
            pa.struct({name: pa.int64() for name in ("doc", "watermark", "lateness")})
        ),
    }
)
"""`readers` has the subscriptions that have the results of a `qid` of the cell, by key, and their
variables in the order of the nodes.  Another engine may have another order: the order of
registration decides between equal embeddings of a query in its template.  A cut is one of the
`row`-th row of R_T of a subscription."""


def composite_number(place: int) -> int:
    """Return the number of a composite of an answer by its place."""
    return MADE_FROM + 3 * place


def published_number(place: int) -> int:
    """Return the number of a published document of an answer by its place."""
    return MADE_FROM + 3 * place + 1


def instant_number(place: int) -> int:
    """Return the number of an instant of an answer by its place."""
    return MADE_FROM + 3 * place + 2


def moved(one: Composite, numbers: Mapping[int, int]) -> Composite:
    """Return a composite whose documents have other numbers."""
    return one._replace(
        docs=tuple(numbers.get(doc, doc) for doc in one.docs),
        bases=tuple(numbers.get(doc, doc) for doc in one.bases),
    )


def renumbered(found: pa.Table, numbers: Mapping[int, int]) -> pa.Table:
    """Return results whose documents and composites have other numbers."""
    known = np.array(sorted(numbers), np.int64)
    others = np.array([numbers[one] for one in known.tolist()], np.int64)
    for name in ("doc1", "doc2"):
        column: npt.NDArray[np.int64] = found[name].to_numpy()
        at = np.minimum(np.searchsorted(known, column), len(known) - 1)
        moved = np.where(known[at] == column, others[at], column)
        place = found.schema.get_field_index(name)
        found = found.set_column(place, found.schema.field(name), pa.array(moved, pa.int64()))
    return found


def read_answer(answer: CellAnswer, path: Path) -> pa.Table:
    """Return the table of an answer; raises ClusterError if its file is missing or changed."""
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise ClusterError(
            f"what cell {answer.cell} found up to entry {answer.upto} is missing: {path}",
            hint="is the shared directory the same for all executors?",
        ) from error
    if hashlib.sha256(content).hexdigest() != answer.sha256:
        raise ClusterError(f"{path} is not the file that its cell answered with")
    return pa.ipc.open_file(pa.py_buffer(content)).read_all()


class Answer:
    """An answer as it was read."""

    def __init__(self, table: pa.Table) -> None:
        def rows(name: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = table[name][0].as_py()
            return found

        self.results = pa.Table.from_struct_array(table["results"].combine_chunks().flatten())
        self.readers = [(one["qid"], one["key"], one["outputs"]) for one in rows("readers")]
        self.composites = [composite_of(list(one.values())) for one in rows("composites")]
        self.published = rows("published")
        self.instants = [(one["calendar"], one["second"]) for one in rows("instants")]
        self.cuts = [(one["key"], one["row"], one["doc"]) for one in rows("cuts")]
        self.late = [(one["doc"], one["watermark"], one["lateness"]) for one in rows("late")]
