"""Reserved names: predeclared namespace prefixes, and the stream of all feed items."""

from __future__ import annotations

PREDECLARED = {
    "atom": "http://www.w3.org/2005/Atom",
    "content": "http://purl.org/rss/1.0/modules/content/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "georss": "http://www.georss.org/georss",
    "itunes": "http://www.itunes.com/dtds/podcast-1.0.dtd",
    "media": "http://search.yahoo.com/mrss/",
    "xhtml": "http://www.w3.org/1999/xhtml",
    "xml": "http://www.w3.org/XML/1998/namespace",
}
PREFIXES = {uri: prefix for prefix, uri in PREDECLARED.items()}

EVERYTHING = "feeds"
"""The stream that all items of feeds belong to."""
