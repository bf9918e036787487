"""XPath as closures: the evaluator of residual conditions.

elementpath parses an expression; its tree becomes one closure for each operator, function and
step (`xpath_operators`, `xpath_functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from xscl.language.xpath import Token, parsed
from xscl.shredding.conditions.xpath_functions import TABLE
from xscl.shredding.conditions.xpath_nodes import AXES, Node
from xscl.shredding.conditions.xpath_operators import (
    ARGUMENTS,
    Clause,
    Evaluate,
    Focus,
    ItemsFilter,
    Single,
    Test,
    Walk,
    anything,
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
    negation,
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
_REVERSED = frozenset(("ancestor", "ancestor-or-self", "preceding", "preceding-sibling"))
_KINDS = MappingProxyType(
    {"text": "text", "comment": "comment", "document-node": "document", "element": "element"}
)
_TESTS = frozenset((*_KINDS, "node", "attribute", "processing-instruction"))
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


def _items(token: Token) -> Evaluate:
    """Return the evaluator of an expression."""
    symbol, parts = str(token.symbol), list(token)
    if _is_name(token) or _is_step(token):
        return _path_of_steps(token)
    if symbol in _ORDERS:
        return node_order(symbol, *map(_items, parts))
    match symbol, parts:
        case "and", _:
            return single(conjunction([_truth(one) for one in _flat(token, "and")]))
        case "or", _:
            return single(disjunction([_truth(one) for one in _flat(token, "or")]))
        case "not", [inner]:
            return single(negation(_truth(inner)))
        case "boolean", [inner]:
            return single(_truth(inner))
        case (("=" | "!=" | "<" | "<=" | ">" | ">="), [left, right]):
            ones, others = _items(left), _items(right)
            return single(lambda focus: some(focus.work, symbol, ones(focus), others(focus)))
        case (("some" | "every"), [*clauses, body]):
            return single(quantified(symbol == "every", list(_clauses(clauses)), _truth(body)))
        case "instance", [inner, kind]:
            items, belongs = _items(inner), _sequence_type(kind)
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
            return treated(_items(inner), _sequence_type(kind))
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
    pending = [token]
    while pending:
        one = pending.pop()
        if one.symbol in symbols and len(one) == 2:
            pending += (one[1], one[0])
        else:
            yield one


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
        case symbol, _ if symbol in _TRUTHS or _is_step(token):
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
        flat = _is_flat(token[0])
    else:
        left, right, flat = (lambda focus: [focus.work.tree.root]), token[0], True
    if deep and not _is_step(right):
        left, deep, flat = stepwise(left, every_below, ordered=flat), False, False
    if not _is_step(right):
        return mapped_nodes(left, _items(right))
    walk = _deep(right) if deep else _walk(right)
    ordered = flat and _axis_of(right)[0] in _DOWNWARD
    return stepwise(left, walk, ordered=ordered)


def _deep(token: Token) -> Walk:
    """Return the step `//`: the step at each node from a node on."""
    axis, name_test, predicates = _axis_of(token)
    walk = _walk(token)
    if axis == "child" and not any(map(_may_place, predicates)):
        return _walked("descendant", name_test, predicates)
    if axis == "child":
        below = _candidates("descendant", *_node_test(name_test, axis))
        conditions = [_predicate(one) for one in predicates]

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

    def items(node: Node, focus: Focus) -> list[Node]:
        found = [one for each in every_below(node, focus) for one in walk(each, focus)]
        return focus.work.tree.in_order(spent(focus, found))

    return items


def _may_place(token: Token) -> bool:
    """Return True if a condition may be a number or read the position of its node."""
    if str(token.symbol) not in _TRUTHS and not _is_step(token):
        return True
    return any(one.symbol in ("position", "last") for one in token.iter())


def _walk(token: Token) -> Walk:
    return _walked(*_axis_of(token))


def _walked(axis: str, test_token: Token, predicates: Sequence[Token]) -> Walk:
    test, name = _node_test(test_token, axis)
    found_on_axis = _candidates(axis, test, name)
    conditions = [_predicate(one) for one in predicates]
    backwards = axis in _REVERSED
    if not conditions and not backwards:
        return found_on_axis

    def walk(node: Node, focus: Focus) -> list[Node]:
        found = found_on_axis(node, focus)
        for condition in conditions:
            found = condition(found, focus)
        return found[::-1] if backwards else found

    return walk


# -- Steps, node tests and types -------------------------------------------------------------


def _is_name(token: Token) -> bool:
    return str(getattr(token, "label", "")) == "name" or token.symbol == "(name)"


def _sequence_type(token: Token) -> Callable[[Items], bool]:
    """Return the test that a sequence has a type."""
    symbol, occurrence = str(token.symbol), str(token.occurrence or "")
    if symbol == "empty-sequence":
        return lambda items: not items
    least = 0 if occurrence in ("?", "*") else 1
    most = 1 if occurrence in ("", "?") else None
    if symbol == ":":
        belongs = _of_type(str(token[1].value))
    elif symbol == "item":
        belongs = anything
    else:
        test = _node_test(token, "attribute" if symbol == "attribute" else "child")[0]
        belongs = lambda item: isinstance(item, Node) and test(item)  # noqa: E731

    def holds(items: Items) -> bool:
        if len(items) < least or (most is not None and len(items) > most):
            return False
        return all(map(belongs, items))

    return holds


def _of_type(name: str) -> Callable[[Any], bool]:
    if name == "anyAtomicType":
        return lambda item: not isinstance(item, Node)
    kinds = _BROADER.get(f"xs:{name}", (f"xs:{name}",))
    return lambda item: kind_of(item) in kinds


def _is_step(token: Token) -> bool:
    """Return True for a step of a path, perhaps with conditions."""
    symbol = str(token.symbol)
    if symbol == "[" and len(token) == 2:
        return _is_step(token[0])
    if _is_name(token):
        return True
    if symbol in ("*", ":", "Q{"):
        return (symbol == "*" and not len(token)) or _names(token)
    if symbol in _TESTS and str(token.label) == "kind test":
        return True
    return symbol in ("@", "..") or (symbol in AXES and len(token) == 1)


def _names(token: Token) -> bool:
    """Return True for a name with a prefix or a namespace, which is no call."""
    return (
        len(token) == 2
        and token.symbol != "*"
        and (token[1].symbol in ("(name)", "*") or _is_name(token[1]))
    )


def _is_flat(token: Token) -> bool:
    """Return True if no node that an expression selects lies below another one."""
    symbol = str(token.symbol)
    if symbol in (".", "$"):
        return True
    if symbol == "/":
        return all(map(_is_flat, token))
    if symbol == "(" and len(token) == 1:
        return _is_flat(token[0])
    return _is_step(token) and _axis_of(token)[0] in ("child", "attribute", "self", "parent")


def _axis_of(token: Token) -> tuple[str, Token, list[Token]]:
    """Return the axis, the node test and the conditions of a step."""
    conditions: list[Token] = []
    while token.symbol == "[":
        conditions.insert(0, token[1])
        token = token[0]
    symbol = str(token.symbol)
    if symbol == "@":
        return "attribute", token[0], conditions
    if symbol == "..":
        return "parent", token, conditions
    if symbol in AXES and len(token) == 1 and str(token.label) == "axis":
        return symbol, token[0], conditions
    return "attribute" if symbol == "attribute" else "child", token, conditions


def _candidates(axis: str, test: Callable[[Node], bool], name: str | None) -> Walk:
    """Return the nodes on an axis that pass a test, in the order of their positions.

    Child elements of a `name`, and those below, are found without making nodes of others.
    """
    if axis in ("child", "descendant") and name is not None:
        deep = axis == "descendant"

        def elements(node: Node, focus: Focus) -> list[Node]:
            if node.kind == "element" and not deep:
                focus.work.spend(len(node.value))
            return spent(focus, focus.work.tree.elements(node, name, deep=deep))

        return elements
    nodes = AXES[axis]

    def passing(node: Node, focus: Focus) -> list[Node]:
        return [one for one in spent(focus, nodes(node, focus.work.tree)) if test(one)]

    return passing


def _node_test(token: Token, axis: str) -> tuple[Callable[[Node], bool], str | None]:
    """Return the test of a node, and the name in Clark notation if it asks for one alone."""
    symbol = str(token.symbol)
    principal = "attribute" if axis == "attribute" else "element"
    if symbol in ("node", ".."):
        return anything, None
    if symbol in ("text", "comment", "document-node"):
        kind = _KINDS[symbol]
        return (lambda node: node.kind == kind), None
    if symbol == "processing-instruction" and str(token.label) == "kind test":
        target = str(token[0].value).strip() if len(token) else None
        return (lambda node: node.kind == "instruction" and target in (None, node.name)), None
    if symbol in ("element", "attribute") and str(token.label) == "kind test":
        named = _name_test(token[0]) if len(token) else anything
        return (lambda node: node.kind == symbol and named(node)), None
    if symbol == "*" and not len(token):
        return (lambda node: node.kind == principal), "*" if principal == "element" else None
    name = _name_of(token)
    if name is not None:
        return (lambda node: node.kind == principal and node.name == name), name
    named = _name_test(token)
    return (lambda node: node.kind == principal and named(node)), None


def _name_of(token: Token) -> str | None:
    """Return the name that a name test asks for in Clark notation; None of a wildcard."""
    symbol = str(token.symbol)
    if symbol == "Q{" or symbol == ":":
        if token[1].symbol == "*" or token[0].symbol == "*":
            return None
        uri = _uri_of(token)
        local = str(token[1].value)
        return f"{{{uri}}}{local}" if uri else local
    return None if symbol == "*" else str(token.value if token.symbol == "(name)" else symbol)


def _uri_of(token: Token) -> str:
    if token.symbol == "Q{":
        return str(token[0].value).strip()
    return str(token.parser.namespaces[str(token[0].value)])


def _name_test(token: Token) -> Callable[[Node], bool]:
    name = _name_of(token)
    if name is not None:
        return lambda node: node.name == name
    if token.symbol == "*":
        return anything
    if token[0].symbol == "*":
        local = str(token[1].value)
        return lambda node: node.name.rpartition("}")[2] == local
    uri = _uri_of(token)
    return lambda node: node.name.rpartition("}")[0][1:] == uri
