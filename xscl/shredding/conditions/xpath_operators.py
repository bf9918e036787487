"""Closures of XPath over other closures: what operators do with the sequences of their operands.

A closure gets a focus and returns the items of its sequence, a test a truth value.  Every visit of
a node and every item is a step of the work.  What fails raises one of `ERRORS`.  `and`, `or`,
`some` and `every` fail only if what does not fail leaves the result open, so the order of operands
does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from xscl.shredding.conditions.xpath_nodes import AXES, Node, place_of
from xscl.shredding.conditions.xpath_values import (
    ERRORS,
    Failure,
    Items,
    OverBudget,
    Work,
    any_holds,
    cast,
    is_number,
    kind_of,
    number,
    truth,
)


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
"""The value of an argument of a function."""
Walk: TypeAlias = Callable[[Node, Focus], "list[Node]"]
"""A step: from a node to nodes, in document order."""


def spent(focus: Focus, items: Items) -> Items:
    """Return items, which are counted as steps."""
    focus.work.spend(len(items))
    return items


def nodes_among(focus: Focus, items: Iterable[Any]) -> Iterator[Node]:
    """Yield items, all of which have to be nodes, and count them as steps."""
    for item in items:
        focus.work.spend(1)
        if not isinstance(item, Node):
            raise Failure(f"{kind_of(item)} is no node")
        yield item


def single(value: Single) -> Evaluate:
    return lambda focus: [value(focus)]


def concatenation(every: Sequence[Evaluate]) -> Evaluate:
    return lambda focus: spent(focus, [item for one in every for item in one(focus)])


def variable(name: str) -> Evaluate:
    return lambda focus: focus.variables[name]


def disjunction(tests: Sequence[Test]) -> Test:
    return lambda focus: any_holds(partial(test, focus) for test in tests)


def conjunction(tests: Sequence[Test]) -> Test:
    return negation(disjunction([negation(test) for test in tests]))


def negation(test: Test) -> Test:
    return lambda focus: not test(focus)


def node_order(symbol: str, ones: Evaluate, others: Evaluate) -> Evaluate:
    def items(focus: Focus) -> Items:
        pair = [[*nodes_among(focus, items(focus)[:2])] for items in (ones, others)]
        if not all(pair):
            return []
        if max(map(len, pair)) > 1:
            raise Failure(f"{symbol} compares single nodes")
        (one,), (other,) = pair
        if symbol == "is":
            return [one is other]
        assert focus.work.tree.nodes, "the tree is numbered"
        places = place_of(one), place_of(other)
        return [places[0] < places[1] if symbol == "<<" else places[0] > places[1]]

    return items


def difference(excluded: bool, ones: Evaluate, others: Evaluate) -> Evaluate:
    def items(focus: Focus) -> Items:
        left = [*nodes_among(focus, ones(focus))]
        right = set(nodes_among(focus, others(focus)))
        return focus.work.tree.in_order(node for node in left if (node in right) is not excluded)

    return items


Clause: TypeAlias = "tuple[str, Evaluate]"


def _bindings(focus: Focus, clauses: Sequence[Clause]) -> Iterator[Focus]:
    """Yield the focus with variables for every choice of items, one after the other."""
    if not clauses:
        yield focus
        return
    (name, items), *rest = clauses
    for item in items(focus):
        focus.work.spend(1)
        inner = Focus(focus.item, focus.work, {**focus.variables, name: [item]})
        inner.position, inner.size = focus.position, focus.size
        yield from _bindings(inner, rest)


def for_each(clauses: Sequence[Clause], body: Evaluate) -> Evaluate:
    def items(focus: Focus) -> Items:
        found: Items = []
        for inner in _bindings(focus, clauses):
            found += spent(inner, body(inner))
        return found

    return items


def quantified(every: bool, clauses: Sequence[Clause], body: Test) -> Test:
    if every:
        return negation(quantified(False, clauses, negation(body)))
    return lambda focus: any_holds(partial(body, one) for one in _bindings(focus, clauses))


def _each(focus: Focus, items: Items) -> Iterator[Focus]:
    """Yield the focus on each of some items, which are in the order of their positions."""
    inner = Focus(None, focus.work, focus.variables)
    inner.size = len(items)
    for inner.position, inner.item in enumerate(items, 1):
        yield inner


def mapped(ones: Evaluate, value: Evaluate) -> Evaluate:
    """Return the evaluator of `!`: an expression for each item of another one."""

    def items(focus: Focus) -> Items:
        found: Items = []
        for inner in _each(focus, spent(focus, ones(focus))):
            found += spent(focus, value(inner))
        return found

    return items


def anything(_: Any) -> bool:
    return True


def treated(items: Evaluate, belongs: Callable[[Items], bool]) -> Evaluate:
    def found(focus: Focus) -> Items:
        given = items(focus)
        if not belongs(given):
            raise Failure("treat as another type")
        return given

    return found


def casting(items: Evaluate, kind: str, *, optional: bool) -> Evaluate:
    def found(focus: Focus) -> Items:
        given = items(focus)
        if len(given) > 1 or not (given or optional):
            raise Failure(f"{len(given)} items are cast to xs:{kind}")
        return [cast(kind, focus.work.atom(item)) for item in given]

    return found


def castable(made: Evaluate) -> Test:
    def holds(focus: Focus) -> bool:
        try:
            made(focus)
        except OverBudget:
            raise
        except ERRORS:
            return False
        return True

    return holds


def context(focus: Focus) -> Items:
    return [focus.item]


def as_items(value: Single) -> Evaluate:
    def items(focus: Focus) -> Items:
        found = value(focus)
        if isinstance(found, list):
            return found
        return [] if found is None else [found]

    return items


def _of_first(
    read: Callable[[Work, Any], Any], otherwise: str | None = None
) -> Callable[[Evaluate], Single]:
    """Return the reader of an argument by its first item, and what it is without one."""

    def argument(items: Evaluate) -> Single:
        def value(focus: Focus) -> Any:
            found = items(focus)
            return read(focus.work, found[0]) if found else otherwise

        return value

    return argument


as_text = _of_first(Work.text, "")
as_atom = _of_first(Work.atom)


def _as_sequence(items: Evaluate) -> Single:
    return lambda focus: spent(focus, items(focus))


def _as_values(items: Evaluate) -> Single:
    def values(focus: Focus) -> Items:
        atom = focus.work.atom
        return [atom(item) for item in spent(focus, items(focus))]

    return values


ARGUMENTS: Mapping[str, Callable[[Evaluate], Single]] = MappingProxyType(
    {
        "t": as_text,
        "a": as_atom,
        "n": _of_first(lambda work, item: number(work.atom(item))),
        "i": _of_first(lambda _, item: item),
        "s": _as_sequence,
        "v": _as_values,
    }
)


ItemsFilter: TypeAlias = "Callable[[list[Any], Focus], list[Any]]"
"""A condition in brackets: from items in the order of their positions to those that hold."""


def placed(items: Evaluate) -> Test:
    """Return the test of a condition in brackets: a single number is a position."""

    def holds(focus: Focus) -> bool:
        found = items(focus)
        if len(found) == 1 and is_number(found[0]):
            return bool(found[0] == focus.position)
        return truth(found)

    return holds


def tested(test: Test) -> ItemsFilter:
    """Return the condition in brackets that keeps the items for which a test holds."""

    def kept(items: list[Any], focus: Focus) -> list[Any]:
        return [inner.item for inner in _each(focus, spent(focus, items)) if test(inner)]

    return kept


def filtered(items: Evaluate, predicate: ItemsFilter) -> Evaluate:
    return lambda focus: predicate(items(focus), focus)


def stepwise(left: Evaluate, walk: Walk, *, ordered: bool) -> Evaluate:
    """Return the evaluator of a step from each node that an expression selects."""

    def items(focus: Focus) -> Items:
        given = left(focus)
        if len(given) == 1:
            return walk(next(nodes_among(focus, given)), focus)
        found = [one for node in nodes_among(focus, given) for one in walk(node, focus)]
        return found if ordered else focus.work.tree.in_order(spent(focus, found))

    return items


def mapped_nodes(left: Evaluate, right: Evaluate) -> Evaluate:
    """Return the evaluator of an expression behind a slash that is no step."""
    values = mapped(left, right)

    def items(focus: Focus) -> Items:
        found = values(focus)
        nodes = sum(isinstance(item, Node) for item in found)
        if nodes and nodes < len(found):
            raise Failure("nodes and values behind a slash")
        return focus.work.tree.in_order(found) if nodes else found

    return items


def every_below(node: Node, focus: Focus) -> list[Node]:
    return spent(focus, AXES["descendant-or-self"](node, focus.work.tree))
