"""XPath 3.1 beyond the conditions of XSCL: parsed by elementpath, checked, in a normal form.

What could read anything but the document, whose value could not be replayed, or whose work has no
bound is refused (`DENIED`), before elementpath's parser sees it.  Only functions that a block may
call are accepted (`ALLOWED`); regular expressions are those of RE2.

One walk over elementpath's tree refuses what a block lacks, and makes a tree of ours
(`xscl.language.xpath_tree`).  Nothing is evaluated here (`xscl.shredding.conditions.xpath`
does it).

This module is imported with the first expression that needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from elementpath.collations import UNICODE_CODEPOINT_COLLATION
from elementpath.exceptions import ElementPathError
from elementpath.tdop import Parser
from elementpath.xpath31 import XPath31Parser
from elementpath.xpath_tokens import XPathFunction

from xscl.errors import near_miss
from xscl.language.functions import FUNCTIONS
from xscl.language.grammar import LEXEME
from xscl.language.regex import WrongExpression, expression, replacer
from xscl.language.syntax import NameTest
from xscl.language.xpath_tree import AXES, NodeKind, NodeTest, SequenceType, XPath, XPathStep

LONGEST = 2_000
"""Characters of an expression."""
DEEPEST = 40
"""Brackets of an expression inside one another."""
DIGITS = 40
"""Characters of a number, and places to which a number may be rounded."""
RANGES = 1_000
"""The product of the lengths of all ranges (`1 to 10`) of an expression."""
_OUTSIDE = "it reads more than the document"
_REPLAY = "its value could not be replayed"
_BOUND = "its work has no bound"
_NOTHING = "documents have nothing that it finds"
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
                *("format-integer", "format-number", "format-date", "format-time"),
                *("format-dateTime", "serialize", "parse-json", "json-to-xml", "xml-to-json"),
                *("map", "array", "collation-key", "error"),
            ),
            _BOUND,
        ),
        **dict.fromkeys(
            ("id", "idref", "element-with-id", "namespace", "namespace-node"), _NOTHING
        ),
    }
)
"""The functions and constructs of XPath that a block refuses, with the reason."""
_HINTS = {
    _OUTSIDE: "a condition reads one document",
    _REPLAY: "compare with a constant, or with another document in a join",
    _BOUND: "write the value in its place",
    _NOTHING: "compare attributes and names: documents have no DTD, and no nodes for namespaces",
}
_PARTS = ("year", "month", "day", "timezone"), ("hours", "minutes", "seconds", "timezone")
OURS = FUNCTIONS.keys() - XPath31Parser.symbol_table.keys()
"""The functions of XSCL that XPath has not."""
ALLOWED = frozenset(
    (
        *("string", "number", "boolean", "not", "true", "false", "data", "position", "last"),
        *("concat", "string-join", "substring", "string-length", "normalize-space"),
        *("normalize-unicode", "upper-case", "lower-case", "translate", "contains", "starts-with"),
        *("ends-with", "substring-before", "substring-after", "matches", "replace", "tokenize"),
        *("compare", "codepoint-equal", "codepoints-to-string", "string-to-codepoints"),
        *("contains-token", "encode-for-uri"),
        *OURS,
        *("abs", "ceiling", "floor", "round", "round-half-to-even", "count", "sum", "avg"),
        *("max", "min", "pi", "exp", "exp10", "log", "log10", "pow", "sqrt", "sin", "cos", "tan"),
        *("asin", "acos", "atan", "atan2"),
        *("exists", "empty", "head", "tail", "insert-before", "remove", "reverse", "subsequence"),
        *("unordered", "distinct-values", "index-of", "deep-equal", "zero-or-one", "one-or-more"),
        *("exactly-one", "name", "local-name", "namespace-uri", "root", "lang", "has-children"),
        *("innermost", "outermost", "path"),
        *(f"{part}-from-{kind}" for kind in ("date", "dateTime") for part in _PARTS[0]),
        *(f"{part}-from-{kind}" for kind in ("time", "dateTime") for part in _PARTS[1]),
        *(f"{part}-from-duration" for part in ("years", "months", "days", *_PARTS[1][:3])),
        "dateTime",
    )
)
"""The functions of XPath, and ours, that a block may call; `DENIED` has reasons for some others."""
TYPES = frozenset(
    (
        *("string", "untypedAtomic", "boolean", "integer", "decimal", "double", "float"),
        *("date", "dateTime", "time", "duration", "dayTimeDuration", "yearMonthDuration"),
    )
)
"""The types of XML Schema that a block may cast to."""


class WrongXPath(ValueError):
    """Text that is not XPath, or that a block refuses; `at` is the place in the text."""

    def __init__(self, message: str, at: int = 0, hint: str | None = None) -> None:
        super().__init__(message)
        self.at = at
        self.hint = hint


# -- Text ----------------------------------------------------------------------------------

_FUNCTION_PREFIXES = frozenset(("fn", "xs", "math", "map", "array"))
_FUNCTIONS_OF_XPATH = "http://www.w3.org/2005/xpath-functions"


def normalised(text: str, prefixes: Mapping[str, str]) -> str:
    """Return an expression without comments and needless space, with namespaces for prefixes.

    Functions of XPath have no prefix.
    """
    parts: list[str] = []
    declared = {**prefixes, "fn": prefixes.get("fn", _FUNCTIONS_OF_XPATH)}
    for name in _FUNCTION_PREFIXES - {"fn"}:
        declared.pop(name, None)
    lexemes = [*LEXEME.finditer(text)]
    called = _called(lexemes)
    for lexeme in lexemes:
        match lexeme.lastgroup:
            case "space" | "comment":
                if parts and parts[-1] != " ":
                    parts.append(" ")
                continue
            case "local" | "prefixed" if lexeme["prefix"] in declared:
                uri, local = declared[lexeme["prefix"]], lexeme["local"]
            case "braced":
                uri, _, local = lexeme[0][2:].rpartition("}")
            case _:
                parts.append(lexeme[0])
                continue
        is_function = uri.strip() == _FUNCTIONS_OF_XPATH and lexeme.start() in called
        if "".join(parts[-2:]) == "attribute::":  # elementpath expects no namespace there
            parts[-2:] = ["@"]
        parts.append(local if is_function else f"Q{{{uri}}}{local}")
    return "".join(parts).strip()


def _called(lexemes: Sequence[re.Match[str]]) -> frozenset[int]:
    """Return the offsets of the lexemes before a parenthesis: names of functions, if of names."""
    seen = [lexeme for lexeme in lexemes if lexeme.lastgroup not in ("space", "comment")]
    return frozenset(one.start() for one, after in pairwise(seen) if after[0] == "(")


def _refuse_excess(text: str) -> None:
    """Raise WrongXPath for a text that could take long to parse, or for its constants.

    The check precedes elementpath's parser, which evaluates constants.
    """
    if len(text) > LONGEST:
        raise WrongXPath(f"an expression of over {LONGEST:,} characters", 0, "use shorter ones")
    lexemes = [
        match for match in LEXEME.finditer(text) if match.lastgroup not in ("space", "comment")
    ]
    depth = 0
    for one in lexemes:
        depth += (one[0] in ("(", "[", "{")) - (one[0] in (")", "]", "}"))
        if depth > DEEPEST:
            raise WrongXPath(f"over {DEEPEST} brackets in one another", one.start(), _SIMPLER)
        if one.lastgroup == "braced" and "(:" in one[0]:
            hint = "in XPath '(:' begins a comment, there too: compare namespace-uri()"
            raise WrongXPath("the address of a namespace has '(:'", one.start(), hint)
        if one.lastgroup == "number" and len(one[0]) > DIGITS:
            hint = "compare texts, or round it"
            raise WrongXPath(f"a number of over {DIGITS} characters", one.start(), hint)
    for one, after in pairwise(lexemes):
        if after[0] == "(" and one[0] in DENIED:
            raise _denied(one[0], one.start())
    product = 1
    for before, one, after in zip(lexemes, lexemes[1:], lexemes[2:], strict=False):
        if one[0] != "to" or before[0] in ("/", "//", "::", "@", "(", "[", ",", "="):
            continue
        if not (before[0].isdecimal() and after[0].isdecimal()):
            hint = "write both as numbers"
            raise WrongXPath("a range without constant bounds", one.start(), hint)
        product *= max(1, int(after[0]) - int(before[0]) + 1)
        if product > RANGES:
            raise WrongXPath(f"ranges of over {RANGES:,} numbers", one.start(), _HINTS[_BOUND])


# -- Parsing -------------------------------------------------------------------------------


class _Parser(XPath31Parser):
    """elementpath's parser with our functions, which evaluates no constant of what it parses."""

    def parse(self, source: str) -> Any:
        """Return elementpath's tree of an expression, in which nothing is evaluated."""
        return Parser.parse(self, source)


for _name in OURS:
    _Parser.function(_name, nargs=len(FUNCTIONS[_name].arguments))
_Parser.build()


@lru_cache(maxsize=2_000)
def parsed(text: str) -> XPath:
    """Return the tree of an expression in normal form; raises WrongXPath."""
    _refuse_excess(text)
    parser = _Parser(
        namespaces={}, default_namespace="", default_collation=UNICODE_CODEPOINT_COLLATION
    )
    try:
        return _tree(parser.parse(text), frozenset())
    except ElementPathError as error:
        raise WrongXPath(*_reason(text, error)) from None
    except WrongExpression as error:
        raise WrongXPath(f"the regular expression: {error}", 0, error.hint) from None
    except WrongXPath:
        raise
    except RecursionError:
        raise WrongXPath("nested too deep", 0, _SIMPLER) from None
    except Exception as error:  # the parser's libraries raise what they like
        raise WrongXPath(f"this is not XPath: {error or type(error).__name__}") from None


_PLACE = re.compile(r" at line 1, column (\d+): ")
_CODE = re.compile(r"\[err:\w+\] ")


def _reason(text: str, error: ElementPathError) -> tuple[str, int]:
    """Return the message of an error without its place, and the place as an offset."""
    message = str(error)
    place = _PLACE.search(message)
    said = _CODE.sub("", message[place.end() :] if place else message)
    return f"XPath: {said}", int(place[1]) - 1 if place else 0


# -- From elementpath's tree ---------------------------------------------------------------

_SIMPLER = "use several conditions"
_REFUSED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **{
            single: (f"{single!r} compares single values", f"write {sign}")
            for single, sign in zip(
                ("eq", "ne", "lt", "le", "gt", "ge"), ("=", "!=", "<", "<=", ">", ">="), strict=True
            )
        },
        "=>": ("'=>' is not read here", "write the function around its argument"),
    }
)
"""Other constructs that a block refuses: the message, and the hint."""
_KIND_TESTS: Mapping[str, tuple[Any, int]] = MappingProxyType(
    {
        **{kind: (kind, 0) for kind in ("text", "node", "comment")},
        **{kind: (kind, 1) for kind in ("element", "attribute")},
        **{"document-node": ("document", 0), "processing-instruction": ("instruction", 1)},
    }
)
"""The tests of kinds of nodes: the kind, and the most arguments."""
_LITERALS = ("(string)", "(integer)", "(decimal)", "(float)")
_UNIONS = ("|", "union")
_CHAINS = {
    **{sign: (sign,) for sign in ("and", "or", ",", "||")},
    **dict.fromkeys(_UNIONS, _UNIONS),
}
"""Operators whose chains are one node, with their spellings."""


def _tree(token: Any, bound: frozenset[str]) -> XPath:
    """Return an expression, given the variables in scope; raises for what a block refuses."""
    _refuse(token)
    if (step := _step(token)) is not None:
        return XPath("step", (), step, token)
    if token.symbol in _LITERALS:
        return XPath(str(token.symbol), (), token.value, token)

    def tree(symbol: str, parts: Iterable[Any], value: Any = None) -> XPath:
        return XPath(symbol, tuple([_tree(part, bound) for part in parts]), value, token)

    match str(token.symbol), list(token):
        case symbol, [_, _] if symbol in _CHAINS:
            return tree(_CHAINS[symbol][-1], _flat(token, _CHAINS[symbol]))
        case "$", [name]:
            if str(name.value) not in bound:
                hint = "bind with -> and use the bare name"
                raise WrongXPath(f"the variable ${name.value} is not bound", token.span[0], hint)
            return tree("$", (), str(name.value))
        case ("for" | "some" | "every") as symbol, [*clauses, body]:
            names = [str(variable[0].value) for variable in clauses[::2]]
            inputs = [*clauses[1::2], body]
            scopes = [bound.union(names[:at]) for at in range(len(inputs))]
            return XPath(symbol, tuple(map(_tree, inputs, scopes)), tuple(names), token)
        case ("instance" | "treat" | "cast" | "castable") as symbol, [inner, kind]:
            return tree(symbol, [inner], _sequence_type(kind))
        case ((":" | "Q{"), [_, called]):
            if str(called.label) != "constructor function":
                return _tree(called, bound)
            _refuse_function(called)
            return tree("constructor", called, str(called.symbol))
        case "[", [items, condition]:
            whole = tree("[", [items, condition])
            left, inner = whole.parts
            if left.symbol == "step":
                return XPath("step", (*left.parts, inner), left.value, token)
            return whole
        case symbol, parts:
            if isinstance(token, XPathFunction):
                _refuse_function(token)
            return tree(symbol, parts)


def _flat(token: Any, symbols: Sequence[str]) -> Iterator[Any]:
    """Yield the operands of a chain of one operator, from left to right."""
    pending = [token]
    while pending:
        one = pending.pop()
        if one.symbol in symbols and len(one) == 2:
            pending += (one[1], one[0])
        else:
            yield one


def _step(token: Any) -> XPathStep | None:
    """Return a step without conditions, None for any other expression."""
    symbol = str(token.symbol)
    if symbol == "..":
        return XPathStep("parent", NodeTest("node"))
    if symbol == "@":
        return XPathStep("attribute", _node_test(token[0], "attribute"))
    if symbol in AXES and token.label == "axis":
        return XPathStep(symbol, _node_test(token[0], symbol))
    match symbol:
        case "(name)":
            is_test = True
        case "*":
            is_test = not len(token)
        case ":" | "Q{":
            is_test = token[1].symbol in ("(name)", "*")
        case _:
            is_test = symbol in _KIND_TESTS and token.label == "kind test"
    axis = "attribute" if symbol == "attribute" else "child"
    return XPathStep(axis, _node_test(token, axis)) if is_test else None


def _node_test(token: Any, axis: str) -> NodeTest:
    symbol = str(token.symbol)
    if symbol in _KIND_TESTS:
        kind, most = _KIND_TESTS[symbol]
        if len(token) > most:
            raise WrongXPath(f"{symbol}() with a type", token.span[0], "write the name alone")
        return NodeTest(kind, _name_test(token[0]) if len(token) else None)
    principal: NodeKind = "attribute" if axis == "attribute" else "element"
    return NodeTest(principal, None if symbol == "*" else _name_test(token))


def _name_test(token: Any) -> NameTest | None:
    """Return the test of a name, None for `*`."""
    if not len(token):
        return None if token.symbol == "*" else NameTest(str(token.value).strip())
    prefix, name = token
    uri = None if prefix.symbol == "*" else str(prefix.value).strip()
    if uri is not None and token.symbol == ":":
        uri = str(token.parser.namespaces[uri])
    return NameTest(None if name.symbol == "*" else str(name.value), uri)


def _sequence_type(token: Any) -> SequenceType:
    """Return a type; raises for one that a block does not know."""
    _refuse(token)
    symbol, occurrence = str(token.symbol), str(token.occurrence or "")
    if symbol in ("item", "empty-sequence"):
        return SequenceType(symbol, occurrence)
    if symbol in _KIND_TESTS:
        axis = "attribute" if symbol == "attribute" else "child"
        return SequenceType(_node_test(token, axis), occurrence)
    name = str(token[1].value) if symbol == ":" and token[0].value == "xs" else ""
    if name not in TYPES | {"anyAtomicType"}:
        hint = f"types are {', '.join(sorted(TYPES))}"
        raise WrongXPath(f"the type {token.source}", token.span[0], hint)
    return SequenceType(f"xs:{name}", occurrence)


def _refuse(token: Any) -> None:
    """Raise WrongXPath if the construct of a token is one that a block refuses."""
    symbol = "array" if token.symbol == "[" and token.label == "array" else str(token.symbol)
    if symbol in DENIED:
        raise _denied(symbol, token.span[0])
    if symbol in _REFUSED:
        message, hint = _REFUSED[symbol]
        raise WrongXPath(message, token.span[0], hint)


def _refuse_function(token: Any) -> None:
    """Raise for a function that a block lacks, and for arguments without a bound."""
    symbol, at, label = str(token.symbol), token.span[0], str(token.label)
    if symbol == "time" and token.parser.source[:at][-1:] != ":":
        hint = "compare the times of documents between them: {time(y) > time(x)}; a cast is xs:time"
        raise WrongXPath("time() in a block", at, hint)
    if symbol not in (TYPES if label == "constructor function" else ALLOWED):
        hint = near_miss(symbol, (*ALLOWED, *TYPES)) or "the page on XPath in blocks lists them"
        raise WrongXPath(f"{symbol}() is not a function of blocks", at, hint)
    if len(token) > _COLLATED.get(symbol, len(token)):
        hint = "leave it out: texts are compared by code point"
        raise WrongXPath(f"a collation in {symbol}()", at, hint)
    if symbol in ("round", "round-half-to-even") and len(token) > 1:
        places = token[1][0] if token[1].symbol == "-" and len(token[1]) == 1 else token[1]
        if places.symbol != "(integer)" or places.value > DIGITS:
            raise WrongXPath(f"the places of {symbol}()", at, f"write a number up to {DIGITS}")
    if symbol in EXPRESSIONS and len(token) > 1:
        _check_expression(symbol, token)


_COLLATED: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("distinct-values", "max", "min"), 1),
        **dict.fromkeys(("contains", "starts-with", "ends-with", "substring-before"), 2),
        **dict.fromkeys(("substring-after", "compare", "index-of", "deep-equal"), 2),
        "contains-token": 2,
    }
)
"""Functions with a collation as an optional last argument: the number of arguments before it.

elementpath would set the locale of the process for it, which depends on the machine.
"""


EXPRESSIONS = ("matches", "replace", "tokenize")
"""The functions of a regular expression, which is their second argument."""


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
