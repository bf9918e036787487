"""XPath as closures: the evaluator of residual conditions.

elementpath parses an expression; its tree becomes one closure for each operator, function and
step (`xpath_operators`, `xpath_functions`, `xpath_steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from xscl.language.xpath import Token, parsed
from xscl.shredding.conditions.xpath_functions import TABLE
from xscl.shredding.conditions.xpath_nodes import Node
from xscl.shredding.conditions.xpath_operators import (
    ARGUMENTS,
    Clause,
    Evaluate,
    Focus,
    ItemsFilter,
    Single,
    Test,
    Walk,
    as_atom,
    as_items,
    as_text,
    castable,
    casting,
    concatenation,
    conjunction,
    context,
    difference,
    disjunction,
    every_below,
    filtered,
    for_each,
    mapped,
    mapped_nodes,
    node_order,
    nodes_among,
    placed,
    quantified,
    single,
    spent,
    stepwise,
    tested,
    treated,
    variable,
)
from xscl.shredding.conditions.xpath_steps import (
    REVERSED,
    axis_of,
    candidates,
    is_flat,
    is_name,
    is_step,
    node_test,
    sequence_type,
)
from xscl.shredding.conditions.xpath_values import (
    Failure,
    Items,
    arithmetic,
    cast,
    decimal,
    kind_of,
    number,
    some,
    truth,
)

_TRUTHS = frozenset(
    (
        *("and", "or", "=", "!=", "<", "<=", ">", ">=", "some", "every"),
        *("instance", "castable", "not", "boolean", "true", "false", "exists", "empty"),
        *("contains", "starts-with", "ends-with", "matches", "contains-token", "lang"),
        *("has-children", "deep-equal"),
    )
)
_ORDERS = ("is", "<<", ">>")
_DOWNWARD = ("child", "attribute", "self", "descendant", "descendant-or-self")
"""The axes that stay below a node: from nodes side by side they lead to nodes in order."""


@lru_cache(maxsize=20_000)
def evaluator(text: str) -> Evaluate:
    """Return the evaluator of an expression in normal form."""
    return _items(parsed(text))


@lru_cache(maxsize=20_000)
def tester(text: str) -> Test:
    """Return the test of the truth value of an expression in normal form."""
    return _truth(parsed(text))


def _items(token: Token) -> Evaluate:
    """Return the evaluator of an expression."""
    symbol, parts = str(token.symbol), list(token)
    if is_name(token) or is_step(token):
        return _path_of_steps(token)
    if symbol in _ORDERS:
        return node_order(symbol, *map(_items, parts))
    match symbol, parts:
        case "and", _:
            return single(conjunction([_truth(one) for one in _flat(token, "and")]))
        case "or", _:
            return single(disjunction([_truth(one) for one in _flat(token, "or")]))
        case "not", [inner]:
            negated = _truth(inner)
            return single(lambda focus: not negated(focus))
        case "boolean", [inner]:
            return single(_truth(inner))
        case (("=" | "!=" | "<" | "<=" | ">" | ">="), [left, right]):
            ones, others = _items(left), _items(right)
            return single(lambda focus: some(focus.work, symbol, ones(focus), others(focus)))
        case (("some" | "every"), [*clauses, body]):
            return single(quantified(symbol == "every", list(_clauses(clauses)), _truth(body)))
        case "instance", [inner, kind]:
            items, belongs = _items(inner), sequence_type(kind)
            return single(lambda focus: belongs(items(focus)))
        case "castable", [inner, kind]:
            made = casting(_items(inner), str(kind[1].value), optional=bool(kind.occurrence))
            return single(castable(made))
        case (("(string)" | "(integer)" | "(decimal)" | "(float)"), _):
            value = token.value
            constant = [decimal(value) if isinstance(value, Decimal) else value]
            return lambda _: constant
        case "(", []:
            return lambda _: []
        case "(", [inner]:
            return _items(inner)
        case ",", _:
            return concatenation([_items(one) for one in _flat(token, ",")])
        case "[", [left, inner]:
            return filtered(_items(left), _predicate(inner))
        case "/", []:
            return lambda focus: [focus.work.tree.root]
        case (("/" | "//"), _):
            return _path(token)
        case "!", [left, right]:
            return mapped(_items(left), _items(right))
        case "$", [name]:
            return variable(str(name.value))
        case "||", _:
            texts = [_text(one) for one in _flat(token, "||")]
            return single(_call_of(TABLE_CONCAT, texts))
        case (("+" | "-" | "*" | "div" | "idiv" | "mod"), _):
            return _arithmetic(token)
        case (("|" | "union"), _):
            every = [_items(one) for one in _flat(token, "|", "union")]
            return lambda focus: focus.work.tree.in_order(
                nodes_among(focus, (node for one in every for node in one(focus)))
            )
        case (("intersect" | "except"), [left, right]):
            return difference(symbol == "except", _items(left), _items(right))
        case "to", [first, last]:
            numbers = range(int(str(first.value)), int(str(last.value)) + 1)
            return lambda focus: spent(focus, [*numbers])
        case "if", [condition, then, otherwise]:
            test, one, other = _truth(condition), _items(then), _items(otherwise)
            return lambda focus: one(focus) if test(focus) else other(focus)
        case "for", [*clauses, body]:
            return for_each(list(_clauses(clauses)), _items(body))
        case "treat", [inner, kind]:
            return treated(_items(inner), sequence_type(kind))
        case "cast", [inner, kind]:
            return casting(_items(inner), str(kind[1].value), optional=bool(kind.occurrence))
        case ":", [prefix, function]:
            if str(prefix.value) == "xs":
                return _constructor(function)
            return _function(str(function.symbol), list(function))
        case "Q{", [_, function]:
            if "XMLSchema" in str(token[0].value):
                return _constructor(function)
            return _function(str(function.symbol), list(function))
        case _:
            return _function(symbol, parts)


def _truth(token: Token) -> Test:
    """Return the test of the truth value of an expression."""
    items = _items(token)
    return lambda focus: truth(items(focus))


def _flat(token: Token, *symbols: str) -> Iterator[Token]:
    """Yield the operands of a chain of one operator, from left to right."""
    pending, found = [token], []
    while pending:
        one = pending.pop()
        if one.symbol in symbols and len(one) == 2:
            pending += (one[1], one[0])
        else:
            found.append(one)
    return iter(found)


def _arithmetic(token: Token) -> Evaluate:
    symbol, parts = str(token.symbol), list(token)
    if len(parts) == 1:
        value = _atom(parts[0])

        def signed(focus: Focus) -> Items:
            found = value(focus)
            if found is None:
                return []
            found = number(found)
            return [-found if symbol == "-" else found]

        return signed
    one, other = map(_atom, parts)

    def items(focus: Focus) -> Items:
        left, right = one(focus), other(focus)
        return [] if left is None or right is None else [arithmetic(symbol, left, right)]

    return items


def _clauses(parts: Sequence[Token]) -> Iterator[Clause]:
    for name, items in zip(parts[::2], parts[1::2], strict=True):
        yield str(name[0].value), _items(items)


def _constructor(function: Token) -> Evaluate:
    kind, value = str(function.symbol), _atom(function[0])

    def items(focus: Focus) -> Items:
        found = value(focus)
        return [] if found is None else [cast(kind, found)]

    return items


def _function(name: str, arguments: Sequence[Token]) -> Evaluate:
    """Return the evaluator of a call."""
    match name:
        case "position":
            return lambda focus: [focus.position]
        case "last":
            return lambda focus: [focus.size]
        case ".":
            return context
        case _:
            return as_items(_value_of(name, arguments))


TABLE_CONCAT = TABLE["string-join"].apply


def _call_of(apply: Callable[..., Any], texts: Sequence[Single]) -> Single:
    return lambda focus: apply(focus.work, [text(focus) for text in texts])


def _value_of(name: str, arguments: Sequence[Token]) -> Single:
    """Return the value of a function of the table."""
    if name == "concat":
        return _call_of(TABLE_CONCAT, [_text(one) for one in arguments])
    letters, least, apply = TABLE[name]
    given: list[Single] = []
    for place, letter in enumerate(letters):
        kind = letter[-1]
        if place < len(arguments):
            given.append(ARGUMENTS[kind](_items(arguments[place])))
        elif letter[0] == ".":
            given.append(ARGUMENTS[kind](context))
    assert least <= len(given), "the parser counts arguments"
    match given:
        case [one]:
            return lambda focus: apply(focus.work, one(focus))
        case [one, other]:
            return lambda focus: apply(focus.work, one(focus), other(focus))
        case _:
            return lambda focus: apply(focus.work, *[value(focus) for value in given])


def _text(token: Token) -> Single:
    return as_text(_items(token))


def _atom(token: Token) -> Single:
    return as_atom(_items(token))


def _predicate(token: Token) -> ItemsFilter:
    match str(token.symbol), list(token):
        case "(integer)", _:
            place = int(str(token.value))
            return lambda items, _: items[place - 1 : place] if place > 0 else []
        case "last", _:
            return lambda items, _: items[-1:]
        case symbol, _ if symbol in _TRUTHS:
            return tested(_truth(token))
        case _ if is_step(token):
            return tested(_truth(token))
        case _:
            return tested(placed(_items(token)))


def _path_of_steps(token: Token) -> Evaluate:
    """Return the evaluator of a step at the context item."""
    walk = _walk(token)

    def items(focus: Focus) -> Items:
        item = focus.item
        if not isinstance(item, Node):
            raise Failure(f"a step from {kind_of(item)}")
        return walk(item, focus)

    return items


def _path(token: Token) -> Evaluate:
    """Return the evaluator of `a/b`, `a//b`, `/a` and `//a`."""
    deep = token.symbol == "//"
    if len(token) == 2:
        left, right = _items(token[0]), token[1]
        flat = is_flat(token[0])
    else:
        left, right, flat = (lambda focus: [focus.work.tree.root]), token[0], True
    if deep and not is_step(right):
        left, deep, flat = stepwise(left, every_below, ordered=flat), False, False
    if not is_step(right):
        return mapped_nodes(left, _items(right))
    walk = _deep(right) if deep else _walk(right)
    ordered = flat and axis_of(right)[0] in _DOWNWARD
    return stepwise(left, walk, ordered=ordered)


def _deep(token: Token) -> Walk:
    """Return the step `//`: the step at each node from a node on."""
    axis, name_test, predicates = axis_of(token)
    walk = _walk(token)
    if axis == "child" and not any(map(_may_place, predicates)):
        return _walked("descendant", name_test, predicates)

    def items(node: Node, focus: Focus) -> list[Node]:
        found = [one for each in every_below(node, focus) for one in walk(each, focus)]
        return focus.work.tree.in_order(spent(focus, found))

    return items


def _may_place(token: Token) -> bool:
    """Return True if a condition may be a number or read the position of its node."""
    if str(token.symbol) not in _TRUTHS and not is_step(token):
        return True
    return any(one.symbol in ("position", "last") for one in token.iter())


def _walk(token: Token) -> Walk:
    return _walked(*axis_of(token))


def _walked(axis: str, test_token: Token, predicates: Sequence[Token]) -> Walk:
    test, name = node_test(test_token, axis)
    found_on_axis = candidates(axis, test, name)
    conditions = [_predicate(one) for one in predicates]
    backwards = axis in REVERSED
    if not conditions and not backwards:
        return found_on_axis

    def walk(node: Node, focus: Focus) -> list[Node]:
        found = found_on_axis(node, focus)
        for condition in conditions:
            found = condition(found, focus)
        return found[::-1] if backwards else found

    return walk
