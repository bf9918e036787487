"""The objects that answers of the HTTP API hold: documents, streams, feeds, the service.

`xscl.client.answers` has those about subscriptions.
"""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from xscl.client.bodies import Answer, Moment


class SentDocument(Answer):
    """An accepted document: durable in the spool, and ingested asynchronously."""

    id: str = Field(examples=["order-17"])
    """Id of the document: the given or a generated one."""
    stream: str = Field(examples=["orders"])
    """The stream."""
    timestamp: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Its time."""


class RefusedDocument(Answer):
    """A line of a batch that was not taken."""

    line: int = Field(examples=[3])
    """Its number, from 1."""
    code: str = Field(examples=["xml_syntax"])
    """The reason, for programs: the code of the problem if it had been sent alone."""
    detail: str = Field(examples=["Opening and ending tag mismatch"])
    """The reason, in words."""
    hint: str | None = Field(None, examples=["close the element"])
    """The way out, if there is a typical one."""


class SentBatch(Answer):
    """The documents of a batch: taken in this order, or refused."""

    taken: list[SentDocument]
    """Accepted documents: durable in the spool, and ingested asynchronously."""
    refused: list[RefusedDocument]
    """Lines that were not taken; sending the others again is not necessary."""


class ListedDocument(Answer):
    """A document that was taken."""

    document: str = Field(examples=["orders/order-17"])
    """Its name, which no other document has."""
    id: str = Field(examples=["order-17"])
    """The id that it was sent with."""
    version: int = Field(examples=[1])
    """Its version: 1 for the first document with its id on its stream."""
    streams: tuple[str, ...] = Field(examples=[["orders"]])
    """The streams that it is on, as far as you see them."""
    timestamp: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Its time."""
    arrived: Moment = Field(examples=["2026-03-01T12:05:00Z"])
    """The time of its arrival, by which documents are listed."""
    history: bool = Field(examples=[False])
    """True if it is an item from before its feed was followed."""
    title: str = Field(examples=["Ferry stopped by gale"])
    """Its title, if it has the form of a feed item."""
    feed_title: str = Field("", examples=["News"])
    """Your name for its feed, or the title that the feed has."""
    url: str | None = Field(examples=["https://example.org/ferry"])
    """Its web address, if it has the form of a feed item."""
    kept: bool = Field(examples=[True])
    """True if its text is kept."""
    read: bool = Field(default=False, examples=[False])
    """True if you have marked it as read."""


class Reading(Answer):
    """A user's preferences for reading items."""

    order: str = Field(examples=["arrival"])
    """`arrival`, or `date` for their own dates; the newest first."""


class ReadMark(Answer):
    """Items and matches that a user has read."""

    item: str = Field(examples=["news/example.org-1f0c#1"])
    """The name of a document, or the id of a match."""
    read: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Time at which it was marked."""


class Stream(Answer):
    """A stream that you may read; on your own ones you may write."""

    name: str = Field(examples=["orders"])
    """Its name in queries."""
    own: bool = Field(examples=[True])
    """True if it is your own stream."""
    lateness: float = Field(examples=[0.0])
    """Lateness in seconds."""
    live: bool = Field(examples=[True])
    """True if its documents arrive in real time."""
    attributes: dict[str, str] | None = Field(examples=[{"title": "str", "price": "float"}])
    """Declared attributes for CEL, SASE and EQL queries."""


class ListedStream(Stream):
    """A stream of the list, with the number of its documents."""

    documents: int = Field(examples=[40])
    """Number of its known documents."""


class SeenElement(Answer):
    """An element or attribute that was seen in documents of a stream."""

    path: tuple[str, ...] = Field(examples=[["item", "title"]])
    """The names from the root to it, as a query writes them; an attribute's with a leading `@`."""
    documents: int = Field(examples=[40])
    """Number of documents that have it, among those that were read."""
    samples: tuple[str, ...] = Field(examples=[["Ferry stopped by gale"]])
    """Its most frequent short values."""


class Elements(Answer):
    """The elements and attributes of a stream's newest documents."""

    stream: str = Field(examples=["news"])
    """The name of the stream."""
    documents: int = Field(examples=[40])
    """Number of documents that were read: the newest ones whose texts are kept."""
    elements: tuple[SeenElement, ...]
    """The elements and attributes, in document order of their first use."""


class MadeStream(Stream):
    """A stream of your own."""

    still_public: tuple[str, ...] = Field(examples=[["echo"]])
    """Your subscriptions that still read the public stream of this name, at most 100. Delete and
    recreate one to make it read your own stream."""


class FeedsPolled(Answer):
    """A request to poll all feeds."""

    feeds: int = Field(examples=[12])
    """Number of feeds that are polled as soon as places are free."""


class Feed(Answer):
    """A feed that is followed."""

    url: str = Field(examples=["https://example.org/news.atom"])
    """Address without its secrets."""
    key: str = Field(examples=["example.org-1f0c2a9d3b"])
    """Its name in addresses; it never changes."""
    stream: str = Field(examples=["example.org"])
    """Its own stream."""
    tags: tuple[str, ...] = Field(examples=[["news"]])
    """Streams that it shares with others."""
    title: str = Field(examples=["News"])
    """Your name for it, or its title."""
    published_title: str = Field("", examples=["News"])
    """The title that the feed has."""
    site_url: str = Field(examples=["https://example.org/"])
    """Its web page."""
    format: str = Field(examples=["atom10"])
    """The format that was read last."""
    quality: str = Field(examples=["strict"])
    """Parse quality of the last response: `strict`, or the last repair that was needed."""
    every: int = Field(examples=[3600])
    """Seconds between two polls."""
    lateness: int = Field(examples=[7200])
    """Lateness of its items in seconds."""
    ttl: int | None = Field(examples=[3600])
    """Minimum poll interval that the feed requests, in seconds."""
    headers: tuple[str, ...] = Field(examples=[["X-Key"]])
    """Names of its request headers."""
    state: str = Field(examples=["ok"])
    """new, ok, failing, lost, gone or refused."""
    items: int = Field(examples=[40])
    """Number of known items."""
    versions: int = Field(examples=[42])
    """Number of versions of these items."""
    skipped: int = Field(examples=[0])
    """Versions over the limit, which were not ingested."""
    clipped: int = Field(examples=[0])
    """Items dated in the future, which got the time of the poll."""
    undated: int = Field(examples=[0])
    """Items without a valid date, which got the time of the poll."""
    added: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Time at which it was added."""
    last_item: Moment | None = Field(None, examples=["2026-03-01T12:00:00Z"])
    """Time of its newest item."""
    polled: Moment | None = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of the last poll."""
    next_poll: Moment | None = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of the next poll; null if none is scheduled."""
    polls: int = Field(examples=[12])
    """Number of successful polls."""
    failures: int = Field(examples=[0])
    """Number of failed polls since the last success."""
    failing_since: Moment | None = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of the first of these failures."""
    code: str | None = Field(examples=["fetch_timeout"])
    """The code of the last error."""
    error: str | None = Field(examples=["no answer within 30 s"])
    """The last error."""
    note: str | None = Field(examples=["it was cut off"])
    """Remark on the last response."""
    moved_to: str | None = Field(examples=["https://example.net/news.atom"])
    """New address that the feed or its server reported."""
    hub: str | None = Field(examples=["https://hub.example/"])
    """WebSub hub that it names; it is used if the service has a public address."""
    push: str | None = Field(examples=["active"])
    """asked, active, denied or failed; null without a hub that was asked.  While it is active the
    hub sends what is new, and polls are rare."""
    push_until: Moment | None = Field(examples=["2026-03-11T12:00:00Z"])
    """Time until which the hub sends; it is asked again before."""
    pushed: Moment | None = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of the last delivery of the hub."""
    pushes: int = Field(examples=[3])
    """Number of deliveries of the hub."""
    push_note: str | None = Field(examples=["the hub answered 404"])
    """Why the hub does not send."""
    warnings: tuple[str, ...] = ()
    """Warnings about the lateness of its streams."""


class Poll(Answer):
    """A poll of a feed."""

    polled: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Its time."""
    outcome: str = Field(examples=["ok"])
    """ok, unchanged (the server answered 304), deferred (the server is left alone for some time),
    or the code of an error."""
    seconds: float = Field(examples=[0.4])
    """Time until the answer was read, with the wait for other feeds of the same domain."""
    items: int = Field(examples=[2])
    """Number of new or changed items."""
    note: str | None = Field(examples=["no answer within 30 s"])
    """The error, or where the feed has moved to."""
    failed: bool = Field(examples=[False])
    """True for an error."""


class FeedOutcome(Answer):
    """The result of importing one entry of a list."""

    outcome: str = Field(examples=["added"])
    """added, tagged, followed already, twice or refused."""
    url: str = Field(examples=["https://example.org/news.atom"])
    """Address without its secrets."""
    title: str = Field(examples=["News"])
    """Title in the list."""
    stream: str = Field(examples=["example.org"])
    """Its own stream."""
    tags: tuple[str, ...] = Field(examples=[["news"]])
    """Streams that it shares with others."""
    reason: str = Field(examples=[""])
    """Reason of a refusal."""
    warnings: tuple[str, ...] = Field(examples=[[]])
    """Streams of its whose subscriptions may miss older items."""


class SavedStatement(Answer):
    """An SQL statement that a user saved under a name."""

    name: str = Field(examples=["latest"])
    """Its name."""
    query: str = Field(examples=["SELECT id, timestamp FROM documents LIMIT 10"])
    """The statement."""
    saved: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Time at which it was saved."""


class Health(Answer):
    """Health of the service."""

    status: str = "ok"
    """Always `ok`."""
    consumer: Literal["ok", "stalled"] = "ok"
    """`stalled` if documents wait and none was committed for a minute or more."""
    stalled_since: Moment | None = Field(default=None, examples=["2026-03-01T12:00:00Z"])
    """Start of the stall, since which nothing was committed; null without a stall."""
    stalled_segment: int | None = Field(default=None, examples=[7])
    """Spool segment that waits for the consumer; null without a stall."""
    executors: Literal["ok", "away"] | None = Field(default=None, examples=["ok"])
    """`away` while documents wait for Spark's executors; null for a service without `--master`."""
    executors_away_since: Moment | None = Field(default=None, examples=["2026-03-01T12:00:00Z"])
    """Time since which they are away; null while they are there."""
    store: Literal["ok"] = "ok"
    """Always `ok`."""
    clock: Literal["ok", "stepped", "held"] = "ok"
    """`ok`, or how the wall clock disagrees with the monotonic clock: it has `stepped` and is not
    followed, or it was set back and time is `held` until it has caught up."""
    clock_ahead: float = Field(default=0.0, examples=[0.0])
    """Lead of the wall clock over the assigned document times, in seconds."""


class RejectedDocument(Answer):
    """A rejected document, with the reason."""

    stream: str = Field(examples=["orders"])
    """The stream."""
    id: str = Field(examples=["order-17"])
    """Its id."""
    reason: str = Field(examples=["xml_syntax"])
    """A stable code."""
    line: int | None = Field(examples=[3])
    """Line of the error; null if unknown."""
    column: int | None = Field(examples=[14])
    """Column of the error; null if unknown."""
    message: str = Field(examples=["Opening and ending tag mismatch"])
    """Error message."""
    sha256: str = Field(
        examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"]
    )
    """A hash of its bytes, in hexadecimal digits."""
    beginning: str = Field(examples=["<order><item>"])
    """First characters of the document."""
    clock: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Latest event time at its arrival."""


class LateDocument(Answer):
    """A document that some of your subscriptions may have missed, since it came late."""

    document: str = Field(examples=["orders/order-17"])
    """Its name, which no other document has."""
    id: str = Field(examples=["order-17"])
    """The id that it was sent with."""
    streams: tuple[str, ...] = Field(examples=[["orders"]])
    """Its streams, those that you may see."""
    timestamp: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Its time."""
    watermark: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """The watermark at its arrival; documents with earlier times are late."""
    missed: tuple[str, ...] = Field(examples=[["echo"]])
    """Your subscriptions that may have missed it, by its streams and time alone."""


class Status(Answer):
    """Usage of the caller; for the operator also the figures of the service."""

    user: str = Field(examples=["alice"])
    """Your name."""
    subscriptions: int = Field(examples=[3])
    """Number of your subscriptions."""
    feeds: int = Field(examples=[2])
    """Number of feeds that you follow."""
    streams: int = Field(examples=[2])
    """Number of your own streams."""
    documents_today: int = Field(examples=[40])
    """Number of documents that you have sent today (UTC)."""
    matches_today: int = Field(examples=[7])
    """Number of matches delivered to you today (UTC)."""
    service: dict[str, Any] | None = Field(None, examples=[{"documents": 40, "matches": 7}])
    """All figures, for the operator."""


class StatusSample(Answer):
    """The figures of an interval of 15 s."""

    at: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """End of the interval."""
    documents: float = Field(examples=[4.5])
    """Documents that were taken in, a second."""
    matches: float = Field(examples=[0.5])
    """Matches, a second."""
    waiting: int = Field(examples=[0])
    """Largest number of documents that waited."""
    lag: float = Field(examples=[0.2])
    """Largest age of the oldest document that waited, in seconds."""
    memory: int = Field(examples=[300_000_000])
    """Resident memory in bytes; 0 where the system does not tell."""
    p50: float = Field(examples=[0.02])
    """Median of the seconds from the arrival of documents to the commit of their matches."""
    p95: float = Field(examples=[0.05])
    """Their 95th percentile."""


class SqlColumn(Answer):
    """A column, with DuckDB's name of its type."""

    name: str = Field(examples=["docid"])
    """Its name."""
    type: str = Field(examples=["VARCHAR"])
    """Its type in DuckDB."""


class SnapshotDate(Answer):
    """The moment that an answer shows: a boundary between two batches.

    `position` is that of the last match, `clock` the latest event time and `taken` the time of day,
    `age` is in seconds.
    """

    position: int = Field(examples=[17])
    """Position of the last match in the snapshot."""
    clock: Moment | None = Field(examples=["2026-03-01T12:00:00Z"])
    """Latest event time among the documents."""
    taken: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of the snapshot."""
    age: float = Field(examples=[0.4])
    """Age of the snapshot in seconds."""


class SqlRows(Answer):
    """The result of a query, truncated to the row limit."""

    columns: tuple[SqlColumn, ...]
    """The columns, in their order."""
    rows: tuple[tuple[Any, ...], ...] = Field(examples=[[["order-17"]]])
    """The rows, each a list of values."""
    count: int = Field(examples=[1])
    """Number of rows in the answer."""
    truncated: bool = Field(examples=[False])
    """True if the result has more rows than the answer."""
    seconds: float = Field(examples=[0.01])
    """Execution time in seconds."""
    as_of: SnapshotDate
    """Snapshot that the query ran on."""

    def __iter__(self) -> Iterator[dict[str, Any]]:  # type: ignore[override]  # rows, not fields
        """Yield the rows as dictionaries."""
        names = [column.name for column in self.columns]
        return (dict(zip(names, row, strict=True)) for row in self.rows)
