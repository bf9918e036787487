"""The durable state of stage 2: relations of rows, in a store that the caller passes in.

The join state is appended to and read as a whole; expired rows are deleted together, now and then.
A store may keep rows in pieces of many: `parts` returns such pieces, and `keep` may leave a few
expired rows in a piece with live ones, which does no harm.  Rows of the registry are deleted by
their numbers.
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

_TYPES: Mapping[str, pa.DataType] = {
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "TINYINT": pa.int8(),
    "UBIGINT": pa.uint64(),
    "BOOLEAN": pa.bool_(),
    "FLOAT": pa.float32(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
}


def sql_schema(text: str) -> pa.Schema:
    """Return the columns that SQL declares: `doc BIGINT PRIMARY KEY, nodes INTEGER[]`."""
    fields = []
    for name, kind, *_ in map(str.split, text.split(",")):
        of = _TYPES[kind.removesuffix("[]")]
        fields.append((name, pa.list_(of) if kind.endswith("[]") else of))
    return pa.schema(fields)


RELATIONS: Mapping[str, pa.Schema] = {
    "binding": sql_schema("doc BIGINT, pair INTEGER, node1 INTEGER, node2 INTEGER, key UBIGINT"),
    "times": sql_schema(
        "doc BIGINT, start BIGINT, ts BIGINT, clock BIGINT, rank BIGINT, base BIGINT"
    ),
    "value": sql_schema("key UBIGINT, strVal VARCHAR"),
    "variable": sql_schema("id INTEGER, definition VARCHAR"),
    "pair": sql_schema("id INTEGER, var1 INTEGER, var2 INTEGER"),
    "template": sql_schema("id INTEGER, graph VARCHAR"),
    "r_t": sql_schema(
        "template INTEGER, qid INTEGER, pairs INTEGER[], op TINYINT, lower BIGINT, wl BIGINT,"
        " keep BIGINT, lead TINYINT"
    ),
}
"""The join state (R_bin, R_docTS, and the texts of keys), and the registry, with the rows of all
R_T in one relation."""

KEYS: Mapping[str, Sequence[str]] = {
    "binding": ("doc", "pair"),
    "times": ("doc",),
    "value": ("key",),
}
"""The columns by which rows of the join state are deleted: rows equal in them go together."""


class Storage(Protocol):
    """Keeps the rows of `RELATIONS`; the caller owns its transactions."""

    def append(self, relation: str, rows: pa.Table) -> None:
        """Append rows, which have the schema of the relation."""
        ...

    def parts(
        self, relation: str, columns: Sequence[str] = (), docs: Numbers | None = None
    ) -> Iterator[pa.Table]:
        """Yield a relation's rows in parts, in the order of appends; `columns` () means all.

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
    """Return `columns` (none: all) of a relation's rows where the mask holds, in appended order.

    Rows of other documents than `docs` may be missing.
    """
    parts = storage.parts(relation, columns, docs)
    if where is not None:
        parts = (part.filter(pa.array(where(part))) for part in parts)
    schema = RELATIONS[relation]
    chosen = pa.schema([schema.field(name) for name in columns or schema.names])
    return pa.concat_tables([chosen.empty_table(), *parts])


def codes_of(rows: pa.Table) -> Numbers:
    """Return one structured value for each row of numbers; equal rows have equal values."""
    columns = [column.to_numpy().astype(np.int64) for column in rows.columns]
    codes = np.ascontiguousarray(np.stack(columns, axis=1))
    return codes.view([(name, np.int64) for name in rows.column_names]).ravel()
