"""XPath 3.1 beyond the conditions of XSCL: parsed by elementpath, checked, in a normal form.

What could read anything but the document, whose value could not be replayed, or whose work has no
bound is refused (`DENIED`).  Regular expressions run on RE2, and functions of the table of
`xscl.language.functions` are those of conditions everywhere.

This module is imported with the first expression that needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeAlias

from elementpath import XPathToken
from elementpath.exceptions import ElementPathError
from elementpath.xpath31 import XPath31Parser

from xscl.language.functions import FUNCTIONS, text_of
from xscl.language.regex import WrongExpression, expression, pieces, replacer
from xscl.language.syntax import NameTest

Token: TypeAlias = "XPathToken"
MOST_WORK = 2
"""The power of the number of nodes with which the work of an expression may grow."""
LONGEST = 2_000
"""Characters of an expression."""
RANGES = 1_000
"""The product of the lengths of all ranges (`1 to 10`) of an expression."""
_OUTSIDE = "it reads more than the document"
_REPLAY = "its value could not be replayed"
_BOUND = "its work has no bound"
DENIED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("doc", "doc-available", "collection", "uri-collection", "json-doc", "transform"),
                *("unparsed-text", "unparsed-text-lines", "unparsed-text-available"),
                *("environment-variable", "available-environment-variables"),
                *("load-xquery-module", "parse-xml", "parse-xml-fragment", "static-base-uri"),
                *("default-collation", "default-language", "base-uri", "document-uri"),
            ),
            _OUTSIDE,
        ),
        **dict.fromkeys(
            (
                *("current-date", "current-time", "current-dateTime", "implicit-timezone"),
                *("random-number-generator", "generate-id", "trace"),
            ),
            _REPLAY,
        ),
        **dict.fromkeys(
            (
                *("function", "function-lookup", "fold-left", "fold-right", "for-each", "apply"),
                *("for-each-pair", "filter", "sort", "let", "#", "?", "analyze-string"),
            ),
            _BOUND,
        ),
    }
)
"""The functions and constructs of XPath that a block refuses, with the reason."""
_HINTS = {
    _OUTSIDE: "a condition reads one document",
    _REPLAY: "compare with a constant, or with another document in a join",
    _BOUND: "write the value in its place",
}


FAILURES = (
    *(ElementPathError, ValueError, TypeError, ArithmeticError, LookupError),
    *(AssertionError, AttributeError, RecursionError),
)
"""What elementpath raises for a wrong text, and for a value that does not fit."""


class WrongXPath(ValueError):
    """Text that is not XPath, or that a block refuses; `at` is the place in the text."""

    def __init__(self, message: str, at: int = 0, hint: str | None = None) -> None:
        super().__init__(message)
        self.at = at
        self.hint = hint


# -- Text ----------------------------------------------------------------------------------

_NAME = r"[^\W\d][\w.\-·]*"
_LEXEME = re.compile(
    rf"""(?P<space>\s+)
    | (?P<comment>\(:(?:[^:]|:(?!\)))*:\))
    | (?P<string>"(?:[^"]|"")*"|'(?:[^']|'')*')
    | (?P<braced>Q\{{[^{{}}]*\}}(?:{_NAME}|\*))
    | (?P<prefixed>(?P<prefix>{_NAME}):(?!:)(?P<local>{_NAME}|\*))
    | (?P<name>{_NAME})
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)
    | (?P<sign>::|//|!=|<=|>=|<<|>>|\|\||=>|:=|.)""",
    re.VERBOSE | re.DOTALL,
)
_FUNCTION_PREFIXES = frozenset(("fn", "xs", "math", "map", "array"))


def normalised(text: str, prefixes: Mapping[str, str]) -> str:
    """Return an expression without comments and needless space, prefixes as namespaces."""
    parts: list[str] = []
    declared = prefixes.keys() - _FUNCTION_PREFIXES
    for lexeme in _LEXEME.finditer(text):
        match lexeme.lastgroup:
            case "space" | "comment":
                if parts and parts[-1] != " ":
                    parts.append(" ")
            case "local" | "prefixed" if lexeme["prefix"] in declared:
                parts.append(f"Q{{{prefixes[lexeme['prefix']]}}}{lexeme['local']}")
            case _:
                parts.append(lexeme[0])
    return "".join(parts).strip()


def _refuse_excess(text: str) -> None:
    """Raise for a text that is too long, or has too long a range, which is computed at once."""
    if len(text) > LONGEST:
        raise WrongXPath(f"an expression of over {LONGEST:,} characters", 0, "use shorter ones")
    lexemes = [one for one in _LEXEME.finditer(text) if one.lastgroup not in ("space", "comment")]
    for one, after in pairwise(lexemes):
        if after[0] == "(" and one[0].removeprefix("fn:") in DENIED:
            raise _denied(one[0].removeprefix("fn:"), one.start())  # before it is computed
    product = 1
    for before, one, after in zip(lexemes, lexemes[1:], lexemes[2:], strict=False):
        if one[0] != "to" or before[0] in ("/", "//", "::", "@", "(", "[", ",", "="):
            continue
        if not (before[0].isdigit() and after[0].isdigit()):
            hint = "write both as numbers"
            raise WrongXPath("a range without constant bounds", one.start(), hint)
        product *= max(1, int(after[0]) - int(before[0]) + 1)
        if product > RANGES:
            raise WrongXPath(f"ranges of over {RANGES:,} numbers", one.start(), _HINTS[_BOUND])


# -- Parsing -------------------------------------------------------------------------------


class _Parser(XPath31Parser):
    """elementpath's parser, with our functions in place of some of its own."""


def _install() -> None:
    """Replace functions: regular expressions run on RE2, dates are those of feeds."""
    table: dict[str, Any] = dict(_Parser.symbol_table)
    for name in ("matches", "replace", "tokenize"):
        table[name] = type(f"_{name}", (table[name],), {"evaluate": _EXPRESSIONS[name]})
    for name in ("year-from-date", "month-from-date", "day-from-date", "hours-from-dateTime"):
        table[name] = type(f"_{name}", (table[name],), {"evaluate": _dated(name)})
    _Parser.symbol_table = table


def _constant(token: Any, index: int, default: str | None = None) -> str:
    if len(token) <= index and default is not None:
        return default
    argument = token[index]
    if argument.symbol != "(string)":
        raise token.error("FORX0002", "the regular expression is not a constant")
    return str(argument.value)


def _matches(self: Any, context: Any = None) -> Any:
    text = self.get_argument(context, default="", cls=str)
    return expression(_constant(self, 1), _constant(self, 2, "")).within(text)


def _replace(self: Any, context: Any = None) -> Any:
    text = self.get_argument(context, default="", cls=str)
    constants = (_constant(self, 1), _constant(self, 2), _constant(self, 3, ""))
    return FUNCTIONS["replace"].apply(text, *constants)


def _tokenize(self: Any, context: Any = None) -> Any:
    text = self.get_argument(context, default="", cls=str)
    if len(self) == 1:
        return text.split()
    return pieces(text, _constant(self, 1), _constant(self, 2, ""))


_EXPRESSIONS: Mapping[str, Any] = {"matches": _matches, "replace": _replace, "tokenize": _tokenize}


def _dated(name: str) -> Any:
    def evaluate(self: Any, context: Any = None) -> Any:
        item = self.get_argument(context)
        if item is None:
            return []
        value = FUNCTIONS[name].apply(str(getattr(item, "string_value", item)))
        return [] if value is None else int(str(text_of(value)))

    return evaluate


_install()


@lru_cache(maxsize=10_000)
def parsed(text: str) -> Token:
    """Return elementpath's tree of an expression in normal form; raises WrongXPath."""
    _refuse_excess(text)
    parser = _Parser(namespaces={}, default_namespace="")
    for name in ("plain-text", "canonical-url", "tokens"):
        parser.external_function(_applied(name), name, "fn")
    parser.external_function(_jaccard, "jaccard", "fn")
    try:
        token = parser.parse(text)
    except ElementPathError as error:
        raise WrongXPath(*_reason(text, error)) from None
    except WrongExpression as error:
        raise WrongXPath(f"the regular expression: {error}", 0, error.hint) from None
    except FAILURES as error:
        raise WrongXPath(f"this is not XPath: {error or type(error).__name__}") from None
    bound = {
        str(one[0].value)
        for clauses in token.iter("for", "some", "every")
        for one in clauses
        if one.symbol == "$"
    }
    for one in token.iter():
        _refuse(one)
    for one in token.iter():
        if one.symbol == "$" and str(one[0].value) not in bound:
            name = str(one[0].value)
            hint = "bind with -> and use the bare name"
            raise WrongXPath(f"the variable ${name} is not bound", one.span[0], hint)
    if work(token) > MOST_WORK:
        message = f"its work grows with the power {work(token)} of a document's nodes"
        raise WrongXPath(message, 0, "use fewer // and axes inside each other")
    return token


def _applied(name: str) -> Any:
    def apply(text: Any) -> Any:
        return FUNCTIONS[name].apply(_first(text))

    return apply


def _jaccard(one: Any, other: Any) -> Any:
    return FUNCTIONS["jaccard"].apply(_first(one), _first(other))


def _first(argument: Any) -> str:
    """Return the text of the first item of an argument; "" if there is none."""
    items = argument if isinstance(argument, list) else [argument]
    return "".join(str(getattr(item, "string_value", item)) for item in items[:1])


_PLACE = re.compile(r" at line 1, column (\d+): ")
_CODE = re.compile(r"\[err:\w+\] ")


def _reason(text: str, error: ElementPathError) -> tuple[str, int]:
    """Return the message of an error without its place, and the place."""
    message = str(error)
    place = _PLACE.search(message)
    said = _CODE.sub("", message[place.end() :] if place else message)
    return f"XPath: {said}", int(place[1]) - 1 if place else 0


def _refuse(token: Any) -> None:
    """Raise for what a block refuses."""
    symbol = str(token.symbol)
    if symbol in DENIED and not (symbol == "?" and token.label == "occurrence indicator"):
        raise _denied(symbol, token.span[0])
    if symbol in ("eq", "ne", "lt", "le", "gt", "ge"):
        sign = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}[symbol]
        raise WrongXPath(f"{symbol!r} compares single values", token.span[0], f"write {sign}")
    if symbol in _EXPRESSIONS and len(token) > 1:
        _check_expression(symbol, token)


def _denied(symbol: str, at: int) -> WrongXPath:
    name = f"{symbol}()" if symbol[0].isalpha() and symbol != "let" else repr(symbol)
    reason = DENIED[symbol]
    return WrongXPath(f"{name} is refused: {reason}", at, _HINTS[reason])


def _check_expression(name: str, token: Any) -> None:
    if any(argument.symbol != "(string)" for argument in token[1:]):
        hint = "write it in quotes"
        raise WrongXPath(f"the expression of {name}() is not a constant", token.span[0], hint)
    constants = [str(argument.value) for argument in token[1:]]
    try:
        (replacer if name == "replace" else expression)(*constants)
    except WrongExpression as error:
        raise WrongXPath(f"the regular expression: {error}", token.span[0], error.hint) from None


# -- Kinds ---------------------------------------------------------------------------------

_NUMERIC = frozenset(
    (
        *("(integer)", "(decimal)", "(float)", "+", "-", "div", "mod", "idiv"),
        *("count", "position", "last", "string-length", "number", "sum", "floor", "ceiling"),
        *("round", "abs", "min", "max", "avg", "year-from-date", "month-from-date"),
        *("day-from-date", "hours-from-dateTime"),
    )
)
_PATHS = frozenset(("/", "//", "[", "(name)", "Q{", "*", "@", ".", "..", "|", "union", ":"))
_TESTS = frozenset(("text", "node", "comment", "processing-instruction", "element", "attribute"))
_WIDE = frozenset(
    (
        *("descendant", "descendant-or-self", "ancestor", "ancestor-or-self", "following"),
        *("preceding", "following-sibling", "preceding-sibling"),
    )
)
_NARROW = frozenset(("child", "parent", "self", "attribute"))


def is_numeric(token: Any) -> bool:
    """Return True if the value of an expression is a number, which a predicate takes as place."""
    if token.symbol == "*":
        return len(token) == 2
    if token.symbol == "(":
        return len(token) == 1 and is_numeric(token[0])
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
    return token.symbol in _PATHS or token.symbol in _TESTS | _WIDE | _NARROW


def required(token: Any) -> list[NameTest]:
    """Return tests of names that some child passes wherever an expression holds."""
    match token.symbol, list(token):
        case "(", [inner]:
            return required(inner)
        case "and", parts:
            return [one for part in parts for one in required(part)]
        case (("=" | "!=" | "<" | "<=" | ">" | ">="), parts):
            return [one for part in parts if is_path(part) for one in required(part)]
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
            if token[1].symbol not in _WIDE and right <= 1:
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
        case _ if token.symbol in _WIDE | _NARROW | _TESTS:
            return 1
        case _:
            return max(map(work, token), default=0)


def _is_narrow(token: Any) -> bool:
    """Return True for a path along children, which are few for each node."""
    return not any(one.symbol in _WIDE or one.symbol == "//" for one in token.iter())


def _size(token: Any) -> int:
    """Return 1 if an expression may yield many items, else 0."""
    if token.symbol in (".", "..", "@", "(string)", "(integer)", "(decimal)"):
        return 0
    if token.symbol in ("/", "//") and not len(token):
        return 0
    return int(is_path(token) or token.symbol in ("for", ",", "to", "tokenize", "!", "if"))


# -- XPath 1.0 -----------------------------------------------------------------------------

EXTENSIONS = "urn:xscl:functions"
PIECE = "piece"
"""The function that compares the pieces of a text."""
TIMES = ("dateTime", "date")
"""The types that are numbers in libxml2, the microseconds since 1970."""
"""The namespace of our functions in XPath 1.0; its prefix is `x`."""
COMPARE = "compare"
"""The function of ours that orders texts: an operator and two operands."""
_CORE = frozenset(
    (
        *("position", "last", "count", "name", "local-name", "namespace-uri", "string", "concat"),
        *("starts-with", "contains", "substring-before", "substring-after", "substring"),
        *("string-length", "normalize-space", "translate", "boolean", "not", "true", "false"),
        *("number", "sum", "floor", "ceiling", "round"),
    )
)
_OURS = frozenset(
    (
        *("lower-case", "upper-case", "replace", "abs", "year-from-date", "month-from-date"),
        *("day-from-date", "hours-from-dateTime", "plain-text", "canonical-url"),
        *("ends-with", "matches", "tokens", "jaccard"),
    )
)


class NotLocal(Exception):
    """An expression that XPath 1.0 with our functions does not have."""


class Local:
    """An expression as XPath 1.0 with our functions, for libxml2; raises NotLocal."""

    def __init__(self, token: Token) -> None:
        self.namespaces = {"x": EXTENSIONS}
        self._node = ""  # the variable that stands for the node
        self.text = self._truth(token) if token.symbol == "if" else self._of(token)

    def _of(self, token: Any) -> str:
        symbol, count = str(token.symbol), len(token)
        if symbol in ("(name)", "(integer)", "(decimal)"):
            return str(token.value)
        if symbol == "(string)":
            return _quoted(str(token.value))
        if symbol in _CORE | _OURS and getattr(token, "label", "") != "name":
            return self._call(symbol, list(token))
        if symbol in (".", "..") or (symbol in ("*", "/") and not count):
            return symbol
        if symbol in ("/", "//"):
            left = self._of(token[0]) if count == 2 else ""
            steps = [f"{left}{symbol}{self._step(one)}" for one in _united(token[-1])]
            return steps[0] if len(steps) == 1 else f"({' | '.join(steps)})"
        match symbol, list(token):
            case "[", [left, inner]:
                return f"{self._of(left)}[{self._of(inner)}]"
            case "(", [inner]:
                return f"({self._of(inner)})"
            case "$", [name] if str(name.value) == self._node:
                return "."
            case (("some" | "every"), [variable, path, test]) if is_path(path):
                return self._quantified(symbol, str(variable[0].value), path, test)
            case "@", [name]:
                return f"@{self._of(name)}"
            case (("text" | "node" | "comment" | "processing-instruction"), []):
                return f"{symbol}()"
            case "Q{", [uri, name]:
                return self._name(str(uri.value), name)
            case ":", [left, name] if left.symbol == "*":
                return f"*[local-name()={_quoted(str(name.value))}]"
            case (("|" | "union"), [left, right]) if is_path(left) and is_path(right):
                return f"{self._of(left)} | {self._of(right)}"
            case (("exists" | "empty"), [inner]) if is_path(inner):
                return f"{'boolean' if symbol == 'exists' else 'not'}({self._of(inner)})"
            case (("and" | "or"), [left, right]):
                return f"({self._truth(left)} {symbol} {self._truth(right)})"
            case (("=" | "!=" | "<" | "<=" | ">" | ">="), [left, right]):
                return self._comparison(symbol, left, right)
            case (("+" | "-" | "*" | "div" | "mod"), [left, right]):
                return f"({self._of(left)} {symbol} {self._of(right)})"
            case "-", [inner]:
                return f"(-{self._of(inner)})"
            case _, [inner] if symbol in _WIDE | _NARROW:
                return f"{symbol}::{self._of(inner)}"
            case _:
                raise NotLocal(symbol)

    def _step(self, token: Any) -> str:
        """Return a step behind a slash; XPath 1.0 has no other expressions there."""
        first = token
        while first.symbol == "[":
            first = first[0]
        if first.symbol == "(" or not is_path(first):
            raise NotLocal(first.symbol)
        return self._of(token)

    def _name(self, uri: str, name: Any) -> str:
        local = str(name.value) if name.symbol == "(name)" else "*"
        if not uri:
            return local if local != "*" else "*[namespace-uri()='']"
        known = {uri: prefix for prefix, uri in self.namespaces.items()}
        prefix = known.get(uri) or f"n{len(self.namespaces)}"
        self.namespaces[prefix] = uri
        return f"{prefix}:{local}"

    def _quantified(self, symbol: str, variable: str, path: Any, test: Any) -> str:
        """Return `some $x in path satisfies test` as a condition on the nodes of the path.

        The test must read nothing but its variable: in the condition the context is another.
        """
        if symbol == "some":
            return self._some(variable, path, test, lambda: self._truth(test))
        return f"not({self._some(variable, path, test, lambda: f'not({self._truth(test)})')})"

    def _some(self, variable: str, path: Any, read: Any, condition: Callable[[], str]) -> str:
        """Return that a condition, which reads an expression, holds at some node of a path."""
        names = {id(one[0]) for one in read.iter("$")}
        paths = (one for one in read.iter() if is_path(one) and one.symbol != "(")
        if self._node or uses_position(read) or any(id(one) not in names for one in paths):
            raise NotLocal(variable)
        nodes = self._of(path)
        self._node = variable
        inner = condition()
        self._node = ""
        return f"boolean(({nodes})[{inner}])"

    def _truth(self, token: Any) -> str:
        if token.symbol in ("+", "-", "*") and is_numeric(token):
            raise NotLocal("a number as a condition")
        match token.symbol, list(token):
            case "if", [test, then, otherwise] if not any(test.iter("if")):  # it is written twice
                holds, one, other = map(self._truth, (test, then, otherwise))
                return f"(({holds} and {one}) or (not({holds}) and {other}))"
            case "(", [inner] if inner.symbol == "if":
                return self._truth(inner)
            case _:
                return self._of(token)

    def _call(self, name: str, arguments: list[Any]) -> str:
        if name in ("not", "boolean"):
            return f"{name}({', '.join(map(self._truth, arguments))})"
        if name == "substring" and not all(map(is_numeric, arguments[1:])):
            raise NotLocal(name)
        if name in _OURS:  # which take a text sooner than a list of nodes
            return f"x:{name}({', '.join(map(self._text, arguments))})"
        return f"{name}({', '.join(map(self._of, arguments))})"

    def _text(self, token: Any) -> str:
        inner = self._of(token)
        return f"string({inner})" if is_path(token) or token.symbol == "$" else inner

    def _comparison(self, sign: str, left: Any, right: Any) -> str:
        for one in (left, right):
            if one.symbol == "(" and one[0].symbol == ",":
                return self._alternatives(sign, left, right)
        casts = [_cast(side) for side in (left, right)]
        if None not in casts and casts[0] == casts[1]:
            one, other = (f"x:{casts[0]}({self._text(side[1][0])})" for side in (left, right))
            if sign == "!=":  # what is no time is not different from any
                return f"({one} < {other} or {one} > {other})"
            return f"({one} {sign} {other})"
        if sign in ("=", "!=") and right.symbol == "(string)" and _piece_of(left) is not None:
            return self._piece(sign, left, right)
        if _is_mapping(left) or _is_mapping(right):
            return self._mapped(sign, left, right)
        sides = [self._operand(side, sign) for side in (left, right)]
        if sign in ("=", "!=") or is_numeric(left) or is_numeric(right):
            return f"({sides[0]} {sign} {sides[1]})"
        return f"x:{COMPARE}('{sign}', {sides[0]}, {sides[1]})"

    def _piece(self, sign: str, left: Any, right: Any) -> str:
        """Return a comparison of `tokenize(path, ...)`, perhaps of one piece, with a constant."""
        path, *given = _piece_of(left)
        at = left[1].value if left.symbol == "[" else 0
        constants = ", ".join([_quoted(str(one.value)) for one in (right, *given)])
        return f"x:{PIECE}({self._text(path)}, {at}, '{sign}', {constants})"

    def _mapped(self, sign: str, left: Any, right: Any) -> str:
        """Return a comparison with a constant of `path ! value`, or `for $x in path return value`.

        It holds if the comparison of the value does at some node of the path.
        """
        mapping, constant = (left, right) if _is_mapping(left) else (right, left)
        inner = mapping[0] if mapping.symbol == "(" else mapping
        *variable, path, value = inner
        if constant.symbol not in ("(string)", "(integer)", "(decimal)") or not is_path(path):
            raise NotLocal(inner.symbol)
        sides = (value, right) if mapping is left else (left, value)
        if variable:
            name = str(variable[0][0].value)
            return self._some(name, path, value, lambda: self._comparison(sign, *sides))
        if value.symbol == "!" or uses_position(value):
            raise NotLocal("!")
        return f"boolean(({self._of(path)})[{self._comparison(sign, *sides)}])"

    def _operand(self, token: Any, sign: str) -> str:
        inner = token[0] if token.symbol == "(" and len(token) == 1 else token
        absent = (
            sign == "!="
            and is_numeric(inner)
            and inner.symbol
            not in (*("count", "string-length", "position", "last", "(integer)", "(decimal)"),)
        )
        known = (
            is_path(inner)
            or inner.symbol == "$"
            or is_numeric(inner)
            or inner.symbol in _CORE | _OURS
        )
        truth = inner.symbol in ("boolean", "not", "true", "false", "contains", "starts-with")
        tests = truth or inner.symbol in ("ends-with", "matches")
        if absent or tests or not (known or inner.symbol == "(string)"):
            raise NotLocal(inner.symbol)
        return self._of(token)

    def _alternatives(self, sign: str, left: Any, right: Any) -> str:
        """Return a comparison with a sequence as one with each of its items."""
        if sign not in ("=", "!="):
            raise NotLocal(sign)
        if left.symbol == "(" and left[0].symbol == ",":
            left, right = right, left
        items = list(_items(right[0]))
        return f"({' or '.join(self._comparison(sign, left, item) for item in items)})"


def _piece_of(token: Any) -> Any:
    """Return the call of `tokenize` of a path, or one piece of it; None for anything else."""
    if token.symbol == "[" and token[1].symbol == "(integer)" and token[1].value > 0:
        token = token[0]
    return token if token.symbol == "tokenize" and is_path(token[0]) else None


def _cast(token: Any) -> str | None:
    """Return the type that a path or a constant is cast to, of those that libxml2 compares."""
    if token.symbol != ":" or token[0].value != "xs" or token[1].symbol not in TIMES:
        return None
    inner = token[1][0]
    return str(token[1].symbol) if is_path(inner) or inner.symbol == "(string)" else None


def _is_mapping(token: Any) -> bool:
    if token.symbol == "(" and len(token) == 1:
        token = token[0]
    return token.symbol == "!" or (token.symbol == "for" and len(token) == 3)


def _united(token: Any) -> list[Any]:
    """Return the operands of a union in parentheses; of anything else, itself."""
    if token.symbol == "(" and len(token) == 1 and token[0].symbol in ("|", "union", "("):
        return _united(token[0])
    if token.symbol in ("|", "union"):
        return [one for side in token for one in _united(side)]
    return [token]


def _items(token: Any) -> Iterator[Any]:
    if token.symbol == ",":
        for one in token:
            yield from _items(one)
    else:
        yield token


def _quoted(text: str) -> str:
    if '"' in text and "'" in text:
        raise NotLocal("both quotes")
    return f"'{text}'" if '"' in text else f'"{text}"'
