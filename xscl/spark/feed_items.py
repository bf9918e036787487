"""Bodies of feeds as items, on executors.

The reader of feeds, the ids and the documents are those of the service (`xscl.polling`).  Nothing
is remembered: a body gives what the first answer of its feed would give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StringType

from feeds.documents import Document
from feeds.errors import FeedError
from feeds.formats.parse import parse_feed
from xscl.errors import DocumentError
from xscl.language.names import EVERYTHING
from xscl.polling.feed import EVERY, Feed, feed_key, public
from xscl.polling.new_items import new_items
from xscl.spark.document_rows import TIME, Types, as_bytes, chosen_columns, null_error, values_of
from xscl.spark.rejected_rows import REJECTED_COLUMN, Rejected, rejected_batch

_NEEDED: Mapping[str, Types] = {"url": (StringType,), "body": (BinaryType, StringType)}
_OPTIONAL: Mapping[str, Types] = {
    "stream": (StringType,),
    "fetched": TIME,
    "content_type": (StringType,),
}
_DEFAULTS = {
    "stream": f"'{EVERYTHING}'",
    "fetched": "unix_micros(current_timestamp())",  # the same in a repeated task
    "content_type": "''",
}
_ITEMS = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("id", pa.string()),
        pa.field("ts", pa.timestamp("us", tz="UTC")),
        pa.field("xml", pa.binary()),
        REJECTED_COLUMN,
    ]
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
        columns = {name: values_of(batch.column(name)) for name in batch.schema.names}
        for values in zip(*columns.values(), strict=True):
            body = _Body(**dict(zip(columns, values, strict=True)))
            try:
                yield _taken(body.stream, body.items())
            except DocumentError as error:
                yield _refused(body.rejected(error))


@dataclass(frozen=True, slots=True)
class _Body:
    """A row with the body of a feed."""

    url: str | None
    body: str | bytes | None
    stream: str
    fetched: int
    content_type: str

    def items(self) -> Sequence[Document]:
        """Return the items, the oldest first; raise DocumentError if there are none to read."""
        body, at = as_bytes(self.body), self.fetched
        if self.url is None or body is None:
            raise null_error({"url": self.url, "body": body})
        url = self.shown()
        if url is None:
            raise DocumentError("the url is no address", reason_code="url")
        try:
            read = parse_feed(body, url=url, content_type=self.content_type, seen_at=at).items
            feed = Feed(feed_key(self.url), self.url, self.stream, (), EVERY, at)
            return new_items(feed, read, {}, at).documents
        except FeedError as error:
            raise DocumentError(str(error), reason_code=error.reason_code) from error
        except Exception as error:  # one feed must not stop the others, whatever it does
            message = f"reading the feed failed: {type(error).__name__}"
            raise DocumentError(message, reason_code="feed_internal") from error

    def shown(self) -> str | None:
        """Return the address without what may be secret; None if it is no address."""
        try:
            return None if self.url is None else public(self.url.encode().decode())
        except ValueError:
            return None

    def rejected(self, error: DocumentError) -> Rejected:
        return Rejected(None, self.shown(), self.fetched, as_bytes(self.body), error)


def _taken(stream: str, documents: Sequence[Document]) -> pa.RecordBatch:
    columns = [
        [stream] * len(documents),
        [one.id for one in documents],
        [one.timestamp for one in documents],
        [one.xml for one in documents],
        [None] * len(documents),
    ]
    arrays = [pa.array(one, kind) for one, kind in zip(columns, _ITEMS.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ITEMS)


def _refused(row: Rejected) -> pa.RecordBatch:
    nothing = [pa.nulls(1, kind) for kind in _ITEMS.types[:-1]]
    return pa.RecordBatch.from_arrays(
        [*nothing, rejected_batch([row]).to_struct_array()], schema=_ITEMS
    )
