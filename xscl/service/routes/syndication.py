"""Matches as Atom and JSON Feed, with a token or under a secret address.

A feed has the matches of one subscription, or of all that a user has.  Feed readers send no token,
so a feed can have secret addresses, `/f/SECRET.atom` and `.json`.  Each is shown once and can be
revoked.  It grants access to the matches of its feed and to nothing else.  The service stores its
hash and logs no secret addresses.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlencode

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from xscl.client.bodies import JsonBody, Moment
from xscl.delivery.message_reader import NewestFirst, latest, with_stories
from xscl.delivery.syndication import formats
from xscl.delivery.syndication.syndicated_feed import (
    PAGE,
    FeedAddresses,
    FeedPage,
    etag,
    feed_of,
    http_date,
    is_unchanged,
)
from xscl.engine.match_log import Page
from xscl.language.names import owner_name
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.bodies import RequestBody, raw_response
from xscl.service.dependencies import TheAccount, TheApp, api_router
from xscl.service.names import owner
from xscl.service.problems import Problem, not_found
from xscl.service.routes.matches import POSITION
from xscl.service.routes.subscriptions import Name
from xscl.service.subscribing import existing

router = api_router("/subscriptions/{name}", tag="feeds of matches")
all_router = api_router(tag="feeds of matches")
secret_router = APIRouter(prefix="/f", tags=["feeds of matches"])

MatchFeedFormat: TypeAlias = Literal["atom", "json"]
Before = Annotated[
    int | None, Query(ge=0, le=POSITION, description="The page before this position.")
]
Id = Annotated[str, Path(max_length=100, description="The id of the address.")]
SecretPart = Annotated[str, Path(description="The secret part of the address.")]
Etag = Annotated[
    str | None, Header(alias="If-None-Match", description="The ETag of what you have.")
]
Since = Annotated[str | None, Header(alias="If-Modified-Since", description="Its Last-Modified.")]


@dataclass(frozen=True, slots=True)
class _Conditions:
    """The requested page, and the validators of the client's copy."""

    request: Request
    before: Before = None
    etag: Etag = None
    since: Since = None

    def url(self, before: int | None) -> str:
        """Return the URL of the page before a position."""
        plain = str(self.request.url.replace(query=""))
        return plain if before is None else f"{plain}?before={before}"

    def addresses(self, home: str) -> FeedAddresses:
        """Return the addresses of a feed whose web page has the path `home`."""
        base = str(self.request.base_url)
        return FeedAddresses(
            self.url,
            f"{base}{home}",
            lambda one: f"{base}matches/{one.id}?at={one.position}.{one.number}",
        )


Conditions = Annotated[_Conditions, Depends()]
_RENDERERS: dict[MatchFeedFormat, tuple[Callable[[FeedPage], bytes], str]] = {
    "atom": (formats.atom, formats.ATOM),
    "json": (formats.json_feed, formats.JSON),
}
"""Renderers of a page with their media types."""
_ATOM, _JSON = (raw_response(kind, "A page, the newest first.") for _, kind in _RENDERERS.values())


class NewAddress(RequestBody):
    """A secret address to create."""

    label: str = Field("", max_length=200)
    """A label for the list of addresses."""


GivenAddress: TypeAlias = Annotated[NewAddress, Body(default_factory=NewAddress)]
"""The body may be left out: all its fields have defaults."""


class ShownAddress(JsonBody):
    """A secret address, without the part that is secret."""

    id: str = Field(examples=["5f0c2a9d"])
    """The id of the secret address, for its revocation; not secret."""
    label: str = Field(examples=["reader"])
    """A label for the list of addresses."""
    created: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of creation."""


class MadeAddress(ShownAddress):
    """A new secret address; the secret part is shown only once."""

    atom: str = Field(examples=["https://example.org/f/SECRET.atom"])
    """The address for Atom; whoever has it reads the matches."""
    json_feed: str = Field(examples=["https://example.org/f/SECRET.json"])
    """The address for JSON Feed."""


@router.get("/feed.atom", summary="Get matches as Atom", **_ATOM)
def feed_atom(name: Name, app: TheApp, account: TheAccount, conditions: Conditions) -> Response:
    """Returns the newest matches; the link `next` leads to older ones."""
    return _answer(_of_one(app, existing(app, account, name).name), "atom", conditions)


@router.get("/feed.json", summary="Get matches as JSON Feed", **_JSON)
def feed_json(name: Name, app: TheApp, account: TheAccount, conditions: Conditions) -> Response:
    """Returns the newest matches; `next_url` leads to older ones."""
    return _answer(_of_one(app, existing(app, account, name).name), "json", conditions)


@all_router.get("/feed.atom", summary="Get all matches as Atom", **_ATOM)
def all_atom(app: TheApp, account: TheAccount, conditions: Conditions) -> Response:
    """Returns the newest matches of all your subscriptions; the link `next` leads to older ones."""
    return _answer(_of_all(app, account), "atom", conditions)


@all_router.get("/feed.json", summary="Get all matches as JSON Feed", **_JSON)
def all_json(app: TheApp, account: TheAccount, conditions: Conditions) -> Response:
    """Returns the newest matches of all your subscriptions; `next_url` leads to older ones."""
    return _answer(_of_all(app, account), "json", conditions)


@secret_router.get("/{secret}.atom", summary="Fetch as Atom by a secret address", **_ATOM)
def secret_atom(secret: SecretPart, app: TheApp, conditions: Conditions) -> Response:
    """Returns the newest matches of the feed of a secret address."""
    return _answer(_of_secret(app, secret), "atom", conditions)


@secret_router.get("/{secret}.json", summary="Fetch as JSON Feed by a secret address", **_JSON)
def secret_json(secret: SecretPart, app: TheApp, conditions: Conditions) -> Response:
    """Returns the newest matches of the feed of a secret address."""
    return _answer(_of_secret(app, secret), "json", conditions)


@router.post("/addresses", summary="Create a secret address", status_code=201)
def make(
    name: Name, app: TheApp, account: TheAccount, request: Request, new: GivenAddress
) -> MadeAddress:
    """Creates an address for feed readers, which send no token.  Only this answer shows it."""
    return _made(app, existing(app, account, name).name, request, new)


@router.get("/addresses", summary="List the secret addresses")
def addresses(name: Name, app: TheApp, account: TheAccount) -> list[ShownAddress]:
    """Lists the addresses that are not revoked, without their secret parts."""
    return _listed(app, existing(app, account, name).name)


@router.delete("/addresses/{id}", summary="Revoke a secret address", status_code=204)
def revoke(name: Name, id: Id, app: TheApp, account: TheAccount) -> None:
    """Revokes a secret address: from now on it leads to no feed."""
    _revoke(app, existing(app, account, name).name, id)


@all_router.post("/addresses", summary="Create a secret address of all matches", status_code=201)
def make_of_all(
    app: TheApp, account: TheAccount, request: Request, new: GivenAddress
) -> MadeAddress:
    """Creates an address of all your matches for feed readers.  Only this answer shows it."""
    return _made(app, account.qualify(""), request, new)


@all_router.get("/addresses", summary="List the secret addresses of all matches")
def addresses_of_all(app: TheApp, account: TheAccount) -> list[ShownAddress]:
    """Lists the addresses that are not revoked, without their secret parts."""
    return _listed(app, account.qualify(""))


@all_router.delete(
    "/addresses/{id}", summary="Revoke a secret address of all matches", status_code=204
)
def revoke_of_all(id: Id, app: TheApp, account: TheAccount) -> None:
    """Revokes a secret address: from now on it leads to no feed."""
    _revoke(app, account.qualify(""), id)


def _made(app: App, known: str, request: Request, new: NewAddress) -> MadeAddress:
    """Create a secret address of the feed with the engine name `known`."""
    address, secret = app.delivery.addresses.make(known, new.label)
    at = f"{request.base_url}f/{secret}"
    return MadeAddress(**asdict(address), atom=f"{at}.atom", json_feed=f"{at}.json")


def _listed(app: App, known: str) -> list[ShownAddress]:
    return [ShownAddress.model_validate(one) for one in app.delivery.addresses.of(known)]


def _revoke(app: App, known: str, id: str) -> None:
    if id not in (one.id for one in app.delivery.addresses.of(known)):
        raise not_found("address", id)
    app.delivery.addresses.revoke(id)


# -- Feeds -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Feed:
    """A feed of matches: engine name, title, path of its web page, and the function that reads it.

    The engine name is that of a subscription, or the prefix of a user for all his matches.
    """

    app: App
    known: str
    title: str
    home: str
    read: NewestFirst


def _of_one(app: App, known: str) -> _Feed:
    """Return the feed of a subscription by its engine name."""
    name = owner_name(known)
    read = partial(app.engine.log.page, known, newest_first=True, heads=True)
    return _Feed(app, known, name, f"?{urlencode({'subscription': name})}", read)


def _of_all(app: App, account: Account) -> _Feed:
    """Return the feed of all matches of a user."""
    prefix = account.qualify("")
    of_all = partial(
        app.engine.log.page_of_all, account.has, newest_first=True, prefix=prefix, heads=True
    )

    def read(before: int | None, limit: int) -> Page:
        return of_all(before=None if before is None else (before, 0), limit=limit)

    return _Feed(app, prefix, "All matches", "", read)


def _of_secret(app: App, secret: str) -> _Feed:
    """Return the feed of a secret address; raises Problem 404, RateExceeded."""
    found = app.delivery.addresses.find(secret)
    account = None if found is None else app.accounts.users.numbered(owner(found.subscription)[0])
    is_there = found is not None and (
        found.is_of_all or app.engine.subscription(found.subscription) is not None
    )
    if found is None or account is None or not is_there:
        raise Problem(
            "unknown_address", "this address leads to no feed", hint="it may have been revoked"
        )
    # Requests to a secret address count for its owner.
    app.accounts.limits.requests.consume(account.number, account.quota.requests_a_minute)
    return _of_all(app, account) if found.is_of_all else _of_one(app, found.subscription)


def _answer(feed: _Feed, form: MatchFeedFormat, conditions: _Conditions) -> Response:
    """Return a feed page, or 304 if the client's copy is current."""
    before = conditions.before
    found = with_stories(feed.app.engine.log, latest(feed.read, PAGE, before=before))
    page = feed_of(feed.known, feed.title, found, before, conditions.addresses(feed.home))
    tag = etag(page)
    key = f"{form} {feed.known} {before}"
    changed = feed.app.delivery.changes.since(key, tag, int(time.time()))
    headers = {
        "ETag": tag,
        "Last-Modified": http_date(changed),
        "Cache-Control": "private, no-cache",
        "X-Robots-Tag": "noindex",
    }
    if is_unchanged(tag, changed, conditions.etag, conditions.since):
        return Response(status_code=304, headers=headers)
    render, kind = _RENDERERS[form]
    return Response(render(page), headers=headers, media_type=f"{kind}; charset=utf-8")
