"""The parser: text to syntax tree.

Lark reads the grammar (`xscl.lark`); `Queries` turns its tree into ours: stream expressions,
windows and join predicates; `paths` has blocks and conditions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from lark import Token, Tree

from templates.model.join_graph import FOLLOWED_BY, JOIN, SYMMETRIC_JOIN, TemporalOperator
from xscl.errors import NotSupported, TooComplex, near_miss
from xscl.language import syntax
from xscl.language.constructor import cut_constructors
from xscl.language.faults import SyntaxFault, broken_declaration, fault
from xscl.language.grammar import admit, read
from xscl.language.names import UNITLESS
from xscl.language.paths import (
    Formulas,
    LarkNode,
    formulas,
    span_of,
    tokens,
    tree_of,
)
from xscl.language.scope import leaves, variables, walk
from xscl.language.unparse import unparse
from xscl.time_format import UNITS

MAX_LATENESS = 1 << 61
_DURATION = re.compile(r"\s*(-?[0-9.]+)\s*([a-z]*)\s*|\s*INF\s*", re.IGNORECASE)


@lru_cache(32)
def parse(text: str) -> syntax.Query:
    """Return the syntax tree of a query; raises QueryError with the place.

    The trees of the last texts are cached: a registration and its warnings call it eight times.
    """
    admit(text)
    try:
        without, constructors = cut_constructors(text, _embedded) if "<" in text else (text, [])
        tree = read(text, "start", shown=without)
        return Queries(text, constructors).query(tree.children[0])
    except SyntaxFault as refused:
        raise broken_declaration(text) or refused from None
    except RecursionError:
        # Reached only if the caller is itself deep in the stack, or a quote hides nesting.
        message = "the query is too complex: nested too deep to be read here"
        raise TooComplex.at(0, message, text) from None


def parse_block(text: str) -> syntax.Block:
    """Return the block of a variable's printed definition; an operand becomes a derived step."""
    block, *derived = read(text, "block_start").children
    made = _block(Formulas(text), block)
    if derived:
        step = syntax.Step(
            syntax.NameTest(None, None), derived=Formulas(text, of="node").operand(derived[0])
        )
        made = replace(made, steps=(*made.steps, step))
    return made


def _block(formulas: Formulas, node: LarkNode) -> syntax.Block:
    """Return a block; what is not XSCL in it is read as XPath."""
    tree = tree_of(node)
    try:
        return formulas.block(tree)
    except (NotSupported, SyntaxFault):
        from xscl.language.blocks import BlockReader  # loads elementpath

        return BlockReader(formulas.source, formulas.prefixes).block(tree)


def parse_operand(text: str) -> syntax.Operand:
    """Return an operand over one node, `.`, as it is printed in a definition."""
    return Formulas(text, of="node").operand(read(text, "formula_start").children[0])


def _embedded(
    declared: Mapping[str, str], source: str, span: syntax.Span
) -> syntax.EmbeddedPath | syntax.EmbeddedOperand:
    """Return the expression in braces of a constructor: a variable, a path, string() of it."""
    operand = Formulas(source, declared).operand(read(source, "formula_start", span).children[0])
    match operand:
        case syntax.VariablePath(variable, path):
            return syntax.EmbeddedPath(variable, path, False, operand.span)
        case syntax.Call("string", (syntax.VariablePath(variable, path),)):
            return syntax.EmbeddedPath(variable, path, True, operand.span)
        case _ if variables(operand) and not any(
            isinstance(leaf, syntax.DecoratedName) for leaf in leaves(operand)
        ):
            return syntax.EmbeddedOperand(operand, operand.span)
        case _:
            hint = "for example {x3}, {x1/title}, {string(x3)} or {lower-case(x3)}"
            raise fault(source, span, "only what reads a variable can stand in braces", hint)


def parse_window(text: str) -> int:
    """Return a duration such as `10 min` in ticks; raises QueryError for INF and below 0."""
    match = _DURATION.fullmatch(text)
    if match is None or match[1] is None:
        raise fault(text, syntax.Span(), "this is not a duration", "for example 10 min, or 1.5 h")
    window = Queries(text).window_of(
        match[1], match[2] or None, syntax.Span(), unit_span=syntax.Span(match.start(2))
    )
    assert window.ticks is not None
    if window.ticks > MAX_LATENESS:
        raise fault(text, syntax.Span(), "this duration is too long")
    return window.ticks


# -- From lark's tree ----------------------------------------------------------------------

MAX_WINDOW = 1 << 62

_MEANT = {
    "m": "write min for minutes, ms for milliseconds",
    "msec": "did you mean ms?",
    "millisecond": "did you mean ms?",
    "sec": "did you mean s?",
    "second": "did you mean s?",
    "minute": "did you mean min?",
    "hr": "did you mean h?",
    "hour": "did you mean h?",
    "day": "did you mean d?",
    "week": "did you mean w?",
    "month": "write 30 d",
    "y": "write 365 d",
    "year": "write 365 d",
}
"""Hints for units that a window does not have, in the singular."""


def _unit_hint(unit: str) -> str:
    """Return the hint for an unknown unit; `unit` is in lower case."""
    single = unit.removesuffix("s")
    return _MEANT.get(single) or near_miss(unit, UNITS) or f"units are {', '.join(UNITS)}"


class Queries(Formulas):
    """Makes whole queries from lark's tree of one text."""

    def __init__(
        self,
        source: str,
        constructors: Iterable[syntax.Element] = (),
    ) -> None:
        super().__init__(source)
        self._constructors = iter(constructors)

    # -- Queries and stream expressions ----------------------------------------------------

    def query(self, node: LarkNode) -> syntax.Query:
        select: syntax.Element | None = None
        distinct, publish = False, None
        expression: syntax.StreamExpression | None = None
        declared: dict[str, str] = {}
        for child in tree_of(node).children:
            tree = tree_of(child)
            match tree.data:
                case "namespace":
                    self._declare(tree, declared)
                case "select":
                    kinds = tokens(tree)
                    distinct = "DISTINCT" in kinds
                    if "CONSTRUCTOR" in kinds:
                        select = next(self._constructors)
                case "publish":
                    publish = str(tree.children[1])
                case _:
                    expression = self.expression(tree)
        assert expression is not None
        return syntax.Query(expression, select, distinct, publish, span_of(node), declared)

    def _declare(self, tree: Tree[Token], declared: dict[str, str]) -> None:
        """Add a declared namespace to `prefixes`, and to `declared`; raises QueryError.

        `declared` has the namespaces that the same query declares, by prefix.
        """
        _, prefix, uri = tree.children
        if declared.setdefault(str(prefix), str(uri)[1:-1]) != str(uri)[1:-1]:
            raise self.fault(prefix, f"the prefix {str(prefix)!r} is declared twice")
        if prefix == "xml":
            raise self.fault(prefix, "the prefix 'xml' cannot be declared anew")
        if "{" in str(uri) or "}" in str(uri):
            raise self.fault(uri, "the name of a namespace holds no braces")
        self.prefixes[str(prefix)] = str(uri)[1:-1]

    def expression(self, node: LarkNode) -> syntax.StreamExpression:
        tree = tree_of(node)
        if tree.data == "block":
            return _block(self, tree)
        if tree.data == "query":
            inner = self.query(tree)
            clauses = {tree_of(child).data for child in tree.children} & {"select", "publish"}
            return inner if clauses else inner.expression
        first, *others, last = formulas(tree)
        left, right = self.expression(first), self.expression(last)
        words = tokens(tree)
        span = span_of(next(iter(words.values())))
        match tree.data:
            case "next":
                predicate = self.predicate(others[0]) if others else None
                return syntax.Next(left, right, predicate, span)
            case "fold":
                return self._fold(tree, left, right, span)
            case _:
                constraint = others[0] if others and others[0].data == "constraint" else None
                predicate, window = self.constraint(constraint)
                operator = FOLLOWED_BY if "FOLLOWED" in words else JOIN
                operator = SYMMETRIC_JOIN if "SYMMETRIC" in words else operator
                self._expect_bounds(operator, window)
                negated, alone = "NOT" in words, (False, False)
                if negated or "ELSE" in words:
                    alone = "RIGHT" not in words, not (operator.follows or "LEFT" in words)
                return syntax.Join(left, right, predicate, window, operator, alone, negated, span)

    def _fold(
        self,
        tree: Tree[Token],
        left: syntax.StreamExpression,
        right: syntax.StreamExpression,
        span: syntax.Span,
    ) -> syntax.Fold:
        items = [c for c in tree.children if isinstance(c, Tree) and c.data == "fold_item"]
        read = [self.predicate(item.children[0]) for item in items[:2]]
        predicate, again = (*read, None, None)[:2]
        aggregates = tuple(
            (str(item.children[-1]), self.operand(item.children[0])) for item in items[2:]
        )
        longest = "LONGEST" in tokens(tree)
        if longest and again in (None, predicate):
            message = "nothing ends a run of LONGEST FOLD: each next document continues it"
            hint = "the first predicate finds the next document, the second one says it continues"
            raise self.fault(span, message, hint)
        return syntax.Fold(left, right, predicate, again, aggregates, longest, span)

    # -- Windows ---------------------------------------------------------------------------

    def constraint(self, node: LarkNode | None) -> tuple[syntax.Predicate | None, syntax.Window]:
        """Return predicate and window of `{p, T}`; None and an infinite window where one lacks."""
        predicate: syntax.Predicate | None = None
        window = syntax.Window()
        for child in tree_of(node).children if node is not None else ():
            tree = tree_of(child)
            if tree.data == "window":
                window = self._window(tree)
            elif tree.data == "number":
                window = self.window_of(str(tree.children[0]), None, span_of(tree))
            elif tree.data == "minus" and tree_of(tree.children[1]).data == "number":
                number = tree_of(tree.children[1]).children[0]
                window = self.window_of(f"-{number}", None, span_of(tree))
            else:
                predicate = self.predicate(tree)
        return predicate, window

    def _window(self, tree: Tree[Token]) -> syntax.Window:
        lengths = formulas(tree)
        if not lengths:
            message = f"the window {str(tree.children[0])!r} is a name, not a duration"
            hint = "write a number of ticks, a duration such as 10 min, or INF"
            raise self.fault(tree, message, hint)
        if len(lengths) == 1:
            return self._length(lengths[0])
        lower, upper = (self._length(length, signed=True) for length in lengths)
        if lower.ticks is None:
            hint = "B JOIN{..., 0 s TO INF} A is A before B, at any time"
            raise self.fault(lower.span, "INF is no lower bound: exchange the sides", hint)
        if upper.ticks is not None and lower.ticks > upper.ticks:
            message = f"the lower bound {unparse(lower)} is above the upper bound {unparse(upper)}"
            raise self.fault(lower.span, message, "write the smaller one first: 12 h TO 2 d")
        for one, other in ((lower, upper), (upper, lower)):
            if one.ticks and one.unit is None and other.unit is not None:
                hint = f"write {one.ticks} {other.unit}, or both in ticks"
                raise self.fault(one.span, f"the bound {one.ticks} has no unit", hint)
        return replace(upper, lower=lower)

    def _length(self, tree: Tree[Token], *, signed: bool = False) -> syntax.Window:
        number, unit, minus = map(tokens(tree).get, ("NUMBER", "NAME", "MINUS"))
        if number is None:
            if minus is not None:
                raise self.fault(tree, "-INF is no bound", "exchange the sides, and write INF")
            return syntax.Window(span=span_of(tree))
        digits = f"{minus or ''}{number}"
        first = syntax.Span(span_of(tree).start, number.end_pos or 0)
        place = span_of(unit) if unit else None
        return self.window_of(digits, unit and str(unit), first, place, signed=signed)

    def window_of(
        self,
        digits: str,
        unit: str | None,
        span: syntax.Span,
        unit_span: syntax.Span | None = None,
        *,
        signed: bool = False,
    ) -> syntax.Window:
        """Return the window of a number and a unit; a `signed` one may be below 0."""
        if unit is not None and unit.lower() not in UNITS:
            message, hint = f"{unit!r} is not a unit of time", _unit_hint(unit.lower())
            raise self.fault(unit_span or span, message, hint)
        unit = unit and unit.lower()
        try:
            ticks = Decimal(digits) * (UNITS[unit] if unit else 1)
        except InvalidOperation:
            raise self.fault(span, f"{digits!r} is not a number") from None
        if ticks < 0 and not signed:
            message = f"the window {digits}{f' {unit}' if unit else ''} is below 0"
            hint = "a window is how far apart two documents may be, or two bounds: -1 h TO 3 d"
            raise self.fault(span, message, hint)
        if abs(ticks) > MAX_WINDOW:
            raise self.fault(span, "the window is too long", "write INF for no limit")
        if ticks != int(ticks):
            message = f"the window {digits} {unit or 'ticks'} is no whole number of ticks"
            raise self.fault(span, message, "one tick is 1 microsecond")
        return syntax.Window(int(ticks), unit, span=span)

    def _expect_bounds(self, operator: TemporalOperator, window: syntax.Window) -> None:
        """Raise QueryError for a window that contradicts the order of an operator's sides."""
        least = math.inf if window.least is None else window.least
        span = (window.lower or window).span
        if operator.follows and least < 1:
            message = "the lower bound of FOLLOWED BY must be above 0"
            hint = "JOIN finds documents of the same time and earlier ones, too"
            raise self.fault(span, message, hint)
        if operator.follows and window.ticks == 0:
            raise self.fault(window.span, "the window of FOLLOWED BY must be above 0")
        if operator is SYMMETRIC_JOIN and least < 0:
            message = "the lower bound of SYMMETRIC JOIN must not be below 0"
            hint = "the earlier document is the left one: 0 s TO 3 d"
            raise self.fault(span, message, hint)


def refuse_bare_windows(text: str) -> None:
    """Raise QueryError for a window without a unit, such as 10.

    Bare numbers are ticks, which are right in a library and a trap for people.  A text without such
    a window is not parsed, so its other errors are not raised.
    """
    if re.search(UNITLESS, text) is None:
        return
    for node in walk(parse(text)):
        if not isinstance(node, syntax.Join):
            continue
        for bound in (node.window.lower, node.window):
            if bound is not None and bound.ticks and bound.unit is None:
                ticks, units = bound.ticks, ", ".join(UNITS)
                hint = f"write '{ticks} s' or '{ticks} min'; the units are {units}"
                raise fault(text, bound.span, f"the window {ticks} has no unit", hint)
