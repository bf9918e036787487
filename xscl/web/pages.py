"""Pages: the router that views share, requests for pages, and errors as pages.

Requests without authentication are redirected to the sign-in page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Concatenate, ParamSpec, TypeAlias, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel

from xscl.errors import QueryError
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.dependencies import TheAccount, TheApp, TheOperator
from xscl.service.problems import Problem, of_error
from xscl.store.store import Store
from xscl.web.rendering import page

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageProblem:
    """The text of an error page; `excerpt` is a line of a query with a caret below the error."""

    title: str
    detail: str
    hint: str | None = None
    excerpt: str = ""
    line: int = 0
    column: int = 0


def _hint(problem: Problem) -> str | None:
    """Return a problem's hint without the parts that name commands or /docs; None if empty."""
    parts = (problem.hint or "").split("; ")
    kept = [part for part in parts if "'xscl " not in part and not part.startswith("/docs")]
    return "; ".join(kept) or None


def problem_text(error: Exception, reader: Account, source: str = "") -> PageProblem:
    """Return the text of an error page for an error, with names as the reader may see them.

    `source` is the query of an error that has a position but no text.
    """
    problem = of_error(error, reader.number)
    title = problem.status.phrase
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    if isinstance(error, QueryError):
        source = error.source
    if line is None or column is None or not source:
        return PageProblem(title, problem.detail, _hint(problem))
    _, text, caret, *_ = str(QueryError("", source, line, column)).split("\n")
    excerpt = f"{reader.shown(text).removeprefix('  ')}\n{caret.removeprefix('  ')}"
    where = f"Line {line}, column {column}: {problem.detail}"
    return PageProblem(title, where, _hint(problem), excerpt, line, column)


class PageRoute(APIRoute):
    """A route of a page: its errors are pages, too."""


def error_page(request: Request, problem: Problem) -> Response | None:
    """Return the page of a problem, None if the route is no page and the client accepts no HTML.

    Requests without authentication are redirected to the sign-in page.
    """
    path = request.url.path
    detail = re.sub(r"^(query|path|body)\.", "", problem.detail)
    is_route = isinstance(request.scope.get("route"), PageRoute)
    if not is_route or problem.status is HTTPStatus.METHOD_NOT_ALLOWED:  # forms do not cause it
        is_page = "text/html" in request.headers.get("accept", "")
        if not is_page or path.startswith(("/v1/", "/f/", "/websub/", "/unsubscribe/")):
            return None
        if problem.status is HTTPStatus.NOT_FOUND:
            detail = f"There is no page at {path}"
    if problem.status is HTTPStatus.UNAUTHORIZED:
        asked = path + (f"?{request.url.query}" if request.url.query else "")
        back = asked if request.method == "GET" else "/"
        return RedirectResponse(f"/sign-in?{urlencode({'next': back})}", HTTPStatus.SEE_OTHER)
    shown = PageProblem(problem.status.phrase, detail, _hint(problem))
    return page(
        request, "problem.html", None, status=problem.status, headers=problem.headers, error=shown
    )


def on_site(path: str) -> str:
    """Return `path` if it is a path of this site, "/" if it could lead to another site.

    Browsers read a backslash as a slash and drop tabs and line ends, so that `//evil`, `/\\evil`
    and `/<tab>/evil` all name another host.
    """
    plain = path.startswith("/") and not path.startswith("//")
    if not plain or "\\" in path or any(ord(c) < 33 or ord(c) == 127 for c in path):
        return "/"
    return path


router = APIRouter(route_class=PageRoute, include_in_schema=False)
"""The routes of all views (`xscl.web.router`)."""

Lines: TypeAlias = Annotated[str, AfterValidator(lambda text: text.replace("\r\n", "\n"))]
"""A text of a form with several lines, whose line ends become `\\n`."""
Back: TypeAlias = Annotated[str, Form(max_length=4_000)]
"""The path of the page that has the form, for `PageRequest.back`."""
_PLACES = {"after", "before", "added", "polled", "since"}


class ListQuery(BaseModel):
    """The query parameters of a list: its filter, with empty values by default, and a place."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of the filter that are not empty, by parameter of an address."""
        given = self.model_dump(by_alias=True, exclude=_PLACES)
        return {name: value for name, value in given.items() if value}

    def address(self, path: str, **place: object) -> str:
        """Return the address of the list with this filter, which begins at another place."""
        return f"{path}?{urlencode({**self.parameters, **place})}"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page; `account` is its reader, with the rights of that account."""

    request: Request
    app: App
    account: Account

    def page(self, template: str, **shown: Any) -> Response:
        """Render a template with the values `shown` for the reader, as `rendering.page` does.

        With an `error` among them the status is 422, unless one is given.
        """
        if shown.get("error") is not None:
            shown.setdefault("status", HTTPStatus.UNPROCESSABLE_ENTITY)
        return page(self.request, template, self.account, **shown)

    def redirect(self, path: str, **parameters: object) -> Response:
        """Return the redirect, after a form, to a path with query parameters."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        return RedirectResponse(path + query, HTTPStatus.SEE_OTHER)

    def back(self, path: str) -> Response:
        """Return the redirect to `path`, the page of a form; to "/" if it is another site's."""
        return self.redirect(on_site(path))

    def problem(self, error: Exception, source: str = "") -> PageProblem:
        """Return the text of an error for the reader (see `problem_text`)."""
        return problem_text(error, self.account, source)

    def with_store(
        self, function: Callable[Concatenate[Store, P], T], *given: P.args, **named: P.kwargs
    ) -> T:
        """Return the result of a function called with a store and the given arguments."""
        with self.app.store() as store:
            return function(store, *given, **named)


async def of_reader(request: Request, app: TheApp, account: TheAccount) -> PageRequest:
    """Return the request of an authenticated reader; raises Problem 401."""
    return PageRequest(request, app, account)


async def of_operator(request: Request, app: TheApp, account: TheOperator) -> PageRequest:
    """Return the request of the operator; raises Problem 401, and 403 for others."""
    return PageRequest(request, app, account)


Asked: TypeAlias = Annotated[PageRequest, Depends(of_reader)]
AskedByOperator: TypeAlias = Annotated[PageRequest, Depends(of_operator)]
