"""Where matches are delivered, as commands on a data directory change it: a webhook, or nothing."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from xscl.cli.output import Misuse
from xscl.cli.remote import Remote, place
from xscl.delivery.endpoint import Webhook
from xscl.delivery.endpoints import Endpoints
from xscl.engine import Engine
from xscl.home import Home
from xscl.secrets import NAME, secrets_in


@dataclass(frozen=True, slots=True)
class Made:
    """A webhook that was made, and the secret that signs what it is sent; shown this once."""

    id: str
    secret: str

    def as_dict(self) -> dict[str, Any]:
        return {"id": self.id, "secret": self.secret}


def check_webhook(url: str | None) -> None:
    """Raise Misuse for what is no address; whether it may be reached is seen when it is asked."""
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise Misuse(f"{url!r} is no address of a webhook", hint="it begins with https://")


def deliver(engine: Engine, at: Home, name: str, url: str) -> Made:
    """Have the matches that a subscription finds from now on posted to an address."""
    with closing(Endpoints(engine.host.connect(), secrets_in(at.path / NAME))) as endpoints:
        made, secret = endpoints.add(name, Webhook(url), engine.host.log.pages().position())
    assert secret is not None
    return Made(made.id, secret)


def deliver_remotely(service: Remote, name: str, url: str) -> Made:
    """Have a service post the matches of a subscription to an address."""
    wanted = {"kind": "webhook", "url": url}
    made = service.ask("POST", place("subscriptions", name, "endpoints"), json=wanted).json()
    return Made(made["id"], made["secret"])


def unsubscribe(engine: Engine, at: Home, name: str, *, cascade: bool) -> tuple[str, ...]:
    """Remove a subscription with the secrets of its endpoints; return what was removed."""
    with closing(Endpoints(engine.host.connect(), secrets_in(at.path / NAME))) as endpoints:
        removed = engine.unsubscribe(name, cascade=cascade)
        endpoints.remove_of(removed)
    return removed
