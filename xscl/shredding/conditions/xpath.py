"""XPath as closures: the evaluator of residual conditions.

A tree of XPath (`xscl.language.xpath_tree`) becomes one closure for each operator, function and
step.  A closure gets a focus and returns the items of its sequence, a test a truth value.  Every
visit of a node and every item is a step of the work.  What fails raises one of `ERRORS`.  `and`,
`or`, `some` and `every` fail only if what does not fail leaves the result open, so the order of
operands does not matter.

This module is imported with the first residual condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, TypeAlias

from xscl.language.xpath import parsed
from xscl.language.xpath_tree import NodeTest, SequenceType, XPath
from xscl.shredding.conditions.xpath_functions import TABLE
from xscl.shredding.conditions.xpath_nodes import AXES, Node
from xscl.shredding.conditions.xpath_values import (
    ERRORS,
    Failure,
    Items,
    OverBudget,
    Work,
    any_holds,
    cast,
    decimal,
    is_number,
    kind_of,
    number,
    some,
    truth,
)
from xscl.shredding.nodes import matches_name


class Focus:
    """The context of an expression: the item, its position, the size; variables and the work."""

    __slots__ = ("item", "position", "size", "variables", "work")

    def __init__(self, item: Any, work: Work, variables: dict[str, Items] | None = None) -> None:
        self.item = item
        self.position = 1
        self.size = 1
        self.work = work
        self.variables: dict[str, Items] = {} if variables is None else variables


Evaluate: TypeAlias = Callable[[Focus], Items]
Test: TypeAlias = Callable[[Focus], bool]
Single: TypeAlias = Callable[[Focus], Any]
"""The reader of an argument, or the call of a function: its value at a focus."""
Walk: TypeAlias = Callable[[Node, Focus], "list[Node]"]
"""A step: from a node to nodes, in document order."""
ItemsFilter: TypeAlias = "Callable[[list[Any], Focus], list[Any]]"
"""A condition in brackets: from items in the order of their positions to those that hold."""

_TRUTHS = frozenset(
    (
        *("and", "or", "=", "!=", "<", "<=", ">", ">=", "some", "every"),
        *("instance", "castable", "not", "boolean", "true", "false", "exists", "empty"),
        *("contains", "starts-with", "ends-with", "matches", "contains-token", "lang"),
        *("has-children", "deep-equal"),
    )
)
_DOWNWARD = ("child", "attribute", "self", "descendant", "descendant-or-self")
"""The axes downwards: from nodes in order, none below another, they lead to nodes in order."""
_FLAT = ("child", "attribute", "self", "parent")
"""The axes that lead from nodes, none below another, to nodes of which none is, either."""
_REVERSED = frozenset(("ancestor", "ancestor-or-self", "preceding", "preceding-sibling"))
_BROADER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "xs:decimal": ("xs:decimal", "xs:integer"),
        "xs:float": (),
        "xs:duration": ("xs:duration", "xs:dayTimeDuration", "xs:yearMonthDuration"),
    }
)


@lru_cache(maxsize=20_000)
def evaluator(text: str) -> Evaluate:
    """Return the evaluator of an expression in normal form."""
    return _items(parsed(text))


@lru_cache(maxsize=20_000)
def tester(text: str) -> Test:
    """Return the test of the truth value of an expression in normal form."""
    return _truth(parsed(text))


def _spent(focus: Focus, items: Items) -> Items:
    """Count items as steps of the work in `focus`, and return them."""
    focus.work.spend(len(items))
    return items


def _nodes_among(focus: Focus, items: Iterable[Any]) -> Iterator[Node]:
    """Yield items, all of which have to be nodes, and count them as steps."""
    for item in items:
        focus.work.spend(1)
        if not isinstance(item, Node):
            raise Failure(f"{kind_of(item)} is no node")
        yield item


def _each(focus: Focus, items: Items) -> Iterator[Focus]:
    """Yield the focus on each of some items, which are in the order of their positions."""
    inner = Focus(None, focus.work, focus.variables)
    inner.size = len(items)
    for inner.position, inner.item in enumerate(items, 1):
        yield inner


# -- Truth values ----------------------------------------------------------------------------


def _truth(tree: XPath) -> Test:
    """Return the test of the truth value of an expression."""
    test = _test(tree)
    if test is not None:
        return test
    items = _items(tree)
    return lambda focus: truth(items(focus))


def _test(tree: XPath) -> Test | None:
    """Return the test of an expression whose operator makes a truth value; None of any other."""
    match tree.symbol, tree.parts:
        case "or", parts:
            return _disjunction([_truth(part) for part in parts])
        case "and", parts:
            return _negation(_disjunction([_negation(_truth(part)) for part in parts]))
        case "not", (inner,):
            return _negation(_truth(inner))
        case "boolean", (inner,):
            return _truth(inner)
        case ("=" | "!=" | "<" | "<=" | ">" | ">=") as sign, (left, right):
            ones, others = _items(left), _items(right)
            return lambda focus: some(focus.work, sign, ones(focus), others(focus))
        case "some", (*inputs, body):
            return _some(tree.value, inputs, _truth(body))
        case "every", (*inputs, body):
            return _negation(_some(tree.value, inputs, _negation(_truth(body))))
        case "instance", (inner,):
            items, belongs = _items(inner), _belongs(tree.value)
            return lambda focus: belongs(items(focus))
        case "castable", (inner,):
            return _castable(_casting(_items(inner), tree.value))
        case _:
            return None


def _negation(test: Test) -> Test:
    return lambda focus: not test(focus)


def _disjunction(tests: Sequence[Test]) -> Test:
    return lambda focus: any_holds(partial(test, focus) for test in tests)


def _some(names: Sequence[str], inputs: Sequence[XPath], test: Test) -> Test:
    every = list(map(_items, inputs))
    return lambda focus: any_holds(
        partial(test, binding) for binding in _bindings(focus, names, every)
    )


def _bindings(
    focus: Focus, names: Sequence[str], every: Sequence[Evaluate], at: int = 0
) -> Iterator[Focus]:
    """Yield the focus with variables bound to every choice of items, one after the other.

    `every` has a sequence for each of `names`; those before the index `at` are bound already.
    """
    if at == len(names):
        yield focus
        return
    for item in every[at](focus):
        focus.work.spend(1)
        inner = Focus(focus.item, focus.work, {**focus.variables, names[at]: [item]})
        inner.position, inner.size = focus.position, focus.size
        yield from _bindings(inner, names, every, at + 1)


def _castable(made: Evaluate) -> Test:
    def holds(focus: Focus) -> bool:
        try:
            made(focus)
        except OverBudget:
            raise
        except ERRORS:
            return False
        return True

    return holds


# -- Sequences -------------------------------------------------------------------------------


def _items(tree: XPath) -> Evaluate:
    """Return the evaluator of an expression."""
    test = _test(tree)
    if test is not None:
        return lambda focus: [test(focus)]
    match tree.symbol, tree.parts:
        case "step", _:
            return _step_at_context(tree)
        case (("(string)" | "(integer)" | "(decimal)" | "(float)"), _):
            value = tree.value
            constant = [decimal(value) if isinstance(value, Decimal) else value]
            return lambda _: constant
        case "(", ():
            return lambda _: []
        case "(", (inner,):
            return _items(inner)
        case ",", parts:
            every = list(map(_items, parts))
            return lambda focus: _spent(focus, [item for one in every for item in one(focus)])
        case "[", (left, inner):
            whole, condition = _items(left), _condition(inner)
            return lambda focus: condition(whole(focus), focus)
        case "/", ():
            return lambda focus: [focus.work.tree.root]
        case (("/" | "//"), _):
            return _path(tree)
        case "!", (left, right):
            return _mapped(_items(left), _items(right))
        case "$", _:
            name = tree.value
            return lambda focus: focus.variables[name]
        case (("+" | "-"), (_,)):
            return _as_items(_call(f"unary {tree.symbol}", tree.parts))
        case "union", parts:
            every = list(map(_items, parts))
            return lambda focus: focus.work.tree.in_order(
                _nodes_among(focus, (node for one in every for node in one(focus)))
            )
        case "to", (first, last):
            numbers = range(int(first.value), int(last.value) + 1)
            return lambda focus: _spent(focus, [*numbers])
        case "if", (condition, then, otherwise):
            holds, yes, no = _truth(condition), _items(then), _items(otherwise)
            return lambda focus: yes(focus) if holds(focus) else no(focus)
        case "for", (*inputs, body):
            return _for_each(tree.value, list(map(_items, inputs)), _items(body))
        case "treat", (inner,):
            return _treated(_items(inner), _belongs(tree.value))
        case "cast", (inner,):
            return _casting(_items(inner), tree.value)
        case "constructor", (inner,):
            atom, kind = _argument("a", inner), tree.value
            return _as_items(
                lambda focus: None if (found := atom(focus)) is None else cast(kind, found)
            )
        case ".", _:
            return _context
        case "position", _:
            return lambda focus: [focus.position]
        case "last", _:
            return lambda focus: [focus.size]
        case _:
            return _as_items(_call(tree.symbol, tree.parts))


def _context(focus: Focus) -> Items:
    return [focus.item]


def _as_items(value: Single) -> Evaluate:
    def items(focus: Focus) -> Items:
        found = value(focus)
        if isinstance(found, list):
            return found
        return [] if found is None else [found]

    return items


def _for_each(names: Sequence[str], every: Sequence[Evaluate], body: Evaluate) -> Evaluate:
    def items(focus: Focus) -> Items:
        found: Items = []
        for inner in _bindings(focus, names, every):
            found += _spent(inner, body(inner))
        return found

    return items


def _mapped(ones: Evaluate, value: Evaluate) -> Evaluate:
    """Return the evaluator of `ones!value`: of `value` at each item of `ones`."""

    def items(focus: Focus) -> Items:
        found: Items = []
        for inner in _each(focus, _spent(focus, ones(focus))):
            found += _spent(focus, value(inner))
        return found

    return items


def _treated(items: Evaluate, belongs: Callable[[Items], bool]) -> Evaluate:
    def found(focus: Focus) -> Items:
        given = items(focus)
        if not belongs(given):
            raise Failure("treat as another type")
        return given

    return found


def _casting(items: Evaluate, kind: SequenceType) -> Evaluate:
    name = str(kind.of).removeprefix("xs:")

    def found(focus: Focus) -> Items:
        given = items(focus)
        if len(given) > 1 or not (given or kind.occurrence):
            raise Failure(f"{len(given)} items are cast to xs:{name}")
        return [cast(name, focus.work.atom(item)) for item in given]

    return found


# -- Functions -------------------------------------------------------------------------------

_JOIN = TABLE["string-join"].apply


def _call(name: str, arguments: Sequence[XPath]) -> Single:
    """Return the call of the XPath function `name` with the values of its arguments."""
    if name in ("concat", "||"):
        texts = [_argument("t", argument) for argument in arguments]
        return lambda focus: _JOIN(focus.work, [text(focus) for text in texts])
    letters, least, apply = TABLE[name]
    given: list[Single] = []
    for place, letter in enumerate(letters):
        if place < len(arguments):
            given.append(_argument(letter, arguments[place]))
        elif letter[0] == ".":
            given.append(_ARGUMENTS[letter[-1]](_context))
    assert least <= len(given), "the parser counts arguments"
    match given:
        case [one]:
            return lambda focus: apply(focus.work, one(focus))
        case [one, other]:
            return lambda focus: apply(focus.work, one(focus), other(focus))
        case _:
            return lambda focus: apply(focus.work, *[value(focus) for value in given])


def _argument(letter: str, tree: XPath) -> Single:
    """Return the reader of an argument of a function, by its letter in `xpath_functions`."""
    return _ARGUMENTS[letter[-1]](_items(tree))


def _of_first(
    read: Callable[[Work, Any], Any], otherwise: str | None = None
) -> Callable[[Evaluate], Single]:
    """Return the maker of readers of an argument's first item, which `read` converts.

    Without an item a reader returns `otherwise`.
    """

    def argument(items: Evaluate) -> Single:
        def value(focus: Focus) -> Any:
            found = items(focus)
            return read(focus.work, found[0]) if found else otherwise

        return value

    return argument


def _as_values(items: Evaluate) -> Single:
    def values(focus: Focus) -> Items:
        atom = focus.work.atom
        return [atom(item) for item in _spent(focus, items(focus))]

    return values


_ARGUMENTS: Mapping[str, Callable[[Evaluate], Single]] = MappingProxyType(
    {
        "t": _of_first(Work.text, ""),
        "a": _of_first(Work.atom),
        "n": _of_first(lambda work, item: number(work.atom(item))),
        "i": _of_first(lambda _, item: item),
        "s": lambda items: lambda focus: _spent(focus, items(focus)),
        "v": _as_values,
    }
)


# -- Conditions in brackets ------------------------------------------------------------------


def _condition(tree: XPath) -> ItemsFilter:
    match tree.symbol, tree.value:
        case "(integer)", place:
            return lambda items, _: items[place - 1 : place] if place > 0 else []
        case "last", _:
            return lambda items, _: items[-1:]
        case symbol, _:
            test = _truth(tree) if symbol in _TRUTHS or symbol == "step" else _placed(tree)
    return lambda items, focus: [
        inner.item for inner in _each(focus, _spent(focus, items)) if test(inner)
    ]


def _placed(tree: XPath) -> Test:
    """Return the test of a condition in brackets: a single number is a position."""
    items = _items(tree)

    def holds(focus: Focus) -> bool:
        found = items(focus)
        if len(found) == 1 and is_number(found[0]):
            return bool(found[0] == focus.position)
        return truth(found)

    return holds


def _may_place(tree: XPath) -> bool:
    """Return True if a condition may be a number or read the position of its node."""
    if tree.symbol not in _TRUTHS and tree.symbol != "step":
        return True
    return any(node.symbol in ("position", "last") for node in tree.walk())


# -- Paths -----------------------------------------------------------------------------------


def _step_at_context(tree: XPath) -> Evaluate:
    """Return the evaluator of a step at the context item."""
    walk = _walk(tree)

    def items(focus: Focus) -> Items:
        item = focus.item
        if not isinstance(item, Node):
            raise Failure(f"a step from {kind_of(item)}")
        return walk(item, focus)

    return items


def _path(tree: XPath) -> Evaluate:
    """Return the evaluator of `a/b`, `a//b`, `/a` and `//a`."""
    *outer, right = tree.parts
    first = outer[0] if outer else XPath("/")
    left, is_flat, is_deep = _items(first), _is_flat(first), tree.symbol == "//"
    if right.symbol == "step":
        ordered = is_flat and right.value.axis in _DOWNWARD
        return _stepwise(left, _deep(right) if is_deep else _walk(right), ordered=ordered)
    values = _mapped(
        _stepwise(left, _every_below, ordered=is_flat) if is_deep else left, _items(right)
    )

    def items(focus: Focus) -> Items:
        found = values(focus)
        nodes = sum(isinstance(item, Node) for item in found)
        if nodes and nodes < len(found):
            raise Failure("nodes and values behind a slash")
        return focus.work.tree.in_order(found) if nodes else found

    return items


def _is_flat(tree: XPath) -> bool:
    """Return True if no node that an expression selects lies below another one."""
    match tree.symbol, tree.parts:
        case (("." | "$"), _):
            return True
        case "/", parts:
            return all(map(_is_flat, parts))
        case "(", (inner,):
            return _is_flat(inner)
        case symbol, _:
            return symbol == "step" and tree.value.axis in _FLAT


def _stepwise(left: Evaluate, walk: Walk, *, ordered: bool) -> Evaluate:
    """Return the evaluator of a path: of the step `walk` from each node that `left` selects.

    `ordered`: the results come in document order, so they need not be sorted.
    """

    def items(focus: Focus) -> Items:
        given = left(focus)
        if len(given) == 1:
            return walk(next(_nodes_among(focus, given)), focus)
        found = [one for node in _nodes_among(focus, given) for one in walk(node, focus)]
        return found if ordered else focus.work.tree.in_order(_spent(focus, found))

    return items


def _every_below(node: Node, focus: Focus) -> list[Node]:
    return _spent(focus, AXES["descendant-or-self"](node, focus.work.tree))


def _walk(step: XPath) -> Walk:
    axis, test = step.value
    return _walked(axis, test, list(map(_condition, step.parts)))


def _walked(axis: str, test: NodeTest, conditions: Sequence[ItemsFilter]) -> Walk:
    found_on_axis = _candidates(axis, test)
    backwards = axis in _REVERSED
    if not conditions and not backwards:
        return found_on_axis

    def walk(node: Node, focus: Focus) -> list[Node]:
        found = found_on_axis(node, focus)
        for condition in conditions:
            found = condition(found, focus)
        return found[::-1] if backwards else found

    return walk


def _deep(step: XPath) -> Walk:
    """Return the walk of `//step`: the step from a node and from each node below it."""
    axis, test = step.value
    conditions = list(map(_condition, step.parts))
    if axis == "child" and not any(map(_may_place, step.parts)):
        return _walked("descendant", test, conditions)
    if axis == "child":
        below = _candidates("descendant", test)

        def of_parents(node: Node, focus: Focus) -> list[Node]:
            # a step at each node would visit all children of all nodes for the few of a name
            families: dict[Node | None, list[Node]] = {}
            for one in below(node, focus):
                families.setdefault(one.parent, []).append(one)
            found: list[Node] = []
            for family in families.values():
                for condition in conditions:
                    family = condition(family, focus)
                found += family
            return focus.work.tree.in_order(found)

        return of_parents
    walk = _walked(axis, test, conditions)

    def items(node: Node, focus: Focus) -> list[Node]:
        found = [one for each in _every_below(node, focus) for one in walk(each, focus)]
        return focus.work.tree.in_order(_spent(focus, found))

    return items


def _candidates(axis: str, test: NodeTest) -> Walk:
    """Return the walk to the nodes on an axis that pass a test, in the order of their positions.

    Child elements of one name or of any, and those below, are found without making nodes of others.
    """
    name = "*" if test.name is None else test.name.clark
    if axis in ("child", "descendant") and test.kind == "element" and name is not None:
        deep = axis == "descendant"

        def elements(node: Node, focus: Focus) -> list[Node]:
            if node.kind == "element" and not deep:
                focus.work.spend(len(node.value))
            return _spent(focus, focus.work.tree.elements(node, name, deep=deep))

        return elements
    nodes, passes = AXES[axis], _passing(test)

    def passing(node: Node, focus: Focus) -> list[Node]:
        return [one for one in _spent(focus, nodes(node, focus.work.tree)) if passes(one)]

    return passing


# -- Node tests and types --------------------------------------------------------------------


def _passing(test: NodeTest) -> Callable[[Node], bool]:
    kind, name = test
    if kind == "node":
        return lambda node: True
    if name is None:
        return lambda node: node.kind == kind
    if (clark := name.clark) is not None:
        return lambda node: node.kind == kind and node.name == clark
    return lambda node: node.kind == kind and matches_name(name, node.name)


def _belongs(kind: SequenceType) -> Callable[[Items], bool]:
    """Return a test of items: True if they are a sequence of the given type."""
    if kind.of == "empty-sequence":
        return lambda items: not items
    least = 0 if kind.occurrence in ("?", "*") else 1
    most = 1 if kind.occurrence in ("", "?") else None
    belongs = _of_type(kind.of)

    def holds(items: Items) -> bool:
        if len(items) < least or (most is not None and len(items) > most):
            return False
        return all(map(belongs, items))

    return holds


def _of_type(kind: str | NodeTest) -> Callable[[Any], bool]:
    if isinstance(kind, NodeTest):
        test = _passing(kind)
        return lambda item: isinstance(item, Node) and test(item)
    if kind == "item":
        return lambda item: True
    if kind == "xs:anyAtomicType":
        return lambda item: not isinstance(item, Node)
    kinds = _BROADER.get(kind, (kind,))
    return lambda item: kind_of(item) in kinds
