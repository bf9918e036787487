"""Matches as Atom and JSON Feed, with a token or under a secret address.

Feed readers send no token, so a subscription can have secret addresses, `/f/SECRET.atom` and
`.json`.  Each is shown once and can be revoked.  It grants access to the matches of its
subscription and to nothing else.  The service stores its hash and logs no secret addresses.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from xscl.delivery.message import owner_name
from xscl.delivery.message_reader import latest
from xscl.delivery.syndication import atom_feed, json_feed
from xscl.delivery.syndication.syndicated_feed import (
    PAGE,
    FeedPage,
    etag,
    feed_of,
    http_date,
    is_unchanged,
)
from xscl.service.bodies import DeliveryTime, JsonBody, RequestBody, raw_response
from xscl.service.dependencies import Here, Who
from xscl.service.installation import Installation
from xscl.service.names import owner
from xscl.service.problems import Problem, not_found
from xscl.service.routes.matches import POSITION
from xscl.service.routes.subscriptions import Name, existing

router = APIRouter(prefix="/subscriptions/{name}", tags=["feeds of matches"])
secret_router = APIRouter(prefix="/f", tags=["feeds of matches"])

Format: TypeAlias = Literal["atom", "json"]
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


Conditions = Annotated[_Conditions, Depends()]
_RENDERERS: dict[Format, tuple[Callable[[FeedPage], bytes], str]] = {
    "atom": (atom_feed.atom, atom_feed.MEDIA_TYPE),
    "json": (json_feed.json_feed, json_feed.MEDIA_TYPE),
}
"""Renderers of a page with their media types."""
_ATOM, _JSON = (raw_response(kind, "A page, the newest first.") for _, kind in _RENDERERS.values())


class NewAddress(RequestBody):
    """A secret address to create."""

    label: str = Field("", max_length=200)
    """A label for the list of addresses."""


class ShownAddress(JsonBody):
    """A secret address without its secret part."""

    id: str = Field(examples=["5f0c2a9d"])
    """Its name in addresses; no secret."""
    label: str = Field(examples=["reader"])
    """A label for the list of addresses."""
    created: DeliveryTime = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of creation."""


class MadeAddress(ShownAddress):
    """A new secret address; the secret part is shown only once."""

    atom: str = Field(examples=["https://example.org/f/SECRET.atom"])
    """The address for Atom; whoever has it reads the matches."""
    json_feed: str = Field(examples=["https://example.org/f/SECRET.json"])
    """The address for JSON Feed."""


@router.get("/feed.atom", summary="Get matches as Atom", response_class=Response, responses=_ATOM)
def feed_atom(name: Name, here: Here, who: Who, conditions: Conditions) -> Response:
    """The newest matches; the link `next` leads to older ones."""
    return _answer(here, existing(here, who, name).name, "atom", conditions)


@router.get(
    "/feed.json", summary="Get matches as JSON Feed", response_class=Response, responses=_JSON
)
def feed_json(name: Name, here: Here, who: Who, conditions: Conditions) -> Response:
    """The newest matches; `next_url` leads to older ones."""
    return _answer(here, existing(here, who, name).name, "json", conditions)


@secret_router.get(
    "/{secret}.atom", summary="Fetch as Atom by a secret address", response_class=Response,
    responses=_ATOM,
)  # fmt: skip
def secret_atom(secret: SecretPart, here: Here, conditions: Conditions) -> Response:
    """The newest matches of the subscription that the address is for."""
    return _answer(here, _subscription_of(here, secret), "atom", conditions)


@secret_router.get(
    "/{secret}.json", summary="Fetch as JSON Feed by a secret address", response_class=Response,
    responses=_JSON,
)  # fmt: skip
def secret_json(secret: SecretPart, here: Here, conditions: Conditions) -> Response:
    """The newest matches of the subscription that the address is for."""
    return _answer(here, _subscription_of(here, secret), "json", conditions)


@router.post("/addresses", summary="Create a secret address", status_code=201)
def make(name: Name, here: Here, who: Who, request: Request, new: NewAddress) -> MadeAddress:
    """Feed readers fetch from it without a token.  It is shown this once."""
    known = existing(here, who, name).name
    address, secret = here.outbox.addresses.make(known, new.label)
    at = f"{request.base_url}f/{secret}"
    return MadeAddress(**asdict(address), atom=f"{at}.atom", json_feed=f"{at}.json")


@router.get("/addresses", summary="List the secret addresses")
def addresses(name: Name, here: Here, who: Who) -> list[ShownAddress]:
    """Those that are not revoked, without what is secret."""
    known = existing(here, who, name).name
    return [ShownAddress.model_validate(one) for one in here.outbox.addresses.of(known)]


@router.delete("/addresses/{id}", summary="Revoke a secret address", status_code=204)
def revoke(name: Name, id: Id, here: Here, who: Who) -> None:
    """From now on it leads nowhere."""
    known = existing(here, who, name).name
    if id not in (one.id for one in here.outbox.addresses.of(known)):
        raise not_found("address", id)
    here.outbox.addresses.revoke(id)


def _subscription_of(here: Installation, secret: str) -> str:
    """Return the subscription of a secret address; raises Problem 404, RateExceeded."""
    found = here.outbox.addresses.find(secret)
    if found is None or here.engine.subscription(found.subscription) is None:
        raise Problem(
            "unknown_address", "this address leads to no feed", hint="it may have been revoked"
        )
    account = here.accounts.numbered(owner(found.subscription)[0])
    if account is not None:
        # Requests to a secret address count for its owner.
        here.requests.consume(account.number, account.quota.requests_a_minute)
    return found.subscription


def _answer(here: Installation, known: str, form: Format, conditions: _Conditions) -> Response:
    """Return a feed page, or 304 if the client's copy is current."""
    before = conditions.before
    found = latest(here.engine.host.log.pages(), known, PAGE, before=before)
    feed = feed_of(known, owner_name(known), found, before, conditions.url)
    tag = etag(feed)
    changed = here.outbox.changes.since(f"{form} {known} {before}", tag, int(time.time()))
    headers = {
        "ETag": tag,
        "Last-Modified": http_date(changed),
        "Cache-Control": "private, no-cache",
        "X-Robots-Tag": "noindex",
    }
    if is_unchanged(tag, changed, conditions.etag, conditions.since):
        return Response(status_code=304, headers=headers)
    render, kind = _RENDERERS[form]
    return Response(render(feed), headers=headers, media_type=f"{kind}; charset=utf-8")
