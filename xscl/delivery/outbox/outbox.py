"""The outbox: brings matches to listeners and endpoints, on the event loop of the process.

    consumer ── notify ──▶ Notifier ──▶ listeners (live), each with a cursor of its own
                               └──────▶ a task for each endpoint, and for printing

A notification carries no matches.  Its receivers read from the store after their own cursors, so
nothing is lost by a receiver that is busy or disconnected.

An endpoint's queue is the table of results after its cursor, so only one page is in memory.
Messages are sent in order.  A failed message is retried on the endpoint's schedule, and later
messages wait.  After the last attempt the endpoint is disabled, and the message is a dead letter:
an endpoint that is enabled again goes on with the next one.

`SendSlots` limits concurrent sends, so that slow endpoints do not delay others.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from feeds.faultpoints import reached
from feeds.formats.times import SECOND
from feeds.http.connection import RequestSettings
from xscl.delivery.channels.file import file_sender
from xscl.delivery.channels.mail import MailLinks, MailServer, mail_code, mail_sender
from xscl.delivery.channels.webhook import webhook_sender
from xscl.delivery.endpoint import (
    SCHEDULE,
    Delivered,
    DeliveryChannel,
    Endpoint,
    EndpointState,
    File,
    Later,
    Mail,
    ReceiverGone,
    Sender,
    SendFailed,
    SendOutcome,
    Webhook,
)
from xscl.delivery.listeners import ListenerReader
from xscl.delivery.message import Message, message_of_story
from xscl.delivery.message_reader import PAGE, MessagePage, following
from xscl.delivery.notifier import Notifier
from xscl.delivery.outbox.endpoints import Endpoints, Letter
from xscl.delivery.outbox.printing import Printing
from xscl.delivery.send_slots import SendSlots
from xscl.delivery.store_epochs import epochs_of
from xscl.delivery.syndication.secret_addresses import SecretAddresses
from xscl.delivery.syndication.syndicated_feed import ModificationTimes
from xscl.documents.results import Subscription
from xscl.engine.facade import Engine
from xscl.engine.story_log import StoryLog
from xscl.errors import StoreError, UnknownSubscription
from xscl.event_loop import EventLoop
from xscl.language.names import owner_name, owner_number
from xscl.limiter import DailyQuota
from xscl.polling.credentials import Credentials, InstallationKey
from xscl.polling.feed_repository import ticks
from xscl.store.store_errors import StoreUnavailable
from xscl.subscriptions.matches import Matches

_log = logging.getLogger(__name__)

SAVING = 0.25
"""Seconds between two saves of the cursors."""
PRINTING = ""
"""The id of the endpoint of printed matches."""
AGAIN, RETRY = 60.0, 0.2
"""Seconds until an endpoint is served again after an error, and until printing is repeated."""
UNSUBSCRIBE = "/unsubscribe/"
"""Path of the addresses that end mails, below the public address of the service."""
UNSUBSCRIBING = "unsubscribing"
"""The name, among the secrets, of the key that signs these addresses."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry schedule of failed deliveries and grace period at shutdown, both in seconds.

    `clock` returns the time in ticks; retries are due by it.
    """

    schedule: tuple[float, ...] = SCHEDULE
    ending: float = 3.0
    clock: Callable[[], int] = ticks


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """Settings of the channels: folder of files, mail server, webhooks, retries.

    `public` is the public address of the service, if it has one.
    """

    files: Path
    mail: MailServer | None = None
    requests: RequestSettings = field(default_factory=RequestSettings)
    pace: RetryPolicy = field(default_factory=RetryPolicy)
    public: str = ""


class Outbox:
    """Delivers matches to listeners and endpoints between `start` and `close`.

    `loop` is the event loop of the process, which ends with the deliveries.
    """

    def __init__(
        self,
        engine: Engine,
        secrets: Credentials,
        settings: DeliverySettings,
        printing: Printing | None = None,
    ) -> None:
        self._engine = engine
        self.loop = EventLoop()
        self.printing = printing
        self.settings = settings
        self.pages = engine.log
        self.notifier = Notifier()
        own = engine.connect()
        self.endpoints = Endpoints(own, secrets)
        self.addresses = SecretAddresses(engine.connect())
        self.listening = ListenerReader(self.pages, epochs_of(own))
        self.changes = ModificationTimes()
        self.mails = DailyQuota[int]()
        self.codes = DailyQuota[tuple[int, str]]()
        self.mail_limit: Callable[[int], int | None] = lambda user: None
        self._unsubscribing = InstallationKey(UNSUBSCRIBING, lambda: secrets)
        self._ending = threading.Event()
        self._ended = asyncio.Event()  # `_ending`, for tasks on the event loop
        self._saving: Future[None] | None = None  # from `start` on
        # By endpoint: the result stream to which it listens, and the function that ends this.
        self._streams: dict[str, tuple[int, Callable[[], None]]] = {}
        self._signals: dict[str, asyncio.Event] = {}  # of the endpoints that have a task
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[str] = set()
        self._digest_due: dict[str, float] = {}  # due times of digests by the loop's clock
        self._slots = SendSlots()
        self.endpoints.wake = self.wake

    def start(self) -> None:
        """Start delivering; remove secret addresses of subscriptions that are gone.

        Endpoints whose cursor is behind their stream continue.
        """
        self.addresses.revoke_lost(lambda name: self.stream_of(name) is not None)
        self.loop.start()
        self._saving = self.loop.submit(self._keep_saving())
        last = self.pages.last_positions()
        for endpoint in self.endpoints.all():
            stream = self.stream_of(endpoint.subscription)
            if stream is not None:
                self._listen(endpoint, stream)
            is_behind = stream is None or last.get(stream, 0) > endpoint.position
            if is_behind or self.endpoints.letters(endpoint.id):
                self.wake(endpoint.id)
        if self.printing is not None:
            self.notifier.register(partial(self.wake, PRINTING))
            if not self.printing.has_all():
                self.wake(PRINTING)

    def wake(self, id: str) -> None:
        """Signal that an endpoint may have messages to send.  Any thread may call this."""
        self.loop.call(self._signal, id)  # ignored after the end; `start` signals all

    def finish(self, stopping: threading.Event) -> None:
        """Deliver all that can be delivered now, digests too, or until the event is set.

        Failed messages stay queued for the next start.
        """
        finishing = self.loop.submit(self._finish())
        while not stopping.is_set() and not finishing.done():
            with suppress(TimeoutError):
                finishing.result(0.2)

    def begin_shutdown(self) -> None:
        """Disconnect all listeners and start no more deliveries; `close` waits for the rest."""
        self._ending.set()
        self.notifier.notify()
        self.loop.call(self._end)

    @property
    def is_ending(self) -> bool:
        """Return True if shutdown has begun, so that listeners must disconnect."""
        return self._ending.is_set()

    def stop(self) -> None:
        """End deliveries and the event loop within a few seconds; cursors are saved."""
        self.begin_shutdown()
        if self._saving is not None:
            wait([self._saving])
        self.loop.stop()

    def close(self) -> None:
        """Stop, and close the connections."""
        self.stop()
        if self.printing is not None:
            self.printing.close()
        self.listening.close()
        self.endpoints.close()
        self.addresses.close()

    def has_printed_all(self) -> bool:
        """Return True if all kept matches of the operator were printed."""
        return self.printing is None or self.printing.has_all()

    # -- Events ----------------------------------------------------------------------------

    def notify(self, matches: Matches) -> None:
        """Notify receivers of the matches of a push; called in its thread, does not block."""
        if matches.last:
            self.listening.advance(matches.last)
            self.notifier.notify(matches.streams)

    def notify_all(self) -> None:
        """Notify all receivers of what is in the store; raises StoreError if it cannot be read."""
        self.listening.advance(self.pages.position())
        self.notifier.notify()

    def edit(self, name: str, query: str | None = None, **change: Any) -> Subscription:
        """Change a subscription as `Engine.edit` does; its deliveries and listeners follow.

        The engine changes rows of the delivery tables, so saves are blocked meanwhile.
        """
        with self.endpoints.saves_blocked():
            before = self._engine.subscription(name)
            changed = self._engine.edit(name, query, **change)
            self.endpoints.rename(name, changed.name)
        for endpoint in self.endpoints.of(changed.name):
            self.wake(endpoint.id)
        if before is not None:
            self.notifier.notify([before.qid])
        return changed

    def unsubscribe(
        self, name: str, *, cascade: bool = False, purge: bool = False
    ) -> tuple[str, ...]:
        """Remove a subscription from the engine and stop its deliveries.

        The engine deletes rows of the delivery tables, so saves are blocked meanwhile.
        """
        with self.endpoints.saves_blocked():
            removed = self._engine.unsubscribe(name, cascade=cascade, purge=purge)
            self.endpoints.follow_removal(removed)
        return removed

    # -- Endpoints -------------------------------------------------------------------------

    def deliver(
        self,
        subscription: str,
        channel: DeliveryChannel,
        *,
        after: int | None = None,
        secret: str | None = None,
        state: EndpointState = "active",
    ) -> tuple[Endpoint, str | None]:
        """Create an endpoint for matches after a position (default: newest), with its secret."""
        begin = self.pages.position() if after is None else after
        return self.endpoints.add(subscription, channel, begin, secret=secret, state=state)

    def count_mail(self, user: int) -> float | None:
        """Count a mail against a user's daily quota; see `DailyQuota.consume`."""
        return self.mails.consume(user, self.mail_limit(user))

    def mail_code(self, id: str, to: str) -> bool:
        """Mail a new code for an unconfirmed endpoint; return whether the server accepted it."""
        mail = self.settings.mail
        if mail is None:
            return False
        return isinstance(mail_code(mail, to, self.endpoints.expect(id)), Delivered)

    def _sender(self, endpoint: Endpoint) -> Sender:
        """Return the sender for an endpoint's channel."""
        match endpoint.channel:
            case Webhook() as channel:
                hidden = partial(self.endpoints.hidden, endpoint.id)
                return webhook_sender(
                    channel, hidden, self.settings.requests, self.settings.pace.clock
                )
            case Mail(to, every):
                user = owner_number(endpoint.subscription)
                counted, back = partial(self.count_mail, user), partial(self.mails.refund, user)
                links = self._links(endpoint)
                return mail_sender(self.settings.mail, to, every, counted, back, links)
            case File(name):
                return file_sender(self.settings.files / name)

    def _links(self, endpoint: Endpoint) -> MailLinks | None:
        """Return the addresses in mails of an endpoint; None without a public address."""
        if not self.settings.public:
            return None
        public, token = self.settings.public.rstrip("/"), self._token(endpoint.id)
        return MailLinks(
            public,
            f"{public}/subscriptions/{quote(owner_name(endpoint.subscription))}",
            f"{public}{UNSUBSCRIBE}{endpoint.id}/{token}",
        )

    def _token(self, id: str) -> str:
        return self._unsubscribing.digest_of(id)

    def mailed(self, id: str, token: str) -> Endpoint | None:
        """Return a mail endpoint if a token is the one in its unsubscribe address; else None."""
        found = self.endpoints.get(id)
        is_mailed = found is not None and isinstance(found.channel, Mail)
        return found if is_mailed and hmac.compare_digest(token, self._token(id)) else None

    def has(self, subscription: Subscription) -> bool:
        """Return True if a subscription still exists and was not replaced under its name."""
        found = self._engine.subscription(subscription.name)
        return found is not None and found.key == subscription.key

    def stream_of(self, subscription: str) -> int | None:
        """Return the result stream (`qid`) of a subscription, or None."""
        found = self._engine.subscription(subscription)
        return None if found is None else found.qid

    # -- The loop --------------------------------------------------------------------------

    def _signal(self, id: str) -> None:
        """Signal the task of an endpoint, which is started if it has none."""
        if self.is_ending:
            return
        if id not in self._signals:
            self._signals[id] = asyncio.Event()
            task = self.loop.loop.create_task(self._serve(id, self._signals[id]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._signals[id].set()

    def _end(self) -> None:
        self._ended.set()
        for signal in self._signals.values():
            signal.set()

    async def _serve(self, id: str, signal: asyncio.Event) -> None:
        """Serve an endpoint when it is signalled or something is due, until it is removed."""
        while not self.is_ending:
            self._busy.add(id)
            signal.clear()
            seconds = await self._look(id)
            self._busy.discard(id)
            if id not in self._signals:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await signal.wait()

    async def _finish(self) -> None:
        await self._until_idle()
        for id in list(self._digest_due):
            self._digest_due[id] = 0.0
            self._signal(id)
        await self._until_idle()

    async def _until_idle(self) -> None:
        while self._busy or any(signal.is_set() for signal in self._signals.values()):
            await asyncio.sleep(0.01)

    async def _keep_saving(self) -> None:
        """Save the cursors every `SAVING` seconds until shutdown."""
        while not self._ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), SAVING)
            await self._save()
        tasks: list[asyncio.Task[Any]] = [*self._tasks]
        if self.printing is not None:  # queued in its thread, behind a page in progress
            last = asyncio.create_task(self.printing.deliver())
            tasks.append(last)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self.settings.pace.ending)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            if self.printing is not None and last in late:
                _log.warning("matches are still being printed; the next start does it again")
        await self._save()

    async def _save(self) -> None:
        try:
            await asyncio.to_thread(self.endpoints.save)
        except StoreError as error:  # what was delivered is delivered again after a kill
            _log.warning("how far deliveries have come cannot be written now: %s", error)

    # -- One endpoint ----------------------------------------------------------------------

    async def _look(self, id: str) -> float | None:
        """Deliver what waits; return the seconds to the next attempt, None to wait for a signal."""
        try:
            try:
                if id == PRINTING and self.printing is not None:
                    return None if await self.printing.deliver() else RETRY
                return await self._deliver_all(id)
            except UnknownSubscription:
                await asyncio.to_thread(self._remove_orphan, id)
                return None
        except Exception:
            _log.exception("the endpoint %s cannot be served now", id)
            return AGAIN

    def _remove_orphan(self, id: str) -> None:
        """Remove an endpoint whose subscription is gone; one that was renamed is served again.

        So is one if the removal of its subscription failed.  Raises StoreUnavailable while it is
        unknown whether the subscription is gone.
        """
        committed, endpoint = self._engine.catalog.committed, self.endpoints.get(id)
        # `committed` waits for the engine's lock: so it is called before saves are blocked, and in
        # this thread, not on the loop.
        if endpoint is not None and committed(endpoint.subscription) is None:
            with self.endpoints.saves_blocked():  # not before: `committed` may wait for a push
                now = self.endpoints.get(id)
                if now is None or now.subscription == endpoint.subscription:
                    self.endpoints.remove([id])
                    return
        self.wake(id)

    def _is_paused(self, endpoint: Endpoint) -> bool:
        """Register for the endpoint's subscription; return True if it is paused.

        Raises UnknownSubscription.
        """
        found = self._engine.subscription(endpoint.subscription)
        if found is None:
            raise UnknownSubscription(f"there is no subscription named {endpoint.subscription!r}")
        self._listen(endpoint, found.qid)
        return found.is_paused

    def _listen(self, endpoint: Endpoint, stream: int) -> None:
        """Register an endpoint for new results of a stream."""
        if self._streams.get(endpoint.id, (None,))[0] != stream:
            self._unlisten(endpoint.id)
            unregister = self.notifier.register(partial(self.wake, endpoint.id), stream)
            self._streams[endpoint.id] = stream, unregister

    def _unlisten(self, id: str) -> None:
        if id in self._streams:
            _, unregister = self._streams.pop(id)
            unregister()

    async def _deliver_all(self, id: str) -> float | None:
        """Deliver until nothing waits (None), or return the seconds until the next attempt."""
        while not self.is_ending:
            endpoint = self.endpoints.update(id, lambda one: one)  # incomplete without its secrets
            if endpoint is None:
                self._unlisten(id)
                del self._signals[id]
                self._digest_due.pop(id, None)
                return None
            if endpoint.state != "active" or self._is_paused(endpoint):
                return None
            if endpoint.next_try > (now := self.settings.pace.clock()):
                return (endpoint.next_try - now) / SECOND
            sender = self._sender(endpoint)
            is_begun = id in self._digest_due
            if is_begun and (left := self._gathering(id, sender, endpoint)):
                return left
            if not await self._deliver_letters(endpoint, sender):
                continue
            messages, end = await asyncio.to_thread(self._waiting, endpoint)
            if not messages and end <= endpoint.position:
                return None
            if messages and not is_begun and (left := self._gathering(id, sender, endpoint)):
                return left
            await self._deliver(endpoint, sender, messages, end)
        return None

    def _gathering(self, id: str, sender: Sender, endpoint: Endpoint) -> float:
        """Return the seconds until a digest is due: its interval begins with its first message."""
        if not sender.every or endpoint.failures:
            return 0.0
        now = self.loop.loop.time()
        due = self._digest_due.setdefault(id, now + sender.every)
        if due <= now:
            del self._digest_due[id]
        return max(0.0, due - now)

    def _waiting(self, endpoint: Endpoint) -> tuple[Sequence[Message], int]:
        """Return the next messages for the endpoint, and the position up to which these are all."""
        if self.pages.is_backfilling(endpoint.subscription):  # which matches are live is not known
            return (), endpoint.position
        read = self._stories if self._has_stories(endpoint) else self._matches
        page, channel = read(endpoint, endpoint.position, PAGE), endpoint.channel
        wanted = [
            message
            for message in page.messages
            if (channel.history or not message.history)
            and (channel.backfilled or not message.backfilled)
        ]
        return wanted, page.end

    def _has_stories(self, endpoint: Endpoint) -> bool:
        """Return True if an endpoint has a message for each story instead of each match."""
        found = self._engine.subscription(endpoint.subscription)
        return found is not None and found.stories and endpoint.channel.grouped

    def _matches(self, endpoint: Endpoint, after: int, limit: int) -> MessagePage:
        return following(
            self.pages,
            endpoint.subscription,
            after,
            grouped=endpoint.channel.grouped,
            limit=limit,
            html=endpoint.channel.has_html,
        )

    def _stories(self, endpoint: Endpoint, after: int, limit: int) -> MessagePage:
        """Return messages of stories that have grown; only of those that began if `tells_once`."""
        channel = endpoint.channel
        page = StoryLog(self.pages).grown(
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
    ) -> None:
        """Send messages in order; if all are accepted, advance the cursor to `end`."""
        begin = 0
        while begin < len(messages):
            sent = messages[begin : begin + sender.most]
            outcome = await self._send(endpoint, sender, sent)
            self._record(endpoint.id, outcome, sent)
            current = self.endpoints.get(endpoint.id)
            is_accepted = isinstance(outcome, Delivered) and not self.is_ending
            if not is_accepted or current is None or current.state != "active":
                return
            if self._is_paused(current):
                return
            begin, endpoint = begin + len(sent), current
        self.endpoints.update(endpoint.id, lambda e: e.passed(end))

    async def _send(
        self, endpoint: Endpoint, sender: Sender, messages: Sequence[Message]
    ) -> SendOutcome:
        """Send messages when a slot is free."""
        user, failing = owner_number(endpoint.subscription), endpoint.failures > 0
        async with self._slots.hold(user, sender.host, failing):
            outcome = await sender.send(messages)
        reached("sent")
        return outcome

    def _record(self, id: str, outcome: SendOutcome, sent: Sequence[Message]) -> None:
        """Record the outcome of a send."""
        pace = self.settings.pace
        match outcome:
            case Delivered():
                self.endpoints.update(id, lambda e: e.delivered(sent[-1].last))
            case ReceiverGone(reason):
                self.endpoints.update(id, lambda e: e.stopped(reason))
            case Later():
                self.endpoints.update(id, lambda e: e.held(outcome, pace.clock()))
            case SendFailed():
                chance = random.random()
                with self.endpoints.changes_together():
                    failed = self.endpoints.update(
                        id, lambda e: e.failed(outcome, pace.clock(), chance, pace.schedule)
                    )
                    if failed is not None and failed.state == "disabled":
                        self._add_dead_letters(failed, sent, outcome.reason)

    def _add_dead_letters(
        self, endpoint: Endpoint, messages: Sequence[Message], reason: str
    ) -> None:
        """Turn the messages on which an endpoint was disabled into dead letters."""
        for message in messages:
            place = message.id, message.position, message.last
            self.endpoints.put_letter(
                Letter(endpoint.id, *place, ticks(), endpoint.failures, reason)
            )
        self.endpoints.update(endpoint.id, lambda e: e.passed(messages[-1].last))

    # -- Letters ---------------------------------------------------------------------------

    async def _deliver_letters(self, endpoint: Endpoint, sender: Sender) -> bool:
        """Send the letters that were made due again; return False if the endpoint has to wait."""
        for letter in self.endpoints.letters(endpoint.id):
            if letter.next_try is None or self.is_ending:
                continue
            message = await asyncio.to_thread(self._message, endpoint, letter)
            if message is None:
                gone = "its documents are no longer kept"
                self.endpoints.put_letter(replace(letter, next_try=None, reason=gone))
                continue
            outcome = await self._send(endpoint, sender, [message])
            match outcome:
                case Delivered():
                    self.endpoints.remove_letter(letter)
                case Later():
                    self._record(endpoint.id, outcome, [message])
                    return False
                case SendFailed(reason) | ReceiverGone(reason):
                    again = replace(letter, died=self.settings.pace.clock(), next_try=None)
                    self.endpoints.put_letter(
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
