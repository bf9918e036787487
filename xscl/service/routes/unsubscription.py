"""The end of mails: `/unsubscribe/ENDPOINT/TOKEN`, an address in each mail (RFC 8058).

It is asked without a token of a user: only who has a mail knows the address.  A look at it changes
nothing, since programs look at all addresses of a mail; a POST ends the mails.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import HTMLResponse

from xscl.delivery.endpoint import Endpoint
from xscl.delivery.message import owner_name, owner_of
from xscl.delivery.outbox.outbox import UNSUBSCRIBE
from xscl.service.app import App
from xscl.service.dependencies import TheApp
from xscl.service.problems import Problem

router = APIRouter(prefix=UNSUBSCRIBE.rstrip("/"), tags=["deliveries"])

NOTE = "the reader asked for no more mails"

Id = Annotated[str, Path(max_length=100, description="The id of the endpoint.")]
Token = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The token of the mail.")]


@router.get("/{id}/{token}", summary="Look at the end of mails", response_class=HTMLResponse)
def look(id: Id, token: Token, app: TheApp) -> HTMLResponse:
    """A page with a button that ends the mails."""
    endpoint = _mailed(app, id, token)
    return _page(
        f"Mails about {escape(owner_name(endpoint.subscription))}",
        '<form method="post"><button type="submit">No more of these mails</button></form>',
    )


@router.post("/{id}/{token}", summary="End mails", response_class=HTMLResponse)
def unsubscribe(id: Id, token: Token, app: TheApp) -> HTMLResponse:
    """Disables the endpoint of the operator; a user needs the reader's code to go on."""
    _mailed(app, id, token)
    app.delivery.change(id, _ended)
    return _page("No more of these mails", "<p>You get no more of these mails.</p>")


def _ended(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint without mails; a user cannot enable it, the reader has to agree again."""
    if owner_of(endpoint.subscription):
        return replace(endpoint.stopped(NOTE), state="unconfirmed")
    return endpoint.stopped(NOTE)


def _mailed(app: App, id: str, token: str) -> Endpoint:
    """Return the endpoint of an address; raises Problem 404."""
    endpoint = app.delivery.mailed(id, token)
    if endpoint is None:
        raise Problem("unknown_address", "this is no address of a mail, or its endpoint is gone")
    return endpoint


def _page(title: str, body: str) -> HTMLResponse:
    return HTMLResponse(
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><h1>{title}</h1>{body}</body></html>\n"
    )
