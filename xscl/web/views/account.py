"""The reader's account: usage and limits, tokens, and all that is kept of a user."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Form
from fastapi.responses import HTMLResponse, RedirectResponse

from xscl.service.routes import tokens
from xscl.web.page_request import Asked, router
from xscl.web.quotas import quota_rows

TokenId = Annotated[str, Form(pattern="^[0-9a-f]{8}$")]


@router.get("/account")
def account(asked: Asked) -> HTMLResponse:
    """Show what the reader uses and may use, and the reader's tokens."""
    listed = [
        one for one in tokens.list_(asked.app, asked.account) if one.user == asked.account.name
    ]
    quotas = quota_rows(tokens.me(asked.app, asked.account))
    return asked.page("account.html", quotas=quotas, tokens={asked.account.name: listed})


@router.post("/account/token")
def create(asked: Asked, label: Annotated[str, Form(max_length=200)] = "") -> HTMLResponse:
    """Create a token of the reader and show it once."""
    made = tokens.create(tokens.New(user=None, label=label), asked.app, asked.account)
    return asked.page("token.html", made=made, back="/account")


@router.post("/account/token/revoke")
def revoke(asked: Asked, id: TokenId) -> RedirectResponse:
    """Revoke a token and return."""
    tokens.revoke(id, asked.app, asked.account)
    return RedirectResponse("/account", HTTPStatus.SEE_OTHER)
