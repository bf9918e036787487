"""The output document of a match, from its query's SELECT clause.

`SELECT *` gives `<result>` with copies of the items that the blocks' main paths
select.  A constructor is copied with its embedded expressions replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

from lxml import etree

from xscl.language.scope import variables
from xscl.language.syntax import Computed, ConstructorPart, Element, Embedded
from xscl.shredding.conditions.navigate import select
from xscl.shredding.conditions.residual import texts_over
from xscl.shredding.nodes.tree import AttributeNode, Item, string_value


def default_document(selected: Iterable[Item]) -> bytes:
    """Return `<result>` with a copy of each item."""
    root = etree.Element("result")
    for item in selected:
        _append(root, item)
    return etree.tostring(root, encoding="UTF-8", xml_declaration=False)


def constructed_document(constructor: Element, bound: Mapping[str, Sequence[Item]]) -> bytes:
    """Return the constructor's document, given the items of each variable."""
    root = constructed(constructor, bound)
    return etree.tostring(root, encoding="UTF-8", xml_declaration=False)


def constructed(constructor: Element, bound: Mapping[str, Sequence[Item]]) -> etree._Element:
    """Return the constructor's element, given the items of each variable."""
    element = etree.Element(constructor.name, nsmap=dict(constructor.prefixes) or None)
    for name, parts in constructor.attributes:
        element.set(name, "".join(_text(part, bound) for part in parts))
    for child in constructor.children:
        match child:
            case Element():
                element.append(constructed(child, bound))
            case Embedded(as_string=False):
                for item in _items(child, bound):
                    _append(element, item)
            case _:
                _append(element, _text(child, bound))
    return element


def row_document(name: str, values: Mapping[str, str | None]) -> bytes:
    """Return the document of a row: a leaf for each value that is not null."""
    root = etree.Element(name)
    for attribute, value in values.items():
        if value is not None:
            etree.SubElement(root, attribute).text = value
    return etree.tostring(root, encoding="UTF-8", xml_declaration=False)


def _text(part: ConstructorPart, bound: Mapping[str, Sequence[Item]]) -> str:
    """Return literal text, the first string of `{string(x)}`, or all of `{x}`, blanks between."""
    if isinstance(part, str):
        return part
    if isinstance(part, Computed):
        first = {name: next(iter(bound[name]), None) for name in variables(part.operand)}
        return " ".join(texts_over(part.operand)(first))
    values = [string_value(item) for item in _items(part, bound)]
    return "".join(values[:1]) if part.as_string else " ".join(values)


def _items(embedded: Embedded, bound: Mapping[str, Sequence[Item]]) -> list[Item]:
    return [found for item in bound[embedded.variable] for found in select(embedded.path, item)]


def _append(parent: etree._Element, item: Item) -> None:
    """Append a copy of an element, or the text of anything else."""
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
