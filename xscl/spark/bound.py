"""The bound of the results of a document with a subscription, over all buckets.

Buckets hash the documents that arrived last into *shares*, and pack the rows of `FOUND` of each
share into bytes.  A share has all rows of its documents, so its bound depends on no other share.
Windows and sorts of Spark over the matches themselves took longer than the joins.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from templates.columns import Column
from templates.model.result_bound import RESULTS
from xscl.spark.match_rows import FOUND, MATCHES
from xscl.spark.part_format import packed, unpacked

SHARES = pa.schema([("share", pa.int32()), ("found", pa.binary())])
"""The number of a share, and the rows of `FOUND` of its documents, packed."""

SHARES_TYPE = from_arrow_schema(SHARES)

_MATCHES_TYPE = from_arrow_schema(MATCHES)
_ROWS = 10_000
"""The most matches in a batch that is handed to Spark."""


def in_shares(found: pa.Table, shares: int) -> Iterator[tuple[int, bytes]]:
    """Yield rows of `SHARES`: the number of a share, and its rows of `FOUND`."""
    newcomers = found["newcomer"].combine_chunks().dictionary_encode()
    hashes = [crc32(name.encode()) % shares for name in newcomers.dictionary.to_pylist()]
    of_rows = np.array(hashes, np.int32)[newcomers.indices.to_numpy()]
    order = np.argsort(of_rows, kind="stable")
    found = found.take(pa.array(order))
    present, first = np.unique(of_rows[order], return_index=True)
    for share, (start, end) in zip(present.tolist(), pairwise((*first, len(order))), strict=True):
        yield share, packed(found.slice(start, end - start))


def matches_of(shares: DataFrame) -> DataFrame:
    """Return the matches (`MATCHES`) of rows of `SHARES`, within the bound."""
    return shares.groupBy("share").applyInArrow(_matches, _MATCHES_TYPE)


def _matches(
    key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    found = [unpacked(data).cast(FOUND) for batch in batches for data in batch["found"].to_pylist()]
    yield from within_bound(pa.concat_tables(found)).combine_chunks().to_batches(_ROWS)


def within_bound(found: pa.Table) -> pa.Table:
    """Return rows of `FOUND` as `MATCHES`; `found` must have all rows of its newcomers.

    A document with more than `RESULTS` results with a subscription, in all buckets together, has
    none of them; one row says so.  A match of several results is found in several buckets, and is
    one row.
    """
    kept = found["subscription"].is_null().to_numpy()
    kept[np.unique(_codes(found["id"]), return_index=True)[1]] = True
    answers = found["answers"].to_numpy()
    if answers.sum() <= RESULTS:
        return found.filter(pa.array(kept)).select(MATCHES.names)
    groups = _codes(pc.binary_join_element_wise(found["newcomer"], found["subscription"], "\n"))
    is_over = (np.bincount(groups, answers) > RESULTS)[groups]
    within = found.filter(pa.array(kept & ~is_over)).select(MATCHES.names)
    return pa.concat_tables((within, _over(found.filter(pa.array(is_over)))))


def _codes(texts: pa.ChunkedArray) -> Column:
    """Return a number for each text, and one for NULL."""
    encoded = texts.combine_chunks().dictionary_encode(null_encoding="encode")
    codes: Column = encoded.indices.to_numpy()
    return codes


def _over(found: pa.Table) -> pa.Table:
    """Return a rejected row for each document and subscription with too many results."""
    groups = found.group_by(["newcomer", "subscription"]).aggregate([("t1", "min")])
    rows = [
        {
            "_rejected": {
                "id": row["newcomer"],
                "ts": row["t1_min"],
                "reason": "results",
                "message": (
                    f"{row['newcomer']} has more than {RESULTS:,} results with the subscription"
                    f" {row['subscription']}: it has none of them"
                ),
            }
        }
        for row in groups.to_pylist()
    ]
    return pa.Table.from_pylist(rows, MATCHES)
