"""Details of an entry: extensions of RSS and Atom, and texts in a better form than rule 1 has.

The elements of Media RSS, iTunes, FeedBurner, Dublin Core and Atom are read alike in RSS and in
Atom.  What an extension says of a field counts only if the format's own element says nothing.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from functools import cache

from lxml import etree

from feeds.formats import entries
from feeds.formats.entries import Category, Enclosure, EntryDetails, Fields
from feeds.formats.markup import has_relative_links, inner_markup, with_absolute_links
from feeds.formats.namespaces import (
    ATOM,
    ATOM_03,
    CONTENT,
    DC,
    DCTERMS,
    FEEDBURNER,
    ITUNES_NAMES,
    MEDIA_NAMES,
    XHTML,
)


def details(found: Fields, core: str, base: str) -> EntryDetails:
    """Return the details of the entry with the fields `found`; `core` is its own namespace."""
    spaces = {name for name, _ in found}
    media = {} if spaces.isdisjoint(MEDIA_NAMES) else _media(found)
    has_itunes = not spaces.isdisjoint(ITUNES_NAMES)
    source, source_url = _source(found, core, base)
    return EntryDetails(
        article=entries.link(entries.first(found, (FEEDBURNER, "origLink")), base),
        title=_title(found, media, core),
        description=_description(found, media, core, base),
        content=_content(found, core, base),
        authors=_authors(found, core),
        categories=tuple(_categories(found, media, core)),
        enclosures=tuple(_enclosures(found, media, core, base)),
        comments=_comments(found, core, base),
        source=source,
        source_url=source_url,
        rights=entries.first(
            found,
            *((core, "rights"), (core, "copyright"), (DC, "rights"), (DCTERMS, "rights")),
            (ATOM, "rights"),
        )
        or entries.first(media, *_in_media("copyright")),
        image=_image(found, media, base) if media or has_itunes else None,
        duration=_duration(found, media) if media or has_itunes else None,
    )


@cache
def _in_media(name: str) -> tuple[tuple[str, str], ...]:
    return tuple((namespace, name) for namespace in MEDIA_NAMES)


@cache
def _in_itunes(name: str) -> tuple[tuple[str, str], ...]:
    return tuple((namespace, name) for namespace in ITUNES_NAMES)


def _elements(found: Fields, *names: tuple[str, str]) -> list[etree._Element]:
    """The elements of all the names, name by name."""
    elements: list[etree._Element] = []
    for name in names:
        if name in found:
            elements += found[name]
    return elements


# --- texts ---


def _title(found: Fields, media: Fields, core: str) -> str | None:
    """The title behind base64, or that of the media."""
    for element in _elements(found, (core, "title"), (DC, "title")):
        if not entries.is_blank(element):
            return _decoded(element)
    return entries.first(media, *_in_media("title"))


def _description(found: Fields, media: Fields, core: str, base: str) -> str | None:
    """A better form of the description, or the first one that an extension has."""
    own = (core, "summary" if core in (ATOM, ATOM_03) else "description")
    for element in _elements(found, own, (DC, "description")):
        if not entries.is_blank(element):
            return _better(element, base)
    extensions = ((ATOM, "summary"), *_in_itunes("summary"), *_in_itunes("subtitle"))
    return entries.first(found, *extensions) or entries.first(media, *_in_media("description"))


def _content(found: Fields, core: str, base: str) -> str | None:
    """A better form of the content, or that of Atom or XHTML within RSS."""
    is_atom = core in (ATOM, ATOM_03)
    for element in _elements(found, (core, "content") if is_atom else (CONTENT, "encoded")):
        if not entries.is_blank(element):
            return _better(element, base)
    for element in _elements(found, (ATOM, "content"), (XHTML, "body"), (XHTML, "div")):
        if not entries.is_blank(element):
            return _better(element, base) or entries.text(element)
    return None


def _better(element: etree._Element, base: str) -> str | None:
    """The text that the element stands for; None if that is its characters."""
    better = _decoded(element)
    if better is None and len(element):
        better = inner_markup(element)
    written = entries.text(element) if better is None else better
    if has_relative_links(written):
        better = with_absolute_links(written, entries.base_of(element, base))
    return better


def _decoded(element: etree._Element) -> str | None:
    """The text in base64 (RFC 4287, 4.1.3.3, and Atom 0.3); None if it is no base64 or no text."""
    kind, mode = element.get("type"), element.get("mode")
    text_or_xml = kind is None or kind.startswith("text/") or kind.endswith(("+xml", "/xml"))
    binary = kind is not None and "/" in kind and element.tag == f"{{{ATOM}}}content"
    if mode != "base64" and (text_or_xml or not binary):
        return None
    try:
        written = "".join(entries.text(element).split())
        return base64.b64decode(written, validate=True).decode("utf-8") or None
    except (binascii.Error, ValueError):
        return None


# --- people, categories, the feed that an entry is from ---


def _authors(found: Fields, core: str) -> tuple[str, ...]:
    """The authors in a better form: each once, by name; else those that only extensions name."""
    if core in (ATOM, ATOM_03):
        return ()
    written = [_person(each) for each in _elements(found, (core, "author"), (DC, "creator"))]
    atom = (_person(each) for each in _elements(found, (ATOM, "author")))
    return (
        tuple(dict.fromkeys(name for name in written if name.strip()))
        or tuple(name for name in atom if name.strip())
        or tuple(entries.texts(found, *_in_itunes("author")))
    )


def _person(element: etree._Element) -> str:
    """The name of a person, or an address in its place; else the text of the element."""
    inner = entries.fields(element)
    names = [(name[0], key) for key in ("name", "email", "uri") for name in inner if name[1] == key]
    return (entries.first(inner, *names) or entries.text(element)).strip()


def _categories(found: Fields, media: Fields, core: str) -> Iterator[Category]:
    """The categories with their attributes, each once; then the keywords."""
    seen: set[Category] = set()
    listed = (entries.fields(each) for each in _elements(found, (core, "categories")))
    written = (
        *_elements(found, (core, "category"), (DC, "subject"), (ATOM, "category")),
        *(each for inner in listed for each in _elements(inner, (core, "category"))),
        *_elements(found, *_in_itunes("category")),
        *_elements(media, *_in_media("category")),
    )
    lists = _elements(found, *_in_itunes("keywords"))
    keywords = (*lists, *_elements(media, *_in_media("keywords")))
    every = (*map(_category, written), *(each for one in keywords for each in _keywords(one)))
    for category in every:
        if category.term.strip() and category not in seen:
            seen.add(category)
            yield category


def _category(element: etree._Element) -> Category:
    label = element.get("label") or ""
    term = element.get("term") or element.get("text") or entries.text(element)
    domain = element.get("domain") or element.get("scheme") or ""
    return Category(term, label, domain) if term.strip() else Category(label, "", domain)


def _keywords(element: etree._Element) -> Iterator[Category]:
    """The keywords between commas; between blanks if there is no comma."""
    text = entries.text(element)
    return (Category(word.strip()) for word in (text.split(",") if "," in text else text.split()))


def _source(found: Fields, core: str, base: str) -> tuple[str | None, str | None]:
    """The title and the address of the feed that the entry was taken from."""
    for element in _elements(found, (core, "source"), (ATOM, "source")):
        inner = entries.fields(element)
        if not inner:
            return entries.text(element).strip() or None, entries.link(element.get("url"), base)
        names = [each for each in inner if each[0] in (ATOM, ATOM_03)]
        links = [each for name in names if name[1] == "link" for each in inner[name]]
        links.sort(key=lambda each: each.get("rel") != "self")
        address = next((each.get("href") for each in links), None)
        title = entries.first(inner, *(name for name in names if name[1] == "title"))
        return title, entries.link(address, entries.base_of(element, base))
    return entries.first(found, (DC, "source")), None


def _comments(found: Fields, core: str, base: str) -> str | None:
    """The address of the page with the comments."""
    written = entries.first(found, (core, "comments"))
    replies = (
        each.get("href")
        for each in _elements(found, (ATOM, "link"))
        if each.get("rel") == "replies" and "html" in (each.get("type") or "html")
    )
    return entries.link(written or next(replies, None), base)


# --- media ---


def _media(found: Fields) -> Fields:
    """The elements of Media RSS in the entry, in its groups and in its contents."""
    every: Fields = {}
    layers = [found]
    while layers:
        inner = layers.pop(0)
        for name, elements in inner.items():
            if name[0] in MEDIA_NAMES:
                every.setdefault(name, []).extend(elements)
                if name[1] in ("group", "content"):
                    layers += [entries.fields(each) for each in elements if len(each)]
    return every


def _enclosures(found: Fields, media: Fields, core: str, base: str) -> Iterator[Enclosure]:
    """The files of the entry with their lengths: enclosures first, each address once."""
    linked = (
        each
        for each in _elements(found, *dict.fromkeys(((core, "link"), (ATOM, "link"))))
        if entries.relation(each) == "enclosure"
    )
    written = (
        *_elements(found, (core, "enclosure")),
        *linked,
        *_elements(media, *_in_media("content")),
    )
    seen: set[str] = set()
    for element in written:
        address = entries.link(element.get("url") or element.get("href"), base)
        if address and address not in seen:
            seen.add(address)
            length = entries.number(element.get("length") or element.get("fileSize"))
            yield Enclosure(address, element.get("type") or "", str(length) if length else "")


def _image(found: Fields, media: Fields, base: str) -> str | None:
    """The address of the picture that stands for the entry."""
    written = [
        *(each.get("url") for each in _elements(media, *_in_media("thumbnail"))),
        *(each.get("href") for each in _elements(found, *_in_itunes("image"))),
        *(
            each.get("url")
            for each in _elements(media, *_in_media("content"))
            if each.get("medium") == "image" or (each.get("type") or "").startswith("image/")
        ),
    ]
    return next((found for found in (entries.link(each, base) for each in written) if found), None)


def _duration(found: Fields, media: Fields) -> int | None:
    """Seconds, from `1:02:03`, `62:03` or `3723`."""
    contents = (each.get("duration") for each in _elements(media, *_in_media("content")))
    written = entries.first(found, *_in_itunes("duration")) or next(filter(None, contents), "")
    parts = [entries.number(part.partition(".")[0]) for part in written.split(":")]
    if not 1 <= len(parts) <= 3:
        return None
    seconds = 0
    for part in parts:
        if part is None:
            return None
        seconds = 60 * seconds + part
    return seconds
