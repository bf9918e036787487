"""RSS in all its versions: 0.9x and 2.0 (`rss`), 0.90 and 1.0 (`rdf:RDF`).

The versions differ in where items stand, beside the channel or inside, and in
the namespace of the names, if there is one: whatever namespace an item has,
its own elements have too.  Dublin Core, content and Atom elements fill in what
plain RSS has no words for.
"""

from __future__ import annotations

from lxml import etree

from feeds.formats import entries
from feeds.formats.details import with_details
from feeds.formats.entries import FeedChannel, FeedEntry
from feeds.formats.namespaces import RDF, RSS_090
from feeds.formats.native import frame, own_xml
from feeds.formats.vocabulary import Children, children, update_period


def read(root: etree._Element, url: str, native: bool) -> FeedChannel | None:
    """The feed of an `rss` or `rdf:RDF` element; None if it is neither."""
    version = _format(root)
    if version is None:
        return None
    channel = next((child for child in root if _local(child) == "channel"), root)
    holders = [channel, root] if channel is not root else [root]
    # In a damaged feed an element that was never closed may have swallowed the items.
    items = [child for each in holders for child in each if _local(child) == "item"] or [
        element for element in channel.iter() if _local(element) == "item"
    ]
    holder = root if items and items[0].getparent() is root else channel
    around = frame(root, holder, str(items[0].tag)) if native and items else None
    found = children(channel, "rss")
    base = entries.base_of(channel, url)
    links = [*found.all("atom_link"), *found.all("link")]
    site_url = entries.link(found.first("link"), base)
    minutes = entries.number(found.first("ttl"))
    hours = map(entries.number, _nested(found, "skip_hours", "hour"))
    return FeedChannel(
        format=version,
        title=found.first("title") or "",
        self_url=entries.linked(links, "self", base) or "",
        hub=entries.linked(links, "hub", base) or "",
        site_url=site_url or entries.linked(links, "alternate", base) or "",
        ttl=minutes * 60 if minutes else update_period(found),
        # 24 was once the name of 0.
        skip_hours=frozenset(hour % 24 for hour in hours if hour is not None and hour <= 24),
        skip_days=frozenset(day[:3].lower() for day in _nested(found, "skip_days", "day")),
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
    """The name of an element in small letters."""
    return entries.split(element.tag)[1].lower() if isinstance(element.tag, str) else ""


def _entry(item: etree._Element, url: str, native: bool) -> FeedEntry:
    found = children(item, "rss")
    base = entries.base_of(item, url)
    atom_links = found.all("atom_link")
    own = FeedEntry(
        guid=found.first("guid") or item.get(f"{{{RDF}}}about"),
        link=entries.link(found.first("link"), base)
        or entries.linked([*atom_links, *found.all("link")], "alternate", base)
        or _permalink(found),
        published=found.first("published"),
        updated=found.first("updated"),
        native=own_xml(item) if native else b"",
    )
    return with_details(own, found, base)


def _permalink(entry: Children) -> str | None:
    """The address of a guid that is a permalink."""
    for guid in entry.all("guid"):
        address = entries.text(guid).strip()
        permanent = (guid.get("isPermaLink") or "true").strip().lower() != "false"
        if permanent and address.lower().startswith(("http://", "https://")):
            return address
    return None


def _nested(channel: Children, field: str, inner: str) -> list[str]:
    """The texts of the elements in the lists of a field."""
    lists = map(entries.fields, channel.all(field))
    name = entries.tag_of(channel.core, inner)
    return [text.strip() for each in lists for text in entries.named(each, (name,))]
