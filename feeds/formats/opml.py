"""Lists of feeds: OPML 2.0 (http://opml.org/spec2.opml) in and out, and plain lists of addresses.

Folders are outlines without an address; a feed belongs to all the folders around it, and to the
categories that it names (`category="/news/local,/daily"`).  The output has each feed once, in the
folder of its first tag, with all its tags in `category`.  Reading it yields the same feeds with the
same tags, and writing those the same bytes.

The name of a feed's stream and the seconds between its polls are attributes of a namespace of our
own, which other programs ignore.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from lxml import etree

from feeds.errors import MalformedDocument, NotAList
from feeds.formats.entries import local_name, number
from feeds.formats.mend import FORBIDDEN, tree_of
from feeds.xml.encoding import without_declared_encoding
from feeds.xml.xmlparse import MAX_BYTES

MAX_OUTLINES = 100_000
"""A longer list is refused whole: half a list would look like all of it."""

_LONGEST_NAME = 200
_LONGEST = 366 * 86_400  # seconds between polls
_OURS = "urn:xscl:feeds"
_STREAM, _EVERY = f"{{{_OURS}}}stream", f"{{{_OURS}}}every"


@dataclass(frozen=True, slots=True)
class FeedOutline:
    """A feed in a list; `url` is empty if the outline names none.

    `tags` are the names of the folders around it, from the outside in, and its
    categories, each once, as they are written.  `stream` is empty and `every` 0
    if the list does not say them.
    """

    url: str
    title: str = ""
    site_url: str = ""
    tags: tuple[str, ...] = ()
    stream: str = ""
    every: int = 0


def read_list(body: bytes) -> tuple[FeedOutline, ...]:
    """The feeds of an OPML document or of a text with one address a line, in order.

    Raises `MalformedDocument` or `NotAList`.  Damaged OPML is mended as feeds are.
    """
    is_markup = body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    is_wide = b"\0" in body[:1000]  # UTF-16, or no text at all
    if is_markup or is_wide:
        tree = tree_of(body)
        if tree.failure is not None:
            raise tree.failure
        found = _outlines(tree.root)
    else:
        found = _lines(body)
    outlines = tuple(islice(found, MAX_OUTLINES + 1))
    if len(outlines) > MAX_OUTLINES:
        raise NotAList(f"the list has more than {MAX_OUTLINES:,} feeds")
    return outlines


def _lines(body: bytes) -> Iterator[FeedOutline]:
    """The feeds of a plain list; blank lines and lines that begin with # are passed over."""
    if len(body) > MAX_BYTES:
        message = f"the list has {len(body):,} bytes; the limit is {MAX_BYTES:,}"
        raise MalformedDocument("xml_size", message)
    text = without_declared_encoding(body.decode("utf-8-sig", "replace"))
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not any(line.lower().startswith(("http://", "https://")) for line in lines):
        raise NotAList("the text is no OPML and has no address of a feed on a line")
    yield from (FeedOutline(line[: _LONGEST_NAME * 20]) for line in lines)


# --- OPML ---


def _outlines(root: etree._Element) -> Iterator[FeedOutline]:
    """The outlines that are no folders."""
    name = local_name(root)
    if name != "opml":
        raise NotAList(f"the root element is {name[:100]}, which is no OPML")
    for body in root:
        if local_name(body) == "body":
            yield from _below(body, ())


def _below(element: etree._Element, folders: tuple[str, ...]) -> Iterator[FeedOutline]:
    """The feeds below an element; the parser's limit of depth bounds the recursion."""
    for child in element:
        if local_name(child) != "outline":
            continue
        values = {str(key).lower(): str(value).strip() for key, value in child.attrib.items()}
        url = values.get("xmlurl", "")
        if not url and values.get("type", "").lower() in ("rss", "atom"):
            url = values.get("url", "")
        inner = any(local_name(each) == "outline" for each in child)
        title = _name(values.get("title") or values.get("text") or "")
        if url or not inner:
            tags = dict.fromkeys((*folders, *_categories(values.get("category", ""))))
            own = _name(values.get(_STREAM, "")), _seconds(values.get(_EVERY, ""))
            yield FeedOutline(url, title, values.get("htmlurl", ""), tuple(tags), *own)
        if inner:
            yield from _below(child, (*folders, title) if title and not url else folders)


def _categories(written: str) -> Iterator[str]:
    for category in written.split(","):
        yield from (name for part in category.split("/") if (name := _name(part)))


def _seconds(text: str) -> int:
    """Return the number in a text, at most `_LONGEST`; 0, which means none, for any other text."""
    return min(number(text) or 0, _LONGEST)


def _name(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_NAME]


# --- writing ---


def write_opml(outlines: Iterable[FeedOutline], title: str) -> bytes:
    """The feeds as an OPML 2.0 document; folders by name, feeds in their order."""
    listed = list(outlines)
    has_own = any(outline.stream or outline.every for outline in listed)
    root = etree.Element("opml", version="2.0", nsmap={"xscl": _OURS} if has_own else None)
    etree.SubElement(etree.SubElement(root, "head"), "title").text = FORBIDDEN.sub("", title)
    body = etree.SubElement(root, "body")
    folders: dict[str, list[FeedOutline]] = {}
    for outline in listed:
        folders.setdefault(outline.tags[0] if outline.tags else "", []).append(outline)
    for name in sorted(folders):
        parent = _outline(body, text=name, title=name) if name else body
        for outline in folders[name]:
            title = _name(FORBIDDEN.sub("", outline.title)) or outline.url
            own = {
                "htmlUrl": outline.site_url,
                "category": ",".join(f"/{tag}" for tag in outline.tags),
                _STREAM: outline.stream,
                _EVERY: str(outline.every or ""),
            }
            given = {name: value for name, value in own.items() if value}
            _outline(parent, type="rss", text=title, title=title, xmlUrl=outline.url, **given)
    return etree.tostring(root, encoding="UTF-8", xml_declaration=True, pretty_print=True)


def _outline(parent: etree._Element, **values: str) -> etree._Element:
    allowed = {name: FORBIDDEN.sub("", value) for name, value in values.items()}
    return etree.SubElement(parent, "outline", allowed)
