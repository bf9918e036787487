"""Help: the reference of the languages; the gallery: use cases with sample items."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus

from fastapi.responses import HTMLResponse, RedirectResponse

from feeds.documents import Document
from xscl.delivery.cards import MatchView, shown
from xscl.language.topics import topics
from xscl.service.dependencies import TheApp, TheOperator
from xscl.service.problems import Problem
from xscl.web.gallery import all_found, cases, documents
from xscl.web.page_request import Asked, router
from xscl.web.reference import reference


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


@router.get("/help")
def contents(asked: Asked) -> HTMLResponse:
    """Show the pages and their sections."""
    return asked.page("help.html", topics=topics(), text=None)


@router.get("/help/{page}")
def reference_page(asked: Asked, page: str) -> HTMLResponse:
    """Show a page of the reference."""
    text = reference(page)
    if text is None:
        raise Problem("not_found", f"there is no page of the reference called {page!r}")
    return asked.page("help.html", topics=topics(), text=text, here_page=page)
