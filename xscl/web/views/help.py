"""Help: the reference of the languages, a page for each."""

from __future__ import annotations

from fastapi.responses import HTMLResponse

from xscl.language.topics import topics
from xscl.service.problems import Problem
from xscl.web.page_request import Asked, router
from xscl.web.reference import reference


@router.get("/help")
def contents(asked: Asked) -> HTMLResponse:
    """Show the pages and their sections."""
    return asked.page("help.html", topics=topics(), text=None)


@router.get("/help/{page}")
def shown(asked: Asked, page: str) -> HTMLResponse:
    """Show a page of the reference."""
    text = reference(page)
    if text is None:
        raise Problem("not_found", f"there is no page of the reference called {page!r}")
    return asked.page("help.html", topics=topics(), text=text, here_page=page)
