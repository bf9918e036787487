"""The parser: text to syntax tree.

Lark reads the grammar (`xscl.lark`); the functions here turn its tree into
ours and refuse what the grammar lets through: conditions where a path is
meant, bindings where nothing can be bound, windows that cannot be.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any, Literal, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from xscl.errors import QueryError
from xscl.language.constructor import cut_constructors
from xscl.language.faults import fault, near_miss, syntax_fault, unsupported
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

MAX_LENGTH = 65_536
MAX_STEPS = 64
MAX_DEPTH = 100
UNITS = {
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
MAX_WINDOW = 1 << 61
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DURATION = re.compile(r"\s*(-?[0-9.]+)\s*([a-z]*)\s*|\s*INF\s*", re.IGNORECASE)

Node = Tree[Token] | Token


def parse(text: str) -> Query:
    """Return the syntax tree of a query; raises QueryError with the place."""
    without, constructors = cut_constructors(_measured(text), _embedded)
    return _Builder(text, constructors).query(_read(text, without, "start").children[0])


def parse_block(text: str) -> Block:
    """Return a block, as it is printed in the definition of a variable."""
    return _Builder(text, []).block(_read(text, text, "block_start").children[0])


def _embedded(source: str, span: Span) -> Embedded:
    """Return what stands in braces in a constructor: a variable, a path on one, string() of it."""
    text = " " * span.start + source[span.start : span.end]
    builder = _Builder(source, [])
    operand = builder.operand(_read(source, text, "formula_start").children[0])
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
    return window.ticks


def _measured(text: str) -> str:
    if len(text) > MAX_LENGTH:
        message = f"the query is too complex: {len(text)} characters, {MAX_LENGTH} are allowed"
        raise QueryError(message, source=text[:200], line=1, column=1)
    depth = 0
    for offset, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth > MAX_DEPTH:
            raise fault(
                text, Span(offset), f"the query is too complex: nested deeper than {MAX_DEPTH}"
            )
    return text


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


def _read(source: str, text: str, start: str) -> Tree[Token]:
    try:
        return _lark().parse(text, start=start)
    except UnexpectedInput as error:
        raise syntax_fault(source, error) from None


class _Builder:
    """Turns lark's tree of one text into ours."""

    def __init__(self, source: str, constructors: list[Element]) -> None:
        self.source = source
        self._constructors = iter(constructors)
        self._prefixes = dict(PREDECLARED)

    # -- Queries and stream expressions ----------------------------------------------------

    def query(self, node: Node) -> Query:
        select: Element | None = None
        distinct, publish = False, None
        expression: Expression | None = None
        for child in _tree(node).children:
            tree = _tree(child)
            match tree.data:
                case "namespace":
                    _, prefix, uri = tree.children
                    self._prefixes[str(prefix)] = str(uri)[1:-1]
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

    def expression(self, node: Node) -> Expression:
        tree = _tree(node)
        if tree.data == "block":
            return self.block(tree)
        if tree.data == "query":
            return self.query(tree)
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
        try:
            amount = float(digits)
        except ValueError:
            raise fault(self.source, span, f"{digits!r} is not a number") from None
        ticks = round(amount * UNITS[unit.lower()]) if unit else round(amount)
        if amount < 0:
            raise fault(
                self.source,
                span,
                f"the window {digits}{f' {unit}' if unit else ''} is below 0",
                "a window is how far apart two documents may be",
            )
        if ticks > MAX_WINDOW:
            raise fault(self.source, span, "the window is too long", "write INF for no limit")
        return Window(ticks, unit, span)

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
        if len(children) > 2 * MAX_STEPS:
            raise fault(
                self.source, _span(tree), f"the path is too complex: over {MAX_STEPS} steps"
            )
        return tuple(
            self.step(_tree(step), descendant=str(_tree(slash).children[0]) == "//")
            for slash, step in zip(children[::2], children[1::2], strict=True)
        )

    def step(self, tree: Tree[Token], *, descendant: bool = False) -> Step:
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
        step = Step(test, descendant, attribute, span=_span(children[attribute]))
        conditions: list[Condition] = []
        for suffix in map(_tree, children[attribute + 1 :]):
            if suffix.data == "binding":
                step = self._bound(step, cast(Token, suffix.children[0]))
            else:
                conditions.append(self.condition(suffix.children[0]))
        return Step(test, descendant, attribute, tuple(conditions), step.variable, step.span)

    def _bound(self, step: Step, variable: Token) -> Step:
        if step.variable is not None:
            raise fault(
                self.source, _span(variable), f"this step is bound to {step.variable!r} already"
            )
        return Step(
            step.test, step.descendant, step.attribute, step.conditions, str(variable), step.span
        )

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
                return And(tuple(self.condition(c) for c in _formulas(tree)))
            case "disjunction":
                return Or(tuple(self._unbound(self.condition(c), c) for c in _formulas(tree)))
            case "negation":
                (part,) = _formulas(tree)
                return Not(self._unbound(self.condition(part), part))
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
                raise fault(self.source, _span(tree), "this is not a condition")

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
            return -value
        text = str(tree.children[0])
        return text[1:-1] if tree.data == "string" else float(text)

    def _function(self, call: Tree[Token]) -> Condition:
        name = str(call.children[0])
        arguments = [_tree(child) for child in call.children[1:]]
        if name.lower() == "not" and len(arguments) == 1:
            return Not(self._unbound(self.condition(arguments[0]), arguments[0]))
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

    def path(self, tree: Tree[Token]) -> Path:
        """Return a relative path: `.`, `a/b`, `./a`, `.//a`, `@id`, `a/text()`."""
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
        if len(head) > MAX_STEPS:
            raise fault(self.source, span, f"the path is too complex: over {MAX_STEPS} steps")
        steps = tuple(self.step(step, descendant=deep) for deep, step in head)
        return Path(steps, text, span)

    # -- Join predicates -------------------------------------------------------------------

    def predicate(self, node: Node) -> Predicate:
        tree = _tree(node)
        match tree.data:
            case "conjunction":
                return And(tuple(self.predicate(c) for c in _formulas(tree)))
            case "disjunction":
                return Or(tuple(self.predicate(c) for c in _formulas(tree)))
            case "negation":
                return Not(self.predicate(_formulas(tree)[0]))
            case "comparison":
                left, operator, right = tree.children
                return Comparison(
                    cast(Operator, str(operator)),
                    self.operand(left),
                    self.operand(right),
                    _span(tree),
                )
            case "path" if _calls(tree):
                call = self.operand(tree)
                assert isinstance(call, Call)
                return call
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
                arguments = tuple(self.operand(child) for child in call.children[1:])
                return Call(str(call.children[0]), arguments, span)
            case "path":
                return self._variable_path(tree)
            case _:
                raise fault(self.source, span, "this has no value to compare")

    def _variable_path(self, tree: Tree[Token]) -> VariablePath:
        path = self.path(tree)
        first = path.steps[0] if path.steps else None
        if (
            first is None
            or first.attribute
            or first.test.local is None
            or first.conditions
            or first.variable
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
    if isinstance(node, Token):
        start = node.start_pos or 0
        return Span(start, start + len(node))
    spans = [_span(token) for token in node.scan_values(lambda v: isinstance(v, Token))]
    if not spans:
        return Span()
    return Span(min(span.start for span in spans), max(span.end for span in spans))
