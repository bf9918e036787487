"""The router that views share, and a request for a page with application and reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.dependencies import TheAccount, TheApp, TheOperator
from xscl.web.problems import PageRoute
from xscl.web.rendering import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)
"""The routes of all views (`xscl.web.router`)."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page; `account` is its reader, with the rights of that account."""

    request: Request
    app: App
    account: Account

    def page(
        self,
        template: str,
        *,
        status: int = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
        **shown: Any,
    ) -> HTMLResponse:
        """Render a template with the values `shown` for the reader."""
        return page(self.request, template, self.account, status=status, headers=headers, **shown)


async def of_reader(request: Request, app: TheApp, account: TheAccount) -> PageRequest:
    """Return the request of an authenticated reader; raises Problem 401."""
    return PageRequest(request, app, account)


async def of_operator(request: Request, app: TheApp, account: TheOperator) -> PageRequest:
    """Return the request of the operator; raises Problem 401, and 403 for others."""
    return PageRequest(request, app, account)


Asked: TypeAlias = Annotated[PageRequest, Depends(of_reader)]
AskedByOperator: TypeAlias = Annotated[PageRequest, Depends(of_operator)]
