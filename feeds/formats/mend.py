"""From the bytes of a damaged feed to a tree.

The publishers' XML is often broken in ways that a reader can mend without losing anything.  The
`quality` of a feed tells how its tree was made:

    strict       nothing was wrong
    mended       noise around the document, another encoding than it declares or damage in it,
                 characters that XML forbids, named HTML entities, bare `&`, prefixes without a
                 declaration, other spellings of a namespace's name
    recovered    tags do not match or are none: they were closed, left out or taken for text

Three things are not mended: entity declarations, sizes beyond the limits, and a document whose
root is never closed: a body that was cut off is not a shorter feed.
"""

from __future__ import annotations

import html.entities
import re
from collections import Counter
from dataclasses import dataclass

from lxml import etree

from feeds.errors import MalformedDocument
from feeds.formats.namespaces import WELL_KNOWN, known_name
from feeds.xml.encoding import is_utf8_all_the_same, read_text, wide_encoding
from feeds.xml.encoding import without_declared_encoding as undeclared
from feeds.xml.xmlparse import START_TAG, parse

_FINAL = frozenset({"xml_entities", "xml_depth", "xml_size", "xml_elements"})
"""Codes of errors that no repair removes."""


@dataclass(frozen=True, slots=True)
class ParsedTree:
    """The root of a feed's document, its `quality` (see the module), and the parsed bytes.

    With a `failure` it could not be parsed even with balanced tags: the root is an empty element.
    """

    root: etree._Element
    quality: str
    body: bytes
    failure: MalformedDocument | None = None


def tree_of(body: bytes, charset: str | None = None) -> ParsedTree:
    """The tree of a feed, mended if need be; raises the `MalformedDocument` of the strict parse."""
    first: MalformedDocument | None = None
    try:
        if not is_utf8_all_the_same(body, charset):
            root = parse(body)
            if all(name == (known_name(name) or name) for name in root.nsmap.values()):
                return ParsedTree(root, "strict", body)
    except MalformedDocument as error:
        if error.reason_code in _FINAL:
            raise
        first = error
    body = mend(body, charset)
    try:
        return ParsedTree(parse(body), "mended", body)
    except MalformedDocument as error:
        if error.reason_code in _FINAL:
            raise
        first = first or error
    balanced = _balanced(body)
    if balanced is None and not _END_OF_FEED.search(body):
        raise first
    try:
        return ParsedTree(parse(balanced or b""), "recovered", body)
    except MalformedDocument as error:
        if error.reason_code in _FINAL:
            raise
    # The place of the error is that in the publisher's text, not in the balanced one.
    return ParsedTree(etree.Element("damaged"), "recovered", body, first)


def mend(body: bytes, charset: str | None) -> bytes:
    """The document as UTF-8 after all repairs, each of which takes linear time."""
    return _referenced(_transcode(_strip(body), charset))


def _referenced(body: bytes) -> bytes:
    """Return the body with HTML entities and bare `&` as references, and prefixes declared."""
    return _declare_namespaces(_AMPERSAND.sub(_number, body))


# --- the repairs ---

_NOISE = re.compile(
    rb"(?:[^<]*+(?:<!--[^-]*+(?:-(?!->)[^-]*+)*-->[^<]*+)*(?=<\?xml\s))?[^<]*+(?=<[?!A-Za-z_])"
)


def _strip(body: bytes) -> bytes:
    """The body from its XML declaration, or its first tag, to its last `>`.

    Text in a wide encoding stays as it is.
    """
    if wide_encoding(body):
        return body
    body = _BEFORE_NAME.sub(rb"\1", body)
    start = _NOISE.match(body)
    end = body.rfind(b">") + 1
    return body[start.end() : end] if start and end else body


def _transcode(body: bytes, charset: str | None) -> bytes:
    """The body as UTF-8 with nothing but characters that XML allows."""
    text = undeclared(read_text(body, charset))
    text = _FORBIDDEN_REFERENCE.sub(_drop_forbidden, text)
    text = _END_OF_NAME.sub(r"\1 ", text)
    return FORBIDDEN.sub("", text).encode("utf-8", "replace")


_BEFORE_NAME = re.compile(rb"(<[/?]?)[\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f]+")
"""Control characters before the name of a tag, but ESC, with which ISO-2022-JP begins."""

_END_OF_NAME = re.compile(r"(<[\w:.-]+)[\0-\x08\x0b\x0c\x0e-\x1f]+(?=[\w:.-]+\s*=)")
"""Control characters between the names of a tag and an attribute, which they keep apart."""


WINDOWS_1252 = {
    byte: bytes([byte]).decode("windows-1252", "ignore") or "\ufffd" for byte in range(0x80, 0xA0)
}
"""The characters of the bytes that Latin-1 has for control characters."""

FORBIDDEN = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""A character that may not stand in an XML document."""


def allowed(text: str) -> str:
    """The text without the characters that XML forbids; a printable text has none."""
    return text if text.isprintable() else FORBIDDEN.sub("", text)


_FORBIDDEN_REFERENCE = re.compile(r"&#(?:(\d{1,9})|[xX]([0-9A-Fa-f]{1,8}));")


def _drop_forbidden(reference: re.Match[str]) -> str:
    """Return a reference as it is, or nothing if it stands for a character that XML forbids."""
    number = int(reference[1]) if reference[1] else int(reference[2], 16)
    allowed = number <= 0x10FFFF and not FORBIDDEN.fullmatch(chr(number))
    return reference[0] if allowed else ""


_AMPERSAND = re.compile(
    rb"(?P<opaque><!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z))"
    rb"|(?P<end>\]\]>)"
    rb"|&(?P<known>(?:amp|lt|gt|quot|apos|#\d+|#x[0-9A-Fa-f]+);)?(?:(?P<name>[A-Za-z]\w{1,30});)?",
    re.DOTALL,
)


def _number(found: re.Match[bytes]) -> bytes:
    """Return the references for a named entity of HTML, a bare `&`, or the `>` of `]]>`."""
    if found["opaque"] or found["known"]:
        return found[0]
    if found["end"]:
        return b"]]&gt;"
    characters = html.entities.html5.get((found["name"] or b"").decode("latin-1") + ";")
    if characters is None:
        return b"&amp;" + found[0][1:]
    return b"".join(b"&#%d;" % ord(character) for character in characters)


_ROOT = re.compile(
    rb"(?>(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[[^\]]*\]\s*)?>)*)<([A-Za-z_][\w.:-]*)",
    re.DOTALL,
)
"""The beginning of a document up to the name of its root, which is group 1."""

_PREFIX = re.compile(rb"</?([A-Za-z_][\w.-]*):|\s([A-Za-z_][\w.-]*):[\w.-]+\s*=\s*[\"']")
_DECLARED = re.compile(rb"\sxmlns:([A-Za-z_][\w.-]*)\s*=")
_NAMESPACE = re.compile(rb"(\sxmlns(?::[\w.-]+)?\s*=\s*)(\"[^\"<]*\"|'[^'<]*')")


def _declare_namespaces(body: bytes) -> bytes:
    """The body with a declaration at its root for each prefix that has none."""
    body = _NAMESPACE.sub(_known_namespace, body)
    root = _ROOT.match(body)
    if root is None:
        return body
    used = {found[1] or found[2] for found in _PREFIX.finditer(body)}
    # A prefix that an inner element declares may be used outside that element, too.
    rest_of_tag = START_TAG.match(body, root.end())
    declared = set(_DECLARED.findall(rest_of_tag[0])) if rest_of_tag else set()
    missing = used - declared - {b"xml", b"xmlns"}
    declarations = b"".join(b' xmlns:%s="%s"' % (name, _name_of(name)) for name in sorted(missing))
    return body[: root.end()] + declarations + body[root.end() :]


def _known_namespace(found: re.Match[bytes]) -> bytes:
    """Return the declaration of a namespace with the right form of a known name."""
    name = b"".join(found[2].split())
    known = known_name(name[1:-1].decode("latin-1"))
    return found[1] + (name if known is None else b'"%s"' % known.encode())


def _name_of(prefix: bytes) -> bytes:
    """The namespace that publishers mean by a prefix."""
    name = prefix.decode("latin-1")
    return WELL_KNOWN.get(name, f"urn:undeclared:{name}").encode("latin-1")


# --- tags that do not match ---

_NAME = rb"[A-Za-z_\x80-\xff][\w.\x80-\xff-]*(?::[A-Za-z_\x80-\xff][\w.\x80-\xff-]*)?"
_OPAQUE = ((b"<![CDATA[", b"]]>"), (b"<!--", b"-->"), (b"<?", b"?>"))
_TOKEN = re.compile(
    rb"(?P<cdata><!\[CDATA\[.*?\]\]>)"
    rb"|(?P<silent><!--.*?-->|<\?.*?\?>|<!\w[^<>]*>)"
    rb"|</(?P<end>" + _NAME + rb")[^<>]*>"
    # A value in quotes may have `<` and `>` if white space, `/` or `>` follows its end.
    rb"|<(?P<start>" + _NAME + rb")(?P<rest>"
    rb"(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*'|\"[^\"<]*<[^\"]*\"(?=[\s/>]))*(?=>)|[^<>]*)>"
    rb"|<",
    re.DOTALL,
)
_VALUE = re.compile(
    # Digits before a name do not belong to it; a name begins once, which keeps the time linear.
    rb"(?<![\w.\x80-\xff-])[\d.-]*(%s)\s*=\s*(?:([\"'])|([^\s\"'<>]+))" % _NAME
)
"""A name and a value, or a name and the quote with which its value begins."""
_END = {q: re.compile(rb"%s(?=\s+%s\s*=|\Z)" % (q, _NAME)) for q in (b'"', b"'")}
"""The quote with which a value ends."""
_URI = re.compile(rb"[A-Za-z][\w.+-]*:[\w./:?#=;+%@!*(),~-]+")
_END_OF_FEED = re.compile(rb"</(?:[\w.-]+:)?(?:rss|feed|rdf)\s*>", re.IGNORECASE)
"""The end of a feed that was not cut off, though the start tag of its root may be damaged."""

_VOID = frozenset({b"br", b"hr", b"img", b"wbr"})
"""Elements of HTML that have no end tag."""


def _balanced(body: bytes) -> bytes | None:
    """The body with an end tag for each start tag; None if it has no end tag of its root.

    An end tag closes what was opened since its start tag, and is left out if there is none.  What
    is no tag is text.
    """
    for begin, end in _OPAQUE:  # a beginning without an end is text
        last = body.rfind(end) + 1
        body = body[:last] + body[last:].replace(begin, b"&lt;" + begin[1:])
    written: list[bytes] = []
    opened: list[bytes] = []
    counts: Counter[bytes] = Counter()
    at = 0
    for token in _TOKEN.finditer(body):
        written.append(body[at : token.start()] if opened else b"")
        at = token.end()
        if (end := token["end"]) and counts[end.lower()]:
            name = b""
            while name.lower() != end.lower():
                name = opened.pop()
                counts[name.lower()] -= 1
                written.append(b"</%s>" % name)
            if not opened:
                return _referenced(b"".join(written))
        elif name := token["start"]:
            rest = token["rest"]
            is_empty = opened and (rest.endswith(b"/") or name.lower() in _VOID)
            rest = _attributes(rest.rstrip(b"/ \t\r\n"))
            written.append(b"<%s%s%s>" % (name, rest, b"/" if is_empty else b""))
            if not is_empty:
                opened.append(name)
                counts[name.lower()] += 1
        elif opened and not (end or token["silent"]):
            written.append(token["cdata"] or b"&lt;")
    return None


def _attributes(written: bytes) -> bytes:
    """The attributes of a tag, each once and in quotes."""
    values: dict[bytes, bytes] = {}
    ends = dict(_END)
    at = 0
    while found := _VALUE.search(written, at):
        name, quote, value = found.groups()
        at = found.end()
        if quote:
            end = quote in ends and ends[quote].search(written, at)
            if not end:  # nor has a later value
                ends.pop(quote, None)
                continue
            value, at = written[at : end.start()], end.end()
        value = value.replace(b"<", b"&lt;").replace(b'"', b"&quot;")
        prefix, _, declared = name.partition(b":")
        if prefix == b"xmlns" and not _URI.fullmatch(value):
            value = _name_of(declared)
        values.setdefault(name, value)
    return b"".join(b' %s="%s"' % pair for pair in values.items())
