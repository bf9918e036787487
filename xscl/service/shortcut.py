"""A fast path for the most frequent request: PUT of a subscription with a known query shape.

Routing and validation by FastAPI take longer than the registration itself.  A request that does not
succeed here is passed on to the routes, which report its error.  That is safe because registering
the same query again changes nothing.
"""

from __future__ import annotations

from http import HTTPStatus

from pydantic import ValidationError
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xscl.documents.results import XSCL
from xscl.errors import XsclError
from xscl.service.accounts import Account
from xscl.service.dependencies import COUNTED, owner_of
from xscl.service.installation import Installation
from xscl.service.problems import Problem
from xscl.service.routes.subscriptions import LONGEST_NAME, New, put, router, with_warnings
from xscl.service.subscribing import SubscriptionRequest, registered

PREFIX = "/v1/subscriptions/"
_KINDS = (b"application/json", b"application/json; charset=utf-8")


class Shortcut:
    """Middleware with the fast path."""

    def __init__(self, app: ASGIApp, installation: Installation) -> None:
        self._app = app
        self._here = installation
        self._route = _route_of_put()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = _name(scope)
        account = None if name is None else _account(scope, self._here)
        if name is None or account is None:
            await self._app(scope, receive, send)
            return
        messages = [await receive()]
        while messages[-1].get("more_body", False):
            messages.append(await receive())
        answer = await self._registered(name, account, messages, scope)
        if answer is None:
            await self._app(scope, _again(messages, receive), send)
            return
        status, body = answer
        scope["route"] = self._route
        headers = [
            (b"content-length", str(len(body)).encode()),
            (b"content-type", b"application/json"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _registered(
        self, name: str, account: Account, messages: list[Message], scope: Scope
    ) -> tuple[int, bytes] | None:
        """Return status and body of a response; None to pass the request on."""
        here = self._here
        if messages[-1]["type"] != "http.request":
            return None
        body: bytes = b"".join(message.get("body", b"") for message in messages)
        try:
            new = New.model_validate_json(body)
            has_past = new.history and here.engine.host.state.documents.next > 1
            if new.language != XSCL or new.since is not None or has_past:
                return None
            if not here.resolver.is_quick(account, new.query):
                return None
            if not here.warnings.are_known(account, new.query):
                return None
            here.requests.consume(account.number, account.quota.requests_a_minute)
            scope.setdefault("state", {})[COUNTED] = account.number
            wanted = SubscriptionRequest(name, new.query, new.updates, tags=new.tags)
            found, is_new = await registered(here, account, wanted)
        except (ValidationError, XsclError, Problem):
            return None
        status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        tags = (
            sorted({*(new.tags or ())}) if is_new else None
        )  # a new one has no others: no reading
        return status.value, with_warnings(here, account, found, tags).model_dump_json().encode()


def _name(scope: Scope) -> str | None:
    """Return the subscription name of a request that the fast path handles, else None."""
    if scope["type"] != "http" or scope["method"] != "PUT":
        return None
    path: str = scope["path"]
    if not path.startswith(PREFIX) or scope["query_string"]:  # the route takes no parameters
        return None
    name = path[len(PREFIX) :]
    kinds = [value for key, value in scope["headers"] if key == b"content-type"]
    if not 0 < len(name) <= LONGEST_NAME or "/" in name or not kinds or kinds[0] not in _KINDS:
        return None
    return name


def _account(scope: Scope, here: Installation) -> Account | None:
    """Return who is asking; None for nobody."""
    try:
        return owner_of(HTTPConnection(scope), here)
    except Problem:
        return None


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Return an ASGI `receive` that replays messages and then continues."""
    left = iter(messages)

    async def received() -> Message:
        for message in left:
            return message
        return await receive()

    return received


def _route_of_put() -> BaseRoute:
    """Return the route of the same request, by which metrics count it."""
    return next(one for one in router.routes if getattr(one, "endpoint", None) is put)
