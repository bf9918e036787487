"""The methods of both clients, from one table of calls.

A method of `Client` returns the value of an answer or iterates over a list; the same method of
`AsyncClient` is awaited, or iterated with `async for`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, overload

from xscl.client import calls
from xscl.client.calls import Call, Listing

P = ParamSpec("P")
T = TypeVar("T")


class CallMethod(Generic[P, T]):
    """A method that sends a call; accessed on the class, the function that makes the call."""

    def __init__(self, make: Callable[P, Call[T]]) -> None:
        self._make = make

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Call[T]]: ...
    @overload
    def __get__(self, client: BlockingMethods, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncMethods, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._make if client is None else _after(client.send, self._make)


class ListingMethod(Generic[P, T]):
    """A method that requests a list page by page; accessed on the class as `CallMethod` is."""

    def __init__(self, make: Callable[P, Listing[T]]) -> None:
        self._make = make

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Listing[T]]: ...
    @overload
    def __get__(self, client: BlockingMethods, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncMethods, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._make if client is None else _after(client.items, self._make)


def _after(send: Callable[[Any], Any], make: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(make)
    def method(*args: Any, **kwargs: Any) -> Any:
        return send(make(*args, **kwargs))

    return method


class Methods:
    """A method for each call."""

    subscribe = CallMethod(calls.subscribe)
    edit = CallMethod(calls.edit)
    pause = CallMethod(calls.pause)
    resume = CallMethod(calls.resume)
    rename = CallMethod(calls.rename)
    tag = CallMethod(calls.tag)
    tags = CallMethod(calls.tags)
    unsubscribe = CallMethod(calls.unsubscribe)
    subscription = CallMethod(calls.subscription)
    subscriptions = ListingMethod(calls.subscriptions)
    import_subscriptions = CallMethod(calls.import_subscriptions)
    versions = CallMethod(calls.versions)
    removed = CallMethod(calls.removed)
    matches = ListingMethod(calls.matches)
    stories = ListingMethod(calls.stories)
    all_matches = ListingMethod(calls.all_matches)
    stars = ListingMethod(calls.stars)
    star = CallMethod(calls.star)
    unstar = CallMethod(calls.unstar)
    reading = CallMethod(calls.reading)
    order_items = CallMethod(calls.order_items)
    read_marks = ListingMethod(calls.read_marks)
    mark_read = CallMethod(calls.mark_read)
    try_query = CallMethod(calls.try_query)
    check = CallMethod(calls.check)
    why = CallMethod(calls.why)
    diagnose = CallMethod(calls.diagnose)
    explain = CallMethod(calls.explain)
    witness = CallMethod(calls.witness)
    sql = CallMethod(calls.sql)
    saved_statements = CallMethod(calls.saved_statements)
    save_statement = CallMethod(calls.save_statement)
    remove_statement = CallMethod(calls.remove_statement)
    push = CallMethod(calls.push)
    push_many = CallMethod(calls.push_many)
    documents = ListingMethod(calls.documents)
    streams = ListingMethod(calls.streams)
    stream = CallMethod(calls.stream)
    create_stream = CallMethod(calls.create_stream)
    elements = CallMethod(calls.elements)
    feeds = ListingMethod(calls.feeds)
    feed = CallMethod(calls.feed)
    follow = CallMethod(calls.follow)
    change_feed = CallMethod(calls.change_feed)
    unfollow = CallMethod(calls.unfollow)
    poll = CallMethod(calls.poll)
    poll_all = CallMethod(calls.poll_all)
    polls = CallMethod(calls.polls)
    import_feeds = CallMethod(calls.import_feeds)
    export_feeds = CallMethod(calls.export_feeds)
    health = CallMethod(calls.health)
    status = CallMethod(calls.status)
    status_series = CallMethod(calls.status_series)
    late = CallMethod(calls.late)
    rejected = ListingMethod(calls.rejected)


class BlockingMethods(Methods):
    """The methods of `Client`: they return values and iterators."""


class AsyncMethods(Methods):
    """The methods of `AsyncClient`: they return coroutines and asynchronous iterators."""
