"""The methods of both clients, from one table of calls.

A method of `Client` returns the value of an answer or iterates over a list; the same method of
`AsyncClient` is awaited, or iterated with `async for`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from xscl.client import calls
from xscl.client.calls import Call, Listing

if TYPE_CHECKING:
    from xscl.client.async_client import AsyncClient
    from xscl.client.sync_client import Client

P = ParamSpec("P")
T = TypeVar("T")


class Sent(Generic[P, T]):
    """A method that sends a call; of the class it is the function that makes the call."""

    def __init__(self, make: Callable[P, Call[T]]) -> None:
        self._make = make

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Call[T]]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._make if client is None else _after(client.send, self._make)


class Listed(Generic[P, T]):
    """A method that requests a list page by page; of the class as `Sent` is."""

    def __init__(self, make: Callable[P, Listing[T]]) -> None:
        self._make = make

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Listing[T]]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._make if client is None else _after(client.items, self._make)


def _after(send: Callable[[Any], Any], make: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(make)
    def method(*args: Any, **kwargs: Any) -> Any:
        return send(make(*args, **kwargs))

    return method


class Methods:
    """A method for each call."""

    subscribe = Sent(calls.subscribe)
    edit = Sent(calls.edit)
    pause = Sent(calls.pause)
    resume = Sent(calls.resume)
    rename = Sent(calls.rename)
    tag = Sent(calls.tag)
    tags = Sent(calls.tags)
    unsubscribe = Sent(calls.unsubscribe)
    subscription = Sent(calls.subscription)
    subscriptions = Listed(calls.subscriptions)
    import_subscriptions = Sent(calls.import_subscriptions)
    versions = Sent(calls.versions)
    removed = Sent(calls.removed)
    matches = Listed(calls.matches)
    stories = Listed(calls.stories)
    all_matches = Listed(calls.all_matches)
    stars = Listed(calls.stars)
    star = Sent(calls.star)
    unstar = Sent(calls.unstar)
    reading = Sent(calls.reading)
    order_items = Sent(calls.order_items)
    read_marks = Listed(calls.read_marks)
    mark_read = Sent(calls.mark_read)
    try_query = Sent(calls.try_query)
    check = Sent(calls.check)
    why = Sent(calls.why)
    diagnose = Sent(calls.diagnose)
    explain = Sent(calls.explain)
    witness = Sent(calls.witness)
    sql = Sent(calls.sql)
    saved_statements = Sent(calls.saved_statements)
    save_statement = Sent(calls.save_statement)
    remove_statement = Sent(calls.remove_statement)
    push = Sent(calls.push)
    push_many = Sent(calls.push_many)
    documents = Listed(calls.documents)
    streams = Listed(calls.streams)
    stream = Sent(calls.stream)
    create_stream = Sent(calls.create_stream)
    elements = Sent(calls.elements)
    feeds = Listed(calls.feeds)
    feed = Sent(calls.feed)
    follow = Sent(calls.follow)
    change_feed = Sent(calls.change_feed)
    unfollow = Sent(calls.unfollow)
    poll = Sent(calls.poll)
    poll_all = Sent(calls.poll_all)
    polls = Sent(calls.polls)
    import_feeds = Sent(calls.import_feeds)
    export_feeds = Sent(calls.export_feeds)
    health = Sent(calls.health)
    status = Sent(calls.status)
    status_series = Sent(calls.status_series)
    late = Sent(calls.late)
    rejected = Listed(calls.rejected)
