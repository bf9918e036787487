"""Steps of paths: axes, node tests and types, from the tree of an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from xscl.language.xpath import Token
from xscl.shredding.conditions.xpath_nodes import AXES, Node
from xscl.shredding.conditions.xpath_operators import Focus, Walk, anything, spent
from xscl.shredding.conditions.xpath_values import Items, kind_of

_KINDS = MappingProxyType(
    {"text": "text", "comment": "comment", "document-node": "document", "element": "element"}
)


_TESTS = frozenset((*_KINDS, "node", "attribute", "processing-instruction"))


def is_name(token: Token) -> bool:
    return str(getattr(token, "label", "")) == "name" or token.symbol == "(name)"


def sequence_type(token: Token) -> Callable[[Items], bool]:
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
        test = node_test(token, "attribute" if symbol == "attribute" else "child")[0]
        belongs = lambda item: isinstance(item, Node) and test(item)  # noqa: E731

    def holds(items: Items) -> bool:
        if len(items) < least or (most is not None and len(items) > most):
            return False
        return all(map(belongs, items))

    return holds


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


def is_step(token: Token) -> bool:
    """Return True for a step of a path, perhaps with conditions."""
    symbol = str(token.symbol)
    if symbol == "[" and len(token) == 2:
        return is_step(token[0])
    if is_name(token):
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
        and (token[1].symbol in ("(name)", "*") or is_name(token[1]))
    )


def is_flat(token: Token) -> bool:
    """Return True if no node that an expression selects lies below another one."""
    symbol = str(token.symbol)
    if symbol in (".", "$"):
        return True
    if symbol == "/":
        return all(map(is_flat, token))
    if symbol == "(" and len(token) == 1:
        return is_flat(token[0])
    return is_step(token) and axis_of(token)[0] in ("child", "attribute", "self", "parent")


def axis_of(token: Token) -> tuple[str, Token, list[Token]]:
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


REVERSED = frozenset(("ancestor", "ancestor-or-self", "preceding", "preceding-sibling"))


def candidates(axis: str, test: Callable[[Node], bool], name: str | None) -> Walk:
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


def node_test(token: Token, axis: str) -> tuple[Callable[[Node], bool], str | None]:
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
        if symbol != principal and axis in ("attribute",):
            return (lambda _: False), None
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
