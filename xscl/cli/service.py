"""The service that a command works on: a data directory, or a process that serves one.

A command parses arguments, calls use cases of a `Service`, and prints.  The use cases ask the HTTP
API: that of a running service, or the same API in this process (`xscl.cli.in_process`).
"""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from xscl.cli.feed_rows import Row
from xscl.cli.http_client import HttpClient, client_at, token_of
from xscl.cli.options import Place, TypedToken, home
from xscl.cli.output import UsageError, warn
from xscl.cli.remote_service import RemoteService
from xscl.errors import UnknownSubscription
from xscl.gc_control import paused, settle

Service: TypeAlias = RemoteService


STARTING = 10.0
"""Seconds for which a command waits until a service that has just been started answers."""


@contextmanager
def opened(
    command: str, place: Place, *, missing: Literal["refuse", "create", "memory"] = "refuse"
) -> Iterator[Service]:
    """Yield the service at `url`, else the one that serves `data`, else `data` in this process.

    A `missing` data directory is refused, created, or replaced by a temporary one.  `command`
    is the name of the holder in the lock.  Raises DataDirectoryError, Unreachable, UsageError.
    """
    client = client_of(place)
    if client is not None:
        with client:
            yield RemoteService(client)
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


def client_of(place: Place) -> HttpClient | None:
    """Return a client of the service at `url` or on a data directory, None if there is none."""
    if place.url is not None:
        return client_at(place.url, place.token)
    at = home(place.data)
    until = time.monotonic() + STARTING
    while (address := at.address()) is None and at.is_starting() and time.monotonic() < until:
        time.sleep(0.05)
    if address is None:
        return None
    return HttpClient(address, token_of(place.token) or at.read_token())


def refuse_token(place: Place) -> None:
    """Raise UsageError for a --token that no service reads; warn of one of the environment."""
    if not place.token:
        return
    message = f"no service runs on {home(place.data).path}, so a token has no effect"
    if isinstance(place.token, TypedToken):
        raise UsageError(message, hint="start 'xscl serve', or leave out --token")
    if os.environ.get("XSCL_TOKEN") or os.environ.get("XSCL_TOKEN_FILE"):
        warn(f"warning: {message}: this is done as the operator")


def existing(service: Service, name: str) -> Row:
    """Return a subscription; raises UnknownSubscription with the nearest name as its hint."""
    found = service.subscription(name)
    if found is None:
        near = difflib.get_close_matches(name, service.names_like(name[:1]), n=1)
        raise UnknownSubscription(
            f"there is no subscription named {name!r}",
            hint=f"did you mean {near[0]!r}?" if near else "'xscl subscriptions' lists them",
        )
    return found
