"""The parser: text to syntax tree.

Lark reads the grammar (`xscl.lark`); the functions here turn its tree into
ours and refuse what the grammar lets through: conditions where a path is
meant, bindings where nothing can be bound, windows that cannot be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import cache, partial
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, cast

from lark import Lark, TextSlice, Token, Tree
from lark.exceptions import UnexpectedInput

from xscl.errors import QueryError, TooComplex
from xscl.language.constructor import cut_constructors
from xscl.language.faults import fault, near_miss, syntax_fault, unsupported
from xscl.language.limits import UNITS, refuse_excess
from xscl.language.names import PREDECLARED
from xscl.language.syntax import (
    And,
    Arithmetic,
    Block,
    Call,
    Compare,
    Comparison,
    Condition,
    Constant,
    Decorated,
    Element,
    Embedded,
    Exists,
    Expression,
    Fold,
    FollowedBy,
    Join,
    NameTest,
    Next,
    Not,
    Operand,
    Operator,
    Or,
    Path,
    Predicate,
    Query,
    Span,
    Step,
    TextMatch,
    VariablePath,
    Window,
)

MAX_WINDOW = 1 << 62
MAX_LATENESS = 1 << 61
FUNCTIONS = (
    *("contains", "starts-with", "lower-case", "upper-case", "normalize-space", "concat"),
    *("substring", "substring-before", "substring-after", "string-length", "translate"),
    *("string", "number", "round", "floor", "ceiling"),
)
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DECLARATION = re.compile(
    r"""(?:\s|--[^\n]*)*NAMESPACE\s+(?P<prefix>[^\s=]+)\s*=\s*(?P<uri>"[^"]*"|'[^']*')""",
    re.IGNORECASE,
)
_DURATION = re.compile(r"\s*(-?[0-9.]+)\s*([a-z]*)\s*|\s*INF\s*", re.IGNORECASE)

Node = Tree[Token] | Token


def parse(text: str) -> Query:
    """Return the syntax tree of a query; raises QueryError with the place."""
    refuse_excess(text)
    try:
        embedded = partial(_embedded, _declared(text))
        without, constructors = cut_constructors(text, embedded)
        return _Builder(text, constructors).query(_read(text, without, "start").children[0])
    except RecursionError:
        # Only where the caller is itself deep in the stack, or a quote hides nesting.
        message = "the query is too complex: nested too deep to be read here"
        raise TooComplex.at(0, message, text) from None


def parse_block(text: str) -> Block:
    """Return a block, as it is printed in the definition of a variable."""
    return _Builder(text, []).block(_read(text, text, "block_start").children[0])


def _declared(text: str) -> dict[str, str]:
    """Return the prefixes that a query declares before anything else."""
    declared: dict[str, str] = {}
    offset = 0
    while (found := _DECLARATION.match(text, offset)) is not None:
        declared[found["prefix"]] = found["uri"][1:-1]
        offset = found.end()
    return declared


def _embedded(declared: Mapping[str, str], source: str, span: Span) -> Embedded:
    """Return what stands in braces in a constructor: a variable, a path on one, string() of it."""
    builder = _Builder(source, [], declared)
    read = _read(source, source, "formula_start", span)
    operand = builder.operand(read.children[0])
    match operand:
        case VariablePath(variable, path):
            return Embedded(variable, path, False, operand.span)
        case Call("string", (VariablePath(variable, path),)):
            return Embedded(variable, path, True, operand.span)
        case _:
            raise fault(
                source,
                span,
                "only a variable, a path on one, or string() of it can stand in braces",
                "for example {x3}, {x1/title} or {string(x3)}",
            )


def parse_window(text: str) -> int:
    """Return a duration such as `10 min` in ticks; it must be finite and not negative."""
    match = _DURATION.fullmatch(text)
    if match is None or match[1] is None:
        raise fault(text, Span(), "this is not a duration", "for example 10 min, or 1.5 h")
    window = _Builder(text, []).window_of(match[1], match[2] or None, Span())
    assert window.ticks is not None
    if window.ticks > MAX_LATENESS:
        raise fault(text, Span(), "this duration is too long")
    return window.ticks


@cache
def _lark() -> Lark:
    grammar = resources.files(__package__).joinpath("xscl.lark").read_text("utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start=["start", "block_start", "formula_start"],
        maybe_placeholders=False,
    )


def _read(source: str, text: str, start: str, span: Span | None = None) -> Tree[Token]:
    """Return lark's tree of a text, or of a span of it; places are places of the source."""
    end = len(text) if span is None else span.end
    sliced = TextSlice(text, 0 if span is None else span.start, end)
    try:
        return _lark().parse(sliced, start=start)
    except UnexpectedInput as error:
        offset = error.pos_in_stream
        quote = source[offset : offset + 1] if offset is not None else ""
        if offset is not None and quote in ("'", '"') and quote not in source[offset + 1 : end]:
            raise fault(
                source, Span(offset), "this string is not closed", "end it with the same quote"
            ) from None
        wrong = syntax_fault(source[:end], error)
        raise QueryError(wrong.message, source, wrong.line, wrong.column, wrong.hint) from None


class _Builder:
    """Turns lark's tree of one text into ours."""

    def __init__(
        self,
        source: str,
        constructors: list[Element],
        declared: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.source = source
        self._constructors = iter(constructors)
        self._prefixes = {**PREDECLARED, **declared}

    # -- Queries and stream expressions ----------------------------------------------------

    def query(self, node: Node) -> Query:
        select: Element | None = None
        distinct, publish = False, None
        expression: Expression | None = None
        for child in _tree(node).children:
            tree = _tree(child)
            match tree.data:
                case "namespace":
                    self._declare(tree)
                case "select":
                    kinds = {token.type for token in tree.children if isinstance(token, Token)}
                    distinct = "DISTINCT" in kinds
                    if "CONSTRUCTOR" in kinds:
                        select = next(self._constructors)
                case "publish":
                    publish = str(tree.children[1])
                case _:
                    expression = self.expression(tree)
        assert expression is not None
        return Query(expression, select, distinct, publish, _span(node))

    def _declare(self, tree: Tree[Token]) -> None:
        _, prefix, uri = tree.children
        if prefix == "xml":
            raise fault(self.source, _span(prefix), "the prefix 'xml' cannot be declared anew")
        if "{" in str(uri) or "}" in str(uri):
            raise fault(self.source, _span(uri), "the name of a namespace holds no braces")
        self._prefixes[str(prefix)] = str(uri)[1:-1]

    def expression(self, node: Node) -> Expression:
        tree = _tree(node)
        if tree.data == "block":
            return self.block(tree)
        if tree.data == "query":
            inner = self.query(tree)
            clauses = {_tree(child).data for child in tree.children} & {"select", "publish"}
            return inner if clauses else inner.expression
        left, right, constraint = self._operands(tree)
        span = _span(next(c for c in tree.children if isinstance(c, Token)))
        match tree.data:
            case "join":
                predicate, window = self.constraint(constraint)
                return Join(left, right, predicate, window, span)
            case "followed_by" | "not_followed_by":
                predicate, window = self.constraint(constraint)
                if window.ticks == 0:
                    raise fault(
                        self.source, window.span, "the window of FOLLOWED BY must be above 0"
                    )
                negated = tree.data == "not_followed_by"
                otherwise = any(_is_token(c, "ELSE") for c in tree.children)
                return FollowedBy(left, right, predicate, window, negated, otherwise, span)
            case "next":
                formulas = [c for c in tree.children[1:-1] if not _is_token(c, "NEXT")]
                predicate = self.predicate(formulas[0]) if formulas else None
                return Next(left, right, predicate, span)
            case _:
                return self._fold(tree, left, right, span)

    def _operands(self, tree: Tree[Token]) -> tuple[Expression, Expression, Node | None]:
        trees = [c for c in tree.children if isinstance(c, Tree)]
        constraint = next((c for c in trees if c.data == "constraint"), None)
        return self.expression(trees[0]), self.expression(trees[-1]), constraint

    def _fold(self, tree: Tree[Token], left: Expression, right: Expression, span: Span) -> Fold:
        items = [c for c in tree.children if isinstance(c, Tree) and c.data == "fold_item"]
        predicates = [self.predicate(item.children[0]) for item in items[:2]]
        predicates.extend([None] * (2 - len(predicates)))  # type: ignore[list-item]  # absent ones
        aggregates = tuple(
            (str(item.children[-1]), self.operand(item.children[0])) for item in items[2:]
        )
        return Fold(left, right, predicates[0], predicates[1], aggregates, span)

    # -- Windows ---------------------------------------------------------------------------

    def constraint(self, node: Node | None) -> tuple[Predicate | None, Window]:
        """Return predicate and window of `{p, T}`; either may be left out."""
        predicate: Predicate | None = None
        window = Window()
        for child in _tree(node).children if node is not None else ():
            tree = _tree(child)
            if tree.data in ("window", "duration"):
                window = self.window(tree)
            elif tree.data == "number":
                window = self.window_of(str(tree.children[0]), None, _span(tree))
            elif tree.data == "minus" and _tree(tree.children[1]).data == "number":
                number = _tree(tree.children[1]).children[0]
                window = self.window_of(f"-{number}", None, _span(tree))
            else:
                predicate = self.predicate(tree)
        return predicate, window

    def window(self, tree: Tree[Token]) -> Window:
        tokens = [cast(Token, child) for child in tree.children]
        if tokens[0].type == "INF":
            return Window(None, None, _span(tokens[0]))
        if tokens[0].type == "NAME":
            raise fault(
                self.source,
                _span(tokens[0]),
                f"the window {str(tokens[0])!r} is a name, not a duration",
                "write a number of ticks, a duration such as 10 min, or INF",
            )
        digits = "".join(t for t in tokens if t.type in ("MINUS", "NUMBER"))
        unit = next((str(t) for t in tokens if t.type == "NAME"), None)
        return self.window_of(digits, unit, _span(tokens[0]))

    def window_of(self, digits: str, unit: str | None, span: Span) -> Window:
        """Return the window of a number and a unit."""
        if unit is not None and unit.lower() not in UNITS:
            hint = near_miss(unit.lower(), UNITS) or f"units are {', '.join(UNITS)}"
            raise fault(self.source, span, f"{unit!r} is not a unit of time", hint)
        unit = unit and unit.lower()
        try:
            ticks = Decimal(digits) * (UNITS[unit] if unit else 1)
        except InvalidOperation:
            raise fault(self.source, span, f"{digits!r} is not a number") from None
        if ticks < 0:
            raise fault(
                self.source,
                span,
                f"the window {digits}{f' {unit}' if unit else ''} is below 0",
                "a window is how far apart two documents may be",
            )
        if ticks > MAX_WINDOW:
            raise fault(self.source, span, "the window is too long", "write INF for no limit")
        if ticks != int(ticks):
            raise fault(
                self.source,
                span,
                f"the window {digits} {unit or 'ticks'} is no whole number of ticks",
                "one tick is 1 microsecond",
            )
        return Window(int(ticks), unit, span)

    # -- Blocks and paths ------------------------------------------------------------------

    def block(self, node: Node) -> Block:
        tree = _tree(node)
        stream = cast(Token, tree.children[0])
        steps: tuple[Step, ...] = ()
        variable: Token | None = None
        for child in tree.children[1:]:
            if isinstance(child, Tree):
                steps = self.steps(child)
            elif child.type == "NAME":
                variable = child
        if not steps:
            steps = (Step(NameTest(None, None), span=_span(stream)),)
        if variable is not None:
            steps = (*steps[:-1], self._bound(steps[-1], variable))
        return Block(str(stream), steps, _span(stream))

    def steps(self, tree: Tree[Token]) -> tuple[Step, ...]:
        children = tree.children
        return tuple(
            self.step(_tree(step), descendant=str(_tree(slash).children[0]) == "//")
            for slash, step in zip(children[::2], children[1::2], strict=True)
        )

    def step(self, tree: Tree[Token], *, descendant: bool = False, variable: bool = False) -> Step:
        """Return a step; the first of a path between documents is a variable instead."""
        if tree.data == "bound_type":
            raise fault(
                self.source,
                _span(tree),
                f"{tree.children[0]}() cannot be bound",
                "bind the element that holds the text",
            )
        if tree.data == "node_type":
            name = str(tree.children[0])
            raise fault(
                self.source,
                _span(tree),
                f"{name}() cannot stand here",
                "text() may end a path in a comparison"
                if name == "text"
                else "paths select elements and attributes",
            )
        children = list(tree.children)
        attribute = _is_token(children[0], "AT")
        test = self.name_test(_tree(children[attribute]))
        if not variable and "'" in (test.local or ""):
            raise fault(
                self.source,
                _span(children[attribute]),
                f"{test.local!r} is no name of an element or attribute",
                "only the names of streams and variables may hold a quote",
            )
        step = Step(test, descendant, attribute, span=_span(children[attribute]))
        conditions: list[Condition] = []
        for suffix in map(_tree, children[attribute + 1 :]):
            if suffix.data == "binding":
                step = self._bound(step, cast(Token, suffix.children[0]))
            else:
                conditions.append(self._bracket(suffix))
        return replace(step, conditions=tuple(conditions))

    def _bracket(self, tree: Tree[Token]) -> Condition:
        """Return the condition in brackets; `[./a AS x]` is `[./a->x]`."""
        condition = self.condition(tree.children[0])
        if len(tree.children) == 1:
            return condition
        variable = cast(Token, tree.children[-1])
        if not isinstance(condition, Exists) or not condition.path.steps or condition.path.text:
            raise fault(self.source, _span(variable), "only a path to a node can be bound")
        *outer, last = condition.path.steps
        return Exists(replace(condition.path, steps=(*outer, self._bound(last, variable))))

    def _bound(self, step: Step, variable: Token) -> Step:
        if step.variable is not None:
            raise fault(
                self.source, _span(variable), f"this step is bound to {step.variable!r} already"
            )
        return replace(step, variable=str(variable), variable_span=_span(variable))

    def name_test(self, tree: Tree[Token]) -> NameTest:
        tokens = [str(child) for child in tree.children]
        match tree.data:
            case "plain_name":
                return NameTest(tokens[0], "")
            case "any_name":
                return NameTest(None, None)
            case "any_prefix":
                return NameTest(tokens[1], None)
            case "braced":
                return NameTest(None if tokens[1] == "*" else tokens[1], tokens[0][2:-1])
            case _:
                return NameTest(None if tokens[1] == "*" else tokens[1], self._uri(tree))

    def _uri(self, tree: Tree[Token]) -> str:
        prefix = cast(Token, tree.children[0])
        uri = self._prefixes.get(str(prefix))
        if uri is None:
            raise fault(
                self.source,
                _span(prefix),
                f"the prefix {str(prefix)!r} is not declared",
                near_miss(str(prefix), self._prefixes)
                or f'declare it: NAMESPACE {prefix} = "..." before the query',
            )
        return uri

    # -- Conditions ------------------------------------------------------------------------

    def condition(self, node: Node) -> Condition:
        tree = _tree(node)
        match tree.data:
            case "conjunction":
                return And(tuple(self.condition(c) for c in _formulas(tree)), _sign(tree))
            case "disjunction":
                parts = (self._unbound(self.condition(c), c) for c in _formulas(tree))
                return Or(tuple(parts), _sign(tree))
            case "negation":
                (part,) = _formulas(tree)
                return Not(self._unbound(self.condition(part), part), _sign(tree))
            case "comparison":
                return self._compare(tree)
            case "path" if _calls(tree):
                return self._function(_tree(tree.children[0]))
            case "path":
                path = self.path(tree)
                return Exists(path)
            case "number":
                raise fault(
                    self.source,
                    _span(tree),
                    "positions are not part of XSCL",
                    "a condition is a path, a comparison, or contains()",
                )
            case _:
                raise fault(
                    self.source,
                    _span(tree),
                    "this is not a condition",
                    "a condition is a path, a comparison, contains() or starts-with()",
                )

    def _compare(self, tree: Tree[Token]) -> Condition:
        left, operator, right = tree.children
        comparison = cast(Operator, str(operator))
        sides = [_tree(left), _tree(right)]
        if sides[0].data in ("string", "number", "minus"):
            sides.reverse()
            comparison = cast(Operator, _MIRRORED[comparison])
        if sides[1].data not in ("string", "number", "minus"):
            raise unsupported(self.source, _span(tree), "comparing two paths of one document")
        if sides[0].data != "path" or _calls(sides[0]):
            raise unsupported(self.source, _span(tree), "a comparison with anything but a path")
        path = self.path(sides[0])
        if _binds(path):
            raise fault(self.source, path.span, "a path in a comparison cannot bind a variable")
        return Compare(path, comparison, self._literal(sides[1]))

    def _literal(self, tree: Tree[Token]) -> str | float:
        if tree.data == "minus":
            value = self._literal(_tree(tree.children[1]))
            if isinstance(value, str):
                raise fault(self.source, _span(tree), "a string has no negative")
            return 0.0 - value
        text = str(tree.children[0])
        if tree.data == "string":
            return text[1:-1]
        number = float(text)
        if math.isinf(number):
            raise fault(self.source, _span(tree), "the number is too large")
        return number

    def _function(self, call: Tree[Token]) -> Condition:
        name = _function_name(call)
        arguments = _formulas(call)
        if name.lower() == "not" and len(arguments) == 1:
            return Not(self._unbound(self.condition(arguments[0]), arguments[0]), _sign(call))
        if name in FUNCTIONS and name not in ("contains", "starts-with"):
            raise unsupported(self.source, _span(call), f"{name}() in a condition")
        if name not in ("contains", "starts-with"):
            raise fault(
                self.source,
                _span(call),
                f"unknown function {name}()",
                near_miss(name, ("contains", "starts-with", "not"))
                or "conditions may use contains(), starts-with() and not()",
            )
        if len(arguments) != 2 or arguments[0].data != "path" or arguments[1].data != "string":
            raise fault(self.source, _span(call), f"{name}() takes a path and a string")
        path = self.path(arguments[0])
        if _binds(path):
            raise fault(self.source, path.span, f"a path in {name}() cannot bind a variable")
        function = cast(Literal["contains", "starts-with"], name)
        return TextMatch(function, path, str(self._literal(arguments[1])))

    def _unbound(self, condition: Condition, node: Node) -> Condition:
        """Return a condition under OR or NOT, where nothing can be bound."""
        if _binds(condition):
            raise fault(
                self.source,
                _span(node),
                "a variable cannot be bound under or and not",
                "bind it in a condition of its own",
            )
        return condition

    def path(self, tree: Tree[Token], *, variable: bool = False) -> Path:
        """Return a relative path: `.`, `a/b`, `./a`, `.//a`, `@id`, `a/text()`.

        With `variable` it starts at a variable, which is then its first step.
        """
        children = list(tree.children)
        first = children[0]
        span = _span(tree)
        if isinstance(first, Tree) and first.data == "steps":
            raise fault(
                self.source, span, "a condition's path starts at the node", "write ./ or .//"
            )
        head: list[tuple[bool, Tree[Token]]] = []
        if isinstance(first, Tree):
            head.append((False, first))
        rest = _tree(children[1]).children if len(children) > 1 else []
        for slash, step in zip(rest[::2], rest[1::2], strict=True):
            head.append((str(_tree(slash).children[0]) == "//", _tree(step)))
        text: Literal["child", "descendant"] | None = None
        if head and head[-1][1].data == "node_type" and str(head[-1][1].children[0]) == "text":
            text = "descendant" if head.pop()[0] else "child"
        steps = tuple(
            self.step(step, descendant=deep, variable=variable and not i)
            for i, (deep, step) in enumerate(head)
        )
        return Path(steps, text, span)

    # -- Join predicates -------------------------------------------------------------------

    def predicate(self, node: Node) -> Predicate:
        tree = _tree(node)
        match tree.data:
            case "conjunction":
                return And(tuple(self.predicate(c) for c in _formulas(tree)), _sign(tree))
            case "disjunction":
                return Or(tuple(self.predicate(c) for c in _formulas(tree)), _sign(tree))
            case "negation":
                return Not(self.predicate(_formulas(tree)[0]), _sign(tree))
            case "comparison":
                left, operator, right = tree.children
                return Comparison(
                    cast(Operator, str(operator)),
                    self.operand(left),
                    self.operand(right),
                    _span(tree),
                )
            case "path" if (
                _calls(tree) and _function_name(_tree(tree.children[0])).lower() == "not"
            ):
                negation = _tree(tree.children[0])
                return Not(self.predicate(_formulas(negation)[0]), _sign(negation))
            case "path" if _calls(tree):
                call = self.operand(tree)
                assert isinstance(call, Call)
                if call.function in ("contains", "starts-with"):
                    return call
                message = f"{call.function}() is a value, not a predicate"
                raise fault(self.source, call.span, message, "compare it: lower-case(x) = 'a'")
            case _:
                raise fault(
                    self.source,
                    _span(tree),
                    "this is not a predicate",
                    "a predicate compares variables of the two sides, for example x2 = x5",
                )

    def operand(self, node: Node) -> Operand:
        tree = _tree(node)
        span = _span(tree)
        match tree.data:
            case "number" | "string":
                return Constant(self._literal(tree), span)
            case "minus" if _tree(tree.children[1]).data == "number":
                return Constant(self._literal(tree), span)
            case "minus":
                return Arithmetic("-", Constant(0.0, span), self.operand(tree.children[1]), span)
            case "decorated":
                text = str(tree.children[0])
                number, _, name = text[1:].partition(".")
                return Decorated(int(number or 0), name, span)
            case "arithmetic":
                left, sign, right = tree.children
                operator = cast(Any, str(sign).lower())
                return Arithmetic(operator, self.operand(left), self.operand(right), span)
            case "path" if _calls(tree):
                call = _tree(tree.children[0])
                name = _function_name(call)
                if name not in FUNCTIONS:
                    hint = near_miss(name, FUNCTIONS) or f"functions are {', '.join(FUNCTIONS)}"
                    raise fault(self.source, span, f"unknown function {name}()", hint)
                return Call(name, tuple(map(self.operand, _formulas(call))), span)
            case "path":
                return self._variable_path(tree)
            case _:
                raise fault(self.source, span, "this has no value to compare")

    def _variable_path(self, tree: Tree[Token]) -> VariablePath:
        path = self.path(tree, variable=True)
        first = path.steps[0] if path.steps else None
        if first is not None and first.conditions:
            raise unsupported(
                self.source, path.span, "a condition on a variable", "write it in the block"
            )
        if _binds(path):
            raise fault(
                self.source, path.span, "no variable can be bound here", "bind it in a block"
            )
        if (
            first is None
            or isinstance(tree.children[0], Token)
            or first.attribute
            or first.test.local is None
            or first.test.uri != ""
        ):
            raise fault(
                self.source,
                path.span,
                "a path between documents starts at a variable",
                "for example x1/author",
            )
        return VariablePath(first.test.local, Path(path.steps[1:], path.text), path.span)


def _tree(node: Node | None) -> Tree[Token]:
    assert isinstance(node, Tree)
    return node


def _is_token(node: Node, kind: str) -> bool:
    return isinstance(node, Token) and node.type == kind


def _formulas(tree: Tree[Token]) -> list[Tree[Token]]:
    return [child for child in tree.children if isinstance(child, Tree)]


def _sign(tree: Tree[Token]) -> Span:
    """Return where the first AND, OR or NOT of a formula stands."""
    return _span(next(child for child in tree.children if isinstance(child, Token)))


def _function_name(call: Tree[Token]) -> str:
    return ":".join(child for child in call.children if isinstance(child, Token))


def _calls(tree: Tree[Token]) -> bool:
    first = tree.children[0]
    return isinstance(first, Tree) and first.data == "call"


def _binds(item: Path | Condition) -> bool:
    match item:
        case Path(steps) | Exists(Path(steps)):
            return any(s.variable is not None or any(map(_binds, s.conditions)) for s in steps)
        case Compare(path) | TextMatch(_, path):
            return _binds(path)
        case And(parts) | Or(parts):
            return any(map(_binds, parts))
        case Not(part):
            return _binds(part)


def _span(node: Node) -> Span:
    """Return where a node's first and last tokens stand."""
    first, last = _edge(node, 0), _edge(node, -1)
    if first is None or last is None:
        return Span()
    return Span(first.start_pos or 0, last.end_pos or 0)


def _edge(node: Node, index: Literal[0, -1]) -> Token | None:
    """Return the first or the last token of a node."""
    if isinstance(node, Token):
        return node
    for child in node.children if index == 0 else reversed(node.children):
        found = _edge(child, index)
        if found is not None:
            return found
    return None
