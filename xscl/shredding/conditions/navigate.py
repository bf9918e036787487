"""Paths and conditions on one document, by plain navigation.

It decides the existential part of a pattern at a node, and reads `{x/title}` in a
constructor.  Stage 1 finds the nodes themselves by the shared automaton
(`xscl.shredding.automaton.nfa`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import assert_never

from lxml import etree

from cep_core.algebra.function_bounds import BeyondBounds
from xscl.language import syntax
from xscl.language.functions import TESTS, values_through
from xscl.language.unparse import unparse
from xscl.shredding.conditions.unevaluated import NotEvaluated
from xscl.shredding.nodes import AttributeNode, Item, compares, matches_name, string_value


def select(
    path: syntax.Path, item: Item, failed: list[NotEvaluated] | None = None
) -> Iterator[Item]:
    """Yield the items that a path selects from an item, each once, in document order.

    Those whose conditions cannot be evaluated are left out; the errors are appended to `failed`.
    """
    failed = [] if failed is None else failed
    items: Iterator[Item] = iter((item,))
    for step in path.steps:
        items = _distinct(found for each in items for found in _step(step, each, failed))
    if path.text is None:
        return items
    return (text for each in items for text in _texts(each, path.text == "descendant"))


def holds(condition: syntax.Condition, item: Item) -> bool:
    """Return True if a condition holds at an item; one that cannot be evaluated does not."""
    try:
        return evaluate(condition, item)
    except NotEvaluated:
        return False


def _holds_residual(condition: syntax.Residual, item: Item) -> bool:
    from xscl.shredding.conditions.evaluation import holds_residual  # loads elementpath

    return holds_residual(condition, item)


def evaluate(
    condition: syntax.Condition,
    item: Item,
    residual: Callable[[syntax.Residual, Item], bool] = _holds_residual,
) -> bool:
    """Return True if a condition holds at an item; raises NotEvaluated.

    `residual` evaluates residual conditions.
    """
    match condition:
        case syntax.Exists(path):
            failed: list[NotEvaluated] = []
            return _known(next(select(path, item, failed), None) is not None, failed)
        case syntax.ValueTest(path):
            failed = []
            texts = [string_value(found) for found in select(path, item, failed)]
            if failed and not (condition.is_comparison and condition.through is None):
                raise failed[0]
            return _known(text_holds(condition, texts), failed)
        case syntax.Residual():
            return residual(condition, item)
        case syntax.And(parts):
            return not _some(parts, item, residual, wanted=False)
        case syntax.Or(parts):
            return _some(parts, item, residual, wanted=True)
        case syntax.Not(part):
            return not evaluate(part, item, residual)
        case _:
            assert_never(condition)


def _known(found: bool, failed: list[NotEvaluated]) -> bool:
    """Return `found`; but if it is False and something failed, raise the first of the failures.

    A condition that failed could have made it True.
    """
    if failed and not found:
        raise failed[0]
    return found


def _some(
    parts: tuple[syntax.Condition, ...],
    item: Item,
    residual: Callable[[syntax.Residual, Item], bool],
    *,
    wanted: bool,
) -> bool:
    """Return True if a part has the truth value `wanted` at an item.

    `residual` evaluates residual conditions.  Raises NotEvaluated if a part without a value could
    have it.
    """
    failed: list[NotEvaluated] = []
    for part in parts:
        try:
            if evaluate(part, item, residual) is wanted:
                return True
        except NotEvaluated as error:
            failed.append(error)
    return _known(False, failed)


def text_holds(condition: syntax.ValueTest, texts: Iterable[str]) -> bool:
    """Return True if a condition holds for the texts of the nodes that its path selects.

    Raises NotEvaluated.
    """
    if condition.through is not None:
        try:
            texts = values_through(condition.through)([*texts])
        except BeyondBounds as error:
            raise NotEvaluated(unparse(condition.through.operand), str(error)) from None
    operator, constant = condition.operator, condition.value
    if condition.is_comparison:
        return any(compares(text, operator, constant) for text in texts)
    constants = (constant, condition.flags) if condition.flags else (constant,)
    return bool(TESTS[operator].apply(next(iter(texts), ""), *constants))


def _step(step: syntax.Step, item: Item, failed: list[NotEvaluated]) -> Iterator[Item]:
    if not isinstance(item, etree._Element):
        return iter(())
    candidates: Iterator[Item]
    candidates = _attributes(step, item) if step.attribute else _elements(step, item)
    if not step.conditions:
        return candidates
    return (candidate for candidate in candidates if _holds_all(step.conditions, candidate, failed))


def _holds_all(
    conditions: tuple[syntax.Condition, ...], item: Item, failed: list[NotEvaluated]
) -> bool:
    try:
        return not _some(conditions, item, _holds_residual, wanted=False)
    except NotEvaluated as error:
        failed.append(error)
        return False


def _elements(step: syntax.Step, element: etree._Element) -> Iterator[etree._Element]:
    tag = _tag(step.test)
    return element.iterdescendants(tag) if step.descendant else element.iterchildren(tag)


def _attributes(step: syntax.Step, element: etree._Element) -> Iterator[AttributeNode]:
    owners = element.iter("*") if step.descendant else (element,)
    for owner in owners:
        for name, value in owner.attrib.items():
            if matches_name(step.test, str(name)):
                yield AttributeNode(owner, str(name), str(value))


def _tag(test: syntax.NameTest) -> str:
    """Return the name test as lxml spells it."""
    if test.local is None and test.uri is None:
        return "*"
    uri = "*" if test.uri is None else test.uri
    return f"{{{uri}}}{test.local or '*'}"


def _texts(item: Item, deep: bool) -> Iterator[str]:
    """Yield the text nodes that are children of an element, or with `deep` all text nodes below it.

    A comment separates two text nodes.  An item that is no element has none.
    """
    if not isinstance(item, etree._Element):
        return
    if deep:
        yield from (str(text) for text in item.itertext() if text)
        return
    if item.text:
        yield item.text
    yield from (child.tail for child in item if child.tail)


def _distinct(items: Iterator[Item]) -> Iterator[Item]:
    """Yield items without repeated elements, which `//` below `//` causes; others never repeat."""
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
