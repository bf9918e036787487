"""Problem documents (RFC 9457) for failed requests.

    {"type": "about:blank", "title": "...", "status": 422, "code": "query", "detail": "...",
     "hint": "...", "line": 1, "column": 7}

`code` is stable and for programs, `title` is the status in words, `detail` describes the case.
Errors of the packages keep their codes; `Problem` is for errors of the HTTP layer.  The status of
both is that of the code (`STATUS`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeAlias, get_args
from urllib.parse import unquote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from feeds.errors import FeedError, SpoolError
from feeds.http.addresses import RefusedAddress
from xscl.errors import DocumentError, StoreError, WrongSubscriptionName, XsclError, near_miss
from xscl.service.accounts import Account
from xscl.service.names import refuse_unaddressable, shown
from xscl.store.queries.owners import OPERATOR

_log = logging.getLogger(__name__)
_API = "/v1"

MEDIA_TYPE = "application/problem+json"
PROBLEM = "xscl.problem"
"""Key in the scope of a request that was answered with a problem: its code."""

_UNLISTED: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    (SpoolError, HTTPStatus.SERVICE_UNAVAILABLE),
    (FeedError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (DocumentError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (XsclError, HTTPStatus.BAD_REQUEST),
)
"""Status of an error whose code is not in the table of codes; the first match counts."""

NOBODY = -1
"""The reader of an error of a request that is not authenticated."""
_NO_ROUTE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
_LATER = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)


class Problem(Exception):
    """An error of the HTTP layer; its status is that of the code unless it is given."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: HTTPStatus | None = None,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status or STATUS[code]
        self.code = code
        self.detail = detail
        self.hint = hint
        self.headers = dict(headers or {})
        self.more = more


def not_found(what: str, name: str, hint: str | None = None) -> Problem:
    """Return problem 404 for an object that does not exist or has another owner."""
    return Problem(f"unknown_{what}", f"there is no {what} {name!r}", hint=hint)


def empty_list(hint: str) -> Problem:
    """Return problem 422 for an import without rows."""
    return Problem("empty_list", "the list has no rows", hint=hint)


def refuse_long_list(count: int, most: int) -> None:
    """Raise problem 413 for an import of `count` rows if that is more than `most`."""
    if count > most:
        detail = f"the list has more than {most:,} rows"
        raise Problem("too_many_rows", detail, hint="send it in parts")


def refuse_bare(text: str | None, what: str, *units: str) -> None:
    """Raise problem 422 for a duration without a unit.

    `what` is the duration in the message, `units` are those that the hint proposes.
    """
    number = (text or "").strip()
    if number.isdecimal():
        ways = " or ".join(f"'{number} {unit}'" for unit in units)
        raise Problem("duration", f"the {what} {number} has no unit", hint=f"write {ways}")


def refused_address(account: Account, refused: RefusedAddress) -> Problem:
    """Return problem 422 for a refused URL; the operator's has a hint if an option allows it."""
    may = account.is_operator and refused.code in ("url_private", "url_port")
    hint = "'xscl serve --allow-address HOST:PORT' allows it" if may else None
    return Problem(refused.code, refused.message, hint=hint)


class _ProblemResponse(JSONResponse):
    """A problem document; it leaves its code in the scope of the request."""

    media_type = MEDIA_TYPE

    def __init__(self, problem: Problem, document: Mapping[str, Any]) -> None:
        super().__init__(document, problem.status.value, problem.headers)
        self._problem = problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PROBLEM] = self._problem.code
        await super().__call__(scope, receive, send)


def answer(problem: Problem) -> Response:
    """Render a problem as a response."""
    fields = {
        "type": "about:blank",
        "title": problem.status.phrase,
        "status": problem.status.value,
        "code": problem.code,
        "detail": problem.detail,
        "hint": problem.hint,
        **problem.more,
    }
    document = {name: value for name, value in fields.items() if value is not None}
    return _ProblemResponse(problem, document)


def of_error(error: Exception, reader: int = OPERATOR) -> Problem:
    """Map an exception of the packages to a problem, with names as an account may see them.

    `reader` is the number of that account.  A problem stays as it is.
    """
    if isinstance(error, Problem):
        return error
    code = str(getattr(error, "reason_code", None) or getattr(error, "code", "error"))
    unlisted = next(status for kind, status in _UNLISTED if isinstance(error, kind))
    status = STATUS.get(code, unlisted)
    detail = str(getattr(error, "message", None) or error)
    hint = getattr(error, "hint", None)
    place = {name: getattr(error, name, None) or None for name in ("row", "line", "column")}
    if isinstance(error, StoreError) and reader != OPERATOR:  # its text names files of the service
        detail, hint = "what is kept cannot be read or written now", "try again soon"
    headers = {"Retry-After": str(getattr(error, "wait", 5))} if status in _LATER else {}
    return Problem(
        code,
        shown(reader, detail),
        status=status,
        hint=None if hint is None else shown(reader, hint),
        headers=headers,
        **place,
    )


Renderer: TypeAlias = Callable[[Request, Problem], Response | None]
"""Renders the problem of a request; None leaves it to the next renderer."""


def install(app: FastAPI, render: Renderer | None = None) -> None:
    """Answer every error with a problem document, or with what `render` makes of the problem."""

    def handler(of: Callable[[Request, Any], Problem]) -> Callable[[Request, Any], Response]:
        def handled(request: Request, error: Any) -> Response:
            problem = of(request, error)
            return (render and render(request, problem)) or answer(problem)

        return handled

    for kind in (Problem, XsclError, FeedError, SpoolError):
        app.add_exception_handler(kind, handler(_error))
    app.add_exception_handler(RequestValidationError, handler(_invalid))
    app.add_exception_handler(HTTPException, handler(_http))
    app.add_exception_handler(Exception, handler(_unexpected))
    app.add_exception_handler(ClientDisconnect, _disconnected)


def _error(request: Request, error: Exception) -> Problem:
    problem = of_error(error, getattr(request.state, "account", NOBODY))
    if problem.status >= 500 and problem is not error:
        _log.warning("%s %s: %s", request.method, route_of(request.scope), error)
    return problem


def _invalid(request: Request, error: RequestValidationError) -> Problem:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    wrong = [{"place": ".".join(map(str, e["loc"])), "reason": reason(e)} for e in error.errors()]
    return Problem(
        "invalid_request",
        f"{place}: {reason(first)}",
        hint=_hint(request, first),
        errors=wrong[:20],
    )


def reason(wrong: Mapping[str, Any]) -> str:
    """Return the message of a validator, in terms of the API and not of its models."""
    match wrong["type"]:
        case "extra_forbidden":
            return "unknown field"
        case "union_tag_not_found":
            return f"the field {wrong['ctx']['discriminator']} is missing"
        case _:
            return str(wrong["msg"])


def _hint(request: Request, wrong: Mapping[str, Any]) -> str:
    """Return a hint: the nearest known field, or the Content-Type, as curl's default is a form."""
    if wrong["type"] == "extra_forbidden" and (known := _known_fields(request, wrong["loc"])):
        near = near_miss(str(wrong["loc"][-1]), known)
        return near or f"there are {', '.join(known)}"
    kind = request.headers.get("content-type", "")
    if tuple(wrong["loc"]) == ("body",) and "json" not in kind:
        return f"send 'Content-Type: application/json', this body came as {kind or 'nothing'!r}"
    return "/docs says what this address takes"


def _known_fields(request: Request, place: Sequence[str | int]) -> list[str]:
    """Return the fields that the body declares where `place` has an unknown one; [] if unclear."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or route.body_field is None:
        return []
    models = list(_models(route.body_field.field_info.annotation))
    for part in place[1:-1]:
        inner = [one.model_fields[part].annotation for one in models if part in one.model_fields]
        models = [model for one in inner for model in _models(one)] or models
    return list(
        dict.fromkeys(field.alias or name for m in models for name, field in m.model_fields.items())
    )


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type, such as those of a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for one in get_args(annotation):
        yield from _models(one)


def _http(request: Request, error: HTTPException) -> Problem:
    status = HTTPStatus(error.status_code)
    if status in _NO_ROUTE and (bad := _bad_name(request)) is not None:
        return of_error(bad)
    code = status.name.lower()
    hint = _HINTS.get(status)
    return Problem(code, str(error.detail), status=status, hint=hint, headers=error.headers or {})


_HINTS = {
    HTTPStatus.NOT_FOUND: "/docs lists what there is",
    HTTPStatus.BAD_REQUEST: "a body is JSON in UTF-8, without much nesting and long numbers",
}


def _bad_name(request: Request) -> WrongSubscriptionName | None:
    """Return the error of a PUT to a subscription name that no URL path can have, or None."""
    before, at, name = request.url.path.partition("/v1/subscriptions/")
    if before or not at or request.method != "PUT":
        return None
    try:
        refuse_unaddressable(unquote(name))
    except WrongSubscriptionName as error:
        return error
    return None


def _disconnected(request: Request, error: Exception) -> Response:
    """Answer a client that disconnected within its body; this is no server error."""
    return Response(status_code=HTTPStatus.BAD_REQUEST)


def _unexpected(request: Request, error: Exception) -> Problem:
    _log.error("%s %s failed", request.method, route_of(request.scope), exc_info=error)
    return Problem("internal", "something is wrong in the service; its log says what")


def route_of(scope: Scope) -> str:
    """Return the route template of a request, with the prefix of the API; `(none)` without one."""
    path = getattr(scope.get("route"), "path", None)
    if path is None:
        return "(none)"
    is_api = str(scope["path"]).startswith(f"{_API}/") and not str(path).startswith(f"{_API}/")
    return f"{_API}{path}" if is_api else str(path)


_MEANINGS: Mapping[int, tuple[str, str]] = {
    400: (
        "The request cannot be understood, or not be done.",
        "error token_in_address bad_host feeds reserved_name account too_many_addresses"
        " too_many_endpoints",
    ),
    401: ("A token is needed, or it is not known (any more).", "unauthorized"),
    403: (
        "You may not do this.",
        "operator_only stream_public quota_exceeded cross_site wrong_code push_signature",
    ),
    404: (
        "There is no such thing, or it is another user's.",
        "unknown_subscription unknown_feed unknown_stream unknown_endpoint unknown_address"
        " unknown_token unknown_user unknown_file not_found unknown_match",
    ),
    405: ("The address takes other methods: `Allow` names them.", "method_not_allowed"),
    408: ("The body came too slowly.", "body_too_slow"),
    409: (
        "Something that is there stands against it.",
        "name_taken stream_cycle streams_too_deep stream_in_use stream_published"
        " endpoint_not_active endpoint_unconfirmed",
    ),
    410: ("Nothing is expected here any more; do not ask again.", "unknown_callback"),
    413: ("The body, or a list in it, is too large.", "body_too_large too_many_rows"),
    414: ("The address is too long.", "address_too_long"),
    421: ("The service is not called by that name.", "unknown_host"),
    422: (
        "What was sent is wrong; `line` and `column` say where, `row` in which row of a list.",
        "invalid_request query query_not_supported query_too_complex too_long"
        " query_or_subscription subscription_name stream_name wrong_tag label id wrong_row"
        " mixed_rows empty_list encoding not_a_list not_a_feed json_syntax xml_syntax xml_chars"
        " xml_encoding xml_entities xml_depth xml_size xml_elements no_stream name type timestamp"
        " time future poison unknown_document ambiguous_document text_dropped duration every"
        " last_event_id position_ahead no_mail_server url_private url_port url_scheme url_invalid"
        " fetch_unreachable sql sql_not_select sql_not_allowed sql_unknown_relation"
        " sql_too_complex sql_too_large sql_timeout",
    ),
    429: (
        "There is no room now; `Retry-After` says when.",
        "busy sql_busy too_many_connections too_many_guesses too_many_requests",
    ),
    500: ("Something is wrong in the service; its log says what.", "internal"),
    503: (
        "Nothing can be taken now; `Retry-After` says when.",
        "disk_full stopping too_many_connections mail_server sql_unavailable spool backup store"
        " store_closed store_damaged store_in_use store_memory store_read_too_long"
        " store_unavailable store_version store_went_back evaluation",
    ),
}

CODES = {status: (meaning, codes.split()) for status, (meaning, codes) in _MEANINGS.items()}
"""Meaning and problem codes by HTTP status."""

STATUS: Mapping[str, HTTPStatus] = {
    code: HTTPStatus(status) for status, (_, codes) in reversed(CODES.items()) for code in codes
}
"""Status by code; of a code with several statuses the lowest one."""
