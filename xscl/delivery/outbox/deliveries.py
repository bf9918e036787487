"""The delivery loop: one independent queue for each endpoint, on the event loop of the process.

An endpoint's queue is the table of results after its cursor, so only one page is in memory.
Messages are sent in order.  A failed message is retried on the endpoint's schedule, and later
messages wait.  After the last attempt the endpoint is disabled, and the message is a dead letter:
an endpoint that is enabled again goes on with the next one.

`SendSlots` limits concurrent sends, so that slow endpoints do not delay others.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from feeds.faultpoints import reached
from feeds.formats.times import SECOND
from xscl.delivery.endpoint import (
    SCHEDULE,
    Delivered,
    Endpoint,
    Later,
    ReceiverGone,
    Sender,
    SendFailed,
    SendOutcome,
)
from xscl.delivery.message import Message, message_of_story
from xscl.delivery.message_reader import PAGE, MessagePage, following
from xscl.delivery.notifier import Notifier
from xscl.delivery.outbox.endpoints import Endpoints, Letter
from xscl.delivery.outbox.printing import Printing
from xscl.delivery.send_slots import SendSlots
from xscl.engine.facade import Engine
from xscl.engine.story_log import StoryLog
from xscl.errors import StoreError, UnknownSubscription
from xscl.event_loop import EventLoop
from xscl.language.names import owner_number
from xscl.polling.feed_repository import ticks
from xscl.store.store_errors import StoreUnavailable

_log = logging.getLogger(__name__)

SAVING = 0.25
"""Seconds between two saves of the cursors."""
PRINTING = ""
"""The id of the endpoint of printed matches."""
RETRY = 0.2
"""Seconds until printing goes on after a failure, or its cursor is set after a push."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry schedule of failed deliveries and grace period at shutdown, both in seconds.

    `clock` returns the time in ticks; retries are due by it.
    """

    schedule: tuple[float, ...] = SCHEDULE
    ending: float = 3.0
    clock: Callable[[], int] = ticks


class Deliveries:
    """Delivers the matches of subscriptions to their endpoints, on an event loop."""

    def __init__(
        self,
        loop: EventLoop,
        engine: Engine,
        endpoints: Endpoints,
        notifier: Notifier,
        sender: Callable[[Endpoint], Sender],
        pace: RetryPolicy,
        printing: Printing | None = None,
    ) -> None:
        # It reads uncommitted state, and never waits.
        self._subscription = engine.subscription
        # It waits for the engine's lock, so it is asked before something is removed, and not on the
        # loop.
        self._committed = engine.catalog.committed
        self._pages = engine.log
        self._endpoints = endpoints
        self._notifier = notifier
        self._sender = sender
        self._retries = pace
        self._printing = printing
        self._events, self._loop = loop, loop.loop
        self._saving: Future[None] | None = None  # from `start` on
        # For endpoints the result streams to which they listen, and the ends of that.
        self._streams: dict[str, tuple[int, Callable[[], None]]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._rerun: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._digest_due: dict[str, float] = {}  # due times of digests by the loop's clock
        self._slots = SendSlots()
        self._ended = asyncio.Event()
        self._stopping = False
        endpoints.wake = self.wake

    # -- Interface (any thread) ------------------------------------------------------------

    def start(self) -> None:
        """Start delivering; resume endpoints whose cursor is behind their stream."""
        self._saving = self._events.submit(self._keep_saving())
        last = self._pages.last_positions()
        for endpoint in self._endpoints.all():
            found = self._subscription(endpoint.subscription)
            stream = None if found is None else self._listen(endpoint, found.qid)
            is_behind = stream is None or last.get(stream, 0) > endpoint.position
            if is_behind or self._endpoints.letters(endpoint.id):
                self.wake(endpoint.id)
        if self._printing is not None:
            self._notifier.register(partial(self.wake, PRINTING))
            if not self._printing.has_all():
                self.wake(PRINTING)

    def wake(self, id: str) -> None:
        """Schedule an endpoint: it may have messages to send.  Any thread may call this."""
        self._events.call(self._schedule, id)  # after the end: the next start looks at all

    def finish(self, stopping: threading.Event) -> None:
        """Flush digests and wait until no delivery is in progress, or until the event is set.

        Failed messages stay queued for the next start.
        """
        finishing = self._events.submit(self._finish())
        while not stopping.is_set() and not finishing.done():
            with suppress(TimeoutError):
                finishing.result(0.2)

    async def _finish(self) -> None:
        await self._until_idle()
        for id in list(self._digest_due):
            self._digest_due[id] = 0.0
            self._schedule(id)
        await self._until_idle()

    async def _until_idle(self) -> None:
        while self._running:
            await asyncio.wait(list(self._running.values()))

    def begin_shutdown(self) -> None:
        """Start no more deliveries; those in progress have the grace period to finish."""
        self._events.call(self._stop)

    def stop(self) -> None:
        """Return after the deliveries in progress, or after their grace period."""
        self.begin_shutdown()
        if self._saving is not None:
            wait([self._saving])

    # -- The loop --------------------------------------------------------------------------

    async def _keep_saving(self) -> None:
        """Save the cursors every `SAVING` seconds until shutdown."""
        while not self._ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), SAVING)
            await self._save()
        tasks = list(self._running.values())
        if self._printing is not None:  # in the same thread, so after what it passes now
            last = self._loop.create_task(self._print(self._printing))
            tasks.append(last)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._retries.ending)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            if self._printing is not None and last in late:
                _log.warning("matches are still being printed; the next start does it again")
        await self._save()

    async def _save(self) -> None:
        try:
            await asyncio.to_thread(self._endpoints.save)
        except StoreError as error:  # what was delivered is delivered again after a kill
            _log.warning("how far deliveries have come cannot be written now: %s", error)

    def _stop(self) -> None:
        self._stopping = True
        for timer in self._timers.values():
            timer.cancel()
        self._ended.set()

    def _schedule(self, id: str) -> None:
        """Start a task for an endpoint, or mark the running one to look again."""
        if self._stopping:
            return
        if id in self._running:
            self._rerun.add(id)
            return
        timer = self._timers.pop(id, None)
        if timer is not None:
            timer.cancel()
        self._rerun.discard(id)
        task = self._loop.create_task(self._guarded(id, self._serve(id)))
        self._running[id] = task

    async def _guarded(self, id: str, work: Coroutine[Any, Any, None]) -> None:
        """Run an endpoint's task; log an unexpected exception and retry later."""
        try:
            try:
                await work
            except UnknownSubscription:
                await asyncio.to_thread(self._remove_orphan, id)
        except Exception:
            _log.exception("the endpoint %s cannot be served now", id)
            self._later(id, 60.0)
        finally:
            self._running.pop(id, None)
            if id in self._rerun:
                self._schedule(id)

    def _remove_orphan(self, id: str) -> None:
        """Remove an endpoint whose subscription is gone; one that was renamed is served again.

        So is one whose removal failed.  Raises StoreUnavailable while that is not known.
        """
        endpoint = self._endpoints.get(id)
        if endpoint is not None and self._committed(endpoint.subscription) is None:
            with self._endpoints.saves_blocked():  # not before: `_committed` may wait for a push
                now = self._endpoints.get(id)
                if now is None or now.subscription == endpoint.subscription:
                    self._endpoints.remove([id])
                    return
        self.wake(id)

    def _is_paused(self, endpoint: Endpoint) -> bool:
        """Return whether a subscription is paused, and listen to it; raises UnknownSubscription."""
        found = self._subscription(endpoint.subscription)
        if found is None:
            raise UnknownSubscription(f"there is no subscription named {endpoint.subscription!r}")
        self._listen(endpoint, found.qid)
        return found.is_paused

    def _listen(self, endpoint: Endpoint, stream: int) -> int:
        """Register an endpoint for new results of a stream; return the stream."""
        if self._streams.get(endpoint.id, (None,))[0] != stream:
            self._forget(endpoint.id)
            unregister = self._notifier.register(partial(self.wake, endpoint.id), stream)
            self._streams[endpoint.id] = stream, unregister
        return stream

    def _forget(self, id: str) -> None:
        if id in self._streams:
            _, unregister = self._streams.pop(id)
            unregister()

    def _later(self, id: str, seconds: float) -> None:
        """Look at an endpoint again after some time."""
        if not self._stopping:
            timer = self._timers.get(id)
            if timer is not None:
                timer.cancel()
            self._timers[id] = self._loop.call_later(max(0.0, seconds), self._schedule, id)

    # -- One endpoint ----------------------------------------------------------------------

    async def _serve(self, id: str) -> None:
        """Deliver what waits for an endpoint, until there is nothing or it has to wait."""
        if id == PRINTING and self._printing is not None:
            await self._print(self._printing)
            return
        while not self._stopping:
            endpoint = self._endpoints.update(id, lambda one: one)  # its secrets may be gone
            if endpoint is None:
                self._forget(id)
                return
            if endpoint.state != "active" or self._is_paused(endpoint):
                return
            if endpoint.next_try > (now := self._retries.clock()):
                self._later(id, (endpoint.next_try - now) / SECOND)
                return
            sender = self._sender(endpoint)
            is_begun = id in self._digest_due
            if is_begun and self._gathers(id, sender, endpoint):
                return
            if not await self._deliver_letters(endpoint, sender):
                continue
            messages, end = await self._read(endpoint)
            if not messages and end <= endpoint.position:
                return
            if messages and not is_begun and self._gathers(id, sender, endpoint):
                return
            if not await self._deliver(endpoint, sender, messages, end):
                return

    async def _print(self, printing: Printing) -> None:
        if not await printing.deliver():
            self._later(PRINTING, RETRY)

    def _gathers(self, id: str, sender: Sender, endpoint: Endpoint) -> bool:
        """Return whether a digest is not due yet; the first message begins its interval."""
        if not sender.every or endpoint.failures:
            return False
        now = self._loop.time()
        due = self._digest_due.setdefault(id, now + sender.every)
        if due <= now:
            del self._digest_due[id]
            return False
        self._later(id, due - now)
        return True

    async def _read(self, endpoint: Endpoint) -> tuple[Sequence[Message], int]:
        """Return the next messages that are wanted, and up to where there is nothing else."""
        read = await asyncio.to_thread(self._following, endpoint)
        channel = endpoint.channel
        wanted = [
            one
            for one in read.messages
            if (channel.history or not one.history) and (channel.backfilled or not one.backfilled)
        ]
        return wanted, read.end

    def _following(self, endpoint: Endpoint) -> MessagePage:
        if self._pages.is_backfilling(endpoint.subscription):  # which matches are live is not known
            return MessagePage((), endpoint.position)
        read = self._stories if self._has_stories(endpoint) else self._matches
        return read(endpoint, endpoint.position, PAGE)

    def _has_stories(self, endpoint: Endpoint) -> bool:
        """Return whether an endpoint has a message for each story instead of each match."""
        found = self._subscription(endpoint.subscription)
        return found is not None and found.stories and endpoint.channel.grouped

    def _matches(self, endpoint: Endpoint, after: int, limit: int) -> MessagePage:
        return following(
            self._pages,
            endpoint.subscription,
            after,
            grouped=endpoint.channel.grouped,
            limit=limit,
            html=endpoint.channel.has_html,
        )

    def _stories(self, endpoint: Endpoint, after: int, limit: int) -> MessagePage:
        """Return the stories that have grown; of a channel that tells them once, the new ones."""
        channel = endpoint.channel
        page = StoryLog(self._pages).grown(
            endpoint.subscription,
            after,
            limit,
            history=channel.history,
            backfilled=channel.backfilled,
        )
        messages = tuple(
            message_of_story(story, story.growth, html=channel.has_html)
            for story in page.stories
            if story.growth is not None and (story.growth.is_first or not channel.tells_once)
        )
        return MessagePage(messages, page.end)

    async def _deliver(
        self, endpoint: Endpoint, sender: Sender, messages: Sequence[Message], end: int
    ) -> bool:
        """Send messages in order; return whether all were accepted."""
        begin = 0
        while begin < len(messages):
            sent = messages[begin : begin + sender.most]
            outcome = await self._send(endpoint, sender, sent)
            if not self._record(endpoint.id, outcome, sent):
                return False
            begin += len(sent)
            current = self._endpoints.get(endpoint.id)
            if self._stopping or current is None or current.state != "active":
                return False
            if self._is_paused(current):
                return False
            endpoint = current
        self._endpoints.update(endpoint.id, lambda e: e.passed(end))
        return True

    async def _send(
        self, endpoint: Endpoint, sender: Sender, messages: Sequence[Message]
    ) -> SendOutcome:
        """Send messages when a slot is free."""
        user, failing = owner_number(endpoint.subscription), endpoint.failures > 0
        async with self._slots.hold(user, sender.host, failing):
            outcome = await sender.send(messages)
        reached("sent")
        return outcome

    def _record(self, id: str, outcome: SendOutcome, sent: Sequence[Message]) -> bool:
        """Record the outcome of a send; return whether the next messages can follow."""
        match outcome:
            case Delivered():
                self._endpoints.update(id, lambda e: e.delivered(sent[-1].last))
                return True
            case ReceiverGone(reason):
                self._endpoints.update(id, lambda e: e.stopped(reason))
                return False
            case Later(seconds):
                self._endpoints.update(id, lambda e: e.held(outcome, self._retries.clock()))
                self._later(id, seconds)
                return False
            case SendFailed():
                failed = self._endpoints.update(
                    id,
                    lambda e: e.failed(
                        outcome, self._retries.clock(), random.random(), self._retries.schedule
                    ),
                )
                if failed is not None and failed.state == "disabled":
                    self._add_dead_letters(failed, sent, outcome.reason)
                elif failed is not None:
                    self._later(id, (failed.next_try - self._retries.clock()) / SECOND)
                return False

    def _add_dead_letters(
        self, endpoint: Endpoint, messages: Sequence[Message], reason: str
    ) -> None:
        """Turn the messages on which an endpoint was disabled into dead letters."""
        for message in messages:
            place = message.id, message.position, message.last
            self._endpoints.put_letter(
                Letter(endpoint.id, *place, ticks(), endpoint.failures, reason)
            )
        self._endpoints.update(endpoint.id, lambda e: e.passed(messages[-1].last))

    # -- Letters ---------------------------------------------------------------------------

    async def _deliver_letters(self, endpoint: Endpoint, sender: Sender) -> bool:
        """Send the letters that somebody has replayed; return False if the endpoint has to wait."""
        for letter in self._endpoints.letters(endpoint.id):
            if letter.next_try is None or self._stopping:
                continue
            message = await asyncio.to_thread(self._message, endpoint, letter)
            if message is None:
                gone = "its documents are no longer kept"
                self._endpoints.put_letter(replace(letter, next_try=None, reason=gone))
                continue
            outcome = await self._send(endpoint, sender, [message])
            match outcome:
                case Delivered():
                    self._endpoints.remove_letter(letter)
                case Later():
                    self._record(endpoint.id, outcome, [message])
                    return False
                case SendFailed(reason) | ReceiverGone(reason):
                    again = replace(letter, died=self._retries.clock(), next_try=None)
                    self._endpoints.put_letter(
                        replace(again, attempts=letter.attempts + 1, reason=reason)
                    )
        return True

    def _message(self, endpoint: Endpoint, letter: Letter) -> Message | None:
        """Return the message of a letter; None if its documents were evicted."""
        after, limit = letter.position - 1, letter.last - letter.position + 1
        reads = [self._stories] if self._has_stories(endpoint) else []
        try:
            for read in (*reads, self._matches):
                for message in read(endpoint, after, limit).messages:
                    if message.id == letter.message:
                        return message
        except StoreUnavailable:
            raise
        except StoreError:
            pass
        return None
