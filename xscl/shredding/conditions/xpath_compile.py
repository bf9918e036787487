"""XPath as closures: the evaluator of residual conditions.

elementpath parses an expression; its tree becomes one closure for each operator, function and
step, over the nodes of `xscl.shredding.conditions.xpath_nodes`.  A closure gets a focus and returns
the items of its sequence.  Every visit of a node and every item is a step of the work.

What fails raises one of `ERRORS`.  `and`, `or`, `some` and `every` fail only if what does not fail
leaves the result open, so the order of operands does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias

from xscl.language.xpath import Token, parsed
from xscl.shredding.conditions.xpath_functions import TABLE
from xscl.shredding.conditions.xpath_nodes import AXES, Node, named_on, place_of
from xscl.shredding.conditions.xpath_values import (
    ERRORS,
    Exceeded,
    Failure,
    Items,
    Work,
    arithmetic,
    cast,
    is_number,
    kind_of,
    number,
    some,
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
Walk: TypeAlias = Callable[[Node, Focus], "list[Node]"]
"""A step: from a node to nodes, in document order."""

_TRUTHS = frozenset(
    (
        *("and", "or", "=", "!=", "<", "<=", ">", ">=", "some", "every"),
        *("instance", "castable", "not", "boolean", "true", "false", "exists", "empty"),
        *("contains", "starts-with", "ends-with", "matches", "contains-token", "lang"),
        *("has-children", "deep-equal"),
    )
)
_ORDERS = ("is", "<<", ">>")
_KINDS = MappingProxyType(
    {"text": "text", "comment": "comment", "document-node": "document", "element": "element"}
)
_TESTS = frozenset((*_KINDS, "node", "attribute", "processing-instruction"))


@lru_cache(maxsize=20_000)
def evaluator(text: str) -> Evaluate:
    """Return the evaluator of an expression in normal form."""
    return _items(parsed(text))


@lru_cache(maxsize=20_000)
def tester(text: str) -> Test:
    """Return the test of the truth value of an expression in normal form."""
    return _truth(parsed(text))


# -- Expressions ---------------------------------------------------------------------------


def _items(token: Token) -> Evaluate:
    """Return the evaluator of an expression."""
    symbol, parts = str(token.symbol), list(token)
    if _is_name(token) or _is_step(token):
        return _path_of_steps(token)
    if symbol in _ORDERS:
        return _order(symbol, *map(_items, parts))
    if symbol in _TRUTHS:
        test = _truth(token)
        return lambda focus: [test(focus)]
    match symbol, parts:
        case (("(string)" | "(integer)" | "(decimal)" | "(float)"), _):
            constant = [token.value]
            return lambda _: constant
        case "(", []:
            return lambda _: []
        case "(", [inner]:
            return _items(inner)
        case ",", _:
            return _sequence([_items(one) for one in _flat(token, ",")])
        case "[", [left, inner]:
            return _filtered(_items(left), _predicate(inner))
        case "/", []:
            return lambda focus: [focus.work.tree.root]
        case (("/" | "//"), _):
            return _path(token)
        case "!", [left, right]:
            return _mapped(_items(left), _items(right))
        case "$", [name]:
            return _variable(str(name.value))
        case "||", _:
            texts = [_text(one) for one in _flat(token, "||")]
            return _single(_call_of(TABLE_CONCAT, texts))
        case (("+" | "-" | "*" | "div" | "idiv" | "mod"), _):
            return _arithmetic(token)
        case (("|" | "union"), _):
            every = [_items(one) for one in _flat(token, "|", "union")]
            return lambda focus: focus.work.tree.in_order(
                _nodes(focus, (node for one in every for node in one(focus)))
            )
        case (("intersect" | "except"), [left, right]):
            return _difference(symbol == "except", _items(left), _items(right))
        case "to", [first, last]:
            numbers = range(int(str(first.value)), int(str(last.value)) + 1)
            return lambda focus: _spent(focus, [*numbers])
        case "if", [condition, then, otherwise]:
            test, one, other = _truth(condition), _items(then), _items(otherwise)
            return lambda focus: one(focus) if test(focus) else other(focus)
        case "for", [*clauses, body]:
            return _for(list(_clauses(clauses)), _items(body))
        case "treat", [inner, kind]:
            return _treated(_items(inner), _type(kind))
        case "cast", [inner, kind]:
            return _cast(_items(inner), str(kind[1].value), optional=bool(kind.occurrence))
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
    symbol, parts = str(token.symbol), list(token)
    if _is_name(token) or _is_step(token):
        return _exists(_items(token))
    match symbol, parts:
        case "(", [inner]:
            return _truth(inner)
        case "and", _:
            return _all([_truth(one) for one in _flat(token, "and")])
        case "or", _:
            return _any([_truth(one) for one in _flat(token, "or")])
        case "not", [inner]:
            negated = _truth(inner)
            return lambda focus: not negated(focus)
        case "boolean", [inner]:
            return _truth(inner)
        case (("=" | "!=" | "<" | "<=" | ">" | ">="), [left, right]):
            ones, others = _items(left), _items(right)
            return lambda focus: some(focus.work, symbol, ones(focus), others(focus))
        case (("some" | "every"), [*clauses, body]):
            return _quantified(symbol == "every", list(_clauses(clauses)), _truth(body))
        case "instance", [inner, kind]:
            items, belongs = _items(inner), _type(kind)
            return lambda focus: belongs(items(focus))
        case "castable", [inner, kind]:
            made = _cast(_items(inner), str(kind[1].value), optional=bool(kind.occurrence))
            return _castable(made)
        case "if", [condition, then, otherwise]:
            test, one, other = map(_truth, (condition, then, otherwise))
            return lambda focus: one(focus) if test(focus) else other(focus)
        case name, _ if name in _TRUTHS:
            made = _value_of(name, parts)
            return lambda focus: bool(made(focus))
        case _:
            items = _items(token)
            return lambda focus: truth(items(focus))


def _is_name(token: Token) -> bool:
    return str(getattr(token, "label", "")) == "name" or token.symbol == "(name)"


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


def _spent(focus: Focus, items: Items) -> Items:
    focus.work.spend(len(items))
    return items


def _nodes(focus: Focus, items: Iterable[Any]) -> Iterator[Node]:
    for item in items:
        focus.work.spend(1)
        if not isinstance(item, Node):
            raise Failure(f"{kind_of(item)} is no node")
        yield item


def _exists(items: Evaluate) -> Test:
    return lambda focus: bool(items(focus))


def _single(value: Single) -> Evaluate:
    return lambda focus: [value(focus)]


def _sequence(every: Sequence[Evaluate]) -> Evaluate:
    return lambda focus: _spent(focus, [item for one in every for item in one(focus)])


def _variable(name: str) -> Evaluate:
    return lambda focus: focus.variables[name]


def _all(tests: Sequence[Test]) -> Test:
    def hold(focus: Focus) -> bool:
        failed: Exception | None = None
        for test in tests:
            try:
                if not test(focus):
                    return False
            except Exceeded:
                raise
            except ERRORS as error:
                failed = error
        if failed is not None:
            raise failed
        return True

    return hold


def _any(tests: Sequence[Test]) -> Test:
    none = _all([_negated(test) for test in tests])
    return lambda focus: not none(focus)


def _negated(test: Test) -> Test:
    return lambda focus: not test(focus)


def _order(symbol: str, ones: Evaluate, others: Evaluate) -> Evaluate:
    def items(focus: Focus) -> Items:
        pair = [[*_nodes(focus, items(focus)[:2])] for items in (ones, others)]
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


def _difference(excluded: bool, ones: Evaluate, others: Evaluate) -> Evaluate:
    def items(focus: Focus) -> Items:
        left = [*_nodes(focus, ones(focus))]
        right = set(_nodes(focus, others(focus)))
        return focus.work.tree.in_order(node for node in left if (node in right) is not excluded)

    return items


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


# -- Variables -----------------------------------------------------------------------------

Clause: TypeAlias = "tuple[str, Evaluate]"


def _clauses(parts: Sequence[Token]) -> Iterator[Clause]:
    for variable, items in zip(parts[::2], parts[1::2], strict=True):
        yield str(variable[0].value), _items(items)


def _bindings(focus: Focus, clauses: Sequence[Clause]) -> Iterator[None]:
    """Bind variables to every choice of items, one after the other."""
    if not clauses:
        yield
        return
    (name, items), *rest = clauses
    missing = object()
    for item in items(focus):
        focus.work.spend(1)
        before = focus.variables.get(name, missing)
        focus.variables[name] = [item]
        try:
            yield from _bindings(focus, rest)
        finally:
            if before is missing:
                del focus.variables[name]
            else:
                focus.variables[name] = before  # type: ignore[assignment]  # it is not missing


def _for(clauses: Sequence[Clause], body: Evaluate) -> Evaluate:
    def items(focus: Focus) -> Items:
        found: Items = []
        for _ in _bindings(focus, clauses):
            found += _spent(focus, body(focus))
        return found

    return items


def _quantified(every: bool, clauses: Sequence[Clause], body: Test) -> Test:
    def holds(focus: Focus) -> bool:
        failed: Exception | None = None
        for _ in _bindings(focus, clauses):
            try:
                if body(focus) is not every:
                    return not every
            except Exceeded:
                raise
            except ERRORS as error:
                failed = error
        if failed is not None:
            raise failed
        return every

    return holds


def _mapped(ones: Evaluate, value: Evaluate) -> Evaluate:
    def items(focus: Focus) -> Items:
        given = _spent(focus, ones(focus))
        inner = Focus(None, focus.work, focus.variables)
        inner.size = len(given)
        found: Items = []
        for position, item in enumerate(given, 1):
            inner.item, inner.position = item, position
            found += _spent(focus, value(inner))
        return found

    return items


# -- Types ---------------------------------------------------------------------------------


def _type(token: Token) -> Callable[[Items], bool]:
    """Return the test that a sequence has a type."""
    symbol, occurrence = str(token.symbol), str(token.occurrence or "")
    if symbol == "empty-sequence":
        return lambda items: not items
    least = 0 if occurrence in ("?", "*") else 1
    most = 1 if occurrence in ("", "?") else None
    if symbol == ":":
        belongs = _of_type(str(token[1].value))
    elif symbol == "item":
        belongs = _anything
    else:
        test = _node_test(token, "attribute" if symbol == "attribute" else "child")[0]
        belongs = lambda item: isinstance(item, Node) and test(item)  # noqa: E731

    def holds(items: Items) -> bool:
        if len(items) < least or (most is not None and len(items) > most):
            return False
        return all(map(belongs, items))

    return holds


def _anything(_: Any) -> bool:
    return True


_BROADER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "xs:decimal": ("xs:decimal", "xs:integer"),
        "xs:float": (),
        "xs:duration": ("xs:duration", "xs:dayTimeDuration", "xs:yearMonthDuration"),
    }
)


def _of_type(name: str) -> Callable[[Any], bool]:
    if name == "anyAtomicType":
        return lambda item: not isinstance(item, Node)
    kinds = _BROADER.get(f"xs:{name}", (f"xs:{name}",))
    return lambda item: kind_of(item) in kinds


def _treated(items: Evaluate, belongs: Callable[[Items], bool]) -> Evaluate:
    def found(focus: Focus) -> Items:
        given = items(focus)
        if not belongs(given):
            raise Failure("treat as another type")
        return given

    return found


def _cast(items: Evaluate, kind: str, *, optional: bool) -> Evaluate:
    def found(focus: Focus) -> Items:
        given = items(focus)
        if len(given) > 1 or not (given or optional):
            raise Failure(f"{len(given)} items are cast to xs:{kind}")
        return [cast(kind, focus.work.atom(item)) for item in given]

    return found


def _castable(made: Evaluate) -> Test:
    def holds(focus: Focus) -> bool:
        try:
            made(focus)
        except Exceeded:
            raise
        except ERRORS:
            return False
        return True

    return holds


def _constructor(function: Token) -> Evaluate:
    kind, value = str(function.symbol), _atom(function[0])

    def items(focus: Focus) -> Items:
        found = value(focus)
        return [] if found is None else [cast(kind, found)]

    return items


# -- Functions -----------------------------------------------------------------------------


def _function(name: str, arguments: Sequence[Token]) -> Evaluate:
    """Return the evaluator of a call."""
    match name:
        case "position":
            return lambda focus: [focus.position]
        case "last":
            return lambda focus: [focus.size]
        case ".":
            return _context
        case _:
            return _as_items(_value_of(name, arguments))


def _context(focus: Focus) -> Items:
    return [focus.item]


def _as_items(value: Single) -> Evaluate:
    def items(focus: Focus) -> Items:
        found = value(focus)
        if isinstance(found, list):
            return found
        return [] if found is None else [found]

    return items


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
            given.append(_ARGUMENTS[kind](_items(arguments[place])))
        elif letter[0] == ".":
            given.append(_ARGUMENTS[kind](_context))
    assert least <= len(given), "the parser counts arguments"
    match given:
        case [one]:
            return lambda focus: apply(focus.work, one(focus))
        case [one, other]:
            return lambda focus: apply(focus.work, one(focus), other(focus))
        case _:
            return lambda focus: apply(focus.work, *[value(focus) for value in given])


def _text(token: Token) -> Single:
    return _as_text(_items(token))


def _atom(token: Token) -> Single:
    return _as_atom(_items(token))


def _as_text(items: Evaluate) -> Single:
    def text(focus: Focus) -> str:
        found = items(focus)
        return focus.work.text(found[0]) if found else ""

    return text


def _as_atom(items: Evaluate) -> Single:
    def atom(focus: Focus) -> Any:
        found = items(focus)
        return focus.work.atom(found[0]) if found else None

    return atom


def _as_number(items: Evaluate) -> Single:
    def value(focus: Focus) -> Any:
        found = items(focus)
        return number(focus.work.atom(found[0])) if found else None

    return value


def _as_item(items: Evaluate) -> Single:
    def item(focus: Focus) -> Any:
        found = items(focus)
        return found[0] if found else None

    return item


def _as_sequence(items: Evaluate) -> Single:
    return lambda focus: _spent(focus, items(focus))


def _as_values(items: Evaluate) -> Single:
    def values(focus: Focus) -> Items:
        atom = focus.work.atom
        return [atom(item) for item in _spent(focus, items(focus))]

    return values


_ARGUMENTS: Mapping[str, Callable[[Evaluate], Single]] = MappingProxyType(
    {
        "t": _as_text,
        "a": _as_atom,
        "n": _as_number,
        "i": _as_item,
        "s": _as_sequence,
        "v": _as_values,
    }
)


# -- Predicates ----------------------------------------------------------------------------

Predicate: TypeAlias = "Callable[[list[Any], Focus], list[Any]]"
"""A condition in brackets: from items in the order of their positions to those that hold."""


def _predicate(token: Token) -> Predicate:
    match str(token.symbol), list(token):
        case "(integer)", _:
            place = int(str(token.value))
            return lambda items, _: items[place - 1 : place] if place > 0 else []
        case "last", _:
            return lambda items, _: items[-1:]
        case symbol, _ if symbol in _TRUTHS:
            return _tested(_truth(token))
        case _ if _is_step(token):
            return _tested(_truth(token))
        case _:
            return _tested(_placed(_items(token)))


def _placed(items: Evaluate) -> Test:
    def holds(focus: Focus) -> bool:
        found = items(focus)
        if len(found) == 1 and is_number(found[0]):
            return bool(found[0] == focus.position)
        return truth(found)

    return holds


def _tested(test: Test) -> Predicate:
    def kept(items: list[Any], focus: Focus) -> list[Any]:
        inner = Focus(None, focus.work, focus.variables)
        inner.size = len(items)
        focus.work.spend(len(items))
        found = []
        for position, item in enumerate(items, 1):
            inner.item, inner.position = item, position
            if test(inner):
                found.append(item)
        return found

    return kept


def _filtered(items: Evaluate, predicate: Predicate) -> Evaluate:
    return lambda focus: predicate(items(focus), focus)


# -- Paths ---------------------------------------------------------------------------------


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
        left, deep, flat = _stepwise(left, _every, ordered=flat), False, False
    if not _is_step(right):
        return _mapped_nodes(left, _items(right))
    walk = _deep(right) if deep else _walk(right)
    ordered = flat and (deep or _axis(right)[0] in ("child", "attribute", "self", "descendant"))
    return _stepwise(left, walk, ordered=ordered)


def _is_flat(token: Token) -> bool:
    """Return True if no node that an expression selects lies below another one."""
    symbol = str(token.symbol)
    if symbol in (".", "$"):
        return True
    if symbol == "/":
        return all(map(_is_flat, token))
    if symbol == "(" and len(token) == 1:
        return _is_flat(token[0])
    return _is_step(token) and _axis(token)[0] in ("child", "attribute", "self", "parent")


def _stepwise(left: Evaluate, walk: Walk, *, ordered: bool) -> Evaluate:
    """Return the evaluator of a step from each node that an expression selects."""

    def items(focus: Focus) -> Items:
        given = left(focus)
        if len(given) == 1:
            return walk(next(_nodes(focus, given)), focus)
        found = [one for node in _nodes(focus, given) for one in walk(node, focus)]
        return found if ordered else focus.work.tree.in_order(_spent(focus, found))

    return items


def _mapped_nodes(left: Evaluate, right: Evaluate) -> Evaluate:
    """Return the evaluator of an expression behind a slash that is no step."""
    mapped = _mapped(left, right)

    def items(focus: Focus) -> Items:
        found = mapped(focus)
        nodes = sum(isinstance(item, Node) for item in found)
        if nodes and nodes < len(found):
            raise Failure("nodes and values behind a slash")
        return focus.work.tree.in_order(found) if nodes else found

    return items


def _every(node: Node, focus: Focus) -> list[Node]:
    return _spent(focus, AXES["descendant-or-self"](node, focus.work.tree))


def _deep(token: Token) -> Walk:
    """Return the step `//`: the step at each node from a node on."""
    axis, name_test, predicates = _axis(token)
    walk = _walk(token)
    if axis == "child" and not any(map(_may_place, predicates)):
        return _walked("descendant", name_test, predicates)
    if axis == "child":
        test, name = _node_test(name_test, axis)
        conditions = [_predicate(one) for one in predicates]
        below = _candidates("descendant", test, name)

        def of_parents(node: Node, focus: Focus) -> list[Node]:
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
        found = [one for each in _every(node, focus) for one in walk(each, focus)]
        return focus.work.tree.in_order(_spent(focus, found))

    return items


def _may_place(token: Token) -> bool:
    """Return True if a condition may be a number or read the position of its node."""
    if str(token.symbol) not in _TRUTHS and not _is_step(token):
        return True
    return any(one.symbol in ("position", "last") for one in token.iter())


def _axis(token: Token) -> tuple[str, Token, list[Token]]:
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


def _walk(token: Token) -> Walk:
    return _walked(*_axis(token))


REVERSED = frozenset(("ancestor", "ancestor-or-self", "preceding", "preceding-sibling"))


def _walked(axis: str, test_token: Token, predicates: Sequence[Token]) -> Walk:
    test, name = _node_test(test_token, axis)
    candidates = _candidates(axis, test, name)
    conditions = [_predicate(one) for one in predicates]
    backwards = axis in REVERSED
    if not conditions and not backwards:
        return candidates

    def walk(node: Node, focus: Focus) -> list[Node]:
        found = candidates(node, focus)
        for condition in conditions:
            found = condition(found, focus)
        return found[::-1] if backwards else found

    return walk


def _candidates(axis: str, test: Callable[[Node], bool], name: str | None) -> Walk:
    """Return the nodes on an axis that pass a test, in the order of their positions."""
    named = named_on(axis, name) if name is not None else None
    if named is not None:

        def of_name(node: Node, focus: Focus) -> list[Node]:
            return _spent(focus, named(node, focus.work.tree))

        return of_name
    nodes = AXES[axis]
    if name not in (None, "*") and axis != "attribute":

        def elements(node: Node, focus: Focus) -> list[Node]:
            found = nodes(node, focus.work.tree)
            focus.work.spend(len(found))
            return [one for one in found if one.name == name and one.kind == "element"]

        return elements

    def passing(node: Node, focus: Focus) -> list[Node]:
        found = nodes(node, focus.work.tree)
        focus.work.spend(len(found))
        return [one for one in found if test(one)]

    return passing


def _node_test(token: Token, axis: str) -> tuple[Callable[[Node], bool], str | None]:
    """Return the test of a node, and the name in Clark notation if it asks for one alone."""
    symbol = str(token.symbol)
    principal = "attribute" if axis == "attribute" else "element"
    if symbol in ("node", ".."):
        return _anything, None
    if symbol in ("text", "comment", "document-node"):
        kind = _KINDS[symbol]
        return (lambda node: node.kind == kind), None
    if symbol == "processing-instruction" and str(token.label) == "kind test":
        target = str(token[0].value).strip() if len(token) else None
        return (lambda node: node.kind == "instruction" and target in (None, node.name)), None
    if symbol in ("element", "attribute") and str(token.label) == "kind test":
        if symbol != principal and axis in ("attribute",):
            return (lambda _: False), None
        named = _name_test(token[0]) if len(token) else _anything
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
        return _anything
    if token[0].symbol == "*":
        local = str(token[1].value)
        return lambda node: node.name.rpartition("}")[2] == local
    uri = _uri_of(token)
    return lambda node: node.name.rpartition("}")[0][1:] == uri
