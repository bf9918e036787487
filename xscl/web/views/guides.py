"""Help: the reference of the languages; the gallery: use cases with sample items."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from fastapi import Response
from markupsafe import Markup

from feeds.documents import Document
from xscl.delivery.cards import MatchView, shown
from xscl.language.topics import PAGES, found, slug, topics
from xscl.service.problems import Problem
from xscl.web.gallery import all_found, cases, documents
from xscl.web.pages import Asked, AskedByOperator, router

if TYPE_CHECKING:
    from markdown_it.token import Token


@router.get("/gallery")
def gallery(asked: Asked) -> Response:
    """Show the use cases."""
    return asked.page("gallery.html", cases=cases(), found=examples())


@router.post("/gallery/load")
def load(asked: AskedByOperator) -> Response:
    """Append the sample items to the spool, the latest of each use case dated an hour ago."""

    def made() -> tuple[Sequence[Document], int]:
        now = asked.app.clock.now()
        return documents(now), now

    asked.app.store.spool.append_in_turn(made)
    return asked.redirect("/")


@lru_cache(maxsize=1)
def examples() -> dict[str, MatchView]:
    """Return the view model of each use case's last match, by slug."""
    return {slug: shown(found[-1], slug) for slug, found in all_found().items()}


@router.get("/help")
def contents(asked: Asked) -> Response:
    """Show the contents of the help: its pages and their sections."""
    return asked.page("help.html", topics=topics(), text=None, cases=cases())


@router.get("/help/{page}")
def reference_page(asked: Asked, page: str) -> Response:
    """Show a page of the reference."""
    text = reference(page)
    if text is None:
        raise Problem("not_found", f"there is no page of the reference called {page!r}")
    return asked.page("help.html", topics=topics(), text=text, here_page=page)


@cache
def reference(page: str) -> Markup | None:
    """Return a page of the reference as HTML; None if there is none of that name."""
    if page not in PAGES:
        return None
    from markdown_it import MarkdownIt  # 60 modules, imported at the first use

    (topic,) = found(page)
    markdown = MarkdownIt("commonmark").enable("table")
    tokens = markdown.parse(topic.text)
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", slug(tokens[place + 1].content))
        elif token.children:
            token.children = [_link(child) for child in token.children]
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))


def _link(token: Token) -> Token:
    """Return a token whose link to a page of the reference leads to `/help/PAGE`.

    A link to any other file becomes `#`, because the service does not serve it.
    """
    href = str(token.attrGet("href") or "")
    if token.type == "link_open" and "://" not in href and not href.startswith("#"):
        path, _, anchor = href.partition("#")
        name = posixpath.basename(path).removesuffix(".md")
        inside = posixpath.dirname(path) == "" and name in PAGES
        token.attrSet("href", f"/help/{name}{'#' + anchor if anchor else ''}" if inside else "#")
    return token
