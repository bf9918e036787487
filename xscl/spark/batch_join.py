"""A batch DataFrame through an engine in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from xscl.engine.facade import Engine
from xscl.spark.document_rows import checked_columns, document_rows
from xscl.spark.match_export import match_table
from xscl.spark.match_files import MATCHES
from xscl.spark.rejected_rows import REJECTED_COLUMN, rejected_batch
from xscl.subscriptions.matches import Matches

_ROWS = pa.schema([*(field.with_nullable(True) for field in MATCHES), REJECTED_COLUMN])


def join(
    df: DataFrame, queries: Mapping[str, str] | Iterable[tuple[str, str]], *, flush: bool = False
) -> DataFrame:
    """Return the matches of named queries over the documents of a batch DataFrame.

    They equal those of `Engine.push` with the documents in the order of `ts`; with `flush` also
    those of `Engine.flush`, which wait for time to pass.  A row that cannot be taken is a row in
    which only the column `_rejected` is not NULL.

    The documents are collected, and evaluated in this process at once: later actions on the result
    read documents no more.  Raises AnalysisException for a DataFrame without the columns of
    documents, QueryError for an invalid query.
    """
    rows = document_rows(df.selectExpr(*checked_columns(df.schema)).toArrow())
    parts: list[pa.Table] = []

    def heard(matches: Matches) -> None:
        parts.append(match_table(matches))

    with Engine() as engine:
        engine.subscribe_many(queries.items() if isinstance(queries, Mapping) else queries)
        pushed = engine.push(rows.documents, listen=heard)
        if flush:
            heard(engine.flush())
    rejected = rows.rejected() if rows.refused or pushed.rejected else rejected_batch(())
    found = pa.concat_tables([*map(_matched, parts), _refused(rejected)])
    return df.sparkSession.createDataFrame(found, from_arrow_schema(_ROWS))


def _matched(matches: pa.Table) -> pa.Table:
    nothing = pa.nulls(matches.num_rows, REJECTED_COLUMN.type)
    return pa.Table.from_arrays([*matches.columns, nothing], schema=_ROWS)


def _refused(rejected: pa.RecordBatch) -> pa.Table:
    nothing = [pa.nulls(rejected.num_rows, field.type) for field in MATCHES]
    return pa.Table.from_arrays([*nothing, rejected.to_struct_array()], schema=_ROWS)
