"""Problem documents (RFC 9457) for failed requests.

    {"type": "about:blank", "title": "...", "status": 422, "code": "query", "detail": "...",
     "hint": "...", "line": 1, "column": 7}

`code` is stable and for programs, `title` is the status in words, `detail` describes the case.
Errors of the packages keep their codes; `Problem` is for errors of the HTTP layer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from feeds.errors import FeedError
from feeds.http.addresses import RefusedAddress
from feeds.spool import SpoolError
from xscl.errors import (
    DocumentError,
    EvaluationFailed,
    NameTaken,
    QueryError,
    SqlError,
    Stopping,
    StoreError,
    StreamCycle,
    StreamInUse,
    TooLong,
    UnknownSubscription,
    XsclError,
)
from xscl.limiter import RateExceeded, TooManyConcurrent
from xscl.service.accounts import Account, QuotaExceeded
from xscl.service.backups import BackupInProgress
from xscl.service.intake import IntakeFull
from xscl.service.names import OPERATOR, BadName, refuse_unaddressable, shown
from xscl.service.sql.errors import Busy as SqlBusy
from xscl.service.sql.errors import Unavailable
from xscl.service.tokens import UnknownToken
from xscl.store.disk_guard import DiskFull
from xscl.subscriptions.import_rows import RowError

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

_KINDS: dict[HTTPStatus, tuple[type[Exception], ...]] = {
    HTTPStatus.BAD_REQUEST: (XsclError,),
    HTTPStatus.FORBIDDEN: (QuotaExceeded,),
    HTTPStatus.NOT_FOUND: (UnknownSubscription, UnknownToken),
    HTTPStatus.CONFLICT: (NameTaken, StreamCycle, StreamInUse),
    HTTPStatus.UNPROCESSABLE_ENTITY: (
        *(QueryError, BadName, RowError, TooLong, DocumentError, SqlError, FeedError),
    ),
    HTTPStatus.TOO_MANY_REQUESTS: (
        *(SqlBusy, IntakeFull, TooManyConcurrent, RateExceeded, BackupInProgress),
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        *(Unavailable, DiskFull, Stopping, StoreError, EvaluationFailed, SpoolError),
    ),
}
_STATUS = {kind: status for status, kinds in _KINDS.items() for kind in kinds}

_NO_ROUTE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
_LATER = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)


class Problem(Exception):
    """An error of the HTTP layer."""

    def __init__(
        self,
        status: HTTPStatus | int,
        code: str,
        detail: str,
        *,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = HTTPStatus(status)
        self.code = code
        self.detail = detail
        self.hint = hint
        self.headers = dict(headers or {})
        self.more = more


def unprocessable(code: str, detail: str, *, hint: str | None = None, **more: Any) -> Problem:
    """Return problem 422 for a request with invalid content."""
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, code, detail, hint=hint, **more)


def not_found(what: str, name: str, hint: str | None = None) -> Problem:
    """Return problem 404 for an object that does not exist or has another owner."""
    return Problem(
        HTTPStatus.NOT_FOUND, f"unknown_{what}", f"there is no {what} {name!r}", hint=hint
    )


def empty_list(hint: str) -> Problem:
    """Return problem 422 for an import without rows."""
    return unprocessable("empty_list", "the list has no rows", hint=hint)


def refused_address(who: Account, refused: RefusedAddress) -> Problem:
    """Return problem 422 for a refused URL, with a hint for the operator."""
    may = who.is_operator and refused.code in ("url_private", "url_port")
    hint = "'xscl serve --allow-address HOST:PORT' allows it" if may else None
    return unprocessable(refused.code, refused.message, hint=hint)


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
    return JSONResponse(document, problem.status.value, problem.headers, MEDIA_TYPE)


def status_of(kind: type[Exception]) -> HTTPStatus:
    """Return the status of a class of the packages' exceptions: that of its nearest ancestor."""
    return next(_STATUS[one] for one in kind.__mro__ if one in _STATUS)


def of_error(error: Exception, reader: int = OPERATOR) -> Problem:
    """Map an exception of the packages to a problem with names as the reader may see them."""
    status = status_of(type(error))
    code = str(getattr(error, "code", None) or getattr(error, "reason_code", "error"))
    detail = str(getattr(error, "message", None) or error)
    hint = getattr(error, "hint", None)
    place = {name: getattr(error, name, None) or None for name in ("row", "line", "column")}
    if isinstance(error, DocumentError):
        code = error.reason_code
    if isinstance(error, StoreError) and reader != OPERATOR:  # its text names files of the service
        detail, hint = "what is kept cannot be read or written now", "try again soon"
    headers = {"Retry-After": str(getattr(error, "wait", 5))} if status in _LATER else {}
    return Problem(
        status,
        code,
        shown(reader, detail),
        hint=None if hint is None else shown(reader, hint),
        headers=headers,
        **place,
    )


def install(app: FastAPI) -> None:
    """Register handlers that answer every error with a problem document."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(XsclError, _error)
    app.add_exception_handler(FeedError, _error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _disconnected)
    app.add_exception_handler(Exception, _unexpected)


def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return answer(error)


def _error(request: Request, error: Exception) -> Response:
    problem = of_error(error, getattr(request.state, "account", OPERATOR))
    if problem.status >= 500:
        _log.warning("%s %s: %s", request.method, _route(request), error)
    return answer(problem)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    wrong = [{"place": ".".join(map(str, e["loc"])), "reason": e["msg"]} for e in error.errors()]
    return answer(
        unprocessable(
            "invalid_request",
            f"{place}: {first['msg']}",
            hint=_hint(request, first),
            errors=wrong[:20],
        )
    )


def _hint(request: Request, wrong: Mapping[str, Any]) -> str:
    """Return a hint: by default curl sends a body as a form."""
    kind = request.headers.get("content-type", "")
    if tuple(wrong["loc"]) == ("body",) and "json" not in kind:
        return f"send 'Content-Type: application/json', this body came as {kind or 'nothing'!r}"
    return "/docs says what this address takes"


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    if status in _NO_ROUTE and (bad := _bad_name(request)) is not None:
        return answer(of_error(bad))
    code = status.name.lower()
    hint = "/docs lists what there is" if status is HTTPStatus.NOT_FOUND else None
    return answer(Problem(status, code, str(error.detail), hint=hint, headers=error.headers or {}))


def _bad_name(request: Request) -> BadName | None:
    """Return the error of a subscription name that no route matches, or None."""
    before, at, name = request.url.path.partition("/v1/subscriptions/")
    if before or not at or request.method != "PUT":
        return None
    try:
        refuse_unaddressable(unquote(name))
    except BadName as error:
        return error
    return None


def _disconnected(request: Request, error: Exception) -> Response:
    """Answer a client that disconnected within its body; this is no server error."""
    return Response(status_code=HTTPStatus.BAD_REQUEST)


def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, _route(request), exc_info=error)
    return answer(
        Problem(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "internal",
            "something is wrong in the service; its log says what",
        )
    )


def _route(request: Request) -> str:
    """Return the route template of a request."""
    return getattr(request.scope.get("route"), "path", "(no route)")
