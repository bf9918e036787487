"""FastAPI dependencies of routes: the application (`TheApp`) and the account (`TheAccount`).

All routes of the API are in an `api_router`, and depend on `declared_parameters_only`: a misspelt
query parameter is refused as a misspelt field of a body is.

A request is authenticated by a bearer token, or by the session cookie of a browser.  On a loopback
address, in a service without a name, a request without a token has operator rights unless it came
through a proxy (`client_address`).  A wrong token is an error and never treated as none.

The dependencies are coroutines although they await nothing, because FastAPI would run plain
functions in threads.

Annotations are objects here, not texts: FastAPI would evaluate those of each dependency for each of
the 146 routes, a fifth of the time that a service takes to start.
"""

from collections.abc import Callable, Iterator, Set
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.requests import HTTPConnection

from xscl.errors import StoreError, near_miss
from xscl.limiter import RateExceeded
from xscl.service.accounts import THE_OPERATOR, Account
from xscl.service.app import App
from xscl.service.client_address import client_of, is_forwarded, is_trusted, peer_of
from xscl.service.problems import NOBODY, Problem, of_error

COOKIE = "xscl_session"
"""The session cookie, which holds a session token."""

NO_TOKEN = "make one with 'xscl token create' on the machine of the service"
"""The hint for a service that requires tokens and has none."""

_SEND = (
    "send 'Authorization: Bearer TOKEN'; the operator makes tokens with 'xscl token create'"
    " on the machine of the service"
)
_BEARER = {"WWW-Authenticate": "Bearer"}
_EXTRA = "unknown parameter"

_ADDED = frozenset({"lastEventId", "_"})
"""Query parameters that libraries add by themselves: `lastEventId` by EventSource for old browsers,
which cannot set headers, and `_` against cached answers."""


async def app(request: Request) -> App:
    """Return the application of a request."""
    found = request.app.state.service
    assert isinstance(found, App)
    return found


TheApp: TypeAlias = Annotated[App, Depends(app)]

_bearer = HTTPBearer(
    scheme_name="token",
    auto_error=False,
    description="Made by `xscl token create`; from the same machine none is needed.",
)


async def account(request: Request, app: TheApp, _: Annotated[object, Depends(_bearer)]) -> Account:
    """Authenticate and count a request; raises Problem 401 and RateExceeded."""
    account = owner_of(request, app)
    if account is None:
        if not _given(request):
            raise _token_needed(app)
        count_guess(request, app)
        raise _unauthorized("the token is wrong, revoked or expired")
    request.state.account = account.number
    app.accounts.limits.requests.consume(account.number, account.quota.requests_a_minute)
    return account


TheAccount: TypeAlias = Annotated[Account, Depends(account)]


def may_ask(request: HTTPConnection, app: App) -> bool:
    """Return True if a request is authenticated, without counting it."""
    try:
        return owner_of(request, app) is not None
    except Problem:
        return False


def owner_of(request: HTTPConnection, app: App) -> Account | None:
    """Return the account of a request; None if a token is needed, or the one given is not valid.

    Raises Problem for a malformed header, and while tokens cannot be read.
    """
    given = _given(request)
    if not given:
        return THE_OPERATOR if _is_operators(request, app) else None
    try:
        return app.accounts.tokens.owner(given)
    except StoreError as error:
        raise of_error(error, NOBODY) from error


def count_guess(request: HTTPConnection, app: App) -> None:
    """Count a wrong token by the client's address; raises Problem for too many in a minute."""
    try:
        client = client_of(request.scope, app.settings.trusted_proxies)
        app.accounts.limits.guesses.consume(client, app.settings.guesses)
    except RateExceeded:
        raise Problem(
            "too_many_guesses",
            "too many wrong tokens came from your address",
            hint="wait a minute",
            headers={"Retry-After": "60"},
        ) from None


def is_valid(request: Request, app: TheApp) -> Callable[[], bool]:
    """Return a function that is True while the request's token is valid, for long responses."""
    given = _given(request)
    return app.accounts.tokens.watched(given) if given else lambda: True


StillValid: TypeAlias = Annotated[Callable[[], bool], Depends(is_valid)]


async def operator(account: TheAccount) -> Account:
    """Require the operator; raises Problem 403 for others."""
    if not account.is_operator:
        raise Problem("operator_only", "only the operator of the service may do this")
    return account


TheOperator: TypeAlias = Annotated[Account, Depends(operator)]


async def declared_parameters_only(request: Request) -> None:
    """Refuse query parameters that the route does not declare; raises Problem.

    A request that is not authenticated is left to the route, which answers 401.
    """
    if not request.scope["query_string"]:
        return
    declared = set(_parameters(request.scope["route"].dependant))
    given = dict.fromkeys(request.query_params)
    unknown = [name for name in given if name not in declared and name not in _ADDED]
    if unknown and may_ask(request, await app(request)):
        wrong = [{"place": f"query.{name}", "reason": _EXTRA} for name in unknown]
        raise Problem(
            "invalid_request",
            f"query.{unknown[0]}: {_EXTRA}",
            hint=_parameter_hint(unknown[0], declared),
            errors=wrong[:20],
        )


def api_router(prefix: str = "", *, tag: str) -> APIRouter:
    """Return a router for routes under /v1.

    Applications take its routes as they are.  If one included the router, with the prefix or the
    dependency, FastAPI would read the signatures of all routes again at its first request.
    """
    checked = [Depends(declared_parameters_only)]
    return APIRouter(prefix=f"/v1{prefix}", tags=[tag], dependencies=checked)


def _parameters(dependant: Dependant) -> Iterator[str]:
    """Yield names of query parameters of a route and its dependencies, of a model its fields."""
    for query_param in dependant.query_params:
        model = query_param.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from (field.alias or name for name, field in model.model_fields.items())
        else:
            yield query_param.alias
    for each in dependant.dependencies:
        yield from _parameters(each)


def _parameter_hint(name: str, declared: Set[str]) -> str:
    if near := near_miss(name, sorted(declared)):
        return near
    if declared:
        return f"its query parameters are {', '.join(sorted(declared))}"
    return "it takes no query parameters; /docs says what this address takes"


def _given(request: HTTPConnection) -> str:
    """Return the token of a request, "" if it has none; raises Problem 401."""
    header = request.headers.get("authorization")
    if header is None:
        return request.cookies.get(COOKIE) or ""
    scheme, _, given = header.partition(" ")
    if scheme.lower() != "bearer" or not given.strip():
        raise _unauthorized("the header Authorization is not 'Bearer TOKEN'")
    return given.strip()


def _is_operators(request: HTTPConnection, app: App) -> bool:
    """Return True if a request without a token is local and came through no proxy."""
    settings = app.settings
    if not settings.is_open or is_forwarded(request.scope["headers"]):
        return False
    return not is_trusted(peer_of(request.scope), settings.trusted_proxies)


def _token_needed(app: App) -> Problem:
    if app.settings.is_open:
        return _unauthorized("requests that come through a proxy need a token")
    if app.accounts.tokens.of():
        return _unauthorized("this service asks for a token")
    return _unauthorized("this service asks for a token, and none exists yet", NO_TOKEN)


def _unauthorized(detail: str, hint: str = _SEND) -> Problem:
    return Problem("unauthorized", detail, hint=hint, headers=_BEARER)
