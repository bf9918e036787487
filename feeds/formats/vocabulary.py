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

from feeds.formats.entries import Fields, number, split, tag_of, text, texts
from feeds.formats.namespaces import (
    ATOM,
    ATOM_03,
    CONTENT,
    DC,
    DCTERMS,
    FEEDBURNER,
    ITUNES_NAMES,
    MEDIA_NAMES,
    SYNDICATION,
    XHTML,
)

Names: TypeAlias = Mapping[str, tuple[str, ...]]
"""For each field the names that give it, the best first."""


def _in_all(namespaces: Sequence[str], *names: str) -> tuple[str, ...]:
    """The tags in all namespaces, name by name."""
    return tuple(tag_of(namespace, name) for name in names for namespace in namespaces)


def _dc(*names: str) -> tuple[str, ...]:
    return _in_all((DC,), *names)


def _atom(*names: str) -> tuple[str, ...]:
    return _in_all((ATOM,), *names)


def _terms(*names: str) -> tuple[str, ...]:
    return _in_all((DCTERMS,), *names)


_MEDIA = {
    field: _in_all(MEDIA_NAMES, name)
    for field, name in (
        *(("title", "title"), ("description", "description"), ("rights", "copyright")),
        *(("labels", "category"), ("keywords", "keywords"), ("files", "content")),
        *(("picture", "thumbnail"), ("groups", "group")),
    )
}
_COMMON: Names = {
    "article": _in_all((FEEDBURNER,), "origLink"),
    "title": ("title", *_dc("title")),
    "description": ("description", *_dc("description")),
    "content": _in_all((CONTENT,), "encoded"),
    "more_description": (*_atom("summary"), *_in_all(ITUNES_NAMES, "summary", "subtitle")),
    "more_content": (*_atom("content"), *_in_all((XHTML,), "body", "div")),
    "people": ("author", *_dc("creator")),
    "atom_people": _atom("author"),
    "more_people": _in_all(ITUNES_NAMES, "author"),
    "labels": ("category", *_dc("subject"), *_atom("category")),
    "label_lists": ("categories",),
    "more_labels": _in_all(ITUNES_NAMES, "category"),
    "keywords": _in_all(ITUNES_NAMES, "keywords"),
    "files": ("enclosure",),
    "link": ("link",),
    "atom_link": _atom("link"),
    "comments": ("comments",),
    "sources": ("source", *_atom("source")),
    "source": _dc("source"),
    "rights": ("rights", "copyright", *_dc("rights"), *_terms("rights"), *_atom("rights")),
    "picture": _in_all(ITUNES_NAMES, "image"),
    "duration": _in_all(ITUNES_NAMES, "duration"),
    "media": tuple(tag for tags in _MEDIA.values() for tag in tags),
    "period": _in_all((SYNDICATION,), "updatePeriod"),
    "frequency": _in_all((SYNDICATION,), "updateFrequency"),
}
_RSS: Names = {
    **_COMMON,
    "guid": ("guid",),
    "published": ("pubDate", *_dc("date"), *_terms("issued", "created"), *_atom("published")),
    "updated": (*_terms("modified"), *_atom("updated"), "updated", "modified"),
    "ttl": ("ttl",),
    "skip_hours": ("skipHours",),
    "skip_days": ("skipDays",),
}
_ATOM: Names = {
    **_COMMON,
    "guid": ("id",),
    "description": ("summary",),
    "content": ("content",),
    "authors": ("author",),
    "creators": _dc("creator"),
    "own_sources": ("source",),
    "published": (
        *("published", "issued", "created"),
        *(*_terms("issued", "created"), *_dc("date")),
    ),
    "updated": ("updated", "modified", *_terms("modified")),
}
_IN_ATOM: Names = {
    "description": ("summary", *_dc("description")),
    "content": ("content",),
}
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
    """The name of each known tag, also in small letters; the tags of extensions that are `core`."""
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

    def texts(self, field: str) -> tuple[str, ...]:
        """All string values of the field that are not blank."""
        return tuple(texts(self.all(field)))


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
    layers = [entry.found] if entry.has("media") else []
    while layers:
        for name, elements in layers.pop(0).items():
            if name in _MEDIA_TAGS:
                every.setdefault(name, []).extend(elements)
                if name.endswith(("}group", "}content")):
                    layers += [children(each, "media").found for each in elements if len(each)]
    return Children("", every, _MEDIA)


_MEDIA_TAGS = frozenset(_COMMON["media"])


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
