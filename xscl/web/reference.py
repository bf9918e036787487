"""The reference of the languages as HTML: headings have anchors, links stay on the page.

Tags in the pages are kept, as the pages belong to the package.
"""

from __future__ import annotations

import posixpath
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from xscl.language.topics import PAGES, found, slug


@cache
def reference(page: str) -> Markup | None:
    """Return a page of the reference; None if there is none of that name."""
    if page not in PAGES:
        return None
    (topic,) = found(page)
    markdown = MarkdownIt("commonmark").enable("table")
    tokens = markdown.parse(topic.text)
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", slug(tokens[place + 1].content))
        elif token.children:
            token.children = [_link(one) for one in token.children]
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))


def _link(token: Token) -> Token:
    """Lead a link to another page of the reference there; any other file is not served."""
    href = str(token.attrGet("href") or "")
    if token.type == "link_open" and "://" not in href and not href.startswith("#"):
        path, _, anchor = href.partition("#")
        name = posixpath.basename(path).removesuffix(".md")
        inside = posixpath.dirname(path) == "" and name in PAGES
        token.attrSet("href", f"/help/{name}{'#' + anchor if anchor else ''}" if inside else "#")
    return token
