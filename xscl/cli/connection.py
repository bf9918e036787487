"""The service that a command asks: a running one, or the data directory in this process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

import typer

from xscl.cli.options import DATA, Place, TypedToken, argument, file_text, home
from xscl.cli.output import UsageError, warn
from xscl.cli.service import OpenedService
from xscl.errors import XsclError
from xscl.gc_control import paused, settle

STARTING = 10.0
"""Seconds for which a command waits until a service that has just been started answers."""


@contextmanager
def opened(
    command: str, place: Place, *, missing: Literal["refuse", "create", "memory"] = "refuse"
) -> Iterator[OpenedService]:
    """Yield the service at `url`, else the one that serves `data`, else `data` in this process.

    A `missing` data directory is refused, created, or replaced by a temporary one.  `command`
    is the name of the holder in the lock.  Raises DataDirectoryError, Unreachable, UsageError.
    """
    service = running_service(place)
    if service is not None:
        with service:
            yield service
        return
    refuse_token(place)
    with paused():
        from xscl.cli.in_process import opened_here  # loads the engine
    settle(oldest=None)

    at = home(place.data)
    if missing == "memory" and not at.exists():
        with TemporaryDirectory() as made, opened_here(home(Path(made)), command) as service:
            yield service
        return
    if missing == "refuse":
        at.expect()
    with opened_here(at, command) as service:
        yield service


def running_service(place: Place) -> OpenedService | None:
    """Return the service at `url` or on a data directory, None if there is none."""
    if place.url is not None:
        return service_at(place.url, place.token)
    at = home(place.data)
    until = time.monotonic() + STARTING
    while (address := at.address()) is None and at.is_starting() and time.monotonic() < until:
        time.sleep(0.05)
    if address is None:
        return None
    return OpenedService(address, token_of(place.token) or at.read_token())


def service_at(url: str, token: str | None) -> OpenedService:
    """Return the service at an address; warn of a token sent in the clear."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise UsageError(
            f"{url!r} is no address of a service", hint="such as http://127.0.0.1:8425"
        )
    if parts.username or parts.password:
        raise UsageError(
            "a user's name and password do not belong into the address", hint="--token"
        )
    service = OpenedService(url, token_of(token))
    is_loopback = parts.hostname in ("localhost", "::1") or parts.hostname.startswith("127.")
    if service.has_token and parts.scheme == "http" and not is_loopback:
        warn(f"warning: the token goes to {parts.hostname} unencrypted; use https")
    return service


def token_of(text: str | None) -> str | None:
    """Return a token; `@file` names the file that holds it."""
    if text is None or not text.startswith("@"):
        return text or None
    return file_text(Path(text[1:]).expanduser(), "the token in").strip() or None


def refuse_token(place: Place) -> None:
    """Raise UsageError for a --token without a service; warn of a token in the environment."""
    if not place.token:
        return
    message = f"no service runs on {home(place.data).path}, so a token has no effect"
    if isinstance(place.token, TypedToken):
        raise UsageError(message, hint="start 'xscl serve', or leave out --token")
    if os.environ.get("XSCL_TOKEN") or os.environ.get("XSCL_TOKEN_FILE"):
        warn(f"warning: {message}: this is done as the operator")


_OFFERED = 50


def subscriptions_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a subscription, if a service runs: a request to it is cheap."""
    return _completed(ctx, lambda service: service.names_like(incomplete, _OFFERED))


SubscriptionName: TypeAlias = Annotated[
    str, argument("The name of the subscription.", autocompletion=subscriptions_like)
]


def feeds_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the stream of a feed, if a service runs."""

    def streams(service: OpenedService) -> list[str]:
        names = dict.fromkeys(feed.stream for feed in service.feeds())
        return [name for name in names if name.startswith(incomplete)][:_OFFERED]

    return _completed(ctx, streams)


def _completed(ctx: typer.Context, ask: Callable[[OpenedService], list[str]]) -> list[str]:
    given = ctx.params
    try:
        place = Place(given.get("data") or DATA, given.get("url"), given.get("token"))
        service = running_service(place)
        if service is None:
            return []
        with service:
            return ask(service)
    except (XsclError, OSError):
        return []  # a shell that completes names shows no errors
