"""RSS in all its versions, and Atom 1.0 (RFC 4287) and 0.3: one reader over the names of elements.

The formats differ in the names that give a field (`vocabulary`), and in where entries stand: beside
the channel of RSS 0.90 and 1.0 (`rdf:RDF`), inside it, or in the root of Atom.  An entry's own
elements are in its namespace, whichever that is.

The elements of Media RSS, iTunes, FeedBurner, Dublin Core and Atom are read alike in all of them.
What an extension says of a field counts only if the format's own element says nothing.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from itertools import chain

from lxml import etree

from feeds.formats import entries
from feeds.formats.entries import Category, Enclosure, FeedChannel, FeedEntry
from feeds.formats.markup import has_relative_links, inner_markup, with_absolute_links
from feeds.formats.namespaces import ATOM, ATOM_03, RDF, RSS_090
from feeds.formats.native import frame, own_xml
from feeds.formats.vocabulary import Children, children, media_of, update_period

_INHERITED = 2_000
"""The most characters of a feed's authors that are repeated in its entries."""


def read(root: etree._Element, url: str, native: bool) -> FeedChannel | None:
    """The feed of an `rss`, `rdf:RDF` or `feed` element; None if it is none of them."""
    version = _format(root)
    if version is None:
        return None
    kind = "atom" if version.startswith("atom") else "rss"
    channels = (child for child in root if kind == "rss" and entries.local_name(child) == "channel")
    channel = next(channels, root)
    written = _entries(root, channel, kind)
    holder = root if written and written[0].getparent() is root else channel
    around = frame(root, holder, str(written[0].tag)) if native and written else None
    found = children(channel, kind)
    authors = _authors(found) if kind == "atom" else ()  # RFC 4287, 4.2.1
    if sum(map(len, authors)) > _INHERITED:
        authors = ()
    base = entries.base_of(channel, url)
    links = [*found.all("atom_link"), *found.all("link")]
    minutes = entries.number(found.first("ttl"))
    hours = map(entries.number, _nested(found, "skip_hours", "hour"))
    return FeedChannel(
        format=version,
        title=found.first("title") or "",
        id=(found.first("id") or "").strip(),
        self_url=entries.linked(links, "self", base) or "",
        hub=entries.linked(links, "hub", base) or "",
        site_url=_site(found, links, base) or "",
        ttl=minutes * 60 if minutes else update_period(found),
        # 24 was once the name of 0.
        skip_hours=frozenset(hour % 24 for hour in hours if hour is not None and hour <= 24),
        skip_days=frozenset(day[:3].lower() for day in _nested(found, "skip_days", "day")),
        entries=tuple(_entry(each, url, kind, authors, around is not None) for each in written),
        frame=around or (b"", b""),
    )


def _format(root: etree._Element) -> str | None:
    namespace, name = entries.split(str(root.tag))
    if name == "feed" and namespace in (ATOM, ATOM_03, ""):
        return "atom03" if namespace == ATOM_03 else "atom10"
    if name == "RDF" and namespace == RDF:
        inner = {entries.split(str(child.tag))[0] for child in root if isinstance(child.tag, str)}
        return "rss090" if inner & set(RSS_090) else "rss10"
    if name.lower() != "rss":
        return None
    version = "".join((root.get("version") or "2.0").split(".")).strip()
    return "rss" + (version if version.isascii() and version.isdigit() else "20")[:3]


def _entries(root: etree._Element, channel: etree._Element, kind: str) -> list[etree._Element]:
    if kind == "atom":
        return [*root.iterchildren(entries.tag_of(entries.split(str(root.tag))[0], "entry"))]
    holders = [channel, root] if channel is not root else [root]
    # In a damaged feed an element that was never closed may have swallowed the items.
    return [child for each in holders for child in each if entries.local_name(child) == "item"] or [
        element for element in channel.iter() if entries.local_name(element) == "item"
    ]


def _site(found: Children, links: Sequence[etree._Element], base: str) -> str | None:
    """Return the web page of a feed or an entry: its link as text, else its `alternate` link."""
    written = entries.link(found.first("link_text"), base)
    return written or entries.linked(links, "alternate", base)


def _nested(channel: Children, field: str, inner: str) -> list[str]:
    """Return the texts of the elements `inner` inside the elements of a field."""
    name = entries.tag_of(channel.core, inner)
    every = (each for one in channel.all(field) for each in one.iterchildren(name))
    return [text.strip() for text in entries.texts(every)]


# --- entries ---


def _entry(
    element: etree._Element, url: str, kind: str, inherited: tuple[str, ...], native: bool
) -> FeedEntry:
    entry = children(element, kind)
    media = media_of(entry)
    base = entries.base_of(element, url)
    links = [*entry.all("atom_link"), *entry.all("link")]
    source, source_url = _source(entry, base)
    return FeedEntry(
        guid=entry.first("guid") or element.get(f"{{{RDF}}}about"),
        link=_site(entry, links, base) or _permalink(entry),
        article=entries.link(entry.first("article"), base),
        title=_title(entry, media),
        texts=frozenset(_texts(entry)) if entry.core == ATOM else frozenset(),
        description=_description(entry, media, base),
        content=_content(entry, base),
        authors=_authors(entry)
        or next((_authors(children(each, kind)) for each in entry.all("own_sources")), ())
        or inherited,
        categories=_categories(entry, media),
        published=entry.first("published"),
        updated=entry.first("updated"),
        enclosures=tuple(_enclosures(entry, media, base)),
        comments=_comments(entry, base),
        source=source,
        source_url=source_url,
        rights=entry.first("rights") or media.first("rights"),
        image=_image(entry, media, base) if media.found or entry.has("picture") else None,
        duration=_duration(entry, media) if media.found or entry.has("duration") else None,
        native=own_xml(element) if native else b"",
    )


def _permalink(entry: Children) -> str | None:
    """The address of a guid of RSS that is a permalink."""
    for guid in entry.all("permalink"):
        address = entries.text(guid).strip()
        permanent = (guid.get("isPermaLink") or "true").strip().lower() != "false"
        if permanent and address.lower().startswith(("http://", "https://")):
            return address
    return None


# --- texts ---


def _title(entry: Children, media: Children) -> str | None:
    """The title, which may be in base64, or that of the media."""
    for element, written in entry.with_texts("title"):
        return _decoded(element, written) or written
    return media.first("title")


def _texts(entry: Children) -> Iterator[str]:
    """Yield the fields of an Atom entry that are text, not HTML (RFC 4287, 3.1.1).

    Without a `type` a title is text; summary and content are HTML, as publishers mean.
    """
    for field, usual in (("title", "text"), ("description", ""), ("content", "")):
        for element, _ in entry.with_texts(field):
            kind = (element.get("type") or usual).strip().lower()
            if kind in ("text", "text/plain") or (field == "title" and "xhtml" in kind):
                yield field
            break


def _description(entry: Children, media: Children, base: str) -> str | None:
    """Return the description as HTML, or the first one of an extension."""
    for element, written in entry.with_texts("description"):
        return _html(element, written, base)
    return entry.first("more_description") or media.first("description")


def _content(entry: Children, base: str) -> str | None:
    """Return the content as HTML; in RSS also that of an element of Atom or XHTML."""
    for field in ("content", "more_content"):
        for element, written in entry.with_texts(field):
            return _html(element, written, base)
    return None


def _html(element: etree._Element, written: str, base: str) -> str:
    """Return the HTML of an element: its decoded text, its markup, or its text `written`."""
    html = _decoded(element, written) or (inner_markup(element) if len(element) else written)
    if has_relative_links(html):
        return with_absolute_links(html, entries.base_of(element, base))
    return html


def _decoded(element: etree._Element, written: str) -> str | None:
    """The text in base64 (RFC 4287, 4.1.3.3, and Atom 0.3); None if it is no base64 or no text."""
    kind, mode = element.get("type"), element.get("mode")
    if kind is None and mode is None:
        return None
    text_or_xml = kind is None or kind.startswith("text/") or kind.endswith(("+xml", "/xml"))
    binary = kind is not None and "/" in kind and element.tag == f"{{{ATOM}}}content"
    if mode != "base64" and (text_or_xml or not binary):
        return None
    try:
        return base64.b64decode("".join(written.split()), validate=True).decode("utf-8") or None
    except (binascii.Error, ValueError):
        return None


# --- people, categories, the feed that an entry is from ---


_LABELS = ("labels", "label_lists", "more_labels", "keywords")


def _authors(entry: Children) -> tuple[str, ...]:
    """The names of the authors, each once; those that only extensions name if there are no others.

    Who has no name is named by address.
    """
    for field in ("people", "other_people", "more_people"):
        names = dict.fromkeys(name for name in map(_person, entry.all(field)) if name.strip())
        if names:
            return tuple(names)
    return ()


def _person(element: etree._Element) -> str:
    """The name of a person, or an address in its place; else the text of the element."""
    if not len(element):
        return (element.text or "").strip()
    named = (element.iterchildren(f"{{*}}{key}") for key in ("name", "email", "uri", "url"))
    return next(entries.texts(chain.from_iterable(named)), entries.text(element)).strip()


def _categories(entry: Children, media: Children) -> tuple[Category, ...]:
    """The categories with their attributes, each once; then the keywords."""
    if not (entry.has(*_LABELS) or media.found):
        return ()
    listed = entries.tag_of(entry.core, "category")
    written = (
        *entry.all("labels"),
        *(each for one in entry.all("label_lists") for each in one.iterchildren(listed)),
        *entry.all("more_labels"),
        *media.all("labels"),
    )
    lists = (*entry.all("keywords"), *media.all("keywords"))
    every = (*map(_category, written), *(each for one in lists for each in _keywords(one)))
    return tuple(category for category in dict.fromkeys(every) if category.term.strip())


def _category(element: etree._Element) -> Category:
    label = element.get("label") or ""
    term = element.get("term") or element.get("text") or entries.text(element)
    domain = element.get("domain") or element.get("scheme") or ""
    return Category(term, label, domain) if term.strip() else Category(label, "", domain)


def _keywords(element: etree._Element) -> Iterator[Category]:
    """The keywords between commas; between blanks if there is no comma."""
    text = entries.text(element)
    return (Category(word.strip()) for word in (text.split(",") if "," in text else text.split()))


def _source(entry: Children, base: str) -> tuple[str | None, str | None]:
    """The title and the address of the feed that the entry was taken from."""
    for element in entry.all("sources"):
        if element.find("*") is None:
            return entries.text(element).strip() or None, entries.link(element.get("url"), base)
        title, links = (
            [*element.iterchildren(f"{{{ATOM}}}{name}", f"{{{ATOM_03}}}{name}")]
            for name in ("title", "link")
        )
        links.sort(key=lambda each: each.get("rel") != "self")
        address = next((each.get("href") for each in links), None)
        of_source = entries.link(address, entries.base_of(element, base))
        return next(entries.texts(title), None), of_source
    return entry.first("source"), None


def _comments(entry: Children, base: str) -> str | None:
    """The address of the page with the comments."""
    written = entry.first("comments")
    replies = (
        each.get("href")
        for each in entry.all("atom_link")
        if each.get("rel") == "replies" and "html" in (each.get("type") or "html")
    )
    return entries.link(written or next(replies, None), base)


# --- media ---


def _enclosures(entry: Children, media: Children, base: str) -> Iterator[Enclosure]:
    """The files of the entry with their lengths: enclosures first, each address once."""
    linked = (
        each
        for name in ("link", "atom_link")
        for each in entry.all(name)
        if entries.relation(each) == "enclosure"
    )
    seen: set[str] = set()
    for element in (*entry.all("files"), *linked, *media.all("files")):
        address = entries.link(element.get("url") or element.get("href"), base)
        if address and address not in seen:
            seen.add(address)
            length = entries.number(element.get("length") or element.get("fileSize"))
            yield Enclosure(address, element.get("type") or "", str(length) if length else "")


def _image(entry: Children, media: Children, base: str) -> str | None:
    """The address of the picture that stands for the entry."""
    written = (
        *(each.get("url") for each in media.all("picture")),
        *(each.get("href") for each in entry.all("picture")),
        *(
            each.get("url")
            for each in media.all("files")
            if each.get("medium") == "image" or (each.get("type") or "").startswith("image/")
        ),
    )
    return next((found for found in (entries.link(each, base) for each in written) if found), None)


def _duration(entry: Children, media: Children) -> int | None:
    """Seconds, from `1:02:03`, `62:03` or `3723`."""
    contents = (each.get("duration") for each in media.all("files"))
    written = entry.first("duration") or next(filter(None, contents), "")
    parts = [entries.number(part.partition(".")[0]) for part in written.split(":")]
    if not 1 <= len(parts) <= 3:
        return None
    seconds = 0
    for part in parts:
        if part is None:
            return None
        seconds = 60 * seconds + part
    return seconds
