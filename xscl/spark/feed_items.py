"""Bodies of feeds as items, on executors.

The reader of feeds, the ids and the documents are those of the service (`xscl.polling`).  Nothing
is remembered: a body gives what the first answer of its feed would give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from feeds.documents import Document
from feeds.errors import FeedError
from feeds.formats.parse import parse_feed
from xscl.errors import DocumentError
from xscl.language.names import EVERYTHING
from xscl.polling.feed import EVERY, Feed, feed_key, public
from xscl.polling.new_items import new_items
from xscl.spark.document_rows import (
    REJECTED,
    REJECTED_COLUMN,
    TIME,
    RowValues,
    SparkTypes,
    chosen_columns,
    null_error,
    rejected_row,
    rows_of,
)

_NEEDED: Mapping[str, SparkTypes] = {"url": ("STRING",), "body": ("BINARY", "STRING")}
_OPTIONAL: Mapping[str, SparkTypes] = {
    "stream": ("STRING",),
    "fetched": TIME,
    "content_type": ("STRING",),
}
_DEFAULTS = {
    "stream": f"'{EVERYTHING}'",
    "fetched": "unix_micros(current_timestamp())",  # the same in a repeated task
    "content_type": "''",
}
_ITEMS = pa.schema(
    [*(REJECTED.field(name) for name in ("stream", "id", "ts", "xml")), REJECTED_COLUMN]
)


def items(bodies: DataFrame) -> DataFrame:
    """Return the items of feeds as documents: `stream`, `id`, `ts`, `xml`, `_rejected`.

    `bodies`, a batch or a stream, has the columns `url` STRING, the address of the feed, and `body`
    BINARY, what was fetched from it.  Optional are `fetched` TIMESTAMP (or BIGINT, microseconds
    since 1970), by default the time of the query or its micro-batch; `content_type` STRING, the
    header of the answer; and `stream` STRING, by default `feeds`.

    Items, ids and times are those that `xscl serve` makes from the first answer of a feed with this
    address.  A feed that was fetched twice gives its items twice, with the same ids.  In a row of a
    body that cannot be read only `_rejected` is not NULL; its `id` is the address without what may
    be secret.

    Raises AnalysisException for a column that is missing or of another type.
    """
    rows = bodies.selectExpr(*chosen_columns(bodies.schema, _NEEDED, _OPTIONAL))
    defaults = [
        f"coalesce({name}, {value}) AS {name}" if name in rows.columns else f"{value} AS {name}"
        for name, value in _DEFAULTS.items()
    ]
    return rows.selectExpr(*_NEEDED, *defaults).mapInArrow(_read, from_arrow_schema(_ITEMS))


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the items of each body, or the body that cannot be read."""
    for batch in batches:
        for row in rows_of(batch, "body"):
            shown = _shown(row["url"])
            try:
                found = [
                    {
                        "stream": row["stream"],
                        "id": document.id,
                        "ts": document.timestamp,
                        "xml": document.xml,
                    }
                    for document in _documents(row, shown)
                ]
            except DocumentError as error:
                body = {"stream": None, "id": shown, "ts": row["fetched"], "xml": row["body"]}
                found = [{REJECTED_COLUMN.name: rejected_row(body, error)}]
            yield pa.RecordBatch.from_pylist(found, _ITEMS)


def _shown(url: str | None) -> str | None:
    """Return an address without what may be secret; None if it is no address."""
    try:
        return None if url is None else public(url.encode().decode())
    except ValueError:
        return None


def _documents(row: RowValues, shown: str | None) -> Sequence[Document]:
    """Return the items of a body, the oldest first; raises DocumentError if it has none to read."""
    url, body, at = row["url"], row["body"], row["fetched"]
    if url is None or body is None:
        raise null_error({"url": url, "body": body})
    if shown is None:
        raise DocumentError("the url is no address", reason_code="url")
    try:
        read = parse_feed(body, url=shown, content_type=row["content_type"], seen_at=at).items
        feed = Feed(url, key=feed_key(url), stream=row["stream"], tags=(), every=EVERY, added=at)
        return new_items(feed, read, {}, at).documents
    except FeedError as error:
        raise DocumentError(str(error), reason_code=error.reason_code) from error
    except Exception as error:  # one feed must not stop the others, whatever it does
        message = f"reading the feed failed: {type(error).__name__}"
        raise DocumentError(message, reason_code="feed_internal") from error
