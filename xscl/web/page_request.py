"""Dependencies of views: a request for a page with the installation and its reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse

from xscl.service.accounts import Account
from xscl.service.dependencies import Here, TheOperator, Who
from xscl.service.installation import Installation
from xscl.web.rendering import page


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page; `who` is its reader, with the rights of that account."""

    request: Request
    here: Installation
    who: Account

    def page(
        self,
        template: str,
        *,
        status: int = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
        **shown: Any,
    ) -> HTMLResponse:
        """Render a template with the values `shown` for the reader."""
        return page(self.request, template, self.who, status=status, headers=headers, **shown)


async def of_reader(request: Request, here: Here, who: Who) -> PageRequest:
    """Return the request of an authenticated reader; raises Problem 401."""
    return PageRequest(request, here, who)


async def of_operator(request: Request, here: Here, who: TheOperator) -> PageRequest:
    """Return the request of the operator; raises Problem 401, and 403 for others."""
    return PageRequest(request, here, who)


Asked: TypeAlias = Annotated[PageRequest, Depends(of_reader)]
AskedByOperator: TypeAlias = Annotated[PageRequest, Depends(of_operator)]
