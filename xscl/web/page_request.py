"""Dependencies of views: a request for a page with the installation and its reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse

from xscl.service.accounts import Account
from xscl.service.dependencies import TheAccount, TheApp, TheOperator
from xscl.service.installation import Installation
from xscl.web.rendering import page


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page; `account` is its reader, with the rights of that account."""

    request: Request
    app: Installation
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
