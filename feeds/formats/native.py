"""An entry in the format of its publisher, as a document of its own.

It is the entry's XML inside its feed's root and channel, without the other
entries, so that `/rss/channel/item/title` and `/rss/channel/title` both work.
The surroundings, the *frame*, are written once for each feed.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from lxml import etree

from feeds.formats.entries import Frame, split

HEADER = 1 << 16
"""The largest frame in bytes; of a larger header only the shortest fields are kept."""

_NAMESPACES = 1 << 13
_KEPT = frozenset({"title", "link", "id", "description", "subtitle", "updated"})
_PLACE = "the entry"


def frame(root: etree._Element, holder: etree._Element, entry: str) -> Frame | None:
    """Markup before and after an entry; `entry` is the tag of the entries in `holder`.

    It has as much of the header as may be repeated.  None if the namespaces alone are so many that
    repeating them would be an attack.
    """
    if sum(map(len, holder.nsmap.values())) > _NAMESPACES:
        return None
    elements = (child for child in holder if isinstance(child.tag, str))
    children = [child for child in elements if next(child.iter(entry), None) is None]
    short = [child for child in children if split(child.tag)[1] in _KEPT and not len(child)]
    for kept in (children, short, []):
        before, _, after = _write(root, holder, kept).rpartition(f"<!--{_PLACE}-->".encode())
        if len(before) <= HEADER:
            return before, after
    return None


def own_xml(entry: etree._Element) -> bytes:
    """The entry's own XML with all the namespaces that it inherits."""
    return etree.tostring(entry, encoding="utf-8", with_tail=False)


def _write(root: etree._Element, holder: etree._Element, kept: list[etree._Element]) -> bytes:
    """Root and holder with the kept children and, as the last one, a comment for the entry."""
    copy = _empty(root)
    target = copy
    if holder is not root:
        target = _empty(holder)
        copy.append(target)
    for child in kept:
        leaf = deepcopy(child)
        leaf.tail = None
        target.append(leaf)
    target.append(etree.Comment(_PLACE))
    return etree.tostring(copy, encoding="utf-8")


def _empty(element: etree._Element) -> etree._Element:
    namespaces: Any = element.nsmap  # None is the key of the default one, whatever the stub says
    copy = etree.Element(element.tag, nsmap=namespaces)
    for name, value in element.attrib.items():
        copy.set(name, value)
    return copy
