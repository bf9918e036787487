"""Paths and conditions on one document, by plain navigation.

It decides the existential part of a pattern at a node, and reads `{x/title}` in a
constructor.  Stage 1 finds the nodes themselves by the shared automaton
(`xscl.shredding.automaton.nfa`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from lxml import etree

from xscl.language.functions import values_through
from xscl.language.syntax import (
    And,
    Compare,
    Condition,
    Exists,
    NameTest,
    Not,
    Or,
    Path,
    Residual,
    Step,
    TextMatch,
)
from xscl.shredding.nodes.names import key_of, keys_of
from xscl.shredding.nodes.tree import AttributeNode, Item, compares, string_value


def select(path: Path, item: Item) -> Iterator[Item]:
    """Yield the items that a path selects from an item, each once, in document order."""
    items: Iterator[Item] = iter((item,))
    for step in path.steps:
        items = _distinct(found for each in items for found in _step(step, each))
    if path.text is None:
        return items
    return (text for each in items for text in _texts(each, path.text == "descendant"))


def holds(condition: Condition, item: Item) -> bool:
    """Evaluate a condition at an item."""
    match condition:
        case Exists(path):
            return next(select(path, item), None) is not None
        case Compare(path) | TextMatch(_, path):
            return text_holds(condition, map(string_value, select(path, item)))
        case Residual():
            from xscl.shredding.conditions.xpath import holds_residual  # loads elementpath

            return holds_residual(condition, item)
        case And(parts):
            return all(holds(part, item) for part in parts)
        case Or(parts):
            return any(holds(part, item) for part in parts)
        case Not(part):
            return not holds(part, item)
        case _:
            assert_never(condition)


def text_holds(condition: Compare | TextMatch, texts: Iterable[str]) -> bool:
    """Evaluate a condition on the texts of the nodes that its path selects."""
    if condition.through is not None:
        texts = values_through(condition.through)([*texts])
    if isinstance(condition, Compare):
        operator, constant = condition.operator, condition.value
        return any(compares(text, operator, constant) for text in texts)
    first, value = next(iter(texts), ""), condition.value
    match condition.function:
        case "contains":
            return value in first
        case "starts-with":
            return first.startswith(value)
        case "ends-with":
            return first.endswith(value)
        case "matches":
            from xscl.language.regex import expression  # loads RE2

            return expression(value, condition.flags).within(first)
        case _:
            assert_never(condition.function)


def matches_name(test: NameTest, name: str) -> bool:
    """Return True if a name in Clark notation passes a name test."""
    return key_of(False, test) in keys_of(name)


def _step(step: Step, item: Item) -> Iterator[Item]:
    if not isinstance(item, etree._Element):
        return iter(())
    candidates = _attributes(step, item) if step.attribute else _elements(step, item)
    return (c for c in candidates if all(holds(condition, c) for condition in step.conditions))


def _elements(step: Step, element: etree._Element) -> Iterator[etree._Element]:
    tag = _tag(step.test)
    return element.iterdescendants(tag) if step.descendant else element.iterchildren(tag)


def _attributes(step: Step, element: etree._Element) -> Iterator[AttributeNode]:
    owners = element.iter("*") if step.descendant else (element,)
    for owner in owners:
        for name, value in owner.attrib.items():
            if matches_name(step.test, str(name)):
                yield AttributeNode(owner, str(name), str(value))


def _tag(test: NameTest) -> str:
    """Return the name test as lxml spells it."""
    if test.local is None and test.uri is None:
        return "*"
    uri = "*" if test.uri is None else test.uri
    return f"{{{uri}}}{test.local or '*'}"


def _texts(item: Item, deep: bool) -> Iterator[str]:
    """Yield the text nodes below an element; a comment or an element ends a text node."""
    if not isinstance(item, etree._Element):
        return
    if deep:
        yield from (str(text) for text in item.itertext() if text)
        return
    if item.text:
        yield item.text
    yield from (child.tail for child in item if child.tail)


def _distinct(items: Iterator[Item]) -> Iterator[Item]:
    """Drop repeated elements, which `//` below `//` causes; other items never repeat."""
    seen: set[tuple[int, str]] = set()
    kept: list[Item] = []
    for item in items:
        if isinstance(item, str):
            kept.append(item)
            continue
        owner, name = (item.owner, item.name) if isinstance(item, AttributeNode) else (item, "")
        if (id(owner), name) not in seen:
            seen.add((id(owner), name))
            kept.append(item)
    return iter(kept)
