"""Items of a document and their values, as XPath 1.0 defines them.

An item is what a path selects: an lxml element, an attribute (its value with
its owner and name), or a text node (a plain string).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from lxml import etree

from xscl.language.functions import number
from xscl.language.syntax import Operator


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute node: the element that has it, its name in Clark notation, its value."""

    owner: etree._Element
    name: str
    value: str


Item: TypeAlias = "etree._Element | Attribute | str"


def string_value(item: Item) -> str:
    """Return the XPath string value: all text inside an element, without comments."""
    if isinstance(item, str):
        return item
    if isinstance(item, Attribute):
        return item.value
    if not len(item):
        return item.text or ""
    return "".join(str(text) for text in item.itertext())


def compares(text: str, comparison: Operator, constant: str | float) -> bool:
    """Whether a string value compares with a constant: as numbers if that is one.

    Order between strings is by code point; XPath 1.0 would make numbers of both.
    """
    if isinstance(constant, str):
        return _ordered(text, comparison, constant)
    return _ordered(number(text), comparison, constant)


T = TypeVar("T", str, float)


def _ordered(left: T, comparison: Operator, right: T) -> bool:
    match comparison:
        case "=":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
