"""Shell completion of names that a running service knows."""

from __future__ import annotations

from collections.abc import Callable

import typer

from xscl.cli.options import DATA, Place
from xscl.cli.service import OpenedService, running_service
from xscl.errors import XsclError

_OFFERED = 50


def subscriptions_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a subscription, if a service runs: a request to it is cheap."""
    return _completed(ctx, lambda service: service.names_like(incomplete, _OFFERED))


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
