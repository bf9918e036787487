"""Static analysis of XPath trees: what an expression yields and needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from xscl.language.syntax import NameTest

_NUMERIC = frozenset(
    (
        *("(integer)", "(decimal)", "(float)", "+", "-", "div", "mod", "idiv"),
        *("count", "position", "last", "string-length", "number", "sum", "floor", "ceiling"),
        *("round", "abs", "min", "max", "avg", "year-from-date", "month-from-date"),
        *("day-from-date", "hours-from-dateTime"),
    )
)
_MORE_NUMBERS = _NUMERIC | {
    *("*", "to", "compare", "index-of", "string-to-codepoints", "round-half-to-even", "jaccard"),
    *("pi", "exp", "exp10", "log", "log10", "pow", "sqrt", "sin", "cos", "tan"),
    *("asin", "acos", "atan", "atan2", "integer", "decimal", "double", "float"),
}
_PART_OF_TIME = re.compile(r"(?!timezone)[a-z]+-from-(date|time|dateTime|duration)")
_OF_ITEMS = frozenset(
    (
        *("data", "distinct-values", "exactly-one", "head", "insert-before", "one-or-more"),
        *("remove", "reverse", "subsequence", "tail", "unordered", "zero-or-one"),
    )
)
"""The functions whose items are those of their first argument, perhaps with others."""
_PATHS = frozenset(("/", "//", "[", "(name)", "Q{", "*", "@", ".", "..", "|", "union"))
_TESTS = frozenset(("text", "node", "comment", "processing-instruction", "element", "attribute"))
_AXES = frozenset(
    (
        *("descendant", "descendant-or-self", "ancestor", "ancestor-or-self", "following"),
        *("preceding", "following-sibling", "preceding-sibling", "child", "parent", "self"),
        "attribute",
    )
)
_NUMBERS = ("integer", "decimal", "double", "float")
_ALTERNATIVES = 64


def is_numeric(token: Any) -> bool:
    """Return True if the value of an expression is a number, which a predicate takes as place."""
    if token.symbol == "*":
        return len(token) == 2
    if token.symbol == "(":
        return len(token) == 1 and is_numeric(token[0])
    if token.symbol in (":", "cast"):
        cast = cast_of(token)
        return cast is not None and cast[0] in _NUMBERS
    return token.symbol in _NUMERIC


def may_be_number(token: Any) -> bool:
    """Return False if no value of an expression is a number; only a run tells it of the others."""
    match str(token.symbol), list(token):
        case "Q{", [_, called]:
            return may_be_number(called)
        case _ if is_path(token):
            return False
        case ":", [_, called]:
            return may_be_number(called)
        case "cast", [_, kind]:
            return str(kind[-1].value) in _NUMBERS
        case (("[" | "treat"), [items, _]):
            return may_be_number(items)
        case (("/" | "//"), [*_, last]):
            return may_be_number(last)
        case "if", [_, *results]:
            return any(map(may_be_number, results))
        case (("(" | "," | "!" | "for"), parts):
            return any(map(may_be_number, parts))
        case "insert-before", [items, _, inserted]:
            return may_be_number(items) or may_be_number(inserted)
        case name, [items, *_] if name in _OF_ITEMS:
            return may_be_number(items)
        case name, _:
            return name in _MORE_NUMBERS or bool(_PART_OF_TIME.fullmatch(name))


def is_path(token: Any) -> bool:
    """Return True if an expression selects nodes by steps."""
    if token.symbol == "(":
        return len(token) == 1 and is_path(token[0])
    if token.symbol == "[":
        return len(token) == 2 and is_path(token[0])
    if token.symbol in ("intersect", "except", "|", "union"):
        return all(map(is_path, token))
    if token.symbol in ("/", "//") and len(token):
        return is_path(token[-1])
    if token.symbol == "*":
        return not len(token)
    if token.symbol == ":":
        return bool(token[0].symbol == "*")
    return token.symbol in _PATHS or token.symbol in _TESTS | _AXES


def cast_of(token: Any) -> tuple[str, Any] | None:
    """Return the type of XML Schema and the operand of a cast of a path or constant."""
    match str(token.symbol), list(token):
        case "(", [inner]:
            return cast_of(inner)
        case ":", [prefix, kind] if prefix.value == "xs" and len(kind) == 1:
            name, inner = str(kind.symbol), kind[0]
        case (("cast" | "castable"), [inner, kind]) if kind.symbol == ":" and not len(kind[1]):
            name = str(kind[1].value)
        case _:
            return None
    return (name, inner) if is_path(inner) or inner.symbol == "(string)" else None


def required(token: Any) -> list[NameTest]:
    """Return tests of names that some child passes wherever an expression holds.

    An expression that holds or fails elsewhere must not be named: it is asked nowhere else.
    """
    match token.symbol, list(token):
        case "(", [inner]:
            return required(inner)
        case "and", parts:
            return [one for part in parts for one in required(part)]
        case (("=" | "!=" | "<" | "<=" | ">" | ">="), parts):
            return [one for part in parts for one in _first_name(part)]
        case ("some", [_, items, *_]):
            return _first_name(items)
        case (("contains" | "starts-with" | "ends-with"), [path, word, *_]) if (
            word.symbol == "(string)" and word.value
        ):
            return _first_name(path)
        case _:
            return _first_name(token)


def _first_name(token: Any) -> list[NameTest]:
    """Return the name of the child with which a path begins, if it begins with one."""
    match token.symbol, list(token):
        case "(", [inner]:
            return _first_name(inner)
        case (("/" | "//" | "["), [first, _]):
            return _first_name(first)
        case "(name)", []:
            return [NameTest(str(token.value))]
        case "Q{", [uri, name] if name.symbol == "(name)":
            return [NameTest(str(name.value), str(uri.value))]
        case ":", [prefix, kind] if prefix.value == "xs" and len(kind) == 1:
            return _first_name(kind[0])
        case _:
            return []


def uses_position(token: Any) -> bool:
    """Return True if an expression reads the position of its own context."""
    if token.symbol in ("position", "last"):
        return True
    if token.symbol in ("[", "/", "//", "!"):
        return uses_position(token[0]) if len(token) else False
    return any(map(uses_position, token))


def rewritten(token: Any) -> str | None:
    """Return a condition without unions and sequences, as alternatives; None if it has none."""
    if token.symbol == "(" and len(token) == 1:
        return rewritten(token[0])
    if token.symbol in ("|", "union") and is_path(token):
        return " or ".join(str(one.source) for one in _alternatives(token))
    if token.symbol == "=" and len(token) == 2:
        ones, others = ([*_alternatives(side)] for side in token)
        if len(ones) * len(others) > 1 and max(len(ones), len(others)) <= _ALTERNATIVES:
            return " or ".join(f"{one.source} = {other.source}" for one in ones for other in others)
    return None


def _alternatives(token: Any) -> Iterator[Any]:
    """Yield the operands of a union or sequence; others keep the parentheses around them."""
    if token.symbol == "(" and len(token) == 1 and token[0].symbol in ("|", "union", ",", "("):
        yield from _alternatives(token[0])
    elif token.symbol in ("|", "union", ","):
        for one in token:
            yield from _alternatives(one)
    else:
        yield token


def is_absolute(token: Any) -> bool:
    """Return True if a path, or each one of a union, begins at the document."""
    if token.symbol in ("|", "union"):
        return all(map(is_absolute, token))
    if token.symbol in ("[", "(") and len(token):
        return is_absolute(token[0])
    return token.symbol in ("/", "//") and (len(token) < 2 or is_absolute(token[0]))


def is_of_parent(token: Any) -> bool:
    """Return True if a path begins with `..`, so that all children of a node have one selection."""
    if token.symbol in ("[", "/", "//") and len(token) == 2:
        return is_of_parent(token[0])
    return bool(token.symbol == "..")


def is_same(one: Any, other: Any) -> bool:
    """Return True if two expressions have the same tree."""
    if one.symbol != other.symbol or len(one) != len(other):
        return False
    if len(one):
        return all(map(is_same, one, other))
    return bool(one.value == other.value)
