"""Atom 1.0 (RFC 4287) and its draft 0.3.

An entry without an author inherits its source's or its feed's (RFC 4287,
4.2.1).
"""

from __future__ import annotations

from lxml import etree

from feeds.formats import entries
from feeds.formats.details import with_details
from feeds.formats.entries import FeedChannel, FeedEntry
from feeds.formats.namespaces import ATOM, ATOM_03
from feeds.formats.native import frame, own_xml
from feeds.formats.vocabulary import Children, children, update_period

_INHERITED = 2_000
"""A feed's authors are repeated in its entries up to so many characters."""


def read(root: etree._Element, url: str, native: bool) -> FeedChannel | None:
    """The feed of a `feed` element; None if it is none."""
    core, name = entries.split(str(root.tag))
    if name != "feed" or core not in (ATOM, ATOM_03, ""):
        return None
    found = children(root, "atom")
    written = [*root.iterchildren(entries.tag_of(core, "entry"))]
    around = frame(root, root, str(written[0].tag)) if native and written else None
    authors = _authors(found)
    if sum(map(len, authors)) > _INHERITED:
        authors = ()
    base = entries.base_of(root, url)
    links = found.all("link")
    return FeedChannel(
        format="atom03" if core == ATOM_03 else "atom10",
        title=found.first("title") or "",
        id=(found.first("guid") or "").strip(),
        self_url=entries.linked(links, "self", base) or "",
        hub=entries.linked(links, "hub", base) or "",
        site_url=entries.linked(links, "alternate", base) or "",
        ttl=update_period(found),
        entries=tuple(_entry(each, url, authors, around is not None) for each in written),
        frame=around or (b"", b""),
    )


def _entry(
    element: etree._Element, url: str, inherited: tuple[str, ...], native: bool
) -> FeedEntry:
    found = children(element, "atom")
    base = entries.base_of(element, url)
    links = found.all("link")
    sources = found.all("own_sources")[:1]
    own = FeedEntry(
        guid=found.first("guid"),
        link=entries.linked(links, "alternate", base),
        authors=_authors(found)
        or next((_authors(children(each, "atom")) for each in sources), ())
        or inherited,
        published=found.first("published"),
        updated=found.first("updated"),
        native=own_xml(element) if native else b"",
    )
    return with_details(own, found, base)


def _authors(holder: Children) -> tuple[str, ...]:
    """The names of the authors; who has none is named by address."""
    inner = [entries.tag_of(holder.core, name) for name in ("name", "email", "uri", "url")]
    people = [
        next(entries.named(entries.fields(each), inner), "") for each in holder.all("authors")
    ]
    return tuple(name for name in people if name) or holder.texts("creators")
