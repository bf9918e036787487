"""Signing in: a token is exchanged for a same-site session cookie."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Form, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from xscl.service.app import App
from xscl.service.client_address import is_https
from xscl.service.dependencies import COOKIE, NO_TOKEN, TheApp, count_guess
from xscl.service.problems import Problem
from xscl.service.tokens import SESSION
from xscl.web.links import on_site
from xscl.web.page_request import router
from xscl.web.problems import PageProblem
from xscl.web.rendering import page


@router.get("/sign-in")
def ask(
    request: Request,
    app: TheApp,
    next: Annotated[str, Query(max_length=4_000)] = "/",
    out: bool = False,
) -> HTMLResponse:
    """Show the sign-in form, with a hint if no token exists; `out` after signing out."""
    error = _none_exists(app)
    return page(request, "signin.html", None, next=on_site(next), error=error, out=out)


@router.post("/sign-in")
def sign_in(
    request: Request,
    app: TheApp,
    token: Annotated[str, Form(max_length=200)],
    next: Annotated[str, Form(max_length=4_000)] = "/",
) -> Response:
    """Open a session and redirect to the requested page."""
    token = token.strip()
    account = app.accounts.tokens.owner(token)
    if account is None:
        status, error = _refused(request, app)
        return page(
            request, "signin.html", None, status=status, next=on_site(next), error=error, out=False
        )
    _, session = app.accounts.tokens.create(account, "a browser", parent=token)
    answer = RedirectResponse(on_site(next), HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        COOKIE,
        session,
        max_age=SESSION // 1_000_000,
        samesite="strict",
        httponly=True,
        secure=is_https(request.scope, app.settings.trusted_proxies),
    )
    return answer


@router.post("/sign-out")
def sign_out(request: Request, app: TheApp) -> RedirectResponse:
    """Revoke the session and delete its cookie."""
    given = request.cookies.get(COOKIE)
    if given:
        app.accounts.tokens.end_session(given)
    answer = RedirectResponse("/sign-in?out=1", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE, samesite="strict", httponly=True)
    return answer


def _none_exists(app: App) -> PageProblem | None:
    """Return a hint if the service requires tokens and none exists."""
    if app.settings.is_open or app.accounts.tokens.of():
        return None
    return PageProblem("No token", "No token exists yet", NO_TOKEN)


def _refused(request: Request, app: App) -> tuple[HTTPStatus, PageProblem]:
    """Return the status and text for a wrong token, or 429 after too many."""
    try:
        count_guess(request, app)
    except Problem:
        words = "Too many wrong tokens came from your address"
        return HTTPStatus.TOO_MANY_REQUESTS, PageProblem("Wait", words, "wait a minute")
    if (none := _none_exists(app)) is not None:
        return HTTPStatus.UNAUTHORIZED, none
    words = "The token is wrong, revoked or expired"
    return HTTPStatus.UNAUTHORIZED, PageProblem("Wrong token", words, "it begins with xscl_")
