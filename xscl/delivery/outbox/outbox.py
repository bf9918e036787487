"""The outbox: the facade of delivery that the consumer notifies of new matches.

    consumer ── notify ──▶ Notifier ──▶ listeners (live), each with a cursor of its own
                               └──────▶ Deliveries, a queue for each endpoint and for printing

A notification carries no matches.  Its receivers read from the store after their own cursors, so
nothing is lost by a receiver that is busy or disconnected.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from feeds.http.connection import RequestSettings
from xscl.delivery.channels.file import file_sender
from xscl.delivery.channels.mail import MailLinks, MailServer, mail_code, mail_sender
from xscl.delivery.channels.webhook import webhook_sender
from xscl.delivery.endpoint import (
    Delivered,
    DeliveryChannel,
    Endpoint,
    EndpointState,
    File,
    Mail,
    Sender,
    Webhook,
)
from xscl.delivery.listeners import ListenerReader
from xscl.delivery.notifier import Notifier
from xscl.delivery.outbox.deliveries import Deliveries, RetryPolicy
from xscl.delivery.outbox.endpoints import Endpoints
from xscl.delivery.outbox.printing import Printing
from xscl.delivery.store_epochs import epochs_of
from xscl.delivery.syndication.secret_addresses import SecretAddresses
from xscl.delivery.syndication.syndicated_feed import ModificationTimes
from xscl.documents.results import Subscription
from xscl.engine.facade import Engine
from xscl.event_loop import EventLoop
from xscl.language.names import owner_name, owner_number
from xscl.limiter import DailyQuota
from xscl.polling.credentials import Credentials, InstallationKey
from xscl.subscriptions.matches import Matches

UNSUBSCRIBE = "/unsubscribe/"
"""Path of the addresses that end mails, below the public address of the service."""
UNSUBSCRIBING = "unsubscribing"
"""The name of their key among the secrets; that of no feed."""


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
        loop: EventLoop | None = None,
    ) -> None:
        self._engine = engine
        self.loop = loop or EventLoop()
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
        self._deliveries = Deliveries(
            self.loop, engine, self.endpoints, self.notifier, self._sender, settings.pace, printing
        )

    def start(self) -> None:
        """Start delivering; remove secret addresses of subscriptions that are gone."""
        self.addresses.remove_of(
            [name for name in self.addresses.subscriptions() if self.stream_of(name) is None]
        )
        self.loop.start()
        self._deliveries.start()

    def finish(self, stopping: threading.Event) -> None:
        """Wait until everything that can be delivered now is, or until the event is set."""
        self._deliveries.finish(stopping)

    def begin_shutdown(self) -> None:
        """Disconnect all listeners and start no more deliveries; `close` waits for the rest."""
        self._ending.set()
        self.notifier.notify()
        self._deliveries.begin_shutdown()

    @property
    def is_ending(self) -> bool:
        """Return whether shutdown has begun, so that listeners must disconnect."""
        return self._ending.is_set()

    def stop(self) -> None:
        """End deliveries and the event loop within a few seconds; cursors are saved."""
        self._deliveries.stop()
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
        """Return whether all kept matches of the operator were printed."""
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
            self._deliveries.wake(endpoint.id)
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
            f"{public}/subscriptions/{quote(owner_name(endpoint.subscription))}",
            f"{public}{UNSUBSCRIBE}{endpoint.id}/{token}",
        )

    def _token(self, id: str) -> str:
        return self._unsubscribing.digest_of(id)

    def mailed(self, id: str, token: str) -> Endpoint | None:
        """Return the endpoint whose mails lead to an address with a token, None if none do."""
        found = self.endpoints.get(id)
        is_mailed = found is not None and isinstance(found.channel, Mail)
        return found if is_mailed and hmac.compare_digest(token, self._token(id)) else None

    def has(self, subscription: Subscription) -> bool:
        """Return whether a subscription still exists and was not replaced under its name."""
        found = self._engine.subscription(subscription.name)
        return found is not None and found.key == subscription.key

    def stream_of(self, subscription: str) -> int | None:
        """Return the result stream (`qid`) of a subscription, or None."""
        found = self._engine.subscription(subscription)
        return None if found is None else found.qid
