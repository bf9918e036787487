"""RSS in all its versions: 0.9x and 2.0 (`rss`), 0.90 and 1.0 (`rdf:RDF`).

The versions differ in where items stand, beside the channel or inside, and in
the namespace of the names, if there is one: whatever namespace an item has,
its own elements have too.  Dublin Core, content and Atom elements fill in what
plain RSS has no words for.
"""

from __future__ import annotations

from lxml import etree

from feeds.formats import entries
from feeds.formats.details import details
from feeds.formats.entries import Enclosure, FeedChannel, FeedEntry, Fields
from feeds.formats.namespaces import ATOM, CONTENT, DC, DCTERMS, RDF, RSS_090
from feeds.formats.native import frame, own_xml


def read(root: etree._Element, url: str, native: bool) -> FeedChannel | None:
    """The feed of an `rss` or `rdf:RDF` element; None if it is neither."""
    version = _format(root)
    if version is None:
        return None
    channel = next((child for child in root if _local(child) == "channel"), root)
    holder = channel if any(_local(child) == "item" for child in channel) else root
    # In a damaged feed an element that was never closed may have swallowed the items.
    items = [child for child in holder if _local(child) == "item"] or [
        element for element in channel.iter() if _local(element) == "item"
    ]
    around = frame(root, holder, str(items[0].tag)) if native and items else None
    found = entries.fields(channel)
    core = entries.split(str(channel.tag))[0]
    base = entries.base_of(channel, url)
    site_url = entries.link(entries.first(found, (core, "link")), base)
    return FeedChannel(
        format=version,
        title=entries.first(found, (core, "title"), (DC, "title")) or "",
        self_url=_atom_link(found, "self", base) or "",
        hub=_atom_link(found, "hub", base) or "",
        site_url=site_url or _atom_link(found, "alternate", base) or "",
        ttl=_ttl(found, core),
        skip_hours=_hours(found, core),
        skip_days=frozenset(day[:3].lower() for day in _nested(found, core, "skipDays", "day")),
        entries=tuple(_entry(item, url, native=around is not None) for item in items),
        frame=around or (b"", b""),
    )


def _format(root: etree._Element) -> str | None:
    namespace, name = entries.split(str(root.tag))
    if name == "RDF" and namespace == RDF:
        inner = {entries.split(str(child.tag))[0] for child in root if isinstance(child.tag, str)}
        return "rss090" if inner & set(RSS_090) else "rss10"
    if name.lower() != "rss":
        return None
    version = "".join((root.get("version") or "2.0").split(".")).strip()
    return "rss" + (version if version.isascii() and version.isdigit() else "20")[:3]


def _local(element: etree._Element) -> str:
    return entries.split(element.tag)[1] if isinstance(element.tag, str) else ""


def _entry(item: etree._Element, url: str, native: bool) -> FeedEntry:
    found = entries.fields(item)
    core = entries.split(str(item.tag))[0]
    base = entries.base_of(item, url)
    guid = entries.first(found, (core, "guid")) or item.get(f"{{{RDF}}}about")
    return FeedEntry(
        guid=guid,
        link=_link(found, core, base),
        title=entries.first(found, (core, "title"), (DC, "title")),
        description=entries.first(found, (core, "description"), (DC, "description")),
        content=entries.first(found, (CONTENT, "encoded")),
        authors=tuple(entries.texts(found, (core, "author"), (DC, "creator"))),
        categories=tuple(entries.texts(found, (core, "category"), (DC, "subject"))),
        published=entries.first(
            found,
            *((core, "pubDate"), (DC, "date"), (DCTERMS, "issued"), (DCTERMS, "created")),
            (ATOM, "published"),
        ),
        updated=entries.first(
            found, (DCTERMS, "modified"), (ATOM, "updated"), (core, "updated"), (core, "modified")
        ),
        enclosures=tuple(_enclosures(found, core, base)),
        native=own_xml(item) if native else b"",
        details=details(found, core, base),
    )


def _link(found: Fields, core: str, base: str) -> str | None:
    """The item's address: its link, an Atom link, or a guid that is a permalink."""
    written = entries.link(entries.first(found, (core, "link")), base)
    return written or _atom_link(found, "alternate", base) or _permalink(found, core)


def _permalink(found: Fields, core: str) -> str | None:
    for guid in found.get((core, "guid"), ()):
        address = entries.text(guid).strip()
        permanent = (guid.get("isPermaLink") or "true").strip().lower() != "false"
        if permanent and address.lower().startswith(("http://", "https://")):
            return address
    return None


def _atom_link(found: Fields, rel: str, base: str) -> str | None:
    for element in found.get((ATOM, "link"), ()):
        if (element.get("rel") or "alternate") == rel:
            return entries.link(element.get("href"), base)
    return None


def _enclosures(found: Fields, core: str, base: str) -> list[Enclosure]:
    written = [(element.get("url"), element) for element in found.get((core, "enclosure"), ())]
    atom = [
        (element.get("href"), element)
        for element in found.get((ATOM, "link"), ())
        if element.get("rel") == "enclosure"
    ]
    links = [(entries.link(address, base), element) for address, element in written + atom]
    return [Enclosure(address, element.get("type") or "") for address, element in links if address]


# --- how often to ask ---


def _ttl(found: Fields, core: str) -> int | None:
    """Seconds between polls that the publisher asks for: `ttl` or the syndication module."""
    minutes = entries.number(entries.first(found, (core, "ttl")))
    return minutes * 60 if minutes else entries.update_period(found)


def _hours(found: Fields, core: str) -> frozenset[int]:
    """The hours, 0 to 23, in which nobody should ask; 24 was once the name of 0."""
    hours = (entries.number(hour) for hour in _nested(found, core, "skipHours", "hour"))
    return frozenset(hour % 24 for hour in hours if hour is not None and hour <= 24)


def _nested(found: Fields, core: str, outer: str, inner: str) -> list[str]:
    lists = found.get((core, outer), ())
    return [
        text.strip()
        for each in lists
        for text in entries.texts(entries.fields(each), (core, inner))
    ]
