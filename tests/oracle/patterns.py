"""Tree patterns evaluated by brute force over numbered nodes."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from operator import eq, ge, gt, le, lt, ne
from typing import assert_never

from lxml import etree

from tests.oracle.numbers import operand
from tests.oracle.steps import (
    NAMESPACES,
    And,
    Compare,
    Condition,
    Exists,
    Not,
    Or,
    Path,
    Step,
    StringTest,
)
from tests.oracle.trees import Binding, Node, Text, children, descendants, string_value, texts_of

COMPARATORS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def _named(node: Node, test: str) -> bool:
    name = etree.QName(node.name)
    prefix, _, local = test.rpartition(":")
    if test == "*":
        return True
    space_fits = prefix == "*" or (name.namespace or "") == NAMESPACES.get(prefix, "")
    return space_fits and local in ("*", name.localname)


def select(context: Node, step: Step) -> list[Node]:
    """Return the nodes that one step reaches by axis and name, in document order."""
    match step.axis:
        case "child":
            found = children(context)
        case "descendant":
            found = descendants(context)
        case "attribute":
            found = list(context.attributes)
        case "descendant-attribute":
            owners = (context, *descendants(context))
            found = [attribute for owner in owners for attribute in owner.attributes]
        case _:
            assert_never(step.axis)
    return [node for node in found if _named(node, step.name)]


def embeddings(context: Node, step: Step) -> Iterator[tuple[Node, Binding]]:
    """Return every way in which a path lies below a node: its last node and its variables."""
    for node in select(context, step):
        own = {} if step.variable is None else {step.variable: node}
        for parts in product(*(list(ways(node, condition)) for condition in step.conditions)):
            binding = {key: value for part in (own, *parts) for key, value in part.items()}
            if step.then is None:
                yield node, binding
            else:
                for last, rest in embeddings(node, step.then):
                    yield last, {**binding, **rest}


def ways(node: Node, condition: Condition) -> Iterator[Binding]:
    """Return the distinct bindings with which a node meets a condition."""
    match condition:
        case Exists(step):
            seen = set[frozenset[tuple[str, int]]]()
            for _, binding in embeddings(node, step):
                key = frozenset((name, bound.number) for name, bound in binding.items())
                if key not in seen:
                    seen.add(key)
                    yield binding
        case And(parts):
            for made in product(*(list(ways(node, part)) for part in parts)):
                yield {key: value for part in made for key, value in part.items()}
        case _:
            if holds(node, condition):
                yield {}


def holds(node: Node, condition: Condition) -> bool:
    """Return the truth value of a condition at a node, as XPath 1.0 defines it."""
    match condition:
        case Compare(path, operator, constant):
            return any(_compares(value, operator, constant) for value in values(node, path))
        case StringTest(function, path, constant):
            first = next(iter(values(node, path)), "")
            return first.startswith(constant) if function == "starts-with" else constant in first
        case Exists():
            return any(True for _ in ways(node, condition))
        case And(parts):
            return all(holds(node, part) for part in parts)
        case Or(parts):
            return any(holds(node, part) for part in parts)
        case Not(part):
            return not holds(node, part)
        case _:
            assert_never(condition)


def values(node: Node, path: Path) -> list[str]:
    """Return the string values of the nodes of a path, in document order without doubles."""
    nodes = _nodes(node, path.step)
    if not path.texts:
        return [string_value(found) for found in nodes]
    texts = set[Text]().union(*(texts_of(found, path.texts == "//text()") for found in nodes))
    return [text.value for text in sorted(texts, key=lambda text: text.place)]


def _nodes(node: Node, step: Step | None) -> list[Node]:
    if step is None:
        return [node]
    found = {last.number: last for last, _ in embeddings(node, step)}
    return [found[number] for number in sorted(found)]


def _compares(value: str, operator: str, constant: str | int | float) -> bool:
    if isinstance(constant, str):
        if operator not in ("=", "!="):
            raise ValueError("an order against a string is not defined here; compare with a number")
        return bool(COMPARATORS[operator](value, constant))
    return bool(COMPARATORS[operator](operand(value), Fraction(str(constant))))
