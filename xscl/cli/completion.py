"""Shell completion of names that a running service knows."""

from __future__ import annotations

from collections.abc import Callable

import typer

from xscl.cli.options import DATA, Place
from xscl.cli.remote_service import RemoteService
from xscl.cli.service import client_of
from xscl.client.calls import PAGE
from xscl.errors import XsclError

_OFFERED = 50


def subscriptions_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a subscription, if a service runs: a request to it is cheap."""
    return _completed(ctx, lambda service: service.names_like(incomplete, _OFFERED))


def feeds_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the stream of a feed, if a service runs."""

    def streams(service: RemoteService) -> list[str]:
        found = service.http.value("/v1/feeds", limit=PAGE)["items"]
        names = dict.fromkeys(str(feed["stream"]) for feed in found)
        return [name for name in names if name.startswith(incomplete)][:_OFFERED]

    return _completed(ctx, streams)


def _completed(ctx: typer.Context, ask: Callable[[RemoteService], list[str]]) -> list[str]:
    given = ctx.params
    try:
        place = Place(given.get("data") or DATA, given.get("url"), given.get("token"))
        client = client_of(place)
        if client is None:
            return []
        with client:
            return ask(RemoteService(client))
    except (XsclError, OSError):
        return []  # a shell that completes names shows no errors
