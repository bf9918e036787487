"""The operator's page: users with quotas and tokens, busy subscriptions, failing deliveries."""

from __future__ import annotations

from collections import defaultdict
from http import HTTPStatus
from typing import Annotated

from fastapi import Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse

from xscl.documents.retention import DAY
from xscl.service.problems import Problem
from xscl.service.routes import tokens
from xscl.store.queries.endpoints import failing_endpoints
from xscl.store.queries.results import busiest_joins
from xscl.web.page_request import AskedByOperator, router
from xscl.web.quotas import quota_rows

MOST = 10
"""Maximum number of busy subscriptions, and of failing deliveries."""

User = Annotated[str, Form(min_length=1, max_length=100)]


@router.get("/operator")
def overview(asked: AskedByOperator) -> HTMLResponse:
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


@router.post("/operator/token")
def create(
    asked: AskedByOperator, user: User, label: Annotated[str, Form(max_length=200)] = ""
) -> HTMLResponse:
    """Create a token, for a new user if there is none of the name, and show it once."""
    made = tokens.create(tokens.New(user=user.strip(), label=label), asked.app, asked.account)
    return asked.page("token.html", made=made, back="/operator#users")


@router.post("/operator/token/revoke")
def revoke(
    asked: AskedByOperator, id: Annotated[str, Form(pattern="^[0-9a-f]{8}$")]
) -> RedirectResponse:
    """Revoke a token and return."""
    tokens.revoke(id, asked.app, asked.account)
    return RedirectResponse("/operator#users", HTTPStatus.SEE_OTHER)


@router.post("/operator/erase")
def erase(asked: AskedByOperator, user: User, sure: User) -> RedirectResponse:
    """Erase a user whose name was typed again; raises Problem 422 for another one."""
    if sure != user:
        raise Problem(
            "invalid_request", f"{sure!r} is not {user!r}", hint="type the name of the user again"
        )
    tokens.erase(user, asked.app, asked.account)
    return RedirectResponse("/operator#users", HTTPStatus.SEE_OTHER)


@router.post("/operator/quota")
def allow(
    asked: AskedByOperator,
    user: Annotated[str, Query(min_length=1, max_length=100)],
    quota: Annotated[tokens.Quotas, Form()],
) -> RedirectResponse:
    """Set the limits of a user, none for an empty field, and return."""
    tokens.allow(user, quota, asked.app, asked.account)
    return RedirectResponse("/operator#users", HTTPStatus.SEE_OTHER)
