"""Blocks, paths and conditions, from lark's tree.

What the grammar lets through is refused here: conditions where a path is
meant, bindings where nothing can be bound, functions that are not there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, TypeAlias, cast

from lark import Token, Tree

from cep_core.algebra import decimal_of
from xscl.errors import NotSupported, QueryError
from xscl.language.calendars import calendar_block
from xscl.language.faults import SyntaxFault, fault, near_miss, unsupported
from xscl.language.functions import FUNCTIONS, NUMERIC, TESTS
from xscl.language.grammar import read
from xscl.language.names import PREDECLARED
from xscl.language.scope import walk
from xscl.language.syntax import (
    MIRRORED,
    And,
    Block,
    Call,
    Compare,
    ComparisonSign,
    Condition,
    Constant,
    Exists,
    NameTest,
    Not,
    Operand,
    Or,
    Path,
    Span,
    Step,
    TextFunction,
    TextMatch,
    Through,
    VariablePath,
)

LarkNode: TypeAlias = "Tree[Token] | Token"


def tree_of(node: LarkNode | None) -> Tree[Token]:
    assert isinstance(node, Tree)
    return node


def is_token(node: LarkNode, kind: str) -> bool:
    return isinstance(node, Token) and node.type == kind


def formulas(tree: Tree[Token]) -> list[Tree[Token]]:
    return [child for child in tree.children if isinstance(child, Tree)]


def is_binding(node: LarkNode) -> bool:
    """Return True for `->x` behind a step."""
    return isinstance(node, Tree) and node.data == "binding"


def slashed(tree: Tree[Token]) -> Iterator[tuple[bool, Tree[Token]]]:
    """Yield steps behind slashes, each with whether it is one of descendants."""
    for slash, step in zip(tree.children[::2], tree.children[1::2], strict=True):
        yield str(tree_of(slash).children[0]) == "//", tree_of(step)


def sign(tree: Tree[Token]) -> Span:
    """Return where the first AND, OR or NOT of a formula stands."""
    return span_of(next(child for child in tree.children if isinstance(child, Token)))


def function_name(call: Tree[Token]) -> str:
    """Return the name of a function; the prefix of XPath's own changes nothing."""
    name = ":".join(child for child in call.children if isinstance(child, Token))
    return name.removeprefix("fn:")


def calls(tree: Tree[Token]) -> bool:
    first = tree.children[0]
    return isinstance(first, Tree) and first.data == "call"


def binds(item: Path | Condition) -> bool:
    """Return True if a step of a path or of a condition binds a variable."""
    return any(isinstance(one, Step) and one.variable is not None for one in walk(item))


def span_of(node: LarkNode) -> Span:
    """Return where a node's first and last tokens stand."""
    first, last = _edge(node, 0), _edge(node, -1)
    if first is None or last is None:
        return Span()
    return Span(first.start_pos or 0, last.end_pos or 0)


def _edge(node: LarkNode, index: Literal[0, -1]) -> Token | None:
    """Return the first or the last token of a node."""
    if isinstance(node, Token):
        return node
    for child in node.children if index == 0 else reversed(node.children):
        found = _edge(child, index)
        if found is not None:
            return found
    return None


def exact_literal(tree: Tree[Token]) -> str | None:
    """Return the text of a number that no double prints as; None of any other literal."""
    if tree.data not in ("number", "minus"):
        return None
    text = "".join(map(str, tree.scan_values(lambda _: True)))
    exact = decimal_of(text)
    return None if exact is None or exact == float(text) else text


def _is_number(operand: Operand) -> bool:
    """Return True for a function whose value is a number.

    Its text is XPath's in a residual; an index has that of a derived node, which is none for NaN.
    """
    return isinstance(operand, Call) and FUNCTIONS[operand.function].result in NUMERIC


def _may_be_absent(operand: Operand) -> bool:
    """Return True if a function may have no value, which XPath calls NaN and unequal to all."""
    return isinstance(operand, Call) and operand.function != "string-length" and _is_number(operand)


def inside(bracket: Token) -> Span:
    """Return the text inside a bracket."""
    return Span((bracket.start_pos or 0) + 1, (bracket.end_pos or 0) - 1)


def _place(where: LarkNode | Span) -> Span:
    return where if isinstance(where, Span) else span_of(where)


class Paths:
    """Makes blocks, paths and conditions from lark's tree of one text."""

    def __init__(
        self,
        source: str,
        declared: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.source = source
        self.prefixes = {**PREDECLARED, **declared}

    def fault(self, where: LarkNode | Span, message: str, hint: str | None = None) -> QueryError:
        """Return a QueryError at a node or a span."""
        return fault(self.source, _place(where), message, hint)

    def unsupported(
        self, where: LarkNode | Span, what: str, hint: str | None = None
    ) -> NotSupported:
        """Return the error for a construct that parses and cannot be run yet."""
        return unsupported(self.source, _place(where), what, hint)

    def beyond(self, where: LarkNode | Span, message: str, hint: str | None = None) -> NotSupported:
        """Return the error for what XPath may have (`xscl.language.blocks`), unlike the grammar."""
        return NotSupported.at(_place(where).start, message, self.source, hint)

    # -- Blocks and paths ------------------------------------------------------------------

    def block(self, node: LarkNode) -> Block:
        """Return a block; what is not XSCL in it is read as XPath."""
        tree = tree_of(node)
        try:
            return self._block(tree)
        except (NotSupported, SyntaxFault):
            from xscl.language.blocks import BlockReader  # loads elementpath

            return BlockReader(self).block(tree)

    def _block(self, tree: Tree[Token]) -> Block:
        stream = cast(Token, tree.children[0])
        steps: tuple[Step, ...] = ()
        variable: Token | None = None
        for child in tree.children[1:]:
            if isinstance(child, Tree):
                for deep, step in slashed(child):
                    steps = (*steps, self.step(step, descendant=deep))
            elif child.type == "NAME":
                variable = child
            elif child.type == "UNION":
                raise self.beyond(child, "a union is XPath")
        if not steps:
            steps = (Step(NameTest(None, None), span=span_of(stream)),)
        if variable is not None:
            steps = (*steps[:-1], self.bound(steps[-1], variable))
        if stream.type == "INSTANTS":
            return calendar_block(self.source, span_of(stream), steps[-1])
        return Block(str(stream), steps, span_of(stream))

    def step(self, tree: Tree[Token], *, descendant: bool = False, variable: bool = False) -> Step:
        """Return a step; the first of a path between documents is a variable instead."""
        if tree.data == "bound_type":
            raise self.fault(
                tree,
                f"{tree.children[0]}() cannot be bound",
                "bind the element that holds the text",
            )
        if tree.data in ("axis_step", "xpath_step"):
            raise self.beyond(tree, "this step is XPath")
        if tree.data == "node_type":
            name = str(tree.children[0])
            raise self.beyond(
                tree,
                f"{name}() cannot stand here",
                "text() may end a path in a comparison"
                if name == "text"
                else "paths select elements and attributes",
            )
        children = list(tree.children)
        attribute = is_token(children[0], "AT")
        named = tree_of(children[attribute])
        test = self.name_test(named, variable=variable)
        step = Step(test, descendant, attribute, span=span_of(named))
        conditions: list[Condition] = []
        for suffix in children[attribute + 1 :]:
            if isinstance(suffix, Tree):
                step = self.bound(step, cast(Token, suffix.children[0]))
            else:
                conditions.append(self.bracket(inside(suffix)))
        return replace(step, conditions=tuple(conditions))

    def bracket(self, span: Span) -> Condition:
        """Return the condition in brackets; `[./a AS x]` is `[./a->x]`."""
        if self.source.startswith("]", span.end):
            tree = read(self.source, "bracket_start", Span(span.start, span.end + 1))
        else:  # a part of what is in brackets
            tree = read(self.source, "condition_start", span)
        condition = self.condition(tree.children[0])
        if len(tree.children) == 1:
            return condition
        variable = cast(Token, tree.children[-1])
        if not isinstance(condition, Exists) or not condition.path.steps or condition.path.text:
            raise self.fault(variable, "only a path to a node can be bound")
        *outer, last = condition.path.steps
        return Exists(replace(condition.path, steps=(*outer, self.bound(last, variable))))

    def bound(self, step: Step, variable: Token) -> Step:
        if step.variable is not None:
            raise self.fault(variable, f"this step is bound to {step.variable!r} already")
        return replace(step, variable=str(variable), variable_span=span_of(variable))

    def name_test(self, tree: Tree[Token], *, variable: bool = False) -> NameTest:
        tokens = list(map(str, tree.children))
        if not variable and "'" in tokens[-1]:
            raise self.fault(
                tree,
                f"{tokens[-1]!r} is no name of an element or attribute",
                "only the names of streams and variables may hold a quote",
            )
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
        uri = self.prefixes.get(str(prefix))
        if uri is None:
            raise self.fault(
                prefix,
                f"the prefix {str(prefix)!r} is not declared",
                near_miss(str(prefix), self.prefixes)
                or f'declare it: NAMESPACE {prefix} = "..." before the query',
            )
        return uri

    # -- Conditions ------------------------------------------------------------------------

    def condition(self, node: LarkNode) -> Condition:
        tree = tree_of(node)
        match tree.data:
            case "conjunction":
                return And(tuple(self.condition(c) for c in formulas(tree)), sign(tree))
            case "disjunction":
                parts = (self._unbound(self.condition(c), c) for c in formulas(tree))
                return Or(tuple(parts), sign(tree))
            case "negation":
                (part,) = formulas(tree)
                return Not(self._unbound(self.condition(part), part), sign(tree))
            case "comparison":
                return self._compare(tree)
            case "path" if calls(tree):
                return self._function(tree_of(tree.children[0]))
            case "path":
                path = self.path(tree)
                return Exists(path)
            case "number":
                raise self.beyond(
                    tree,
                    "a position cannot stand here",
                    "a condition is a path, a comparison, or contains()",
                )
            case _:
                raise self.beyond(
                    tree,
                    "this is not a condition",
                    "a condition is a path, a comparison, contains() or starts-with()",
                )

    def _compare(self, tree: Tree[Token]) -> Condition:
        left, operator, right = tree.children
        comparison = cast(ComparisonSign, str(operator))
        sides = [tree_of(left), tree_of(right)]
        if sides[0].data in ("string", "number", "minus"):
            sides.reverse()
            comparison = MIRRORED[comparison]
        self._refuse_unquoted(sides[1])
        if sides[1].data not in ("string", "number", "minus"):
            raise self.unsupported(tree, "comparing two paths of one document")
        if exact_literal(sides[1]) is not None:
            raise self.unsupported(tree, "comparing with a number of so many digits")
        path, through = self._tested(sides[0])
        constant = self.literal(sides[1])
        if through is not None and comparison == "!=" and _may_be_absent(through.operand):
            raise self.unsupported(tree, "a value that may be absent with '!='")
        return Compare(path, comparison, constant, through)

    def _refuse_unquoted(self, tree: Tree[Token]) -> None:
        """Raise for a capitalized name where a text is probably meant."""
        if tree.data != "path" or len(tree.children) > 1:
            return
        first = tree.children[0]
        tests = formulas(first) if isinstance(first, Tree) and first.data == "step" else []
        name = str(tests[0].children[0]) if [one.data for one in tests] == ["plain_name"] else ""
        if "A" <= name[:1] <= "Z":
            raise self.fault(
                tree,
                f"{name} is the name of an element here",
                f'write "{name}" for the text, or ./{name} for the element',
            )

    def _tested(self, tree: Tree[Token]) -> tuple[Path, Through | None]:
        """Return the path whose values are compared, and the functions that are applied to them."""
        if tree.data != "path":
            raise self.unsupported(tree, "a comparison with anything but a path")
        if calls(tree) and function_name(tree_of(tree.children[0])) == "count":
            return self._counted(tree_of(tree.children[0]))
        path, operand = self._applied(tree)
        if binds(path):
            raise self.fault(path.span, "a path in a comparison cannot bind a variable")
        return path, None if isinstance(operand, VariablePath) else Through("first", operand)

    def _counted(self, call: Tree[Token]) -> tuple[Path, Through]:
        arguments = formulas(call)
        if len(arguments) != 1 or arguments[0].data != "path" or calls(arguments[0]):
            raise self.unsupported(call, "count() of anything but a path")
        path = self.path(arguments[0])
        if binds(path):
            raise self.fault(path.span, "a path in count() cannot bind a variable")
        return path, Through("count", VariablePath(""))

    def _applied(self, tree: Tree[Token]) -> tuple[Path, Operand]:
        """Return a path and the functions around it, over `.`."""
        if not calls(tree):
            return self.path(tree), VariablePath("")
        call = tree_of(tree.children[0])
        name = function_name(call)
        function = FUNCTIONS.get(name)
        if function is None:
            known = (*FUNCTIONS, *TESTS, "count", "exists", "empty", "not")
            raise self.beyond(
                call,
                f"unknown function {name}()",
                near_miss(name, known) or f"functions are {', '.join(known)}",
            )
        first, *rest = formulas(call)
        if not function.takes(1 + len(rest)) or first.data != "path":
            raise self.unsupported(call, f"{name}() of these arguments")
        given = tuple(map(self._constant, rest, function.arguments[1:]))
        constants = (*given, *map(Constant, function.defaults(1 + len(rest))))
        self.check_expression(name, rest, constants)
        path, operand = self._applied(first)
        if name != "number" and _is_number(operand):
            raise self.unsupported(call, "the text of a number")
        return path, Call(name, (operand, *constants))

    def _constant(self, tree: Tree[Token], kind: type) -> Constant:
        if tree.data not in ("string", "number", "minus"):
            raise self.unsupported(tree, "a computed argument of a function")
        value = self.literal(tree)
        if isinstance(value, str) == (kind is float):
            raise self.beyond(tree, f"a {'number' if kind is float else 'string'} stands here")
        return Constant(value)

    def check_expression(
        self, name: str, trees: Sequence[Tree[Token]], constants: Sequence[Operand]
    ) -> None:
        """Raise the error of a regular expression at its place."""
        if name not in ("matches", "replace", "tokenize") or not trees:
            return
        from xscl.language.regex import WrongExpression, expression, replacer  # loads RE2

        texts = [str(one.value) for one in constants if isinstance(one, Constant)]
        try:
            (replacer if name == "replace" else expression)(*texts)
        except WrongExpression as error:
            start = span_of(trees[0]).start + 1 + error.at
            message = f"the regular expression: {error.args[0]}"
            raise self.fault(Span(start, start), message, error.hint) from None

    def literal(self, tree: Tree[Token]) -> str | float:
        if tree.data == "minus":
            value = self.literal(tree_of(tree.children[1]))
            if isinstance(value, str):
                raise self.fault(tree, "a string has no negative")
            return 0.0 - value
        if tree.data not in ("string", "number"):
            raise self.unsupported(tree, "a comparison with a computed value")
        text = str(tree.children[0])
        if tree.data == "string":
            return text[1:-1]
        number = float(text)
        if math.isinf(number):
            raise self.fault(tree, "the number is too large")
        return number

    def _function(self, call: Tree[Token]) -> Condition:
        name = function_name(call)
        arguments = formulas(call)
        if name.lower() == "not" and len(arguments) == 1:
            return Not(self._unbound(self.condition(arguments[0]), arguments[0]), sign(call))
        if name in ("exists", "empty", "boolean") and len(arguments) == 1:
            return self._exists(name, arguments[0])
        if name not in TESTS:
            self._applied(Tree("path", [call]))  # raises for what is no function
            raise self.unsupported(call, f"{name}() as a condition", "compare its value")
        for argument in arguments[1:2]:
            self._refuse_unquoted(argument)
        if not TESTS[name].takes(len(arguments)) or arguments[1].data != "string":
            raise self.beyond(call, f"{name}() takes a path and a string")
        if arguments[0].data != "path":
            raise self.unsupported(arguments[0], f"{name}() of anything but a path")
        path, through = self._tested(arguments[0])
        if through is not None and (through.mode == "count" or _is_number(through.operand)):
            raise self.unsupported(arguments[0], "the text of a number")
        constants = tuple(map(self._constant, arguments[1:], TESTS[name].arguments[1:]))
        self.check_expression(name, arguments[1:], constants)
        text, flags = (*(str(constant.value) for constant in constants), "")[:2]
        return TextMatch(cast(TextFunction, name), path, text, through, flags)

    def _exists(self, name: str, argument: Tree[Token]) -> Condition:
        """Return exists(), empty() or boolean() of a path as the path itself, or NOT of it."""
        if argument.data != "path" or calls(argument):
            raise self.unsupported(argument, f"{name}() of anything but a path")
        found = self._unbound(Exists(self.path(argument)), argument)
        return Not(found) if name == "empty" else found

    def _unbound(self, condition: Condition, node: LarkNode) -> Condition:
        """Return a condition under OR or NOT, where nothing can be bound."""
        if binds(condition):
            raise self.fault(
                node,
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
        span = span_of(tree)
        if isinstance(first, Tree) and first.data == "steps":
            raise self.beyond(span, "a condition's path starts at the node", "write ./ or .//")
        head: list[tuple[bool, Tree[Token]]] = []
        if isinstance(first, Tree):
            head.append((False, first))
        head += slashed(tree_of(children[1])) if len(children) > 1 else ()
        text: Literal["child", "descendant"] | None = None
        if head and head[-1][1].data == "node_type" and str(head[-1][1].children[0]) == "text":
            text = "descendant" if head.pop()[0] else "child"
        steps = tuple(
            self.step(step, descendant=deep, variable=variable and not i)
            for i, (deep, step) in enumerate(head)
        )
        return Path(steps, text, span)
