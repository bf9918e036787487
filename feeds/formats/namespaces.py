"""The names of the namespaces in which feeds are written."""

from __future__ import annotations

from typing import Final

ATOM: Final = "http://www.w3.org/2005/Atom"
ATOM_03: Final = "http://purl.org/atom/ns#"
ITUNES: Final = "http://www.itunes.com/dtds/podcast-1.0.dtd"
MEDIA: Final = "http://search.yahoo.com/mrss/"
RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RSS_090: Final = (
    "http://my.netscape.com/rdf/simple/0.9/",
    "http://channel.netscape.com/rdf/simple/0.9/",
)
RSS_10: Final = "http://purl.org/rss/1.0/"
XML: Final = "http://www.w3.org/XML/1998/namespace"

ITUNES_NAMES: Final = (ITUNES, "http://www.itunes.com/DTDs/Podcast-1.0.dtd")
MEDIA_NAMES: Final = (MEDIA, MEDIA.rstrip("/"), "http://www.rssboard.org/media-rss")
"""The names that publishers write for a namespace, the right one first."""

WELL_KNOWN: Final = {
    "atom": ATOM,
    "atom10": ATOM,
    "content": "http://purl.org/rss/1.0/modules/content/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "feedburner": "http://rssnamespace.org/feedburner/ext/1.0",
    "georss": "http://www.georss.org/georss",
    "itunes": ITUNES,
    "media": MEDIA,
    "rdf": RDF,
    "slash": "http://purl.org/rss/1.0/modules/slash/",
    "sy": "http://purl.org/rss/1.0/modules/syndication/",
    "thr": "http://purl.org/syndication/thread/1.0",
    "wfw": "http://wellformedweb.org/CommentAPI/",
    "xhtml": "http://www.w3.org/1999/xhtml",
}
"""Namespaces by the prefixes that publishers forget to declare."""

_EXACT = frozenset({*WELL_KNOWN.values(), ATOM_03, RSS_10, *ITUNES_NAMES, *MEDIA_NAMES, *RSS_090})


def known_name(written: str) -> str | None:
    """The namespace that is meant, whatever the scheme, capitals and end of the name; None if
    unknown.
    """
    return written if written in _EXACT else _BY_CORE.get(_core(written))


def _core(name: str) -> str:
    return name.lower().partition("://")[2].rstrip("/#")


_BY_CORE = {_core(name): name for name in sorted(_EXACT)}
