"""HTML in the texts of feeds: titles as plain text, elements as markup, links made absolute."""

from __future__ import annotations

import re
from copy import deepcopy
from html import escape
from html.entities import html5

from lxml import etree

from feeds.formats.display import plain_text
from feeds.formats.entries import link, split

_TITLE_TAGS = frozenset(
    {"a", "abbr", "acronym", "b", "big", "blockquote", "br", "center", "cite", "code", "del"}
    | {"div", "em", "font", "h1", "h2", "h3", "h4", "h5", "h6", "i", "img", "ins", "kbd", "mark"}
    | {"nobr", "p", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "wbr"}
)
_HTML = re.compile(r"</[a-zA-Z]|<(?:br|img|wbr)\b|&(?:#\w{1,8}|[A-Za-z]\w{1,31});")
_TAG = re.compile(r"</?([a-zA-Z][\w:-]*)")
_ENTITY = re.compile(r"&(#?\w+;)")

_REFERENCE = re.compile(
    r"(<[a-zA-Z][^<>]*?\s(?:href|src|poster)\s*=\s*)"
    r"(?:\"(?![a-zA-Z][\w+.-]*:|[#\"])([^\"<>]*)\"|'(?![a-zA-Z][\w+.-]*:|[#'])([^'<>]*)')"
)


def plain_title(title: str) -> str:
    """Return a title as text: without tags and entities, if all of them are those of HTML.

    Text with a tag or an entity that no title has is no HTML: `<vector>`, `AT&T;`.
    """
    if not _HTML.search(title):
        return title
    tags = (tag.lower() in _TITLE_TAGS for tag in _TAG.findall(title))
    entities = (name[0] == "#" or name in html5 for name in _ENTITY.findall(title))
    if not (all(tags) and all(entities)):
        return title
    return " ".join(plain_text(title).split()) or title


def inner_markup(element: etree._Element) -> str:
    """The content of an element as HTML: names without namespaces; a `div` around all is left out.

    RFC 4287, 3.1.1.3: the `div` of `type="xhtml"` is no part of the content.
    """
    copy = deepcopy(element)
    for each in copy.iter(etree.Element):
        each.tag = split(each.tag)[1]
    etree.cleanup_namespaces(copy)
    blank = not (copy.text or "").strip()
    holder = copy[0] if blank and len(copy) == 1 and copy[0].tag == "div" else copy
    written = (etree.tostring(child, method="html", encoding="unicode") for child in holder)
    return (escape(holder.text or "", quote=False) + "".join(written)).strip()


def has_relative_links(html: str) -> bool:
    """Return True unless all addresses of links and images begin with `http`."""
    named = html.count("href") + html.count("src") + html.count("poster")
    return named > 0 and named != html.count('href="http') + html.count('src="http')


def with_absolute_links(html: str, base: str) -> str:
    """The fragment with the addresses of links and images resolved against `base`."""
    if not base.startswith(("http://", "https://")) or not has_relative_links(html):
        return html

    def resolved(found: re.Match[str]) -> str:
        written = found[2] if found[2] is not None else found[3]
        quote = '"' if found[2] is not None else "'"
        return f"{found[1]}{quote}{link(written, base) or written}{quote}"

    return _REFERENCE.sub(resolved, html)
