"""Trees of XPath, in one form for all spellings, and what follows from them.

`xscl.language.xpath` makes them.  A step has an axis, a node test and conditions, however it is
written; a chain of one operator (`a or b or c`) is one node.  Names have their namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from xscl.language.syntax import NameTest

NodeKind: TypeAlias = Literal["document", "element", "attribute", "text", "comment", "instruction"]


class NodeTest(NamedTuple):
    """A test of a node's kind, and of its name: of a processing instruction the target."""

    kind: NodeKind | Literal["node"]
    name: NameTest | None = None


class XPathStep(NamedTuple):
    """The axis of a step and its node test; its conditions are the parts of the tree."""

    axis: str
    test: NodeTest


class SequenceType(NamedTuple):
    """A type of items: `xs:name`, `item`, `empty-sequence` or a test; with `?`, `*`, `+` or ""."""

    of: str | NodeTest
    occurrence: str


@dataclass(frozen=True, slots=True)
class XPath:
    """An expression: an operator or a function by its `symbol`, with its operands.

    Some have a `value`, too:

        step                            an `XPathStep`; the parts are its conditions
        (string), (integer), ...        the literal
        $                               the name of the variable
        for, some, every                the names of variables; the last part is the body
        instance, treat, cast, castable a `SequenceType`
        constructor                     the name of a type, whose function casts

    `[` has the items of the first part for which the second one holds.  `/` and `//` lead to the
    second part from the first one, and to an only part from the document.
    """

    symbol: str
    parts: tuple[XPath, ...] = ()
    value: Any = None
    token: Any = field(default=None, compare=False, repr=False)

    @property
    def source(self) -> str:
        """The text of the expression, as elementpath prints it."""
        return str(self.token.source)

    def walk(self) -> Iterator[XPath]:
        """Yield the expression and all inside of it."""
        yield self
        for part in self.parts:
            yield from part.walk()


AXES = frozenset(
    (
        *("descendant", "descendant-or-self", "ancestor", "ancestor-or-self", "following"),
        *("preceding", "following-sibling", "preceding-sibling", "child", "parent", "self"),
        "attribute",
    )
)
_NUMERIC = frozenset(
    (
        *("(integer)", "(decimal)", "(float)", "+", "-", "*", "div", "mod", "idiv"),
        *("count", "position", "last", "string-length", "number", "sum", "floor", "ceiling"),
        *("round", "abs", "min", "max", "avg", "year-from-date", "month-from-date"),
        *("day-from-date", "hours-from-dateTime"),
    )
)
_MORE_NUMBERS = _NUMERIC | {
    *("to", "compare", "index-of", "string-to-codepoints", "round-half-to-even", "jaccard"),
    *("pi", "exp", "exp10", "log", "log10", "pow", "sqrt", "sin", "cos", "tan"),
    *("asin", "acos", "atan", "atan2"),
}
_PART_OF_TIME = re.compile(r"(?!timezone)[a-z]+-from-(date|time|dateTime|duration)")
_OF_ITEMS = frozenset(
    (
        *("data", "distinct-values", "exactly-one", "head", "insert-before", "one-or-more"),
        *("remove", "reverse", "subsequence", "tail", "unordered", "zero-or-one"),
    )
)
"""The functions whose items are those of their first argument, perhaps with others."""
_NUMBERS = ("integer", "decimal", "double", "float")
_ALTERNATIVES = 64


def type_of_cast(tree: XPath) -> str:
    """Return the name of the type of a cast or constructor, without its prefix."""
    kind = tree.value.of if isinstance(tree.value, SequenceType) else tree.value
    return str(kind).removeprefix("xs:")


def is_numeric(tree: XPath) -> bool:
    """Return True if an expression is a number, which XPath takes as a position in brackets."""
    match tree.symbol, tree.parts:
        case "(", (inner,):
            return is_numeric(inner)
        case (("cast" | "constructor"), (inner,)):
            fits = is_path(inner) or inner.symbol == "(string)"
            return fits and type_of_cast(tree) in _NUMBERS
        case symbol, _:
            return symbol in _NUMERIC


def may_be_number(tree: XPath) -> bool:
    """Return False if no value of an expression is a number; if True, evaluation has to tell."""
    match tree.symbol, tree.parts:
        case _ if is_path(tree):
            return False
        case (("cast" | "constructor"), _):
            return type_of_cast(tree) in _NUMBERS
        case (("[" | "treat"), (items, *_)):
            return may_be_number(items)
        case (("/" | "//"), (*_, last)):
            return may_be_number(last)
        case "if", (_, *results):
            return any(map(may_be_number, results))
        case (("(" | "," | "!" | "for"), parts):
            return any(map(may_be_number, parts))
        case "insert-before", (items, _, inserted):
            return may_be_number(items) or may_be_number(inserted)
        case name, (items, *_) if name in _OF_ITEMS:
            return may_be_number(items)
        case name, _:
            return name in _MORE_NUMBERS or bool(_PART_OF_TIME.fullmatch(name))


def is_path(tree: XPath) -> bool:
    """Return True if an expression selects nodes by steps."""
    match tree.symbol, tree.parts:
        case "(", parts:
            return len(parts) == 1 and is_path(parts[0])
        case "[", (items, _):
            return is_path(items)
        case (("intersect" | "except" | "union"), parts):
            return all(map(is_path, parts))
        case (("/" | "//"), (*_, last)):
            return is_path(last)
        case symbol, _:
            return symbol in ("step", "/", ".")


def required(tree: XPath) -> list[NameTest]:
    """Return tests of names: an expression can hold at a node only if each has a child that passes.

    The caller evaluates the expression only at such nodes.  So a test is left out if the
    expression could hold, or raise an error, at a node without a child that passes it.
    """
    match tree.symbol, tree.parts:
        case "(", (inner,):
            return required(inner)
        case "and", parts:
            return [one for part in parts for one in required(part)]
        case (("=" | "!=" | "<" | "<=" | ">" | ">="), parts):
            return [one for part in parts for one in _first_name(part)]
        case "some", (items, *_):
            return _first_name(items)
        case (("contains" | "starts-with" | "ends-with"), (path, word, *_)) if (
            word.symbol == "(string)" and word.value
        ):
            return _first_name(path)
        case _:
            return _first_name(tree)


def _first_name(tree: XPath) -> list[NameTest]:
    """Return the name test of a child with which a path begins; empty if it begins otherwise."""
    match tree.symbol, tree.parts, tree.value:
        case (("(" | "constructor"), (inner,), _):
            return _first_name(inner)
        case (("/" | "//" | "["), (first, _), _):
            return _first_name(first)
        case "step", _, XPathStep("child", NodeTest("element", NameTest(str(), str()) as name)):
            return [name]
        case _:
            return []


def uses_position(tree: XPath) -> bool:
    """Return True if an expression reads the position of its own context."""
    match tree.symbol, tree.parts:
        case (("position" | "last"), _):
            return True
        case "step", _:
            return False
        case (("[" | "/" | "//" | "!"), parts):
            return any(map(uses_position, parts[:1]))
        case _, parts:
            return any(map(uses_position, parts))


def rewritten(tree: XPath) -> str | None:
    """Return a condition with `or` in place of its union or sequences; None if it has none."""
    match tree.symbol, tree.parts:
        case "(", (inner,):
            return rewritten(inner)
        case "union", _ if is_path(tree):
            return " or ".join(alternative.source for alternative in _alternatives(tree))
        case "=", sides:
            ones, others = ([*_alternatives(side)] for side in sides)
            if len(ones) * len(others) > 1 and max(len(ones), len(others)) <= _ALTERNATIVES:
                pairs = (f"{one.source} = {other.source}" for one in ones for other in others)
                return " or ".join(pairs)
        case _:
            pass
    return None


def _alternatives(tree: XPath) -> Iterator[XPath]:
    """Yield the operands of nested unions and sequences; else the expression itself."""
    match tree.symbol, tree.parts:
        case "(", (XPath(symbol=("union" | "," | "(")) as inner,):
            yield from _alternatives(inner)
        case (("union" | ","), parts):
            for part in parts:
                yield from _alternatives(part)
        case _:
            yield tree


def is_absolute(tree: XPath) -> bool:
    """Return True if a path, or each one of a union, begins at the document."""
    match tree.symbol, tree.parts:
        case "union", parts:
            return all(map(is_absolute, parts))
        case (("[" | "("), (first, *_)):
            return is_absolute(first)
        case (("/" | "//"), parts):
            return len(parts) < 2 or is_absolute(parts[0])
        case _:
            return False


def is_of_parent(tree: XPath) -> bool:
    """Return True if a path begins with `..`, and so selects the same at all children of a node."""
    match tree.symbol, tree.parts:
        case (("[" | "/" | "//"), (first, _)):
            return is_of_parent(first)
        case symbol, _:
            return symbol == "step" and tree.source.startswith("..")


def kinds(tree: XPath) -> Iterator[str]:
    """Yield the kinds of nodes that a path selects: attribute, or element."""
    match tree.symbol, tree.parts:
        case (("union" | "," | "intersect" | "except"), parts):
            for part in parts:
                yield from kinds(part)
        case (("/" | "//"), (left, last)) if axis := _staying(last):
            yield from kinds(left)
            yield from ("element",) if axis == "ancestor-or-self" else ()
        case (("/" | "//" | "!"), (*_, last)):
            yield from kinds(last)
        case (("(" | "["), (first, *_)):
            yield from kinds(first)
        case "step", _ if tree.value.axis == "attribute":
            yield "attribute"
        case _:
            yield "element"


def _staying(tree: XPath) -> str | None:
    """Return the axis of a step that may lead from an attribute to itself; None for any other."""
    match tree.symbol, tree.value:
        case ".", _:
            return "self"
        case "step", XPathStep(axis, NodeTest(("node" | "attribute"), None)):
            return axis if axis in ("self", "descendant-or-self", "ancestor-or-self") else None
        case _:
            return None
