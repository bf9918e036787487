"""Blocks, paths, conditions, predicates and operands, from lark's tree.

What the grammar lets through is refused here: conditions where a path is
meant, bindings where nothing can be bound, functions that are not there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

from lark import Token, Tree

from cep_core.algebra import decimal_of
from cep_core.algebra.expressions import Function
from xscl.errors import NotSupported, QueryError, near_miss
from xscl.language import syntax
from xscl.language.calendars import calendar_block
from xscl.language.conditions import as_condition
from xscl.language.faults import fault, unsupported
from xscl.language.functions import (
    DATE_TIME,
    DECIMAL,
    DEFINING,
    DURATION,
    FUNCTIONS,
    OPERANDS,
    TESTS,
    TIME,
    duration,
)
from xscl.language.grammar import read
from xscl.language.names import PREDECLARED
from xscl.language.scope import binds, has_path, walk

LarkNode: TypeAlias = "Tree[Token] | Token"


def tree_of(node: LarkNode | None) -> Tree[Token]:
    assert isinstance(node, Tree)
    return node


def is_token(node: LarkNode, kind: str) -> bool:
    return isinstance(node, Token) and node.type == kind


def formulas(tree: Tree[Token]) -> list[Tree[Token]]:
    return [child for child in tree.children if isinstance(child, Tree)]


def tokens(tree: Tree[Token]) -> dict[str, Token]:
    """Return, by type, the first token of each type among the children of a node, in order."""
    found: dict[str, Token] = {}
    for child in tree.children:
        if isinstance(child, Token):
            found.setdefault(child.type, child)
    return found


def slashed(tree: Tree[Token]) -> Iterator[tuple[bool, Tree[Token]]]:
    """Yield the steps behind slashes, each with True for `//` before it, False for `/`."""
    for slash, step in zip(tree.children[::2], tree.children[1::2], strict=True):
        yield is_token(slash, "DOUBLE_SLASH"), tree_of(step)


def sign(tree: Tree[Token]) -> syntax.Span:
    """Return the span of the first AND, OR or NOT of a formula."""
    return span_of(next(iter(tokens(tree).values())))


def function_name(call: Tree[Token]) -> str:
    """Return the name of a called function without the prefix `fn:`."""
    name = ":".join(child for child in call.children if isinstance(child, Token))
    return name.removeprefix("fn:")


def calls(tree: Tree[Token]) -> bool:
    first = tree.children[0]
    return isinstance(first, Tree) and first.data == "call"


def span_of(node: LarkNode) -> syntax.Span:
    """Return the span from a node's first token to its last one.

    A subtree without tokens, such as that of `{}`, is never the first or last child.
    """
    first = last = node
    while isinstance(first, Tree):
        first = first.children[0]
    while isinstance(last, Tree):
        last = last.children[-1]
    return syntax.Span(first.start_pos or 0, last.end_pos or 0)


def exact_literal(tree: Tree[Token]) -> str | None:
    """Return the text of a number if it is not the printed form of a double; else None."""
    if tree.data not in ("number", "minus"):
        return None
    text = "".join(map(str, tree.scan_values(lambda _: True)))
    exact = decimal_of(text)
    return None if exact is None or exact == float(text) else text


def _is_literal(tree: Tree[Token]) -> bool:
    return tree.data in ("string", "number", "minus")


def inside(bracket: Token) -> syntax.Span:
    """Return the span of the text inside a bracket."""
    return syntax.Span((bracket.start_pos or 0) + 1, (bracket.end_pos or 0) - 1)


def _place(where: LarkNode | syntax.Span) -> syntax.Span:
    return where if isinstance(where, syntax.Span) else span_of(where)


OperandPlace: TypeAlias = Literal["documents", "node", "condition"]
"""The scope of operands: variables, or the node `.` in a definition or a condition."""
_FUNCTIONS: Mapping[OperandPlace, Mapping[str, Function]] = {
    "documents": OPERANDS,
    "node": DEFINING,
    "condition": {**FUNCTIONS, "count": Function(len, (tuple,), int)},
}


class Formulas:
    """Makes blocks, paths, conditions, predicates and operands from lark's tree of one text."""

    def __init__(
        self,
        source: str,
        declared: Mapping[str, str] = MappingProxyType({}),
        of: OperandPlace = "documents",
    ) -> None:
        self.source = source
        self.prefixes = {**PREDECLARED, **declared}
        self._of = of

    def fault(
        self, where: LarkNode | syntax.Span, message: str, hint: str | None = None
    ) -> QueryError:
        """Return a QueryError with a message at the begin of a node or span of the text."""
        return fault(self.source, _place(where), message, hint)

    def unsupported(
        self, where: LarkNode | syntax.Span, what: str, hint: str | None = None
    ) -> NotSupported:
        """Return the error for a construct, named by `what`, that parses and cannot be run yet."""
        return unsupported(self.source, _place(where), what, hint)

    def beyond(
        self, where: LarkNode | syntax.Span, message: str, hint: str | None = None
    ) -> NotSupported:
        """Return the error for what only full XPath (`xscl.language.blocks`) may have."""
        return NotSupported.at(_place(where).start, message, self.source, hint)

    # -- Blocks and paths ------------------------------------------------------------------

    def block(self, tree: Tree[Token]) -> syntax.Block:
        """Return a block without XPath; raises NotSupported or SyntaxFault for another one."""
        stream = cast(Token, tree.children[0])
        steps: tuple[syntax.Step, ...] = ()
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
            steps = (syntax.Step(syntax.NameTest(None, None), span=span_of(stream)),)
        steps = (*steps[:-1], self.bound(steps[-1], variable))
        if stream.type == "INSTANTS":
            return calendar_block(self.source, span_of(stream), steps[-1])
        return syntax.Block(str(stream), steps, span_of(stream))

    def step(self, tree: Tree[Token], *, descendant: bool = False) -> syntax.Step:
        """Return the step of lark's tree; with `descendant` it follows `//`."""
        match str(tree.data):
            case "bound_type":
                message = f"{tree.children[0]}() cannot be bound"
                raise self.fault(tree, message, "bind the element that holds the text")
            case "axis_step" | "xpath_step":
                raise self.beyond(tree, "this step is XPath")
            case "node_type":
                name, hint = str(tree.children[0]), "paths select elements and attributes"
                if name == "text":
                    hint = "text() may end a path in a comparison"
                raise self.beyond(tree, f"{name}() cannot stand here", hint)
            case _:
                pass
        attribute = is_token(tree.children[0], "AT")
        named = tree_of(tree.children[attribute])
        test = self.name_test(named)
        conditions: list[syntax.Condition] = []
        made = syntax.Step(test, descendant, attribute, span=span_of(named))
        for suffix in cast(list[Token], tree.children[attribute + 1 :]):
            if suffix.type == "NAME":
                made = self.bound(made, suffix)
            else:
                conditions.append(self.bracket(inside(suffix)))
        return replace(made, conditions=tuple(conditions)) if conditions else made

    def bracket(self, span: syntax.Span) -> syntax.Condition:
        """Return the condition in brackets; `[./a AS x]` is `[./a->x]`."""
        if self.source.startswith("]", span.end):
            tree = read(self.source, "bracket_start", syntax.Span(span.start, span.end + 1))
        else:  # the span is only a part of the text in brackets
            tree = read(self.source, "condition_start", span)
        condition = self.condition(tree.children[0])
        if len(tree.children) == 1:
            return condition
        variable = cast(Token, tree.children[-1])
        if (
            not isinstance(condition, syntax.Exists)
            or not condition.path.steps
            or condition.path.text
        ):
            raise self.fault(variable, "only a path to a node can be bound")
        *outer, last = condition.path.steps
        return syntax.Exists(replace(condition.path, steps=(*outer, self.bound(last, variable))))

    def bound(self, step: syntax.Step, variable: Token | None) -> syntax.Step:
        """Return the step with a variable that it binds; without `variable` the step itself.

        Raises QueryError for a step that binds one already.
        """
        if variable is None:
            return step
        if step.variable is not None:
            raise self.fault(variable, f"this step is bound to {step.variable!r} already")
        return replace(step, variable=str(variable), variable_span=span_of(variable))

    def name_test(self, tree: Tree[Token]) -> syntax.NameTest:
        tokens = list(map(str, tree.children))
        if "'" in tokens[-1]:
            message = f"{tokens[-1]!r} is no name of an element or attribute"
            hint = "only the names of streams and variables may hold a quote"
            raise self.fault(tree, message, hint)
        match str(tree.data):  # lark's token compares slowly
            case "plain_name":
                return syntax.NameTest(tokens[0], "")
            case "any_name":
                return syntax.NameTest(None, None)
            case "any_prefix":
                return syntax.NameTest(tokens[1], None)
            case "braced":
                return syntax.NameTest(None if tokens[1] == "*" else tokens[1], tokens[0][2:-1])
            case _:
                return syntax.NameTest(None if tokens[1] == "*" else tokens[1], self._uri(tree))

    def _uri(self, tree: Tree[Token]) -> str:
        prefix = cast(Token, tree.children[0])
        uri = self.prefixes.get(str(prefix))
        if uri is None:
            hint = f'declare it: NAMESPACE {prefix} = "..." before the query'
            hint = near_miss(str(prefix), self.prefixes) or hint
            raise self.fault(prefix, f"the prefix {str(prefix)!r} is not declared", hint)
        return uri

    # -- Conditions ------------------------------------------------------------------------

    def condition(self, node: LarkNode) -> syntax.Condition:
        tree = tree_of(node)
        match str(tree.data):
            case "conjunction":
                return syntax.And(tuple(map(self.condition, formulas(tree))), sign(tree))
            case "disjunction":
                parts = (self._unbound(self.condition(c), c) for c in formulas(tree))
                return syntax.Or(tuple(parts), sign(tree))
            case "negation":
                (part,) = formulas(tree)
                return syntax.Not(self._unbound(self.condition(part), part), sign(tree))
            case "path" if not calls(tree):
                return syntax.Exists(self.path(tree))
            case "path" if (found := self._connective(tree_of(tree.children[0]))) is not None:
                return found
            case "path" | "comparison":
                return self._atom(tree)
            case "number":
                hint = "a condition is a path, a comparison, or contains()"
                raise self.beyond(tree, "a position cannot stand here", hint)
            case _:
                hint = "a condition is a path, a comparison, contains() or starts-with()"
                raise self.beyond(tree, "this is not a condition", hint)

    def _connective(self, call: Tree[Token]) -> syntax.Condition | None:
        """Return not() of a condition, exists(), empty() or boolean() of a path; else None."""
        name, arguments = function_name(call), formulas(call)
        if len(arguments) != 1 or name not in ("exists", "empty", "boolean"):
            if name.lower() != "not" or len(arguments) != 1:
                return None
            return syntax.Not(self._unbound(self.condition(arguments[0]), arguments[0]), sign(call))
        if arguments[0].data != "path" or calls(arguments[0]):
            raise self.unsupported(arguments[0], f"{name}() of anything but a path")
        found = self._unbound(syntax.Exists(self.path(arguments[0])), arguments[0])
        return syntax.Not(found) if name == "empty" else found

    def _atom(self, tree: Tree[Token]) -> syntax.Condition:
        """Return the condition of a comparison with a constant, or of a test of a text."""
        if tree.data == "comparison":
            left, right = tree_of(tree.children[0]), tree_of(tree.children[2])
            if not _is_literal(left):
                self._refuse_unquoted(right)
                if not _is_literal(right):
                    raise self.unsupported(tree, "comparing two paths of one document")
        else:
            call = tree_of(tree.children[0])
            name, (_, *others) = function_name(call), formulas(call)
            for argument in others[:1]:
                self._refuse_unquoted(argument)
            if name in TESTS and (not others or others[0].data != "string"):
                raise self.beyond(call, f"{name}() takes a path and a string")
        found = as_condition(Formulas(self.source, self.prefixes, "condition").predicate(tree))
        if found is None:
            raise self.unsupported(tree, "this condition", "write it in a block")
        if binds(found):
            raise self.fault(found.path.span, "a path in a comparison cannot bind a variable")
        return found

    def _refuse_unquoted(self, tree: Tree[Token]) -> None:
        """Raise for a capitalized name where a text is probably meant."""
        if tree.data != "path" or len(tree.children) > 1:
            return
        first = tree.children[0]
        tests = formulas(first) if isinstance(first, Tree) and first.data == "step" else []
        name = str(tests[0].children[0]) if [test.data for test in tests] == ["plain_name"] else ""
        if "A" <= name[:1] <= "Z":
            hint = f'write "{name}" for the text, or ./{name} for the element'
            raise self.fault(tree, f"{name} is the name of an element here", hint)

    def _unbound(self, condition: syntax.Condition, node: LarkNode) -> syntax.Condition:
        """Return a condition under OR or NOT; raises QueryError if it binds a variable."""
        if binds(condition):
            hint = "bind it in a condition of its own"
            raise self.fault(node, "a variable cannot be bound under or and not", hint)
        return condition

    # -- Predicates and operands -----------------------------------------------------------

    def predicate(self, node: LarkNode) -> syntax.Predicate:
        tree = tree_of(node)
        match str(tree.data):
            case "conjunction":
                return syntax.And(tuple(map(self.predicate, formulas(tree))), sign(tree))
            case "disjunction":
                return syntax.Or(tuple(map(self.predicate, formulas(tree))), sign(tree))
            case "negation":
                return syntax.Not(self.predicate(formulas(tree)[0]), sign(tree))
            case "comparison":
                one, operator, other = tree.children
                left, right = self.operand(one), self.operand(other)
                for node in walk((left, right)) if self._of != "condition" else ():
                    if isinstance(node, syntax.Call) and node.function == DURATION:
                        left, right = _as_times(left), _as_times(right)
                        break
                return syntax.Comparison(
                    cast(syntax.ComparisonSign, str(operator)), left, right, span_of(tree)
                )
            case "path" if (
                calls(tree) and function_name(tree_of(tree.children[0])).lower() == "not"
            ):
                negation = tree_of(tree.children[0])
                return syntax.Not(self.predicate(formulas(negation)[0]), sign(negation))
            case "path" if calls(tree):
                call = self.operand(tree)
                assert isinstance(call, syntax.Call)
                if call.function in TESTS:
                    return call
                if self._of == "condition":
                    raise self.unsupported(tree, f"{call.function}() as a condition")
                message = f"{call.function}() is a value, not a predicate"
                raise self.fault(call.span, message, "compare it: lower-case(x) = 'a'")
            case _:
                hint = "a predicate compares variables of the two sides, for example x2 = x5"
                raise self.fault(tree, "this is not a predicate", hint)

    def operand(self, node: LarkNode) -> syntax.Operand:
        tree = tree_of(node)
        span = span_of(tree)
        match str(tree.data):
            case "number" | "minus" if (exact := exact_literal(tree)) is not None:
                return syntax.Call(DECIMAL, (syntax.Constant(exact, span),), span)
            case "number" | "string":
                return syntax.Constant(self.literal(tree), span)
            case "minus" if tree_of(tree.children[1]).data == "number":
                return syntax.Constant(self.literal(tree), span)
            case "minus" if self._of == "condition" and _is_literal(tree_of(tree.children[1])):
                raise self.fault(tree, "a string has no negative")
            case "minus":
                return syntax.Arithmetic(
                    "-", syntax.Constant(0.0, span), self.operand(tree.children[1]), span
                )
            case "decorated":
                text = str(tree.children[0])
                number, _, name = text[1:].partition(".")
                return syntax.DecoratedName(int(number or 0), name, span)
            case "arithmetic":
                left, sign, right = tree.children
                operator = cast(Any, str(sign).lower())
                return syntax.Arithmetic(operator, self.operand(left), self.operand(right), span)
            case "path" if calls(tree):
                return self._call(tree_of(tree.children[0]), span)
            case "path":
                return self._variable_path(tree, span)
            case _ if self._of == "condition":
                raise self.unsupported(tree, "comparing a truth value")
            case _:
                raise self.fault(span, "this has no value to compare")

    def _call(self, tree: Tree[Token], span: syntax.Span) -> syntax.Call:
        name, functions = function_name(tree), {**_FUNCTIONS[self._of], **TESTS}
        if name not in functions:
            known: tuple[str, ...] = (*TESTS, *OPERANDS)
            refusal: Callable[..., QueryError] = self.fault
            if self._of == "condition":  # conditions may be XPath with more functions
                known = (*FUNCTIONS, *TESTS, "count", "exists", "empty", "not")
                refusal = self.beyond
            hint = near_miss(name, known) or f"functions are {', '.join(known)}"
            raise refusal(span, f"unknown function {name}()", hint)
        function, arguments = functions[name], tuple(map(self.operand, formulas(tree)))
        while name == "concat" and len(arguments) > 2:  # nested calls of two arguments
            arguments = (*arguments[:-2], syntax.Call("concat", arguments[-2:], span))
        wrong = _wrong_argument(name, function, arguments)
        if wrong is not None:
            if self._of == "condition":
                raise self.unsupported(tree, f"{name}() of these arguments")
            raise self.fault(arguments[wrong[0]].span if wrong[0] >= 0 else span, *wrong[1:])
        arguments += tuple(map(syntax.Constant, function.defaults(len(arguments))))
        self._check_expression(name, formulas(tree)[1:], arguments[1:])
        return syntax.Call(name, arguments, span)

    def _check_expression(
        self, name: str, trees: Sequence[Tree[Token]], constants: Sequence[syntax.Operand]
    ) -> None:
        """Raise QueryError at the mistake in a regular expression among a call's constants.

        `trees` and `constants` are those of the arguments behind the first one.
        """
        if name not in ("matches", "replace", "tokenize") or not trees:
            return
        from xscl.language.regex import WrongExpression, expression, replacer  # loads RE2

        texts = [
            str(constant.value) for constant in constants if isinstance(constant, syntax.Constant)
        ]
        try:
            (replacer if name == "replace" else expression)(*texts)
        except WrongExpression as error:
            start = span_of(trees[0]).start + 1 + error.at
            message = f"the regular expression: {error.args[0]}"
            raise self.fault(syntax.Span(start, start), message, error.hint) from None

    def literal(self, tree: Tree[Token]) -> str | float:
        if tree.data == "minus":
            return 0.0 - float(self.literal(tree_of(tree.children[1])))
        text = str(tree.children[0])
        if tree.data == "string":
            return text[1:-1]
        number = float(text)
        if math.isinf(number):
            raise self.fault(tree, "the number is too large")
        return number

    def _variable_path(self, tree: Tree[Token], span: syntax.Span) -> syntax.VariablePath:
        if self._of != "documents":
            return syntax.VariablePath("", self.path(tree))
        match tree.children:
            case [Tree("step", [Tree("plain_name", [name]), *suffixes]), *rest]:
                pass
            case _:
                message = "a path between documents starts at a variable"
                raise self.fault(span, message, "for example x1/author")
        for suffix in suffixes:
            if is_token(suffix, "BRACKET"):
                raise self.unsupported(span, "a condition on a variable", "write it in the block")
        path = self._path([], rest, syntax.NOWHERE) if rest else syntax.Path()
        if suffixes or (rest and binds(path)):
            raise self.fault(span, "no variable can be bound here", "bind it in a block")
        return syntax.VariablePath(str(name), path, span)

    def path(self, tree: Tree[Token]) -> syntax.Path:
        """Return a relative path: `.`, `a/b`, `./a`, `.//a`, `@id`, `a/text()`."""
        first, *rest = tree.children
        span = span_of(tree)
        if isinstance(first, Tree) and first.data == "steps":
            raise self.beyond(span, "a condition's path starts at the node", "write ./ or .//")
        return self._path([] if isinstance(first, Token) else [(False, first)], rest, span)

    def _path(
        self, head: list[tuple[bool, Tree[Token]]], rest: Sequence[LarkNode], span: syntax.Span
    ) -> syntax.Path:
        """Return a path of the steps in `head`, each with True for `//`, and of those in `rest`."""
        for steps in rest:
            head += slashed(tree_of(steps))
        text: Literal["child", "descendant"] | None = None
        if head and head[-1][1].data == "node_type" and str(head[-1][1].children[0]) == "text":
            text = "descendant" if head.pop()[0] else "child"
        found = tuple([self.step(step, descendant=deep) for deep, step in head])
        return syntax.Path(found, text, span)


def _wrong_argument(
    name: str, function: Function, arguments: Sequence[syntax.Operand]
) -> tuple[int, str, str | None] | None:
    """Return the position of the first wrong argument, a message and a hint; None if all are right.

    The position is -1 if the number of arguments is wrong.
    """
    if not function.takes(len(arguments)):
        return -1, f"{name}() takes {function.arity}, not {len(arguments)}", None
    fixed = len(function.arguments) - function.constants
    for at, (argument, kind) in enumerate(zip(arguments, function.arguments, strict=False)):
        if isinstance(argument, syntax.Call) and argument.function in TESTS:
            return at, f"{argument.function}() is a predicate, not a value", None
        value = argument.value if isinstance(argument, syntax.Constant) else None
        if at >= fixed and not isinstance(value, kind):
            what = "a string in quotes" if kind is str else "a number"
            return at, f"the second argument of {name}() is {what}", None
        is_name = isinstance(argument, syntax.VariablePath | syntax.DecoratedName)
        if name == TIME and (not is_name or has_path(argument)):
            hint = "time(x) is the time of the document that x is bound in"
            return at, "time() takes a variable", hint
        if name == DURATION and duration(str(value)) is None:
            hint = 'for example xs:dayTimeDuration("P1DT12H"): 1 day and 12 hours'
            return at, "this is no duration of days and time", hint
    return None


def _as_times(operand: syntax.Operand) -> syntax.Operand:
    """Return an operand that is compared with a duration, with times in place of some names.

    These names are the operand itself, the terms of a sum or difference, and the terms of a
    difference that is multiplied or divided.
    """
    match operand:
        case syntax.VariablePath() | syntax.DecoratedName():
            return syntax.Call(DATE_TIME, (operand,), operand.span)
        case syntax.Arithmetic("+" | "-", left, right):
            return replace(operand, left=_as_times(left), right=_as_times(right))
        case syntax.Arithmetic("*" | "div", syntax.Arithmetic("-") as left, _):
            return replace(operand, left=_as_times(left))
        case _:
            return operand
