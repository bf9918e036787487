"""The parts that pass from stage 1 to the buckets, as rows of Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from templates.columns import Column
from templates.storage import RELATIONS, sql_schema

PARTS = sql_schema(
    "bucket INTEGER, version BIGINT, clock BIGINT, documents BLOB, bindings BLOB, absences BLOB"
)
"""A part: `version` is that of the plan, `clock` the largest time of the portion's documents,
`absences` are rows of the blocks of absences (`absences.ROWS`).  `doc` is the place of a document
in the part.

The bucket `REJECTED_ROWS` has rows that are no documents instead (`document_rows.REJECTED`), the
bucket `WITNESSES` what an engine reads itself (`offered_parts`)."""

REJECTED_ROWS, WITNESSES = -1, -2
BATCH = "batch"
"""The column of a streaming frame with the time of the micro-batch."""

DOCUMENTS = sql_schema(
    "number BIGINT, clock BIGINT, ts BIGINT, stream VARCHAR, id VARCHAR, xml BLOB, version BIGINT,"
    " base BIGINT, digest BIGINT"
)
"""The documents of a part.  `number` orders arrivals, `clock` is the largest time that arrived
earlier, `xml` is null unless matches have their content.  `base` is a key of the document's name,
`digest` one of its name and text."""

BINDINGS = RELATIONS["binding"].append(pa.field("valued", pa.bool_()))
"""The bindings of a part, with the keys of values instead of texts."""

BINDING = tuple(name for name in BINDINGS.names if name != "doc")


def packed(table: pa.Table, *, even_empty: bool = False) -> bytes:
    """Return a table as an Arrow stream; b"" if it has no rows, unless `even_empty`."""
    if not table.num_rows and not even_empty:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(data: bytes) -> pa.Table:
    """Return the table that `packed` made bytes of; not for b""."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def bucket_of(keys: Column, buckets: int) -> Column:
    """Return the buckets of values, by their keys."""
    return ((keys >> np.uint64(32)) % np.uint64(buckets)).astype(np.int64)
