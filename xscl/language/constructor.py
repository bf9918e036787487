"""Element constructors: XML with expressions in braces, in the manner of XQuery.

They are read by hand, because the text of an element is no token of the
language.  What was read is replaced by a placeholder of the same length, so
that every place in the rest of the query stays where it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from html import unescape

from xscl.errors import near_miss
from xscl.language.faults import fault
from xscl.language.names import PREDECLARED
from xscl.language.syntax import ConstructorPart, Element, EmbeddedOperand, EmbeddedPath, Span

PLACEHOLDER = "\x01"

ReadEmbedded = Callable[[Mapping[str, str], str, Span], EmbeddedPath | EmbeddedOperand]
"""Reads the expression at a span of a text, given the declared prefixes."""
Parts = tuple[ConstructorPart, ...]

_TOKEN = re.compile(
    r"""--[^\n]*
    | (?P<declared>NAMESPACE\s+(?P<prefix>[\w.-]+)\s*=\s*(?P<uri>"[^"]*"|'[^']*'))
    | (?P<select>SELECT\s+(?:DISTINCT\s+)?)(?=<)
    | [^\W\d][\w.'-]* | "[^"]*" | '[^']*'""",
    re.VERBOSE | re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d][\w.-]*(?::[^\W\d][\w.-]*)?")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|#[0-9]{1,20}|#x[0-9a-fA-F]{1,20});")


def cut_constructors(text: str, embedded: ReadEmbedded) -> tuple[str, list[Element]]:
    """Return the text with placeholders for its constructors, and the constructors in order.

    `embedded` reads the expressions inside their braces.
    """
    prefixes = dict(PREDECLARED)
    elements: list[Element] = []
    offset = 0
    while (found := _TOKEN.search(text, offset)) is not None:
        offset = found.end()
        if found["declared"]:
            prefixes[found["prefix"]] = found["uri"][1:-1]
        elif found["select"]:
            scanner = _Scanner(text, offset, partial(embedded, dict(prefixes)))
            elements.append(scanner.element(prefixes))
            hidden = PLACEHOLDER * (scanner.at - offset)
            text = text[:offset] + hidden + text[scanner.at :]
            offset = scanner.at
    return text, elements


class _Scanner:
    """Reads one element constructor, from an offset of the text on."""

    def __init__(
        self, text: str, at: int, embedded: Callable[[str, Span], EmbeddedPath | EmbeddedOperand]
    ) -> None:
        self.text = text
        self.at = at
        self._embedded = embedded

    def element(self, outer: Mapping[str, str]) -> Element:
        """Read `<name ...>...</name>` or `<name .../>`.

        `outer` has the namespaces in scope, by prefix.
        """
        start = self.at
        self._expect("<")
        name = self._name()
        written = self._attributes()
        declared = {
            attribute.partition(":")[2]: "".join(str(part) for part in parts)
            for attribute, parts in written
            if attribute == "xmlns" or attribute.startswith("xmlns:")
        }
        prefixes = {**outer, **declared}
        attributes = tuple(
            (self._expanded(attribute, prefixes, default=""), parts)
            for attribute, parts in written
            if not (attribute == "xmlns" or attribute.startswith("xmlns:"))
        )
        children: tuple[ConstructorPart | Element, ...] = ()
        if self._accept("/>"):
            end = ""
        else:
            self._expect(">")
            children, end = self._children(prefixes), name
            self._close(end)
        used = {p for p in (name, *(a for a, _ in written)) if ":" in p}
        shown = {p.partition(":")[0] for p in used} - {"xmlns", "xml"}
        nsmap = {**{p: prefixes[p] for p in sorted(shown) if p in prefixes}, **declared}
        nsmap.pop("", None)
        expanded = self._expanded(name, prefixes, default=prefixes.get("", ""))
        span = Span(start, self.at)
        return Element(expanded, attributes, children, tuple(sorted(nsmap.items())), span)

    def _attributes(self) -> list[tuple[str, Parts]]:
        attributes: list[tuple[str, Parts]] = []
        self._blanks()
        while not self.text.startswith((">", "/>"), self.at):
            place = self.at
            name = self._name()
            if name in (known for known, _ in attributes):
                raise fault(self.text, Span(place), f"the attribute {name!r} is there twice")
            self._blanks()
            self._expect("=")
            self._blanks()
            quote = self.text[self.at : self.at + 1]
            if quote not in ('"', "'"):
                raise fault(self.text, Span(self.at), "an attribute's value is quoted")
            self.at += 1
            attributes.append((name, self._parts(quote)))
            self._expect(quote)
            self._blanks()
        return attributes

    def _children(self, prefixes: Mapping[str, str]) -> tuple[ConstructorPart | Element, ...]:
        children: list[ConstructorPart | Element] = []
        while not self.text.startswith("</", self.at):
            if self.text.startswith("<", self.at):
                children.append(self.element(prefixes))
            else:
                children.extend(self._parts("<"))
        return tuple(children)

    def _parts(self, end: str) -> Parts:
        """Return text and expressions in braces up to the character `end`, which is not read."""
        parts: list[ConstructorPart] = []
        literal = ""
        while True:
            character = self.text[self.at : self.at + 1]
            if not character:
                raise fault(self.text, Span(self.at), "the constructor is not closed")
            if character == end:
                break
            if self.text[self.at : self.at + 2] in ("{{", "}}"):
                literal += character
                self.at += 2
            elif character == "{":
                if literal:
                    parts.append(literal)
                    literal = ""
                parts.append(self._braces())
            elif character == "}":
                raise fault(self.text, Span(self.at), "a '}' without '{'", "write }} for the sign")
            else:
                literal += self._character(character)
        return (*parts, literal) if literal else tuple(parts)

    def _character(self, character: str) -> str:
        if character != "&":
            self.at += 1
            return character
        entity = _ENTITY.match(self.text, self.at)
        if entity is None:
            raise fault(self.text, Span(self.at), "unknown entity", "write &amp; for the sign")
        self.at = entity.end()
        return unescape(entity[0])

    def _braces(self) -> EmbeddedPath | EmbeddedOperand:
        start = self.at + 1
        end = self.text.find("}", start)
        if end < 0:
            raise fault(self.text, Span(self.at), "a '{' without '}'", "write {{ for the sign")
        self.at = end + 1
        return self._embedded(self.text, Span(start, end))

    def _close(self, name: str) -> None:
        self._expect("</")
        place = self.at
        found = self._name()
        if found != name:
            raise fault(self.text, Span(place), f"</{found}> closes <{name}>")
        self._blanks()
        self._expect(">")

    def _expanded(self, name: str, prefixes: Mapping[str, str], *, default: str) -> str:
        prefix, colon, local = name.rpartition(":")
        uri = prefixes.get(prefix) if colon else default
        if uri is None:
            hint = near_miss(prefix, prefixes) or f'declare it: NAMESPACE {prefix} = "..."'
            raise fault(self.text, Span(self.at), f"the prefix {prefix!r} is not declared", hint)
        return f"{{{uri}}}{local}" if uri else local

    def _name(self) -> str:
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise fault(self.text, Span(self.at), "a name is expected in the constructor")
        self.at = found.end()
        return found[0]

    def _blanks(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def _accept(self, text: str) -> bool:
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise fault(self.text, Span(self.at), f"{text!r} is expected in the constructor")
