"""Safe and strict parsing of XML from strangers.

`parse` returns a tree or raises `MalformedDocument`.  It accepts XML 1.0 with
namespaces, without entities:

- A document with an entity declaration is refused, used or not, general or
  parameter: that ends entity bombs and external entities alike.
- A DOCTYPE without them is accepted and *cut out*.  It is never fetched, it
  gives no default attributes, and an entity that only it could define is
  undefined, hence a syntax error.  (Left to the parser, an undefined entity in
  an attribute of a document with an external DTD vanishes without an error,
  and libxml2 2.14 opens the file behind an external *parameter* entity even
  with `load_dtd`, `resolve_entities` and the network switched off.)
- XML 1.1 is read by the rules of 1.0.  `xml:id` has no meaning here, so it may
  repeat.  Comments and processing instructions stay and do nothing.
- At most 10 MB, 200,000 elements and attributes, 1,000 attributes of one element, 256 levels;
  names of 50,000 characters.  These are also libxml2's limits for depth and names.
- At most 2,000,000 pairs of an element and an ancestor: `//a//b` can find so many.
- At most 100,000,000 characters of names and namespaces in the paths of all nodes, and of the texts
  of all elements, each with what is inside it: answers have these paths, and joins these texts.

Cost: a document that is too small to reach a limit takes one call of the
parser.  A larger one is first measured with `bytes.count`; only if it has so
many `<` and `=` that it may break a limit is it parsed in pieces and counted.
"""

from __future__ import annotations

import re
import threading
from typing import Any

from lxml import etree

from feeds.errors import MalformedDocument
from feeds.xml.encoding import as_ascii_compatible

MAX_BYTES = 10_000_000
"""The largest document."""

MAX_ELEMENTS = 200_000
"""Elements and attributes of a document together."""

_NESTING = 2_000_000
"""The most pairs of an element and an ancestor: the sum of the depths of all elements."""

_PATHS = 100_000_000
"""The most characters of names and namespaces in the paths of all elements and attributes."""

_TEXTS = 100_000_000
"""The most characters of the texts of all elements, each with the texts inside it."""

_DEPTH = 256  # levels, libxml2's limit
_NAME = 50_000  # characters, libxml2's limit
_ELEMENT = len(b"<a/>")
_ATTRIBUTE = len(b' a=""')
_PIECE = 1 << 16
_ATTRIBUTES_OF_ONE = 1_000
"""A start tag is parsed in one go, so its attributes are counted beforehand.

libxml2 finds an attribute by looking at all of its element: 20,000 of them cost seconds.
"""


class _NoEntities(etree.Resolver):
    """A resolver that opens nothing: a second defence behind the removal of the DOCTYPE."""

    def resolve(self, system_url: str, public_id: str, context: Any = None) -> Any:
        return self.resolve_string("", context, base_url=None)


_OPTIONS: dict[str, Any] = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": False,
    "collect_ids": False,
}


class _Parsers(threading.local):
    """A parser for each thread: lxml makes threads wait for a shared one."""

    def __init__(self) -> None:
        self.strict = etree.XMLParser(recover=False, **_OPTIONS)
        self.strict.resolvers.add(_NoEntities())


_parsers = _Parsers()


def parse(xml: bytes) -> etree._Element:
    """The root element of a well-formed document; raises `MalformedDocument`."""
    xml = _prepare(xml)
    try:
        _check_counts(xml)
        root = etree.fromstring(xml, _parsers.strict)
    except etree.XMLSyntaxError as error:
        raise _malformed(error) from None
    # A shorter document cannot have more than `_NESTING` pairs of an element and an ancestor.
    if len(xml) * _DEPTH > _NESTING * _ELEMENT:
        _check_nesting(root, xml)
        _check_texts(root, xml)
    # n bytes may be n / 21 levels and n / 12 leaves in a namespace of n / 3 characters.
    if len(xml) ** 3 / 756 > _PATHS:
        _check_paths(root, xml)
    return root


def _prepare(xml: bytes) -> bytes:
    """The document as the parser may have it: not too large, ASCII markup, no DOCTYPE."""
    if len(xml) > MAX_BYTES:
        message = f"the document has {len(xml):,} bytes; the limit is {MAX_BYTES:,}"
        raise MalformedDocument("xml_size", message)
    if not (xml[:1] == b"<" and xml[1:2].isalpha()):  # otherwise it is UTF-8 without a declaration
        xml = as_ascii_compatible(xml)
    return _cut_doctype(xml) if b"<!DOCTYPE" in xml else xml


# --- the document type declaration ---

_BEFORE_DOCTYPE = re.compile(rb"\xef\xbb\xbf|[ \t\r\n]+|<\?.*?\?>|<!--.*?-->", re.DOTALL)
_IN_DOCTYPE = re.compile(
    rb"""<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!ENTITY|"[^"]*"|'[^']*'|[\[\]<>]""", re.DOTALL
)
_DOCTYPE = 1 << 16
_NOT_LINES = re.compile(rb"[^\n]+")


def _cut_doctype(xml: bytes) -> bytes:
    """The document with blanks in place of its DOCTYPE, so that lines stay where they were."""
    start = _skip_prolog(xml, 0)
    if not xml.startswith(b"<!DOCTYPE", start):
        return xml
    end = _end_of_doctype(xml, start)
    if xml.startswith(b"<!DOCTYPE", _skip_prolog(xml, end)):
        raise _at("xml_syntax", "a document has one DOCTYPE at most", xml, end)
    blanks = _NOT_LINES.sub(lambda match: b" " * len(match[0]), xml[start:end])
    return xml[:start] + blanks + xml[end:]


def _skip_prolog(xml: bytes, position: int) -> int:
    """Return the offset after the XML declaration, comments, instructions and white space."""
    while match := _BEFORE_DOCTYPE.match(xml, position):
        position = match.end()
    return position


def _end_of_doctype(xml: bytes, start: int) -> int:
    """The position after the DOCTYPE that begins at `start`; no entity is declared in it."""
    open_tags = brackets = 0
    for token in _IN_DOCTYPE.finditer(xml, start, start + _DOCTYPE):
        if token[0] == b"<!ENTITY":
            message = "entity declarations are refused: write the text itself"
            raise _at("xml_entities", message, xml, token.start())
        brackets += (token[0] == b"[") - (token[0] == b"]")
        open_tags += (token[0] == b"<") - (token[0] == b">")
        if token[0] == b">" and open_tags == 0 and brackets <= 0:
            return token.end()
    message = f"the DOCTYPE does not end within {_DOCTYPE:,} bytes"
    raise _at("xml_syntax", message, xml, start)


# --- limits ---


def _check_counts(xml: bytes) -> None:
    """Raise for a document beyond a limit of ours; it is parsed only if its size allows that."""
    if len(xml) <= _ATTRIBUTES_OF_ONE * _ATTRIBUTE:
        return
    attributes = xml.count(b"=")
    if attributes > _ATTRIBUTES_OF_ONE:
        _count_attributes(xml)
    if _may_have_more(xml, MAX_ELEMENTS - attributes):
        _count(xml)


def _may_have_more(xml: bytes, elements: int) -> bool:
    """Return False if there are too few tags for more than `elements` elements."""
    tags = xml.count(b"<")
    return tags > elements and tags - xml.count(b"</") > elements


def _count(xml: bytes) -> None:
    """Parse in pieces; raise `MalformedDocument` as soon as there are too many elements."""
    every_tag = b"<!" not in xml and xml.find(b"<?", 1) < 0  # all `<` but the first begin tags
    if every_tag and xml.count(b"<") - xml.count(b"</") > MAX_ELEMENTS + 1:
        raise _too_many(1)
    parser: Any = etree.XMLPullParser(("start",), **_OPTIONS)
    parser.resolvers.add(_NoEntities())
    nodes = 0
    for start in range(0, len(xml), _PIECE):
        parser.feed(xml[start : start + _PIECE])
        for _, element in parser.read_events():
            nodes += 1 + len(element.attrib)
            if nodes > MAX_ELEMENTS:
                raise _too_many(element.sourceline or 0)
    parser.close()


def _check_nesting(root: etree._Element, xml: bytes) -> None:
    """Raise for a document with too many pairs of an element and an ancestor."""
    if not _may_have_more(xml, _NESTING // _DEPTH):
        return
    depth = pairs = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            pairs += depth
            depth += 1
        else:
            depth -= 1
    if pairs > _NESTING:
        message = f"elements are nested in one another {pairs:,} times; the limit is {_NESTING:,}"
        raise MalformedDocument("xml_depth", message, 1, 1)


_NAMES = re.compile(rb"<[^\s/>]+")
_NAMESPACES = re.compile(rb"""xmlns(?::[^\s=:]*)?\s*=\s*(?:"[^"]*|'[^']*)""")


def _check_paths(root: etree._Element, xml: bytes) -> None:
    """Raise for a document whose nodes have paths of too many characters together."""
    nodes = xml.count(b"<") + xml.count(b"=")  # or fewer: there are end tags
    namespace = max(map(len, _NAMESPACES.findall(xml)), default=0)
    # Names of a path are written in the document; one namespace may be that of all of them.
    if nodes * (len(xml) + _DEPTH * namespace) <= _PATHS:
        return
    if nodes * _DEPTH * (max(map(len, _NAMES.findall(xml))) + namespace) <= _PATHS:
        return
    characters = 0
    lengths = [0]
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if event == "end":
            lengths.pop()
            continue
        lengths.append(lengths[-1] + len(element.tag))
        characters += lengths[-1] * (1 + len(element.attrib)) + sum(map(len, element.attrib))
        if characters > _PATHS:  # not at the end: each tag may have a megabyte of a namespace
            message = f"the paths of all nodes have more than {_PATHS:,} characters"
            raise MalformedDocument("xml_depth", message, element.sourceline or 1, 1)


_length: Any = etree.XPath("string-length()")


def _check_texts(root: etree._Element, xml: bytes) -> None:
    """Raise for a document whose elements have too long texts together."""
    least = _TEXTS // len(xml) + 1  # levels of elements that such texts need
    if least > _DEPTH or not root.xpath(f"boolean({'/*' * least})"):
        return
    characters = 0
    for element in root.iter("*"):
        characters += int(_length(element))
        if characters > _TEXTS:
            message = f"the texts of all elements have more than {_TEXTS:,} characters"
            raise MalformedDocument("xml_depth", message, 1, 1)


START_TAG = re.compile(rb"""[^>"'=]*(?:=\s*(?:"[^"]*"|'[^']*')[^>"'=]*|=)*""")
"""A start tag without its `<`, up to the `>` that is in no value; lenient, for damaged feeds."""
_VALUE = re.compile(rb"""=\s*(?:"[^"]*"|'[^']*')""")


def _count_attributes(xml: bytes) -> None:
    """Raise for a start tag with too many attributes; such a tag lies between two `<`.

    The text after the tag lies there too.  It often contains markup of which only `<` is escaped,
    so that it must not be counted.
    """
    step = _ATTRIBUTES_OF_ONE * len(b'=""') // 2  # half the least length of such a tag
    at = 0
    while at < len(xml):
        if xml.find(b"<", at, at + step) >= 0:
            at += step
            continue
        start, end = xml.rfind(b"<", 0, at) + 1, xml.find(b"<", at)
        at = end if end >= 0 else len(xml)
        piece = xml[start:at]
        if piece.count(b"=") > _ATTRIBUTES_OF_ONE and piece[:1] not in (b"!", b"?"):
            tag = START_TAG.match(piece)
            if tag and len(_VALUE.findall(tag[0])) > _ATTRIBUTES_OF_ONE:
                message = f"an element has more than {_ATTRIBUTES_OF_ONE:,} attributes"
                raise _at("xml_elements", message, xml, max(start - 1, 0))


# --- errors ---

_ERROR = etree.ErrorTypes
_RESOURCE_LIMIT = 114  # libxml2's XML_ERR_RESOURCE_LIMIT, for which lxml has no name
_CODES: dict[int, str] = {
    _ERROR.ERR_INVALID_HEX_CHARREF: "xml_chars",
    _ERROR.ERR_INVALID_DEC_CHARREF: "xml_chars",
    _ERROR.ERR_INVALID_CHARREF: "xml_chars",
    _ERROR.ERR_INVALID_CHAR: "xml_chars",
    _ERROR.ERR_UNKNOWN_ENCODING: "xml_encoding",
    _ERROR.ERR_UNSUPPORTED_ENCODING: "xml_encoding",
    _ERROR.ERR_INVALID_ENCODING: "xml_encoding",
    _ERROR.ERR_ENCODING_NAME: "xml_encoding",
    _ERROR.ERR_NAME_TOO_LONG: "xml_size",
    _RESOURCE_LIMIT: "xml_size",
}
_HINTS: dict[int, str] = {
    _ERROR.ERR_UNDECLARED_ENTITY: "write the character itself, or its number as in &#160;",
    _ERROR.ERR_NAME_REQUIRED: "a bare & is written &amp;",
    _ERROR.ERR_INVALID_ENCODING: "declare the encoding, or send UTF-8",
    _ERROR.ERR_NAME_TOO_LONG: f"the limit is {_NAME:,} characters",
}
_PLACE = re.compile(r"[,\s]*line \d+, column \d+\s*$")


def _malformed(error: etree.XMLSyntaxError) -> MalformedDocument:
    """Our error for the parser's: stable code, place, and a hint where we have one."""
    line, column = error.position
    number = int(getattr(error, "code", 0) or 0)
    code = _CODES.get(number, "xml_syntax")
    message = _PLACE.sub("", error.msg or "the document cannot be read")
    if number == _RESOURCE_LIMIT and "depth" in message:
        code = "xml_depth"
    hint = f": {_HINTS[number]}" if number in _HINTS else ""
    return MalformedDocument(code, _sentence(code, message) + hint, line, column)


def _sentence(code: str, message: str) -> str:
    """The parser's message without its advice on options that we do not have."""
    if code == "xml_depth":
        return f"elements are nested more than {_DEPTH} deep"
    return " ".join(message.split()).removesuffix(", try XML_PARSE_HUGE")


def _too_many(line: int) -> MalformedDocument:
    message = f"there are more than {MAX_ELEMENTS:,} elements and attributes"
    return MalformedDocument("xml_elements", message, line, 1)


def _at(code: str, message: str, xml: bytes, position: int) -> MalformedDocument:
    """The error with the line and column of a byte position."""
    line = xml.count(b"\n", 0, position) + 1
    column = position - xml.rfind(b"\n", 0, position)
    return MalformedDocument(code, message, line, column)
