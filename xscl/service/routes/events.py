"""Live matches as server-sent events: `GET /v1/subscriptions/{name}/events`.

A listener's only state is a cursor in the order of results.  A client that reconnects with
`Last-Event-ID` therefore receives every match exactly once.  Buffers are bounded.  A client that
reads slowly and falls behind is disconnected with a reason; one that reads nothing is disconnected
without a reason.  Both can reconnect at their cursor.

A client whose next matches were evicted (`serve --keep-matches`) first gets an event `gap`, whose
id is the last evicted position.  An id ahead of the newest position is refused, as all matches up
to it would be skipped.

An id contains the store generation of its position (`xscl.delivery.store_epochs`).  After a restore
from a backup the client first gets an event `restored` and continues from the last position that
both generations share.  Some matches may be sent again, under the same ids.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Annotated

from fastapi import Header, Query
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from xscl.delivery.listeners import ListenerQuery, event
from xscl.delivery.outbox.outbox import Outbox
from xscl.engine.match_log import LAST, MatchPlace
from xscl.errors import StoreError, UnknownSubscription
from xscl.plurals import counted
from xscl.service.accounts import Account, QuotaExceeded
from xscl.service.app import App
from xscl.service.bodies import raw_response
from xscl.service.connection_limit import counted_elsewhere
from xscl.service.dependencies import StillValid, TheAccount, TheApp, api_router
from xscl.service.problems import PROBLEM, Problem
from xscl.service.routes.subscriptions import Name
from xscl.service.subscribing import existing

_log = logging.getLogger(__name__)

router = api_router(tag="matches")

_PLACE = re.compile(r"(?:g([0-9a-f]{8})-)?(\d{1,18})(?:-(\d{1,9}))?", re.ASCII)
_EVENTS = raw_response("text/event-stream", "Events.")

LastEventId = Annotated[
    str | None,
    Header(description="The id of the last event that was received: what came since is sent."),
]
After = Annotated[
    str | None,
    Query(pattern=_PLACE.pattern, description="As Last-Event-ID, for the first request."),
]


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts of listeners in seconds, and the limit of their backlog.

    A comment is sent after `heartbeat` without events.  A client must accept data within `taking`.
    A client that once took longer than `slow` is disconnected when it is more than `behind` results
    behind the newest.  `again` is the time in milliseconds after which clients reconnect.
    """

    heartbeat: float = 15.0
    taking: float = 60.0
    slow: float = 5.0
    behind: int = 10_000
    again: int = 2_000


@router.get(
    "/subscriptions/{name}/events", summary="Stream the matches of a subscription", **_EVENTS
)
async def of_one(
    name: Name,
    app: TheApp,
    account: TheAccount,
    is_valid: StillValid,
    last_event_id: LastEventId = None,
    after: After = None,
    grouped: Annotated[bool, Query(description="Matches on the same documents as one.")] = True,
) -> Response:
    """Each event is a message as webhooks get it; its id, as Last-Event-ID, continues the stream.

    If matches after the given id are no longer kept, an event `gap` comes first.  An id ahead of
    the newest match is refused.
    """
    one = existing(app, account, name)
    query = ListenerQuery((one.number, grouped), one=one, grouped=grouped)
    return await _stream(app, account, is_valid, query, last_event_id or after)


@router.get("/events", summary="Stream all your matches", **_EVENTS)
async def of_all(
    app: TheApp,
    account: TheAccount,
    is_valid: StillValid,
    last_event_id: LastEventId = None,
    after: After = None,
) -> Response:
    """Each event is one match of one of your subscriptions.

    If matches after the given id are no longer kept, an event `gap` comes first.  An id ahead of
    the newest match is refused.
    """

    query = ListenerQuery(("all", account.number), mine=account.has, prefix=account.qualify(""))
    return await _stream(app, account, is_valid, query, last_event_id or after)


async def _stream(
    app: App,
    account: Account,
    is_valid: Callable[[], bool],
    query: ListenerQuery,
    given: str | None,
) -> EventStream:
    """Return the response for a listener; sending it raises QuotaExceeded.

    `given` is the id of the last event received, None to begin with later matches.  Raises Problem
    for a malformed id, or one ahead of the newest position.
    """
    begin = await _begin(given, app.delivery)
    most = account.quota.listeners
    has = counted(most or 0, "listener")
    over = QuotaExceeded(f"you have {has}, and may have no more at once")
    place = app.accounts.limits.listeners.hold(account.number, most, over)
    return EventStream(app.delivery, query, begin, is_valid=is_valid, place=place)


@dataclass(frozen=True, slots=True)
class StartPoint:
    """The first cursor of a listener, and events to send before it."""

    place: MatchPlace
    notices: tuple[bytes, ...] = ()


async def _begin(given: str | None, outbox: Outbox) -> StartPoint:
    """Return the start after the place in the id `given`; None is the place of the newest match.

    Raises Problem for a malformed id, or one ahead of the newest position.
    """
    listening = outbox.listening
    if given is None:
        return StartPoint((listening.position, LAST))
    found = _PLACE.fullmatch(given)
    if found is None:
        raise Problem(
            "last_event_id",
            "that is not the id of an event",
            hint="send the id as it was received, or none",
        )
    place = int(found[2]), LAST if found[3] is None else int(found[3])
    begin = place if found[1] is None else listening.place_of(int(found[1], 16), place)
    notices = () if begin == place else (_notice(outbox, begin, "restored"),)
    span = await listening.span()
    if begin[0] > span.newest:
        raise Problem(
            "position_ahead",
            f"the newest match is at position {span.newest}, {begin[0]} is not reached yet",
            hint="send no id to begin from now on",
        )
    if begin[0] < span.forgotten:
        begin = span.forgotten, LAST
        return StartPoint(begin, (*notices, _notice(outbox, begin, "gap")))
    return StartPoint(begin, notices)


_NOTICES = {
    "restored": "the service was put back from a backup; matches may come again, under their ids",
    "gap": "matches up to this position are no longer kept; some may not have been sent",
}
"""Texts by event: `restored` if the cursor predates a restore, `gap` if matches were evicted."""


def _notice(outbox: Outbox, place: MatchPlace, name: str) -> bytes:
    """Return the event `name` of `_NOTICES`, whose id is the cursor at which matches continue."""
    data = {"code": name, "reason": _NOTICES[name], "position": place[0]}
    return event(name, json.dumps(data).encode(), outbox.listening.id_of(place))


_REMOVED = "the subscription was removed"


class _Disconnect(Exception):
    """The listener is to be disconnected; with a `code` the reason is sent to it."""

    def __init__(self, code: str = "", reason: str = "") -> None:
        super().__init__(reason)
        self.code = code


class EventStream(Response):
    """A stream of server-sent events that lasts until one side closes it."""

    media_type = "text/event-stream"

    def __init__(
        self,
        outbox: Outbox,
        query: ListenerQuery,
        begin: StartPoint,
        patience: Patience | None = None,
        is_valid: Callable[[], bool] = lambda: True,
        *,
        place: AbstractContextManager[None] | None = None,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._outbox = outbox
        self._query = query
        self._place = begin.place
        self._preamble = begin.notices
        self._held = place or nullcontext()
        self._patience = patience or Patience()
        self._slow = False
        self._is_valid = is_valid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client disconnects; raises QuotaExceeded before that."""
        with self._held, counted_elsewhere(scope):
            try:
                await self._listen(receive, send)
            except (_Disconnect, StoreError) as error:
                away = error if isinstance(error, _Disconnect) else _unreadable(error)
                scope[PROBLEM] = away.code or "too_slow"
                data = json.dumps({"code": away.code, "reason": str(away)}).encode()
                last = event("closed", data) if away.code else b""
                with suppress(TimeoutError):  # the client may read no more
                    async with asyncio.timeout(1.0):
                        await send({"type": "http.response.body", "body": last})

    async def _listen(self, receive: Receive, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        loop = asyncio.get_running_loop()
        signal = asyncio.Event()

        def ring() -> None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(signal.set)

        one, notifier = self._query.one, self._outbox.notifier
        stream = None if one is None else one.qid
        unregister = notifier.register(ring, stream)
        gone = loop.create_task(_gone(receive, signal))
        try:
            await self._send(send, f"retry: {self._patience.again}\n\n".encode())
            for notice in self._preamble:
                await self._send(send, notice)
            while not gone.done():
                now = None if one is None else self._outbox.stream_of(one.name)
                if now is not None and now != stream:  # another version reads another stream
                    unregister()
                    stream, unregister = now, notifier.register(ring, now)
                signal.clear()
                if await self._send_page(send):
                    continue
                try:
                    async with asyncio.timeout(self._patience.heartbeat):
                        await signal.wait()
                except TimeoutError:
                    await self._send(send, b": \n\n")
        finally:
            unregister()
            gone.cancel()

    async def _send_page(self, send: Send) -> bool:
        """Send the next page of events, and return True if it had some."""
        self._expect_open()
        try:
            page = await self._outbox.listening.after(self._query, self._place)
        except UnknownSubscription:
            raise _Disconnect("removed", _REMOVED) from None
        for one in page.events:
            await self._send(send, one)
        has_more = bool(page.events) and page.place != self._place
        self._place = page.place
        return has_more

    async def _send(self, send: Send, data: bytes) -> None:
        """Send data; the client must accept it within `Patience.taking` seconds."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._patience.taking):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            _log.info("a listener took nothing for %g s", self._patience.taking)
            raise _Disconnect from None
        self._slow = self._slow or loop.time() - began > self._patience.slow
        if self._slow and self._outbox.listening.position - self._place[0] > self._patience.behind:
            raise _Disconnect("too_slow", "matches come faster than you take them")
        self._expect_open()

    def _expect_open(self) -> None:
        """Raise _Disconnect if the subscription, the token or the service has ended."""
        if self._query.one is not None and not self._outbox.has(self._query.one):
            raise _Disconnect("removed", _REMOVED)
        if not self._is_valid():
            raise _Disconnect("unauthorized", "the token was revoked, or is over")
        if self._outbox.is_ending:
            raise _Disconnect("stopping", "the service is stopping")


def _unreadable(error: StoreError) -> _Disconnect:
    return _Disconnect("unavailable", f"matches cannot be read now: {error}")


async def _gone(receive: Receive, signal: asyncio.Event) -> None:
    """Wait until the client disconnects, then set `signal`."""
    while (await receive())["type"] != "http.disconnect":
        continue
    signal.set()
