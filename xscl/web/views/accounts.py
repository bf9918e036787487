"""Accounts: signing in, the reader's own account, and the operator's page of users.

A token is exchanged for a same-site session cookie.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from xscl.documents.retention import DAY
from xscl.plurals import counted
from xscl.service.app import App
from xscl.service.client_address import is_https
from xscl.service.dependencies import COOKIE, NO_TOKEN, TheApp, count_guess
from xscl.service.problems import Problem
from xscl.service.routes import tokens
from xscl.service.routes.tokens import User_
from xscl.service.tokens import SESSION
from xscl.store.queries.results import busiest_joins
from xscl.store.queries.status import failing_endpoints
from xscl.web.pages import Asked, AskedByOperator, Back, PageProblem, on_site, router
from xscl.web.rendering import page

MOST = 10
"""Maximum number of busy subscriptions, and of failing deliveries, on the operator's page."""

User = Annotated[str, Form(min_length=1, max_length=100)]


@router.get("/operator")
def overview(asked: AskedByOperator) -> Response:
    """Show the users, the busiest subscriptions and the deliveries that fail."""
    app, account = asked.app, asked.account
    listed = defaultdict(list)
    for token in tokens.list_(app, account):
        listed[token.user].append(token)
    users = [(one.name, quota_rows(one)) for one in tokens.accounts(app, account)]
    with app.store() as store:
        busy = list(busiest_joins(store, app.clock.now() - DAY, MOST))
        failing = list(failing_endpoints(store, MOST))
    return asked.page(
        "operator.html",
        users=users,
        tokens=listed,
        busy=busy,
        failing=failing,
        called=app.accounts.users.called,
    )


@router.post("/operator/erase")
def erase(asked: AskedByOperator, user: User, sure: User) -> Response:
    """Erase a user; raises Problem 422 unless `sure`, the name typed again, is equal."""
    if sure != user:
        raise Problem(
            "invalid_request", f"{sure!r} is not {user!r}", hint="type the name of the user again"
        )
    tokens.erase(user, asked.app, asked.account)
    return asked.redirect("/operator#users")


@router.post("/operator/quota")
def allow(
    asked: AskedByOperator,
    user: Annotated[str, Query(min_length=1, max_length=100)],
    quota: Annotated[tokens.Quotas, Form()],
) -> Response:
    """Set the limits of a user, no limit for an empty field, and show the operator's page."""
    tokens.allow(user, quota, asked.app, asked.account)
    return asked.redirect("/operator#users")


@router.get("/account")
def account(asked: Asked) -> Response:
    """Show the reader's usage, limits and tokens."""
    listed = [
        one for one in tokens.list_(asked.app, asked.account) if one.user == asked.account.name
    ]
    quotas = quota_rows(tokens.me(asked.app, asked.account))
    return asked.page("account.html", quotas=quotas, tokens={asked.account.name: listed})


@router.post("/account/token")
def create(
    asked: Asked,
    user: Annotated[str, Form(max_length=100)] = "",
    label: Annotated[str, Form(max_length=200)] = "",
    back: Back = "/account",
) -> Response:
    """Create a token and show it once; the operator may create one for another or a new user.

    The page that shows it has a link to `back`.
    """
    new = tokens.NewToken(user=user.strip() or None, label=label)
    made = tokens.create(new, asked.app, asked.account)
    return asked.page("token.html", made=made, back=on_site(back))


@router.post("/account/token/revoke")
def revoke(
    asked: Asked, id: Annotated[str, Form(pattern="^[0-9a-f]{8}$")], back: Back = "/account"
) -> Response:
    """Revoke a token and return to the page."""
    tokens.revoke(id, asked.app, asked.account)
    return asked.back(back)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A limit of a user and its usage; None is no limit, or a usage that is not counted."""

    name: str
    limit: int | None
    used: int | None

    @property
    def words(self) -> str:
        """The name with blanks for underscores."""
        return self.name.replace("_", " ")

    @property
    def used_in_words(self) -> str:
        """The usage with its noun: `1 subscription`, `2 matches today`."""
        names, a_day, _ = self.words.partition(" a day")
        noun = names.removesuffix("es" if names == "matches" else "s")
        return counted(self.used or 0, noun) + (" today" if a_day else "")

    @property
    def is_full(self) -> bool:
        """True if nothing is left of the limit."""
        return self.limit is not None and self.used is not None and self.used >= self.limit


def quota_rows(user: User_) -> list[QuotaRow]:
    """Return the limits of a user, in the order of the API."""
    used = user.used.model_dump()
    return [
        QuotaRow(name, limit, used.get(name.replace("_a_day", "_today")))
        for name, limit in user.quota.model_dump().items()
    ]


@router.get("/sign-in")
def ask(
    request: Request,
    app: TheApp,
    next: Annotated[str, Query(max_length=4_000)] = "/",
    out: bool = False,
) -> Response:
    """Show the sign-in form, with a hint if no token exists; `out` is True after a sign-out."""
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
    session = app.accounts.tokens.begin_session(token.strip(), "a browser")
    if session is None:
        status, error = _refused(request, app)
        return page(
            request, "signin.html", None, status=status, next=on_site(next), error=error, out=False
        )
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
def sign_out(request: Request, app: TheApp) -> Response:
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
    """Return the status and text for a wrong token; after too many they are those of 429."""
    try:
        count_guess(request, app)
    except Problem:
        words = "Too many wrong tokens came from your address"
        return HTTPStatus.TOO_MANY_REQUESTS, PageProblem("Wait", words, "wait a minute")
    if (none := _none_exists(app)) is not None:
        return HTTPStatus.UNAUTHORIZED, none
    words = "The token is wrong, revoked or expired"
    return HTTPStatus.UNAUTHORIZED, PageProblem("Wrong token", words, "it begins with xscl_")
