"""The operator's page: users with quotas and tokens, busy subscriptions, failing deliveries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse

from xscl.documents.retention import DAY
from xscl.service.problems import Problem
from xscl.service.routes import tokens
from xscl.store.queries.endpoints import failing_endpoints
from xscl.store.queries.results import busiest_joins
from xscl.store.store import Store
from xscl.web.page_request import AskedByOperator
from xscl.web.problems import PageRoute
from xscl.web.quotas import quota_rows

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST = 10
"""Maximum number of busy subscriptions, and of failing deliveries."""

User = Annotated[str, Form(min_length=1, max_length=100)]


@dataclass(frozen=True, slots=True)
class BusyJoin:
    """A join with matches of the last day: a subscription, and the number of equal ones."""

    subscription: str
    others: int
    matches: int


@dataclass(frozen=True, slots=True)
class FailingDelivery:
    """An endpoint that fails, or that has refused messages."""

    subscription: str
    kind: str
    state: str
    failures: int
    note: str
    next_try: int | None
    letters: int


@router.get("/operator")
def overview(asked: AskedByOperator) -> HTMLResponse:
    """Show the users, the busiest subscriptions and the deliveries that fail."""
    app, account = asked.app, asked.account
    listed = defaultdict(list)
    for token in tokens.list_(app, account):
        listed[token.user].append(token)
    users = [(one.name, quota_rows(one)) for one in tokens.accounts(app, account)]
    with app.reading() as store:
        busy = _busiest(store, app.accounts.called, app.clock.now() - DAY)
        failing = _failing(store, app.accounts.called)
    return asked.page("operator.html", users=users, tokens=listed, busy=busy, failing=failing)


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


def _busiest(store: Store, called: Callable[[str], str], since: int) -> list[BusyJoin]:
    """Return the joins with the most results of documents that arrived after a time."""
    rows = busiest_joins(store, since, MOST)
    return [BusyJoin(called(row["name"]), row["others"], row["matches"]) for row in rows]


def _failing(store: Store, called: Callable[[str], str]) -> list[FailingDelivery]:
    """Return the endpoints that fail or have refused messages, the worst first."""
    return [
        FailingDelivery(**{**row, "subscription": called(row["subscription"])})
        for row in failing_endpoints(store, MOST)
    ]
