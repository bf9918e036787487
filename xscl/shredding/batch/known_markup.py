"""Documents whose markup is known: a split at the tags replaces the parser.

The items of a feed have few sequences of tags.  A document with the tags of one that was parsed is
well-formed, and has the same tree, if its character data is plain: without references, without
what a parser refuses or replaces.  Then no element is made of it.

    <a><b>1</b><c/></a>     tags       <a>  <b>  </b>  <c/>  </a>
                            texts    0    1    2     3     4     5
                            a has the texts 1 to 4, b has 2, c has none

Only sequences of bare names are learned (no attribute, no comment, no declaration), so the tags
alone decide about the tree.  The parser decides about everything else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from lxml import etree

from feeds.xml.xmlparse import parse
from xscl.shredding.automaton.structure import Skeleton, skeleton
from xscl.shredding.nodes import string_value

LONGEST = 1 << 14
"""Bytes of a document up to which it is split: in long ones the tags cost less."""
MOST = 1_000
"""The most sequences of tags that a `MarkupCache` knows at a time."""
_TAG = re.compile("(<[^<>]*>)")
_BARE = re.compile(r"(?:</?[^\s\"'=<>/!?&]+/?>)+")
_ODD = bytes({*range(0x20)} - {0x09, 0x0A}) + b"&"
"""Bytes that only the parser reads: control characters, CR, which it replaces, and references."""
_BLANK = " \t\n"


class Markup(NamedTuple):
    """The structure of documents with the same tags.

    `spans` has the range of the texts of an element, by its place in the skeleton: begin and end.
    """

    skeleton: Skeleton
    spans: tuple[tuple[int, int], ...]


class ReadDocument:
    """A well-formed document; without a `root` it is parsed when its nodes are needed.

    With a `markup` it has `texts`, those between its tags.
    """

    __slots__ = ("_nodes", "_root", "_skeleton", "_spans", "_texts", "_xml")

    def __init__(
        self,
        xml: bytes,
        root: etree._Element | None = None,
        markup: Markup | None = None,
        texts: Sequence[str] = (),
    ) -> None:
        self._xml = xml
        self._root = root
        self._nodes: list[etree._Element] = []
        self._skeleton = None if markup is None else markup.skeleton
        self._spans = () if markup is None else markup.spans
        self._texts = texts

    @property
    def root(self) -> etree._Element:
        """The root element; the document is parsed if necessary."""
        if self._root is None:
            self._root = parse(self._xml)
        return self._root

    @property
    def nodes(self) -> list[etree._Element]:
        """The elements, comments and instructions in document order; the document is parsed."""
        if not self._nodes:
            self._nodes = list(self.root.iter())
        return self._nodes

    @property
    def skeleton(self) -> Skeleton:
        """The tag and the number of children of each element, comment and instruction, in order."""
        if self._skeleton is None:
            self._skeleton = skeleton(self.nodes)
        return self._skeleton

    def text(self, place: int, name: str | None = None) -> str:
        """Return the value of the element at `place` in the skeleton, or of its attribute.

        `name` is the name of the attribute; None: the element.
        """
        if name is not None:
            return str(self.nodes[place].get(name))
        if not self._spans:
            return string_value(self.nodes[place])
        first, end = self._spans[place]
        texts = self._texts
        return texts[first] if end - first == 1 else "".join(texts[first:end])


class MarkupCache:
    """The markup of documents by their tags, which are learned at their second occurrence."""

    def __init__(self) -> None:
        self._known: dict[str, Markup] = {}
        self._seen: set[int] = set()

    def read(self, xml: bytes) -> ReadDocument:
        """Return a document as read, by its known markup or a parser; raises MalformedDocument."""
        parts = _split(xml)
        if parts is None:
            return ReadDocument(xml, parse(xml))
        tags = "".join(parts[1::2])
        markup = self._known.get(tags)
        if markup is not None:
            return ReadDocument(xml, None, markup, parts[::2])
        document = ReadDocument(xml, parse(xml))
        self._see(tags, parts, document)
        return document

    def _see(self, tags: str, parts: Sequence[str], document: ReadDocument) -> None:
        number = hash(tags)
        if number not in self._seen:
            if len(self._seen) >= MOST:
                self._seen.clear()
            self._seen.add(number)
        elif _BARE.fullmatch(tags):
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[tags] = Markup(document.skeleton, _spans(parts))


def _split(xml: bytes) -> list[str] | None:
    """Return the texts and tags of a document in turns, beginning and ending with a text.

    None if only the parser may read it.
    """
    if len(xml) > LONGEST or len(xml.translate(None, _ODD)) < len(xml):
        return None
    try:
        text = xml.decode()
    except UnicodeDecodeError:
        return None
    if "]]>" in text or not (text.isascii() or _is_plain(text)):
        return None
    parts = _TAG.split(text)
    if parts[0] or parts[-1].strip(_BLANK) or text.count("<") > len(parts) // 2:
        return None
    return parts


def _is_plain(text: str) -> bool:
    """Return True if XML allows all characters of a decoded text without control characters."""
    return "\ufffe" not in text and "\uffff" not in text


def _spans(parts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return for each element the range (begin, end) of its texts, by their numbers.

    `parts` are the texts and bare tags of the document in turns.
    """
    spans: list[tuple[int, int]] = []
    above: list[int] = []  # the open elements
    for place, tag in enumerate(parts[1::2], 1):
        if tag[1] == "/":
            element = above.pop()
            spans[element] = spans[element][0], place
        elif tag[-2] == "/":
            spans.append((place, place))
        else:
            above.append(len(spans))
            spans.append((place, place))
    return tuple(spans)
