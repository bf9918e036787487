"""Rows that cannot be taken, with the reasons: the schema REJECTED."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from xscl.time_format import LATEST

if TYPE_CHECKING:
    from xscl.documents.document_validation import Reason

REJECTED = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("id", pa.string()),
        pa.field("ts", pa.timestamp("us", tz="UTC")),
        pa.field("xml", pa.binary()),
        pa.field("reason", pa.string()),
        pa.field("message", pa.string()),
    ]
)
"""A row that was not taken as it came, with the code of the reason and the error.

`ts` is NULL also if its year is none of 1 to 9999: Python could not read it.
"""

REJECTED_COLUMN = pa.field("_rejected", pa.struct(list(REJECTED)))
"""The column of rejected rows beside others; it is NULL in a row that was taken."""

_EARLIEST = -62_135_596_800_000_000
"""The beginning of the year 1."""


def rejected_row(row: Mapping[str, Any], reason: Reason) -> dict[str, object]:
    """Return a row that is no document, with its time in microseconds, as a row of REJECTED."""
    ts = row["ts"]
    return {
        "stream": _shown(row["stream"]),
        "id": _shown(row["id"]),
        "ts": ts if ts is not None and _EARLIEST <= ts <= LATEST else None,
        "xml": row["xml"],
        "reason": reason.reason_code,
        "message": reason.message,
    }


def rejected_batch(rows: Sequence[dict[str, object]]) -> pa.RecordBatch:
    """Return rows with REJECTED."""
    return pa.RecordBatch.from_pylist(rows, REJECTED)


def _shown(name: str | None) -> str | None:
    """Return a name without lone surrogates, which no text of Arrow has."""
    return None if name is None else name.encode("utf-8", "replace").decode()
