"""Names that a service knows: near ones for a mistyped one, and those that a shell completes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from xscl.cli.options import DATA
from xscl.cli.remote import Refused, Remote, reached
from xscl.errors import UnknownSubscription, XsclError

_OFFERED = 50
_NEAR = 1_000  # names that begin alike, among which a near one is looked for


@contextmanager
def told_unknown(service: Remote, name: str) -> Iterator[None]:
    """Tell with near names that a service knows no subscription of a name."""
    try:
        yield
    except Refused as error:
        if error.problem != UnknownSubscription.code:
            raise
        names = _beginning(service, name[:1], _NEAR)
        near = difflib.get_close_matches(name, names, n=1)
        raise UnknownSubscription(
            f"there is no subscription named {name!r}",
            hint=f"did you mean {near[0]!r}?" if near else "'xscl subscriptions' lists them",
        ) from error


def subscriptions_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of subscriptions that begin so, if a service runs: asking it is cheap."""
    return _completed(ctx, lambda service: _beginning(service, incomplete, _OFFERED))


def feeds_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the streams of feeds that begin so, if a service runs."""

    def streams(service: Remote) -> list[str]:
        found = service.get("/v1/feeds", limit=_NEAR)["items"]
        names = dict.fromkeys(str(feed["stream"]) for feed in found)
        return [name for name in names if name.startswith(incomplete)][:_OFFERED]

    return _completed(ctx, streams)


def _completed(ctx: typer.Context, ask: Callable[[Remote], list[str]]) -> list[str]:
    given = ctx.params
    try:
        service = reached(given.get("data") or DATA, given.get("url"), given.get("token"))
        if service is None:
            return []
        with service:
            return ask(service)
    except (XsclError, OSError):
        return []  # a shell that waits for names is told of no errors


def _beginning(service: Remote, prefix: str, most: int) -> list[str]:
    page = service.get("/v1/subscriptions", limit=most, prefix=prefix or None)
    return [str(one["name"]) for one in page["items"]]
