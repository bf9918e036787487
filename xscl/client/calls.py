"""The calls of the HTTP API: each function returns a request with the type of its answer.

`Client` and `AsyncClient` have a method for each, with these parameters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from xscl.client import answers
from xscl.client import service_answers as service
from xscl.client.failures import Unaddressable

T = TypeVar("T")

PAGE = 1_000
"""Items of a list that are requested at once."""

Language: TypeAlias = Literal["xscl", "cel", "sase", "eql"]


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and the function from its answer to a value.

    `source` is the query in which errors have their line and column.
    """

    method: str
    path: str
    value: Callable[[httpx.Response], T]
    request: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A list that is requested page by page: the first page, and the items of each.

    `following` returns the parameters of the next page, None after the last one.
    """

    path: str
    parameters: Mapping[str, Any]
    items: Callable[[Any], list[T]]
    following: Callable[[Any], Mapping[str, Any] | None]


def resource(*parts: str, slashes: bool = False) -> str:
    """Return the path of a resource under /v1, its names quoted.

    Raises Unaddressable for a name that cannot stand in an address.
    """
    for part in parts:
        if part in ("", ".", "..") or ("/" in part and not slashes):
            raise Unaddressable(
                f"a service cannot be asked for {part!r}: its name cannot stand in an address",
                hint="names without '/' can",
            )
    return "/".join(("/v1", *(quote(part, safe=":") for part in parts)))


# -- Subscriptions and matches -------------------------------------------------------------


def subscribe(
    name: str,
    query: str,
    *,
    updates: bool = False,
    stories: bool = False,
    language: Language = "xscl",
    since: str | None = None,
    history: bool = False,
    tags: Sequence[str] | None = None,
) -> Call[answers.Registered]:
    """Register a query under a name; the same query again changes nothing.

    `since` is a duration such as `7 d`: the query begins with the documents kept of that time.
    With `history` it begins with the newest 1,000 matches of the last 30 days.  With `stories` its
    matches that share documents are grouped.  Raises QueryError, and NameTaken for a name with
    another query.
    """
    body = {
        **{"query": query, "updates": updates, "stories": stories, "language": language},
        **{"since": since, "history": history, "tags": tags},
    }
    return _json("PUT", resource("subscriptions", name), answers.Registered, body, source=query)


def edit(
    name: str,
    query: str | None = None,
    *,
    updates: bool | None = None,
    stories: bool | None = None,
    language: Language | None = None,
) -> Call[answers.Registered]:
    """Give a subscription another query, its next version; matches of earlier versions stay.

    With `stories` its matches that share documents are grouped, those that are kept included; it is
    no new version.  What is None stays as it is.  Raises QueryError.
    """
    options = {"updates": updates, "stories": stories, "language": language}
    return _changed(name, {"query": query, **options}, query)


def pause(name: str) -> Call[answers.Registered]:
    """Pause a subscription: it has no matches and deliveries; its state continues."""
    return _changed(name, {"paused": True})


def resume(name: str) -> Call[answers.Registered]:
    """Resume a paused subscription: documents that arrive from now on complete matches."""
    return _changed(name, {"paused": False})


def tag(name: str, tags: Sequence[str]) -> Call[answers.Registered]:
    """Replace the tags of a subscription; raises Refused with the problem `wrong_tag`."""
    return _changed(name, {"tags": list(tags)})


def tags() -> Call[tuple[answers.SubscriptionTag, ...]]:
    """Return the tags of subscriptions, with the number of subscriptions of each."""
    return _json("GET", "/v1/subscriptions:tags", tuple[answers.SubscriptionTag, ...])


def rename(name: str, new: str) -> Call[answers.Registered]:
    """Give a subscription, its matches and deliveries another name; raises NameTaken."""
    return _changed(name, {"name": new})


def unsubscribe(name: str, *, cascade: bool = False, purge: bool = False) -> Call[tuple[str, ...]]:
    """Remove a subscription, with `cascade` also those that read what only it publishes.

    Return their names.  Its matches stay, unless they are purged, which is also possible
    afterwards.
    """

    def removed(answer: httpx.Response) -> tuple[str, ...]:
        return tuple(answer.json()["removed"]) if cascade else (name,)

    parameters = {"params": {"cascade": cascade, "purge": purge}}
    return Call("DELETE", resource("subscriptions", name), removed, parameters)


def subscription(name: str) -> Call[answers.Subscription]:
    """Return a subscription; raises Refused with the problem `unknown_subscription`."""
    return _json("GET", resource("subscriptions", name), answers.Subscription)


def subscriptions(
    prefix: str | None = None, tag: str | None = None, *, page: int | None = None
) -> Listing[answers.Subscription]:
    """Yield the subscriptions in the order of their names, those with a prefix or a tag only.

    `page` is the number that is requested at once.
    """
    return _paged("subscriptions", answers.Subscription, prefix=prefix, tag=tag, limit=page)


def import_subscriptions(rows: Iterable[Mapping[str, Any]]) -> Call[int]:
    """Register all rows or none: `name`, `query`, and perhaps `updates` and `tags` of each.

    Return how many are new; the `row` of an error is its number, from 1.
    """
    request = {
        "content": "".join(json.dumps(row) + "\n" for row in rows),
        "headers": {"Content-Type": "application/jsonl"},
    }
    return Call("POST", "/v1/subscriptions:import", lambda a: int(a.json()["new"]), request)


def versions(name: str) -> Call[tuple[answers.Version, ...]]:
    """Return the queries of a name whose matches are kept, the oldest first.

    Those of a removed subscription are kept with its matches.
    """
    return _json("GET", resource("subscriptions", name, "versions"), tuple[answers.Version, ...])


def removed() -> Call[tuple[answers.Version, ...]]:
    """Return the last versions of removed subscriptions whose matches are kept."""
    return _json("GET", "/v1/subscriptions:removed", tuple[answers.Version, ...])


def matches(
    subscription: str, after: int = 0, *, version: int | None = None
) -> Listing[answers.Match]:
    """Yield the kept matches of a subscription after a position, the oldest first.

    They are those of all versions, or of one.
    """
    parameters = _without_none({"after": after, "limit": PAGE, "version": version})
    return _matches(resource("subscriptions", subscription, "matches"), parameters)


def stories(
    name: str, *, merged: bool = False, page: int | None = None
) -> Listing[answers.ListedStory]:
    """Yield the stories of a subscription, the one that grew last first.

    With `merged` also those that another story took over.  A request is for `page` of them.
    """
    path = "subscriptions", name, "stories"
    return _paged(path, answers.ListedStory, limit=page or PAGE, merged=merged)


def all_matches(*, page: int | None = None) -> Listing[answers.Match]:
    """Yield the kept matches of all subscriptions, the newest first; a request is for `page`."""
    return _matches("/v1/matches", {"limit": page or PAGE})


def stars() -> Listing[answers.Star]:
    """Yield the starred matches as they were, the last starred first."""
    return _paged("stars", answers.Star)


def star(match: str, position: int) -> Call[None]:
    """Star a match, given by its id and position: what it shows is kept when the match leaves."""
    body = {"json": {"position": position}}
    return Call("PUT", resource("stars", match), lambda _: None, body)


def unstar(match: str) -> Call[None]:
    """Remove the star of a match, given by its id, if it has one."""
    return Call("DELETE", resource("stars", match), lambda _: None)


def _matches(path: str, parameters: Mapping[str, Any]) -> Listing[answers.Match]:
    return Listing(
        path,
        parameters,
        lambda page: [read(answers.Match, one) for one in page["matches"]],
        lambda page: None if page["next"] is None else dict(httpx.QueryParams(page["next"])),
    )


# -- Questions -----------------------------------------------------------------------------


def try_query(
    query: str, since: str | None = None, *, limit: int = 100, is_name: bool = False
) -> Call[answers.Trial]:
    """Evaluate a query, or with `is_name` a subscription, on kept documents; raises QueryError.

    `since` is a duration such as `7 d`.  The answer has the first `limit` matches.
    """
    return _question("try", query, is_name, answers.Trial, since=since, limit=limit)


def check(query: str) -> Call[answers.QueryCheck]:
    """Check a query: its first error, or names in it that were never seen."""
    return _json("POST", "/v1/check", answers.QueryCheck, {"query": query})


def why(subscription: str, *documents: str, is_name: bool = True) -> Call[answers.Why]:
    """Explain why documents match a subscription, or why not; `-` stands for no document.

    Without `is_name` the subject is the text of a query.
    """
    return _question("why", subscription, is_name, answers.Why, documents=documents)


def diagnose(
    subscription: str, since: str | None = None, *, is_name: bool = True
) -> Call[answers.Diagnosis]:
    """Explain why a subscription, or without `is_name` the text of a query, has no match."""
    return _question("diagnose", subscription, is_name, answers.Diagnosis, since=since)


def explain(subscription: str, *, sql: bool = False, is_name: bool = True) -> Call[str]:
    """Return the evaluation plan of a subscription as text, with `sql` the SQL of its joins.

    Without `is_name` the subject is the text of a query.
    """
    asked = _question("explain", subscription, is_name, answers.Explanation, sql=sql)
    request, source = asked.request, asked.source
    return Call(asked.method, asked.path, lambda answer: asked.value(answer).text, request, source)


def witness(document: str) -> Call[answers.Witness]:
    """Return the nodes of a document, with the variables bound to each."""
    return _json("GET", resource("documents", document, "witness", slashes=True), answers.Witness)


def sql(query: str, *, rows: int = 10_000) -> Call[service.SqlRows]:
    """Return at most `rows` rows of one SELECT over the relations."""
    return _json("POST", "/v1/sql", service.SqlRows, {"query": query, "rows": rows})


def saved_statements() -> Call[tuple[service.SavedStatement, ...]]:
    """Return the saved statements in SQL, in the order of their names."""
    return _json("GET", "/v1/sql/saved", tuple[service.SavedStatement, ...])


def save_statement(name: str, query: str) -> Call[None]:
    """Save a statement in SQL under a name, in place of one of that name."""
    body = {"json": {"query": query}}
    return Call("PUT", resource("sql", "saved", name), lambda _: None, body)


def remove_statement(name: str) -> Call[None]:
    """Remove a saved statement, if there is one of that name."""
    return Call("DELETE", resource("sql", "saved", name), lambda _: None)


def reading() -> Call[service.Reading]:
    """Return the order in which the page lists items."""
    return _json("GET", "/v1/reading", service.Reading)


def order_items(order: Literal["arrival", "date"]) -> Call[service.Reading]:
    """Set the order of items on the page: by their arrival, or by their own dates."""
    return _json("PUT", "/v1/reading", service.Reading, {"order": order})


def read_marks() -> Listing[service.ReadMark]:
    """Yield the items and matches that are marked as read, by their names."""
    return _paged(("reading", "marks"), service.ReadMark)


def mark_read(items: Sequence[str], *, read: bool = True) -> Call[None]:
    """Mark documents (by their names) and matches (by their ids) as read or unread."""
    body = {"json": {"items": list(items), "read": read}}
    return Call("POST", "/v1/reading/marks", lambda _: None, body)


# -- Documents, streams, feeds -------------------------------------------------------------


def push(
    stream: str, xml: bytes | str, *, id: str | None = None, time: datetime | None = None
) -> Call[service.SentDocument]:
    """Send a document to a stream; it is durable when the answer is there.

    Without `id` and `time` the service gives them.  Raises Refused for a malformed document.
    """
    given = {"id": id, "time": None if time is None else time.isoformat()}
    request = {
        "params": _without_none(given),
        "content": xml,
        "headers": {"Content-Type": "application/xml"},
    }
    return Call("POST", resource("documents", stream), _reader(service.SentDocument), request)


def push_many(documents: Iterable[Mapping[str, Any]], stream: str = "") -> Call[service.SentBatch]:
    """Send up to 1,000 documents, which are durable when the answer is there.

    Each has its `xml`, as text, and may have an `id`, a `time` and a `stream` of its own.  Those
    that are refused are in the answer with their numbers, from 1; the others are taken.
    """
    request = {
        "params": _without_none({"stream": stream or None}),
        "content": "".join(json.dumps(_without_none(document)) + "\n" for document in documents),
        "headers": {"Content-Type": "application/x-ndjson"},
    }
    return Call("POST", "/v1/documents:batch", _reader(service.SentBatch), request)


def documents(stream: str = "", text: str = "") -> Listing[service.ListedDocument]:
    """Yield the documents that one may see, the newest first: of a stream, or with a text."""
    found = {"stream": stream or None, "text": text or None}
    return _paged("documents", service.ListedDocument, "before", **found)


def streams() -> Listing[service.ListedStream]:
    """Yield the streams that one may read, in the order of their names."""
    return _paged("streams", service.ListedStream)


def stream(name: str) -> Call[service.Stream]:
    """Return a stream; raises Refused with the problem `unknown_stream`."""
    return _json("GET", resource("streams", name), service.Stream)


def create_stream(
    name: str,
    *,
    lateness: str | None = None,
    live: bool = True,
    attributes: Mapping[str, Literal["str", "int", "float", "bool", "decimal"]] | None = None,
) -> Call[service.MadeStream]:
    """Create a stream of one's own, or change its lateness."""
    body = {"lateness": lateness, "live": live, "attributes": attributes}
    return _json("PUT", resource("streams", name), service.MadeStream, body)


def elements(stream: str) -> Call[service.Elements]:
    """Return the elements of the newest documents of a stream, with sample values."""
    return _json("GET", resource("streams", stream, "elements"), service.Elements)


def feeds(
    *, sort: Literal["key", "name", "state", "item"] = "key", text: str = "", tag: str = ""
) -> Listing[service.Feed]:
    """Yield the feeds that are followed, those with a text in name or address, and of a tag.

    `sort` orders them by key, name, state (what is wrong first) or newest item.
    """
    return _paged("feeds", service.Feed, sort=sort, text=text, tag=tag)


def feed(key: str) -> Call[service.Feed]:
    """Return a feed by its key; raises Refused with the problem `unknown_feed`."""
    return _json("GET", resource("feeds", key), service.Feed)


def follow(
    url: str,
    *,
    stream: str | None = None,
    tags: Sequence[str] = (),
    every: str | None = None,
    headers: Sequence[str] = (),
    keep: bool = False,
) -> Call[service.Feed]:
    """Follow a feed; `every` is a duration such as `30 min`, `headers` are `Name: value`.

    With `keep` it is followed although its first poll fails.
    """
    body = {"url": url, "stream": stream, "tags": tags, "every": every, "headers": headers}
    return _json("POST", "/v1/feeds", service.Feed, {**body, "keep": keep})


def change_feed(
    key: str,
    *,
    title: str | None = None,
    tags: Sequence[str] | None = None,
    every: str | None = None,
    headers: Sequence[str] | None = None,
    revive: bool = False,
) -> Call[service.Feed]:
    """Change a feed; what is None stays.  `revive` resumes one in the state `gone`."""
    changes = {"title": title, "tags": tags, "every": every, "headers": headers}
    body = {**changes, "revive": revive}
    return _json("PATCH", resource("feeds", key), service.Feed, body)


def unfollow(key: str) -> Call[None]:
    """Stop following a feed, by its key."""
    return Call("DELETE", resource("feeds", key), lambda _: None)


def poll(key: str) -> Call[service.Feed]:
    """Request a poll of a feed as soon as a place is free; return the feed before the poll."""
    return _json("POST", f"{resource('feeds', key)}:poll", service.Feed)


def poll_all() -> Call[service.FeedsPolled]:
    """Request a poll of all feeds as soon as places are free; return their number."""
    return _json("POST", "/v1/feeds:poll", service.FeedsPolled)


def polls(key: str) -> Call[tuple[service.Poll, ...]]:
    """Return the last 100 polls of a feed, the newest first."""
    return _json("GET", resource("feeds", key, "polls"), tuple[service.Poll, ...])


def import_feeds(
    feeds: bytes | str, *, tags: Sequence[str] = ()
) -> Call[tuple[service.FeedOutcome, ...]]:
    """Follow the feeds of a list, OPML or one address a line; return the outcome of each."""
    request = {"content": feeds, "params": {"tag": list(tags)}}
    return Call("POST", "/v1/feeds:import", _reader(tuple[service.FeedOutcome, ...]), request)


def export_feeds() -> Call[str]:
    """Return the feeds as OPML; those with secret addresses are left out."""
    return Call("GET", "/v1/feeds:export", lambda answer: answer.text)


# -- The service ---------------------------------------------------------------------------


def health() -> Call[service.Health]:
    """Return the health of the service; needs no token."""
    return _json("GET", "/v1/health", service.Health)


def status() -> Call[service.Status]:
    """Return the caller's usage; for the operator with the figures of the service."""
    return _json("GET", "/v1/status", service.Status)


def status_series(span: Literal["hour", "day"] = "hour") -> Call[tuple[service.StatusSample, ...]]:
    """Return the figures of the last hour or day, a sample each 15 s; for the operator."""
    request = {"params": {"span": span}}
    return Call("GET", "/v1/status/series", _reader(tuple[service.StatusSample, ...]), request)


def late() -> Call[tuple[service.LateDocument, ...]]:
    """Return the latest documents that came too late for some of one's subscriptions."""
    return _json("GET", "/v1/late", tuple[service.LateDocument, ...])


def rejected() -> Listing[service.RejectedDocument]:
    """Yield the rejected documents of one's streams, the newest first."""
    return _paged("rejected", service.RejectedDocument)


# -- Requests and their answers ------------------------------------------------------------


def _json(
    method: str,
    path: str,
    kind: type[T],
    body: Mapping[str, Any] | None = None,
    source: str | None = None,
) -> Call[T]:
    request = {} if body is None else {"json": _without_none(body)}
    return Call(method, path, _reader(kind), request, source)


def _question(path: str, subject: str, is_name: bool, kind: type[T], **more: Any) -> Call[T]:
    body = {"subscription" if is_name else "query": subject, **more}
    return _json("POST", f"/v1/{path}", kind, body, source=None if is_name else subject)


def _changed(
    name: str, change: Mapping[str, Any], source: str | None = None
) -> Call[answers.Registered]:
    return _json(
        "PATCH", resource("subscriptions", name), answers.Registered, change, source=source
    )


def _paged(
    path: str | tuple[str, ...], kind: type[T], way: str = "after", **parameters: Any
) -> Listing[T]:
    first = {"limit": PAGE, **_without_none(parameters)}
    return Listing(
        resource(*((path,) if isinstance(path, str) else path)),
        first,
        lambda page: [read(kind, one) for one in page["items"]],
        lambda page: None if page["next"] is None else {**first, way: page["next"]},
    )


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def read(kind: type[T], value: Any) -> T:
    """Return a JSON value as an object of a type; fields that it does not declare are left out."""
    found: T = _adapter(kind).validate_python(value)
    return found


def _reader(kind: type[T]) -> Callable[[httpx.Response], T]:
    def value(answer: httpx.Response) -> T:
        found: T = _adapter(kind).validate_json(answer.content)
        return found

    return value


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
