"""The names of elements in feeds, and which of them give which field.

An element of the entry's own namespace, whichever that is, goes by its local name; one of an
extension by its tag.  Unknown elements are passed over, so that a feed full of them takes no memory
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from lxml import etree

from feeds.formats.entries import number, split, tag_of, text, texts
from feeds.formats.namespaces import ATOM, ATOM_03, ITUNES_NAMES, MEDIA_NAMES, WELL_KNOWN

Fields: TypeAlias = dict[str, list[etree._Element]]
"""The children of an element by name."""

Names: TypeAlias = Mapping[str, tuple[str, ...]]
"""For each field the names that give it, the best first."""

_NAMESPACES = {prefix: (namespace,) for prefix, namespace in WELL_KNOWN.items()} | {
    "itunes": ITUNES_NAMES,
    "media": MEDIA_NAMES,
}


def _tags(name: str) -> tuple[str, ...]:
    """Return the tags of a name such as `dc:date`; a name without a prefix is itself the tag."""
    prefix, colon, local = name.rpartition(":")
    return tuple(tag_of(each, local) for each in _NAMESPACES[prefix]) if colon else (name,)


def _names(**fields: str) -> Names:
    """For each field the tags of its names."""
    return {
        field: tuple(tag for name in names.split() for tag in _tags(name))
        for field, names in fields.items()
    }


_MEDIA = _names(
    title="media:title",
    description="media:description",
    rights="media:copyright",
    labels="media:category",
    keywords="media:keywords",
    files="media:content",
    picture="media:thumbnail",
    groups="media:group",
)
_RSS: Names = _names(
    id="",
    guid="guid",
    permalink="guid",
    article="feedburner:origLink",
    title="title dc:title",
    description="description dc:description",
    content="content:encoded",
    more_description="atom:summary itunes:summary itunes:subtitle",
    more_content="atom:content xhtml:body xhtml:div",
    people="author dc:creator",
    other_people="atom:author",
    more_people="itunes:author",
    own_sources="",
    labels="category dc:subject atom:category",
    label_lists="categories",
    more_labels="itunes:category",
    keywords="itunes:keywords",
    published="pubDate dc:date dcterms:issued dcterms:created atom:published",
    updated="dcterms:modified atom:updated updated modified",
    files="enclosure",
    link="link",
    link_text="link",
    atom_link="atom:link",
    comments="comments",
    sources="source atom:source",
    source="dc:source",
    rights="rights copyright dc:rights dcterms:rights atom:rights",
    picture="itunes:image",
    duration="itunes:duration",
    period="sy:updatePeriod",
    frequency="sy:updateFrequency",
    ttl="ttl",
    skip_hours="skipHours",
    skip_days="skipDays",
)
_ATOM: Names = {
    **_RSS,
    **_names(
        id="id",
        guid="id",
        permalink="",
        link_text="",
        description="summary",
        content="content",
        people="author",
        other_people="dc:creator",
        more_people="",
        own_sources="source",
        published="published issued created dcterms:issued dcterms:created dc:date",
        updated="updated modified dcterms:modified",
    ),
}
_IN_ATOM: Names = _names(description="summary dc:description", content="content")
"""Names that have another meaning in an Atom entry, in a feed of any format."""

_FIELDS: Final[Mapping[str, Names]] = {
    "rss": _RSS,
    "rss in Atom": {**_RSS, **_IN_ATOM},
    "atom": _ATOM,
    "atom in Atom": {**_ATOM, **_IN_ATOM},
    "media": _MEDIA,
}
_NAMES = {name for fields in _FIELDS.values() for names in fields.values() for name in names}
_TAGS = {name: name for name in _NAMES if name.startswith("{")}


@lru_cache(maxsize=50)
def _by_tag(core: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return names by known tag, also in small letters; and the extensions' tags in `core`."""
    own = {tag_of(core, name): name for name in _NAMES.difference(_TAGS)}
    every = {**_TAGS, **own}
    second = [(tag, name) for tag, name in own.items() if tag in _TAGS]
    return {tag.lower(): name for tag, name in every.items()} | every, second


@dataclass(frozen=True, slots=True)
class Children:
    """The known children of an element by name; `core` is its own namespace.

    `names` are for each field the names that give it.
    """

    core: str
    found: Fields
    names: Names

    def has(self, *fields: str) -> bool:
        """Return True if there is an element that gives one of the fields."""
        return any(name in self.found for field in fields for name in self.names[field])

    def all(self, field: str) -> Sequence[etree._Element]:
        """The elements that give the field, name by name."""
        found = self.found
        return [each for name in self.names[field] if name in found for each in found[name]]

    def with_texts(self, field: str) -> Iterator[tuple[etree._Element, str]]:
        """The elements that give the field and are not empty or blank, with their texts."""
        for element in self.all(field):
            value = text(element)
            if (value and not value.isspace()) or len(element):
                yield element, value

    def first(self, field: str) -> str | None:
        """The first string value of the field that is not blank."""
        return next(texts(self.all(field)), None)


def children(element: etree._Element, kind: str) -> Children:
    """The known children of an element; `kind` is `rss`, `atom` or `media`."""
    core = split(element.tag)[0]
    by_tag, second = _by_tag(core)
    found: Fields = {}
    for child in element:
        name = by_tag.get(child.tag)
        if name is None and isinstance(child.tag, str):
            name = by_tag.get(child.tag.lower())
        if name is None:
            continue
        if name in found:
            found[name].append(child)
        else:
            found[name] = [child]
    for tag, name in second:
        if name in found:
            found[tag] = found[name]
    in_atom = " in Atom" if core in (ATOM, ATOM_03) and kind != "media" else ""
    return Children(core, found, _FIELDS[kind + in_atom])


def media_of(entry: Children) -> Children:
    """The elements of Media RSS in the entry, in its groups and in its contents."""
    every: Fields = {}
    layers = [entry.found] if not _MEDIA_TAGS.isdisjoint(entry.found) else []
    while layers:
        for name, elements in layers.pop(0).items():
            if name in _MEDIA_TAGS:
                every.setdefault(name, []).extend(elements)
                if name.endswith(("}group", "}content")):
                    layers += [children(each, "media").found for each in elements if len(each)]
    return Children("", every, _MEDIA)


_MEDIA_TAGS = frozenset(tag for tags in _MEDIA.values() for tag in tags)


# --- how often to ask ---

_PERIODS = {
    "hourly": 3600,
    "daily": 86400,
    "weekly": 604800,
    "monthly": 2592000,
    "yearly": 31536000,
}


def update_period(channel: Children) -> int | None:
    """Seconds between polls by the syndication module (`sy:updatePeriod`), if it says so."""
    period = (channel.first("period") or "").strip().lower()
    times = number(channel.first("frequency")) or 1
    return _PERIODS[period] // times if period in _PERIODS else None
