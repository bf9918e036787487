"""The HTML of feeds, made safe to show.

Queries read what the publisher wrote; whoever shows it to a person passes it through `safe_html`
first.  The result has a short list of elements, and links to http, https and mailto only.  It has
no scripts, styles, frames, forms or identifiers, so it can neither run code nor imitate the page
around it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from html import unescape
from typing import Final, Literal
from urllib.parse import quote, urlsplit

import nh3

from feeds.formats.entries import link, without_user

SCHEMES: Final = frozenset({"http", "https", "mailto"})
"""Schemes of the addresses that a link may have."""

_TAGS = frozenset(nh3.ALLOWED_TAGS) - {"area", "map", "header", "footer", "nav", "center"}
_ATTRIBUTES = {
    "a": {"href", "title", "hreflang"},
    "abbr": {"title"},
    "bdo": {"dir"},
    "blockquote": {"cite"},
    "del": {"cite", "datetime"},
    "img": {"src", "alt", "title", "width", "height"},
    "ins": {"cite", "datetime"},
    "ol": {"start", "reversed"},
    "q": {"cite"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
    "time": {"datetime"},
}
_RELATION = "noopener noreferrer nofollow ugc"
_DROPPED = frozenset(
    {"script", "style", "template", "iframe", "object", "noscript", "svg", "math", "title"}
)
_APART = re.compile(r"(?=</?(?:p|div|br|hr|li|dt|dd|h[1-6]|td|th|tr|pre|blockquote|img)\b)", re.I)


def safe_html(html: str, base: str = "", *, without: frozenset[str] = frozenset()) -> str:
    """Return HTML with harmless elements and links only, relative ones resolved against `base`.

    Without a valid absolute `base`, relative links are dropped: they would lead
    to the page that shows them.  Elements in `without` are removed, too; their text stays.
    """
    tags = _TAGS - without
    if base.lower().startswith(("http://", "https://")):
        with suppress(ValueError):  # no valid address
            return _clean(html, ("rewrite_with_base", base), tags)
    return _clean(html, "deny", tags)


def plain_text(html: str) -> str:
    """The text of a fragment without its elements: never HTML, to be escaped like any text."""
    return unescape(nh3.clean(_APART.sub(" ", html), tags=set(), clean_content_tags=set(_DROPPED)))


def _clean(
    html: str,
    relative: Literal["deny"] | tuple[Literal["rewrite_with_base"], str],
    tags: frozenset[str],
) -> str:
    return nh3.clean(
        html,
        tags=set(tags),
        clean_content_tags=set(_DROPPED),
        attributes=_ATTRIBUTES,
        attribute_filter=_without_credentials,
        link_rel=_RELATION,
        url_schemes=set(SCHEMES),
        url_relative=relative,
    )


def _without_credentials(tag: str, attribute: str, value: str) -> str | None:
    """Return the value of an attribute; an address loses the part before `@`, which deceives."""
    if attribute not in ("href", "src", "cite") or "@" not in value:
        return value
    return safe_link(value)


def safe_link(address: str | None) -> str | None:
    """The address if it is absolute and may be shown as a link, without user name and password.

    Blanks in it are escaped: an address in Atom or in a header has none.
    """
    absolute = link(address, "")
    try:
        parts = urlsplit(absolute or "")
        fine = parts.scheme == "mailto" or (parts.scheme in SCHEMES and parts.hostname)
        shown = without_user(absolute) if absolute and fine else None
        return shown and re.sub(r"\s", lambda blank: quote(blank[0]), shown)
    except ValueError:
        return None
