"""The gallery: use cases with sample items and their matches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus

from fastapi.responses import HTMLResponse, RedirectResponse

from feeds.documents import Document
from xscl.delivery.cards import MatchView, shown
from xscl.service.dependencies import TheApp, TheOperator
from xscl.web.gallery import all_found, cases, documents
from xscl.web.page_request import Asked, router


@router.get("/gallery")
def gallery(asked: Asked) -> HTMLResponse:
    """Show the use cases."""
    return asked.page("gallery.html", cases=cases(), found=examples())


@router.post("/gallery/load")
def load(app: TheApp, account: TheOperator) -> RedirectResponse:
    """Append the sample items with times of the last days."""

    def made() -> tuple[Sequence[Document], int]:
        now = app.clock.now()
        return documents(now), now

    app.store.spool.append_in_turn(made)
    return RedirectResponse("/", HTTPStatus.SEE_OTHER)


@lru_cache(maxsize=1)
def examples() -> dict[str, MatchView]:
    """Return the view model of each use case's last match."""
    return {slug: shown(found[-1], slug) for slug, found in all_found().items()}
