"""Static analysis of XPath trees: what an expression yields, needs, and costs at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from xscl.language.syntax import NameTest

_NUMERIC = frozenset(
    (
        *("(integer)", "(decimal)", "(float)", "+", "-", "div", "mod", "idiv"),
        *("count", "position", "last", "string-length", "number", "sum", "floor", "ceiling"),
        *("round", "abs", "min", "max", "avg", "year-from-date", "month-from-date"),
        *("day-from-date", "hours-from-dateTime"),
    )
)
_PATHS = frozenset(("/", "//", "[", "(name)", "Q{", "*", "@", ".", "..", "|", "union"))
_TESTS = frozenset(("text", "node", "comment", "processing-instruction", "element", "attribute"))
WIDE = frozenset(
    (
        *("descendant", "descendant-or-self", "ancestor", "ancestor-or-self", "following"),
        *("preceding", "following-sibling", "preceding-sibling"),
    )
)
NARROW = frozenset(("child", "parent", "self", "attribute"))


NUMBERS = ("integer", "decimal", "double", "float")
"""The types of numbers that a text is cast to."""


def is_numeric(token: Any) -> bool:
    """Return True if the value of an expression is a number, which a predicate takes as place."""
    if token.symbol == "*":
        return len(token) == 2
    if token.symbol == "(":
        return len(token) == 1 and is_numeric(token[0])
    if token.symbol in (":", "cast"):
        cast = cast_of(token)
        return cast is not None and cast[0] in NUMBERS
    return token.symbol in _NUMERIC


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
    return token.symbol in _PATHS or token.symbol in _TESTS | WIDE | NARROW


Items: TypeAlias = Literal["nodes", "strings", "numbers"]
_OF_ITEMS = frozenset(("distinct-values", "reverse", "data", "head", "tail", "subsequence"))
_VALUES: Mapping[str, Items] = MappingProxyType(
    {
        **dict.fromkeys(("lower-case", "upper-case", "normalize-space", "substring"), "strings"),
        **dict.fromkeys(("substring-before", "substring-after", "translate"), "strings"),
        **dict.fromkeys(("replace", "plain-text", "tokens"), "strings"),
        "string-length": "numbers",
    }
)
"""Functions of one text that a sequence is mapped through, with the type of their values."""


def items(token: Any) -> Items | None:
    """Return the type of the items of a sequence; None if an expression is no sequence of these."""
    if is_path(token):
        return "nodes"
    match str(token.symbol), list(token):
        case "tokenize", _:
            return "strings"
        case "(", [inner]:
            return items(inner)
        case ("[", [inner, _]):
            return items(inner)
        case name, [inner, *_] if name in _OF_ITEMS:
            return items(inner)
        case ",", parts:
            known = {"strings" if one.symbol == "(string)" else items(one) for one in parts}
            return known.pop() if len(known) == 1 else "strings" if known <= _TEXTS else None
        case (("!" | "/"), [inner, value]) if items(inner):
            return _value(value, ".")
        case "for", [variable, inner, value] if items(inner):
            return _value(value, f"${variable[0].value}")
        case _:
            return None


_TEXTS = frozenset(("nodes", "strings"))


def is_constant(token: Any) -> bool:
    """Return True for a text or number."""
    return token.symbol in ("(string)", "(integer)", "(decimal)")


def is_item(token: Any, name: str) -> bool:
    """Return True for the item of a mapping: `.`, or the variable of `for`, written `$x`."""
    return (f"${token[0].value}" if token.symbol == "$" else token.symbol) == name


def _value(token: Any, name: str) -> Items | None:
    """Return the type of a function of the item, perhaps in others, and of constants."""
    found = _VALUES.get(str(token.symbol))
    if found is None or not len(token) or not all(map(is_constant, token[1:])):
        return None
    inner = is_item(token[0], name) or _value(token[0], name) == "strings"
    return found if inner else None


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


def is_mapping(token: Any) -> bool:
    """Return True for `path ! value`, `path/value` and `for $x in path return value`."""
    if token.symbol == "(" and len(token) == 1:
        return is_mapping(token[0])
    if token.symbol == "/":
        return len(token) == 2 and not is_path(token[1])
    return token.symbol == "!" or (token.symbol == "for" and len(token) == 3)


def required(token: Any) -> list[NameTest]:
    """Return tests of names that some child passes wherever an expression holds."""
    match token.symbol, list(token):
        case "(", [inner]:
            return required(inner)
        case "and", parts:
            return [one for part in parts for one in required(part)]
        case (("=" | "!=" | "<" | "<=" | ">" | ">="), parts):
            casts = (cast_of(part) for part in parts)
            paths = [cast[1] if cast else part for cast, part in zip(casts, parts, strict=True)]
            return [one for path in paths if is_path(path) for one in required(path)]
        case ("some", [_, path, _]) if is_path(path):
            return required(path)
        case (("contains" | "starts-with" | "ends-with"), [path, word, *_]) if (
            is_path(path) and word.symbol == "(string)" and word.value
        ):
            return required(path)
        case (("/" | "["), [first, *_]):
            return required(first)
        case "(name)", []:
            return [NameTest(str(token.value))]
        case "Q{", [uri, name] if name.symbol == "(name)":
            return [NameTest(str(name.value), str(uri.value))]
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
        return " or ".join(_alternatives(token))
    if token.symbol == "=" and len(token) == 2:
        sides = [[*_alternatives(side)] for side in token]
        if len(sides[0]) * len(sides[1]) > 1 and max(map(len, sides)) <= _ALTERNATIVES:
            return " or ".join(f"{left} = {right}" for left in sides[0] for right in sides[1])
    return None


_ALTERNATIVES = 64


def _alternatives(token: Any) -> Iterator[str]:
    """Yield the operands of a union or sequence."""
    if token.symbol == "(" and len(token) == 1:
        yield from _alternatives(token[0])
    elif token.symbol in ("|", "union", ","):
        for one in token:
            yield from _alternatives(one)
    else:
        yield str(token.source)


def work(token: Any) -> int:
    """Return the exponent of the number of a document's nodes by which evaluation may grow."""
    match token.symbol:
        case "/" | "//" if len(token) == 2:
            step = 1 if token.symbol == "//" else 0
            right = work(token[1])
            if token[1].symbol not in WIDE and right <= 1:
                right = 0  # children, parents: each node is visited once for all
            return max(work(token[0]), _size(token[0]) + step + right, 1)
        case "[" if len(token) == 2:
            return max(work(token[0]), _size(token[0]) + work(token[1]))
        case "!":
            return max(work(token[0]), _size(token[0]) + work(token[1]))
        case "for" | "some" | "every":
            *clauses, body = token
            sizes = [_size(one) for one in clauses if one.symbol != "$"]
            return sum(sizes) + max(map(work, (*clauses, body)))
        case "=" | "!=" | "<" | "<=" | ">" | ">=" if all(map(_is_narrow, token)):
            return max(map(work, token))
        case "=" | "!=" | "<" | "<=" | ">" | ">=" | "intersect" | "except" | "is":
            return max((sum(map(_size, token)), *map(work, token)))
        case "(name)" | "*" | "Q{" | ":" | "@" if not is_numeric(token):
            return 1
        case _ if token.symbol in WIDE | NARROW | _TESTS:
            return 1
        case _:
            return max(map(work, token), default=0)


def _is_narrow(token: Any) -> bool:
    """Return True for a path along children, which are few for each node."""
    return not any(one.symbol in WIDE or one.symbol == "//" for one in token.iter())


_SINGLE = _NUMERIC | frozenset(
    (
        *(".", "..", "@", "$", "(string)", "||", "and", "or", "some", "every", "not", "boolean"),
        *("=", "!=", "<", "<=", ">", ">=", "is", "<<", ">>", "exists", "empty", "true", "false"),
        *("castable", "cast", "instance", "deep-equal", "compare", "name", "local-name"),
        *("namespace-uri", "string", "concat", "contains", "starts-with", "ends-with", "matches"),
        *("contains-token", "string-join", "substring", "substring-before", "substring-after"),
        *("normalize-space", "translate", "replace", "lower-case", "upper-case", "plain-text"),
        *("canonical-url", "tokens", "jaccard", "head"),
    )
)


def _size(token: Any) -> int:
    """Return 0 if an expression yields one item at most, 1 if it may yield many."""
    match str(token.symbol), list(token):
        case (("/" | "//" | "("), []):
            return 0
        case "(", [inner]:
            return _size(inner)
        case "[", [inner, _] if not is_path(inner):
            return _size(inner)
        case "*", [_, _]:
            return 0
        case symbol, _:
            return int(symbol not in _SINGLE and cast_of(token) is None)
