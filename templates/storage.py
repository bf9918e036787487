"""The durable state of stage 2: relations of rows, in a store that the caller passes in.

The join state is appended to and read as a whole; what has expired leaves now and then.  A store
may keep rows in pieces of many: `parts` returns such pieces, and `keep` may leave a few rows whose
time is over in a piece with others, which are harmless.  Rows of the registry have numbers, and
leave by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = Callable[[pa.Table], Numbers]
"""Returns a mask of the rows of a table."""

RELATIONS: Mapping[str, pa.Schema] = {
    "binding": pa.schema(
        [
            ("doc", pa.int64()),
            ("pair", pa.int32()),
            ("node1", pa.int32()),
            ("node2", pa.int32()),
            ("key", pa.uint64()),
        ]
    ),
    "times": pa.schema(
        [(name, pa.int64()) for name in ("doc", "start", "ts", "clock", "rank", "base")]
    ),
    "value": pa.schema([("key", pa.uint64()), ("strVal", pa.string())]),
    "variable": pa.schema([("id", pa.int32()), ("definition", pa.string())]),
    "pair": pa.schema([(name, pa.int32()) for name in ("id", "var1", "var2")]),
    "template": pa.schema([("id", pa.int32()), ("graph", pa.string())]),
    "r_t": pa.schema(
        [
            ("template", pa.int32()),
            ("qid", pa.int32()),
            ("pairs", pa.list_(pa.int32())),
            ("op", pa.int8()),
            ("lower", pa.int64()),
            ("wl", pa.int64()),
            ("keep", pa.int64()),
            ("lead", pa.int8()),
        ]
    ),
}
"""The join state (R_bin, R_docTS, and the texts of keys), and the registry, with the rows of all
R_T in one relation."""

KEYS: Mapping[str, Sequence[str]] = {
    "binding": ("doc", "pair"),
    "times": ("doc",),
    "value": ("key",),
}
"""The columns by which rows of the join state leave: all rows that are equal in them together."""


class Storage(Protocol):
    """Keeps the rows of `RELATIONS`; the caller owns its transactions."""

    def append(self, relation: str, rows: pa.Table) -> None:
        """Append rows, which have the schema of the relation."""
        ...

    def parts(
        self, relation: str, columns: Sequence[str] = (), docs: Numbers | None = None
    ) -> Iterator[pa.Table]:
        """Yield some columns, or all, of the rows in the order of appends, in parts.

        Rows of other documents than `docs` may be missing.
        """
        ...

    def discard(self, relation: str, rows: pa.Table) -> None:
        """Delete the rows that are equal to one of `rows` in all its columns."""
        ...

    def keep(self, relation: str, stays: Mask) -> pa.Table:
        """Delete the rows for which `stays` is False, and return the `KEYS` of the deleted ones.

        `stays` takes the columns `KEYS` of some rows and returns a mask.  A row may be kept all the
        same, if few of those that are stored together with it are to be deleted.
        """
        ...


def scan(
    storage: Storage,
    relation: str,
    columns: Sequence[str] = (),
    *,
    docs: Numbers | None = None,
    where: Mask | None = None,
) -> pa.Table:
    """Return some columns, or all, of the rows in the order of appends: those `where` is true.

    Rows of other documents than `docs` may be missing.
    """
    parts = storage.parts(relation, columns, docs)
    if where is not None:
        parts = (part.filter(pa.array(where(part))) for part in parts)
    schema = RELATIONS[relation]
    chosen = pa.schema([schema.field(name) for name in columns or schema.names])
    return pa.concat_tables([chosen.empty_table(), *parts])


def codes_of(rows: pa.Table) -> Numbers:
    """Return one value for each row of numbers; equal rows have equal ones."""
    columns = [column.to_numpy().astype(np.int64) for column in rows.columns]
    codes = np.ascontiguousarray(np.stack(columns, axis=1))
    return codes.view([(name, np.int64) for name in rows.column_names]).ravel()
