"""Random documents and patterns, and what they mean: pairs of bindings by trying every node.

The names, texts and constants are few, so that well over a third of the cases
have matches.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal, TypeAlias

from lxml import etree

from templates.model.relations import Pair
from xscl.language.syntax import (
    And,
    Block,
    Call,
    ComparisonSign,
    Condition,
    Constant,
    Exists,
    NameTest,
    Not,
    Operand,
    Or,
    Path,
    Step,
    TextFunction,
    Through,
    ValueTest,
    VariablePath,
)
from xscl.language.unparse import unparse
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.pattern import canonical
from xscl.shredding.conditions.navigate import holds
from xscl.shredding.conditions.residual import texts_of
from xscl.shredding.nodes import AttributeNode, DocumentTree, matches_name, string_value

NAMES = ("a", "a", "b", "{urn:n}a")
ATTRIBUTES = ("p", "q", "{urn:n}p")
TEXTS = (
    *("", " ", "x", "y", "xy", "x y", "zx", "é", "\U0001f600x"),
    *("1", "2", " 2\n", "2.0", "-1", "-0", ".5", "1e3", "+1", "NaN", "Infinity", "1\u00a0", "10"),
    *("1" * 205, "1" * 400),  # beyond all cells, and beyond all numbers
)
WORDS = ("x", "y", "xy", " ", "", "1", "é", "zz", "\U0001f600")
NUMBERS = (-1.0, 0.0, 0.5, 1.0, 2.0, 10.0)
LOWER: tuple[ComparisonSign, ...] = (">", ">=")
UPPER: tuple[ComparisonSign, ...] = ("<", "<=")
OPERATORS: tuple[ComparisonSign, ...] = ("=", "!=", *LOWER, *UPPER)
FUNCTIONS: tuple[TextFunction, ...] = ("contains", "contains", "starts-with", "ends-with")
EXPRESSIONS = ("x", "^x", "y$", "x.?y", "[xy]{2}", "é|zz", "\\d+", "", "X")
HERE = VariablePath("")
APPLIED: tuple[Operand, ...] = (
    *(Call(name, (HERE,)) for name in ("upper-case", "normalize-space", "string-length", "number")),
    Call("lower-case", (Call("upper-case", (HERE,)),)),
    Call("substring", (HERE, Constant(1.0), Constant(1.0))),
)
ENDS: tuple[Literal["child", "descendant"] | None, ...] = (None,) * 8 + ("child", "descendant")


# -- Documents -----------------------------------------------------------------------------


def document(source: Random, most: int = 16) -> etree._Element:
    """Return a document: nested names that repeat, attributes, texts, comments between them."""
    root = etree.Element(source.choice(NAMES))
    elements = [root]
    for _ in range(source.randrange(most)):
        parent = source.choice(elements[-4:])
        if source.random() < 0.1:
            parent.append(etree.Comment("x"))
            parent[-1].tail = source.choice(TEXTS)
            continue
        elements.append(etree.SubElement(parent, source.choice(NAMES)))
        elements[-1].tail = source.choice((None, None, "x"))
    for element in elements:
        element.text = source.choice(TEXTS)
        for name in ATTRIBUTES:
            if source.random() < 0.25:
                element.set(name, source.choice(TEXTS))
    return etree.fromstring(etree.tostring(root))


def reworded(source: Random, root: etree._Element) -> etree._Element:
    """Return a document of the same structure with other texts."""
    other = etree.fromstring(etree.tostring(root))
    for element in other.iter("*"):
        element.text = source.choice(TEXTS)
        for name in ATTRIBUTES:
            if name in element.attrib:
                element.set(name, source.choice(TEXTS))
    return other


# -- Patterns ------------------------------------------------------------------------------


def name_of(source: Random) -> NameTest:
    chance = source.random()
    if chance < 0.15:
        return NameTest(None, None)
    local, uri = source.choice("aaaabc"), source.choice(("", "", "", "urn:n"))
    if chance < 0.35:
        return NameTest(local, None)
    return NameTest(None if chance < 0.4 else local, uri)


def step_of(source: Random, depth: int) -> Step:
    attribute = source.random() < 0.12
    test = NameTest(source.choice("pq")) if attribute else name_of(source)
    conditions: tuple[Condition, ...] = ()
    if depth and source.random() < 0.35:
        conditions = tuple(condition_of(source, depth - 1) for _ in range(source.choice((1, 1, 2))))
    return Step(test, source.random() < 0.3, attribute, conditions)


def path_of(source: Random, depth: int) -> Path:
    length = source.choice((0, 1, 1, 1, 2))
    steps = tuple(step_of(source, depth if source.random() < 0.3 else 0) for _ in range(length))
    return Path(steps, source.choice(ENDS))


def condition_of(source: Random, depth: int) -> Condition:
    """Return a condition of any kind."""
    chance = source.random()
    if depth and chance < 0.25:
        parts = tuple(condition_of(source, depth - 1) for _ in range(2))
        return source.choice((And, Or, Or))(parts) if chance < 0.18 else Not(parts[0])
    if chance < 0.3:
        path, bounds = path_of(source, 0), sorted(source.sample(NUMBERS, 2))
        lower, upper = source.choice(LOWER), source.choice(UPPER)
        return And((ValueTest(path, lower, bounds[0]), ValueTest(path, upper, bounds[1])))
    if chance < 0.45:
        path = path_of(source, depth)
        return Exists(path if path.steps else Path((step_of(source, depth),)))
    if chance < 0.5:
        flags = source.choice(("", "i"))
        pattern = source.choice(EXPRESSIONS)
        return ValueTest(path_of(source, depth), "matches", pattern, through_of(source), flags)
    if chance < 0.65:
        path, word = path_of(source, depth), source.choice(WORDS)
        return ValueTest(path, source.choice(FUNCTIONS), word, through_of(source))
    value = source.choice(TEXTS) if source.random() < 0.5 else source.choice(NUMBERS)
    path = path_of(source, depth)
    if source.random() < 0.08:
        counted = Through("count", HERE)
        return ValueTest(path, source.choice(OPERATORS), source.choice((0.0, 1.0, 2.0)), counted)
    return ValueTest(path, source.choice(OPERATORS), value, through_of(source))


def through_of(source: Random) -> Through | None:
    """Return functions around a path, seldom any."""
    return Through("first", source.choice(APPLIED)) if source.random() < 0.15 else None


Asked: TypeAlias = tuple[Block, Block, bool]
"""Two adjacent variables by their definitions, and whether the second one's values are wanted."""


def pair_of(source: Random, streams: tuple[str, ...] = ("S", "T")) -> Asked:
    """Return a strategy of patterns for an automaton."""
    steps = tuple(_canonical(step_of(source, 2)) for _ in range(source.choice((1, 1, 2, 2, 3))))
    steps = (Step(steps[0].test, source.random() < 0.8, False, steps[0].conditions), *steps[1:])
    first = source.randint(1, len(steps))
    stream = source.choice(streams)
    upper, lower = Block(stream, steps[:first]), Block(stream, steps)
    if source.random() < 0.1:
        call = Call(source.choice(("upper-case", "number")), (VariablePath(""),))
        made = Step(NameTest(None, None), derived=call)
        if first == len(steps):
            upper = Block(stream, (*steps, made))
        lower = Block(stream, (*steps, made))
        return upper, lower, True
    return upper, lower, source.random() < 0.7


def _canonical(step: Step) -> Step:
    return Step(step.test, step.descendant, step.attribute, canonical(step.conditions))


# -- Meaning -------------------------------------------------------------------------------

Witness: TypeAlias = tuple[int, int, int, str | None]
"""Pair, upper node, lower node, value; DERIVED stands for any node outside the document."""
DERIVED = -1


def expected(
    pair: int, asked: Asked, tree: DocumentTree, streams: tuple[str, ...]
) -> Iterator[Witness]:
    """Yield the witnesses of a pair of variables in a document."""
    first, second, valued = asked
    if second.stream not in streams:
        return
    derived = second.steps[-1].derived
    alone = first.steps[-1].derived is not None
    steps = second.steps if derived is None else second.steps[:-1]
    upper = len(first.steps) - alone
    for above, node in {(chain[upper - 1], chain[-1]) for chain in _chains(tree, steps, -1)}:
        if derived is None:
            yield pair, above, node, string_value(tree.items[node]) if valued else None
            continue
        for text in texts_of(derived)(tree.items[node]):
            yield pair, DERIVED if alone else above, DERIVED, text


def _chains(tree: DocumentTree, steps: tuple[Step, ...], above: int) -> Iterator[tuple[int, ...]]:
    """Yield all choices of nodes for steps, each below the one before."""
    if not steps:
        yield ()
        return
    for node, item in enumerate(tree.items):
        if _leads(tree, steps[0], above, node) and all(
            holds(condition, item) for condition in steps[0].conditions
        ):
            for rest in _chains(tree, steps[1:], node):
                yield (node, *rest)


def _leads(tree: DocumentTree, step: Step, above: int, node: int) -> bool:
    item = tree.items[node]
    assert not isinstance(item, str)
    name = item.name if isinstance(item, AttributeNode) else str(item.tag)
    if isinstance(item, AttributeNode) != step.attribute or not matches_name(step.test, name):
        return False
    current = tree.parents[node]
    while step.descendant and current >= 0 and current != above:
        current = tree.parents[current]
    return current == above


def install(
    automaton: Automaton, number: int, first: Block, second: Block, valued: bool = True
) -> None:
    """Install a pair of variables, given the blocks of their definitions."""
    automaton.install([Pair(number, unparse(first), unparse(second), valued)])
