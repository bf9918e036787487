"""The output document of a match, from its query's SELECT clause.

`SELECT *` gives `<result>` with copies of the items that the blocks' main paths
select.  A constructor is copied with its embedded expressions replaced.

The bytes of a document are counted before it is made.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

from lxml import etree

from xscl.language.scope import variables
from xscl.language.syntax import ConstructorPart, Element, EmbeddedOperand, EmbeddedPath, Path
from xscl.shredding.conditions.navigate import select
from xscl.shredding.conditions.residual import texts_over
from xscl.shredding.nodes import AttributeNode, Item, string_value

LARGEST = 16_000_000
"""Bytes of the output document of a match."""


class OutputTooLarge(Exception):
    """An output document would have more bytes than its limit: `size` bytes were counted."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size:,} bytes")
        self.size = size


class Room:
    """The items from which one output document is made, and a count of its bytes.

    `bound` has the items of each variable; `most` is the largest number of bytes.
    """

    def __init__(self, bound: Mapping[str, Sequence[Item]], most: int) -> None:
        self.most = most
        self._bound = bound
        self._taken = 0
        self._sizes: dict[tuple[int, bool], int] = {}
        self._found: dict[tuple[str, Path], list[Item]] = {}

    def take(self, size: int) -> None:
        """Count `size` more bytes; raise OutputTooLarge if they are more than `most` together."""
        self._taken += size
        if self._taken > self.most:
            raise OutputTooLarge(self._taken)

    def items(self, embedded: EmbeddedPath) -> list[Item]:
        """Return the items that an embedded path selects from its variable, in document order."""
        wanted = embedded.variable, embedded.path
        if (found := self._found.get(wanted)) is None:
            variable, path = wanted
            found = [one for item in self._bound[variable] for one in select(path, item)]
            self._found[wanted] = found
        return found

    def first(self, names: Iterable[str]) -> dict[str, Item | None]:
        """Return the first item of each variable, by name; None for one without items."""
        return {name: next(iter(self._bound[name]), None) for name in names}

    def size(self, item: Item, *, as_text: bool = False) -> int:
        """Return the number of bytes of an item as XML, with `as_text` that of its text."""
        copied = isinstance(item, etree._Element) and not as_text
        known = self._sizes.get((id(item), copied))
        if known is None:
            known = len(_serialised(item)) if copied else _written(string_value(item))
            self._sizes[id(item), copied] = known
        return known


def _serialised(item: Item) -> bytes:
    """Return the XML of an item as a child of `<result>`."""
    if isinstance(item, etree._Element):
        made = etree.tostring(item, encoding="UTF-8", with_tail=False, xml_declaration=False)
        if b"xmlns" not in made:
            return made
    result = etree.Element("result")  # a copied child declares the prefixes that it uses
    _append(result, item)
    made = etree.tostring(result, encoding="UTF-8", xml_declaration=False)
    return made.removeprefix(b"<result>").removesuffix(b"</result>")


def _written(text: str) -> int:
    """Return an upper bound of the bytes of a text in XML, with its escapes."""
    return len(text.encode()) + 5 * sum(map(text.count, '&<>"'))


def default_document(items: Iterable[Item], most: int) -> bytes:
    """Return the XML of `<result>` with all items; OutputTooLarge if they exceed `most` bytes."""
    size, written = 0, list[bytes]()
    for item in items:
        made = _serialised(item)
        size += len(made)
        if size <= most:
            written.append(made)
    if size > most:
        raise OutputTooLarge(size)
    return b"<result>%b</result>" % b"".join(written) if written else b"<result/>"


def constructed_document(constructor: Element, room: Room) -> bytes:
    """Return the XML of the element that a constructor makes; raises OutputTooLarge."""
    made = constructed(constructor, room)
    return etree.tostring(made, encoding="UTF-8", xml_declaration=False)


def constructed(constructor: Element, room: Room) -> etree._Element:
    """Return the element that a constructor makes; raises OutputTooLarge."""
    room.take(_fixed_size(constructor, room))
    return _constructed(constructor, room)


def _fixed_size(constructor: Element, room: Room) -> int:
    """Return the number of bytes to count for the element that a constructor makes.

    Those of values of functions are counted when these are computed (`_text`).
    """
    size = 2 * len(constructor.name) + 5
    for name, parts in constructor.attributes:
        size += len(name) + 4 + sum(_size(part, room, as_text=True) for part in parts)
    for child in constructor.children:
        if isinstance(child, Element):
            size += _fixed_size(child, room)
        else:
            as_text = isinstance(child, EmbeddedPath) and child.as_string
            size += _size(child, room, as_text=as_text)
    return size


def _size(part: ConstructorPart, room: Room, *, as_text: bool) -> int:
    match part:
        case str():
            return _written(part)
        case EmbeddedPath():
            items = room.items(part)[: 1 if part.as_string else None]
            return sum(room.size(item, as_text=as_text) + as_text for item in items)
        case _:
            return 0


def _constructed(constructor: Element, room: Room) -> etree._Element:
    element = etree.Element(constructor.name, nsmap=dict(constructor.prefixes) or None)
    for name, parts in constructor.attributes:
        element.set(name, "".join(_text(part, room) for part in parts))
    for child in constructor.children:
        match child:
            case Element():
                element.append(_constructed(child, room))
            case EmbeddedPath(as_string=False):
                for item in room.items(child):
                    _append(element, item)
            case _:
                _append(element, _text(child, room))
    return element


def row_document(name: str, values: Mapping[str, str | None], room: Room) -> bytes:
    """Return the XML of a row: the root `name` with a leaf for each value that is not None.

    Leaves have the names of the values.  Raises OutputTooLarge.
    """
    room.take(sum(_written(value or "") + 2 * len(name) + 5 for name, value in values.items()))
    root = etree.Element(name)
    for attribute, value in values.items():
        if value is not None:
            etree.SubElement(root, attribute).text = value
    return etree.tostring(root, encoding="UTF-8", xml_declaration=False)


def _text(part: ConstructorPart, room: Room) -> str:
    """Return the text of a part of a constructor.

    For `{string(x)}` it is the string of the first item, for `{x}` those of all, with blanks.
    """
    if isinstance(part, str):
        return part
    if isinstance(part, EmbeddedOperand):
        made = " ".join(texts_over(part.operand)(room.first(variables(part.operand))))
        room.take(_written(made))
        return made
    values = [string_value(item) for item in room.items(part)]
    return "".join(values[:1]) if part.as_string else " ".join(values)


def _append(parent: etree._Element, item: Item) -> None:
    """Append an item to the content of `parent`: a copy of an element, the text of any other."""
    if isinstance(item, etree._Element):
        copied = copy.deepcopy(item)
        copied.tail = None
        parent.append(copied)
        return
    text = item.value if isinstance(item, AttributeNode) else item
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text
