"""Error pages; requests without authentication are redirected to the sign-in page."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from feeds.errors import FeedError
from feeds.spool import SpoolError
from xscl.errors import QueryError, XsclError
from xscl.service.accounts import Account
from xscl.service.problems import Problem, of_error
from xscl.store.queries.owners import OPERATOR
from xscl.web.rendering import page


@dataclass(frozen=True, slots=True)
class PageProblem:
    """The text of an error page; the excerpt has a caret below the position."""

    title: str
    detail: str
    hint: str | None = None
    excerpt: str = ""
    line: int = 0
    column: int = 0


def problem_text(error: Exception, reader: Account, source: str = "") -> PageProblem:
    """Return the text of an error in a query, with names as the reader may see them."""
    problem = of_error(error, reader.number)
    title = problem.status.phrase
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    if isinstance(error, QueryError):
        source = error.source
    if line is None or column is None or not source:
        return PageProblem(title, problem.detail, problem.hint)
    _, text, caret, *_ = str(QueryError("", source, line, column)).split("\n")
    excerpt = f"{reader.shown(text).removeprefix('  ')}\n{caret.removeprefix('  ')}"
    where = f"Line {line}, column {column}: {problem.detail}"
    return PageProblem(title, where, problem.hint, excerpt, line, column)


class PageRoute(APIRoute):
    """A route that renders errors as pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler with error pages."""
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handler(request)
            except (Problem, XsclError, FeedError, SpoolError) as error:
                return _answer(request, error)
            except RequestValidationError as error:
                first = error.errors()[0]
                detail = f"{first['loc'][-1]}: {first['msg']}"
                return _page(request, Problem("invalid_request", detail))

        return handled


def install(app: FastAPI) -> None:
    """Answer browsers that ask for a page that does not exist with a page, others as before."""
    of_program = app.exception_handlers[HTTPException]

    def handled(request: Request, error: Exception) -> Any:
        assert isinstance(error, HTTPException)
        is_page = "text/html" in request.headers.get("accept", "")
        if not is_page or request.url.path.startswith(("/v1/", "/f/", "/websub/", "/unsubscribe/")):
            return of_program(request, error)
        status = HTTPStatus(error.status_code)
        detail = f"There is no page at {request.url.path}"
        if status is not HTTPStatus.NOT_FOUND:
            detail = str(error.detail)
        return _page(request, Problem(status.name.lower(), detail, status=status))

    app.add_exception_handler(HTTPException, handled)


def _answer(request: Request, error: Exception) -> Response:
    problem = of_error(error, getattr(request.state, "account", OPERATOR))
    if problem.status is HTTPStatus.UNAUTHORIZED:
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        back = asked if request.method == "GET" else "/"
        return RedirectResponse(f"/sign-in?{urlencode({'next': back})}", HTTPStatus.SEE_OTHER)
    return _page(request, problem)


def _page(request: Request, problem: Problem) -> Response:
    shown = PageProblem(problem.status.phrase, problem.detail, problem.hint)
    return page(
        request, "problem.html", None, status=problem.status, headers=problem.headers, error=shown
    )
