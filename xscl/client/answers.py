"""The objects that answers of the HTTP API hold, and how JSON becomes such objects.

Fields have the names of the API; those that a class does not declare are left out, so that a
service may be newer than its client.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import lru_cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stopped:
    """Documents with more than `results` results, of which none is kept."""

    documents: int
    results: int
    incomplete: bool


@dataclass(frozen=True, slots=True)
class NotEvaluatedIn:
    """An expression that had no value in some documents; `latest` is the id of the last one."""

    expression: str
    documents: int
    latest: str
    reason: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription: its query, the streams that it reads and the one that it publishes.

    `version` counts its edits.  The answer to a registration has `warnings`.
    """

    name: str
    query: str
    language: str
    reads: tuple[str, ...]
    publishes: str | None
    updates: bool
    version: int = 1
    paused: bool = False
    stopped: Stopped | None = None
    unevaluated: tuple[NotEvaluatedIn, ...] = ()
    refused: str | None = None
    tags: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubscriptionTag:
    """A tag, with the number of subscriptions that have it."""

    tag: str
    subscriptions: int


@dataclass(frozen=True, slots=True)
class Version:
    """A query that has found kept matches of a name; `until` is None if it is the current one."""

    name: str
    version: int
    query: str
    language: str
    after: int
    until: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a document that a variable is bound to, with its string value."""

    document: str
    node: int
    path: str
    value: str


@dataclass(frozen=True, slots=True)
class Source:
    """A document of a match for people; of what is no feed item only names and time are known.

    `document` is the name, which no other document has; `id` and `version` are those on its
    `stream`, and `root` is the name of its root element.
    """

    document: str
    title: str
    url: str | None
    source: str
    timestamp: datetime
    stream: str = ""
    id: str = ""
    version: int = 1
    root: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """A match.  `started` and `timestamp` are its earliest and latest time, `xml` its output.

    `version` is that of the query, which an edit increases.  It is `backfilled` if the subscription
    began with it.
    """

    id: str
    subscription: str
    position: int
    started: datetime
    timestamp: datetime
    history: bool
    documents: tuple[str, ...]
    sources: tuple[Source, ...]
    bindings: dict[str, tuple[Node, ...]]
    xml: str
    constructed: bool
    version: int = 1
    backfilled: bool = False

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The string values of the nodes of each variable."""
        return {name: tuple(node.value for node in nodes) for name, nodes in self.bindings.items()}


@dataclass(frozen=True, slots=True)
class StarredDocument:
    """A document of a starred match, with the values that the match shows."""

    document: str
    title: str
    url: str | None
    timestamp: datetime
    values: dict[str, tuple[str, ...]]
    stream: str = ""
    id: str = ""
    version: int = 1
    root: str = ""


@dataclass(frozen=True, slots=True)
class Star:
    """A starred match as it was; `values` are those of a row of events, `xml` its output."""

    match: str
    subscription: str
    starred: datetime
    timestamp: datetime
    position: int
    documents: tuple[StarredDocument, ...]
    values: dict[str, str]
    xml: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A condition of a match; `nearest` is the evidence, or the nearest miss."""

    kind: str
    text: str
    holds: bool
    nearest: str | None
    pending: bool = False


@dataclass(frozen=True, slots=True)
class Why:
    """The explanation why documents match a query, or why not."""

    query: str
    documents: tuple[str, ...]
    matched: bool
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class NearName:
    """A name that was seen, with the number of documents that have it."""

    name: str
    documents: int


@dataclass(frozen=True, slots=True)
class BlockFound:
    """A block of a query: how many of the examined documents match it, and what fails."""

    block: str
    stream: str
    kept: int
    examined: int
    matching: int
    needed: bool
    failing: str | None
    nearest: tuple[NearName, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The reasons why a query has no match; `closest` explains the closest documents."""

    query: str
    blocks: tuple[BlockFound, ...]
    closest: Why | None


@dataclass(frozen=True, slots=True)
class Trial:
    """The first matches of a query on kept documents, of a `total`; without any the reasons.

    `late` documents came too late for the query, whose streams have a `lateness` in seconds.
    """

    total: int
    matches: tuple[Match, ...]
    diagnosis: Diagnosis | None
    late: int = 0
    lateness: float = 0.0


@dataclass(frozen=True, slots=True)
class QueryFault:
    """The first error of a query, at its place."""

    code: str
    message: str
    hint: str | None
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class UnseenName:
    """A name in a query that was never seen, with the nearest names; or a doubtful comparison."""

    kind: str
    name: str
    message: str
    hint: str | None
    line: int
    column: int
    nearest: tuple[NearName, ...]


@dataclass(frozen=True, slots=True)
class QueryCheck:
    """The check of a query: its error, or the query as a sentence with warnings."""

    error: QueryFault | None
    sentence: str | None
    warnings: tuple[UnseenName, ...]
    absences: str | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream; `lateness` is in seconds.  On one's `own` streams one may write."""

    name: str
    own: bool
    lateness: float
    live: bool
    attributes: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class SeenElement:
    """A path of names in documents of a stream, with its most frequent short values."""

    path: tuple[str, ...]
    documents: int
    samples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of the newest `documents` of a stream."""

    stream: str
    documents: int
    elements: tuple[SeenElement, ...]


@dataclass(frozen=True, slots=True)
class SentDocument:
    """A document that the service has accepted."""

    id: str
    stream: str
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """A document that has come in; it is `kept` if its text is.

    `document` is its name, which no other document has.
    """

    id: str
    streams: tuple[str, ...]
    timestamp: datetime
    history: bool
    title: str
    url: str | None
    kept: bool
    document: str = ""
    version: int = 1


@dataclass(frozen=True, slots=True)
class LateDocument:
    """A document behind the watermark, and the subscriptions that may have missed it."""

    id: str
    streams: tuple[str, ...]
    timestamp: datetime
    watermark: datetime
    missed: tuple[str, ...]
    document: str = ""


@dataclass(frozen=True, slots=True)
class RejectedDocument:
    """A document that was not taken; `reason` is a stable code, `message` the error."""

    stream: str
    id: str
    reason: str
    line: int | None
    column: int | None
    message: str
    sha256: str
    beginning: str
    clock: datetime


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a service; see `GET /v1/health` for the states."""

    status: str
    consumer: str
    stalled_since: datetime | None
    stalled_segment: int | None
    store: str
    clock: str
    clock_ahead: float
    executors: str | None = None
    executors_away_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class StatusSample:
    """The figures of 15 s: rates a second, the largest wait and lag, memory in bytes, latency."""

    at: datetime
    documents: float
    matches: float
    waiting: int
    lag: float
    memory: int
    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class FeedOutcome:
    """The outcome of an entry of a list of feeds: `added`, `tagged`, `refused` and so on."""

    outcome: str
    url: str
    title: str
    stream: str
    tags: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Feed:
    """A followed feed: its address, how it is read, and how its polls went.

    `every`, `lateness` and `ttl` are seconds.  The API describes the other fields.
    """

    key: str
    url: str
    stream: str
    tags: tuple[str, ...]
    title: str
    site_url: str
    format: str
    quality: str
    every: int
    lateness: int
    ttl: int | None
    headers: tuple[str, ...]
    state: str
    items: int
    versions: int
    skipped: int
    clipped: int
    undated: int
    added: datetime
    polled: datetime | None
    next_poll: datetime | None
    polls: int
    failures: int
    failing_since: datetime | None
    code: str | None
    error: str | None
    note: str | None
    moved_to: str | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll of a feed: `ok`, `unchanged`, `deferred`, or the code of an error.

    `note` is the error, or where the feed has moved to.
    """

    polled: datetime
    outcome: str
    seconds: float
    items: int
    note: str | None
    failed: bool


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of rows, with DuckDB's name of its type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class SqlRows:
    """The rows of a SELECT, at most as many as were asked for."""

    columns: tuple[SqlColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dictionaries."""
        names = [column.name for column in self.columns]
        return (dict(zip(names, row, strict=True)) for row in self.rows)


@dataclass(frozen=True, slots=True)
class SavedStatement:
    """A statement in SQL that was saved under a name."""

    name: str
    query: str
    saved: datetime


def read(kind: Any, value: Any) -> Any:
    """Return a JSON value as an object of a type: a class above, or a part of one."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):
        return None if value is None else read(arguments[0], value)
    if origin is tuple:
        return tuple(read(arguments[0], one) for one in value)
    if origin is dict:
        return {name: read(arguments[1], one) for name, one in value.items()}
    if is_dataclass(kind):
        return _object(kind, value)
    return datetime.fromisoformat(value) if kind is datetime else value


def _object(kind: Any, value: Any) -> Any:
    hints = _hints(kind)
    return kind(**{name: read(hints[name], value[name]) for name in hints if name in value})


@lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a class."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
