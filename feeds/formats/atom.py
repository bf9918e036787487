"""Atom 1.0 (RFC 4287) and its draft 0.3.

An entry without an author inherits its source's or its feed's (RFC 4287,
4.2.1).
"""

from __future__ import annotations

from lxml import etree

from feeds.formats import entries
from feeds.formats.details import details
from feeds.formats.entries import Enclosure, FeedChannel, FeedEntry, Fields
from feeds.formats.namespaces import ATOM, ATOM_03, DC, DCTERMS
from feeds.formats.native import frame, own_xml

_INHERITED = 2_000
"""A feed's authors are repeated in its entries up to so many characters."""


def read(root: etree._Element, url: str, native: bool) -> FeedChannel | None:
    """The feed of a `feed` element; None if it is none."""
    core, name = entries.split(str(root.tag))
    if name != "feed" or core not in (ATOM, ATOM_03, ""):
        return None
    found = entries.fields(root)
    written = found.get((core, "entry"), [])
    around = frame(root, root, str(written[0].tag)) if native and written else None
    authors = _authors(found, core)
    if sum(map(len, authors)) > _INHERITED:
        authors = ()
    base = entries.base_of(root, url)
    return FeedChannel(
        format="atom03" if core == ATOM_03 else "atom10",
        title=entries.first(found, (core, "title")) or "",
        id=(entries.first(found, (core, "id")) or "").strip(),
        self_url=_link(found, core, "self", base) or "",
        hub=_link(found, core, "hub", base) or "",
        site_url=_link(found, core, "alternate", base) or "",
        ttl=entries.update_period(found),
        entries=tuple(_entry(each, url, authors, around is not None) for each in written),
        frame=around or (b"", b""),
    )


def _entry(
    element: etree._Element, url: str, inherited: tuple[str, ...], native: bool
) -> FeedEntry:
    found = entries.fields(element)
    core = entries.split(str(element.tag))[0]
    base = entries.base_of(element, url)
    source = next((entries.fields(each) for each in found.get((core, "source"), ())), {})
    return FeedEntry(
        guid=entries.first(found, (core, "id")),
        link=_link(found, core, "alternate", base),
        title=entries.first(found, (core, "title")),
        description=entries.first(found, (core, "summary")),
        content=entries.first(found, (core, "content")),
        authors=_authors(found, core) or _authors(source, core) or inherited,
        categories=_categories(found, core),
        published=entries.first(
            found,
            *((core, "published"), (core, "issued"), (core, "created")),
            *((DCTERMS, "issued"), (DCTERMS, "created"), (DC, "date")),
        ),
        updated=entries.first(found, (core, "updated"), (core, "modified"), (DCTERMS, "modified")),
        enclosures=tuple(_enclosures(found, core, base)),
        native=own_xml(element) if native else b"",
        details=details(found, core, base),
    )


def _link(found: Fields, core: str, rel: str, base: str) -> str | None:
    """The address of a relation, HTML before other types; a link without `href` may be text."""
    links = [each for each in found.get((core, "link"), ()) if entries.relation(each) == rel]
    links.sort(key=lambda each: "html" not in (each.get("type") or "html"))
    addresses = (
        entries.link(each.get("href") or entries.text(each), _base(each, base)) for each in links
    )
    return next((address for address in addresses if address), None)


def _base(element: etree._Element, base: str) -> str:
    """The link's own `xml:base`, seldom as it is, before its parent's."""
    own = "{http://www.w3.org/XML/1998/namespace}base" in element.attrib
    return entries.base_of(element, base) if own else base


def _authors(found: Fields, core: str) -> tuple[str, ...]:
    """The names of the authors; who has none is named by address."""
    people = [entries.fields(each) for each in found.get((core, "author"), ())]
    names = [
        entries.first(person, (core, "name"), (core, "email"), (core, "uri"), (core, "url"))
        for person in people
    ]
    return tuple(name for name in names if name) or tuple(entries.texts(found, (DC, "creator")))


def _categories(found: Fields, core: str) -> tuple[str, ...]:
    terms = [each.get("term") or "" for each in found.get((core, "category"), ())]
    return tuple(term for term in terms if term.strip()) + tuple(
        entries.texts(found, (DC, "subject"))
    )


def _enclosures(found: Fields, core: str, base: str) -> list[Enclosure]:
    links = [
        each for each in found.get((core, "link"), ()) if entries.relation(each) == "enclosure"
    ]
    resolved = [(entries.link(each.get("href"), base), each.get("type") or "") for each in links]
    return [Enclosure(address, type_) for address, type_ in resolved if address]
