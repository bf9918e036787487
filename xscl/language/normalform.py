"""Value-join normal form: blocks, one operator, and comparisons of bound nodes.

`x1/author = x4/author` becomes two nodes of their own, bound below x1 and x4;
a comparison of one variable with a constant becomes a condition of its block.
What is left are pairs of variables, one of each side (Hong 2009, section 6.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, assert_never, cast

from xscl.errors import QueryError
from xscl.language.faults import fault, near_miss, unsupported
from xscl.language.syntax import (
    And,
    Block,
    Call,
    Compare,
    Comparison,
    Condition,
    Constant,
    Element,
    Embedded,
    Exists,
    Expression,
    Fold,
    FollowedBy,
    Join,
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
)

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ONLY_ONE_JOIN = "one JOIN or FOLLOWED BY between two blocks can be run now"


@dataclass(frozen=True, slots=True)
class NormalQuery:
    """A query in value-join normal form.

    `equalities` and `residuals` name variables, the left side's first; derived
    ones begin with `$`.  `outputs` are the user's variables in the join
    predicate, `variables` all of them, in order of appearance.
    """

    blocks: tuple[Block, ...]
    operator: Literal["JOIN", "FOLLOWED BY"] | None
    window: int | None
    equalities: tuple[tuple[str, str], ...]
    residuals: tuple[tuple[str, Literal["!="], str], ...]
    outputs: tuple[str, ...]
    variables: tuple[str, ...]
    select: Element | None
    distinct: bool
    publish: str | None


def normalise(query: Query, source: str) -> NormalQuery:
    """Return a query in normal form; raises QueryError, and NotSupported for what comes later."""
    expression = query.expression
    join = None if isinstance(expression, Block) else _plain_join(expression, source)
    parts = (expression,) if join is None else (join.left, join.right)
    blocks = tuple(_block(part, source) for part in parts)
    form = _Form(source, blocks)
    if join is not None:
        if join.predicate is not None:
            form.add(join.predicate)
        if not form.equalities:
            raise _no_equality(source, join.span)
    _check_select(query.select, form.variables, source)
    for block in blocks:
        if block.stream == query.publish:
            raise fault(
                source,
                block.span,
                f"the query publishes {query.publish!r}, the stream that it reads: a cycle",
                "publish under another name",
            )
    return NormalQuery(
        tuple(form.blocks),
        None if join is None else "JOIN" if isinstance(join, Join) else "FOLLOWED BY",
        None if join is None else join.window.ticks,
        tuple(dict.fromkeys(form.equalities)),
        tuple(dict.fromkeys(form.residuals)),
        tuple(dict.fromkeys(form.outputs)),
        tuple(form.variables),
        query.select,
        query.distinct,
        query.publish,
    )


def _plain_join(expression: Expression, source: str) -> Join | FollowedBy:
    match expression:
        case Next(span=span):
            raise unsupported(source, span, "NEXT", _ONLY_ONE_JOIN)
        case Fold(span=span):
            raise unsupported(source, span, "FOLD", _ONLY_ONE_JOIN)
        case Query(span=span):
            raise unsupported(source, span, "a sub-query", _ONLY_ONE_JOIN)
        case FollowedBy(negated=True, span=span):
            raise unsupported(source, span, "NOT FOLLOWED BY", _ONLY_ONE_JOIN)
        case FollowedBy(otherwise=True, span=span):
            raise unsupported(source, span, "ELSE", _ONLY_ONE_JOIN)
        case Join() | FollowedBy():
            return expression
        case Block():
            raise AssertionError("a block is no join")
        case _:
            assert_never(expression)


def _block(expression: Expression, source: str) -> Block:
    if isinstance(expression, Block):
        return expression
    inner = expression if isinstance(expression, Query) else _plain_join(expression, source)
    what = "a sub-query" if isinstance(inner, Query) else "a chain of joins"
    raise unsupported(source, inner.span, what, _ONLY_ONE_JOIN)


def _no_equality(source: str, span: Span) -> QueryError:
    return unsupported(
        source,
        span,
        "a join without an equality between its sides",
        "add one, for example {x2 = x5, 1 d}",
    )


class _Form:
    """The blocks and comparisons while the predicate is taken apart."""

    def __init__(self, source: str, blocks: tuple[Block, ...]) -> None:
        self.source = source
        self.blocks = list(blocks)
        self.equalities: list[tuple[str, str]] = []
        self.residuals: list[tuple[str, Literal["!="], str]] = []
        self.outputs: list[str] = []
        self.sides: dict[str, int] = {}
        self._derived = 0
        self._between_sides: set[tuple[Operator, VariablePath, VariablePath]] = set()
        for side, block in enumerate(blocks):
            for step in _steps(block.steps):
                if step.variable is not None:
                    self._know(step.variable, side, step.variable_span)

    @property
    def variables(self) -> list[str]:
        """The user's variables, in order of appearance."""
        return [variable for variable in self.sides if not variable.startswith("$")]

    def _know(self, variable: str, side: int, span: Span) -> None:
        if variable in self.sides:
            raise fault(
                self.source, span, f"the variable {variable!r} is bound twice", "use two names"
            )
        self.sides[variable] = side

    def add(self, predicate: Predicate) -> None:
        """Take one predicate apart."""
        match predicate:
            case And(parts):
                for part in parts:
                    self.add(part)
            case Comparison():
                self._comparison(predicate)
            case Call(
                "contains" | "starts-with", (VariablePath() as operand, Constant(str() as v))
            ):
                function = cast(Literal["contains", "starts-with"], predicate.function)
                self._condition(operand, TextMatch(function, Path((), operand.path.text), v))
            case Call():
                raise unsupported(
                    self.source, predicate.span, f"{predicate.function}() in a join predicate"
                )
            case Or():
                raise unsupported(self.source, predicate.span, "OR in a join predicate")
            case Not():
                raise unsupported(self.source, predicate.span, "NOT in a join predicate")

    def _comparison(self, comparison: Comparison) -> None:
        left, right, operator = comparison.left, comparison.right, comparison.operator
        if isinstance(left, Constant):
            left, right = right, left
            operator = cast(Operator, _MIRRORED[operator])
        match left, right:
            case VariablePath(), Constant(value):
                self._condition(left, Compare(Path(), operator, value))
            case VariablePath(), VariablePath():
                self._between(left, operator, right, comparison.span)
            case _:
                raise self._not_plain(left, right, comparison.span)

    def _not_plain(self, left: Operand, right: Operand, span: Span) -> QueryError:
        for operand in (left, right):
            if isinstance(operand, Call):
                return unsupported(self.source, operand.span, f"{operand.function}() in a join")
            if not isinstance(operand, VariablePath | Constant):
                return unsupported(self.source, operand.span, "arithmetic in a join predicate")
        return fault(self.source, span, "this compares no variables")

    def _between(
        self, left: VariablePath, operator: Operator, right: VariablePath, span: Span
    ) -> None:
        sides = self._side(left), self._side(right)
        if sides[0] == sides[1]:
            raise unsupported(self.source, span, "comparing two variables of the same side")
        if operator not in ("=", "!="):
            raise unsupported(self.source, span, f"{operator!r} between documents")
        if sides[0] == 1:
            left, right = right, left
        # The same comparison again says nothing new; it must not make further nodes.
        if (operator, left, right) in self._between_sides:
            return
        self._between_sides.add((operator, left, right))
        one, two = self._bound(left), self._bound(right)
        if operator == "=":
            self.equalities.append((one, two))
        else:
            self.residuals.append((one, "!=", two))

    def _side(self, operand: VariablePath) -> int:
        side = self.sides.get(operand.variable)
        if side is None:
            hint = near_miss(operand.variable, self.variables)
            raise fault(
                self.source, operand.span, f"the variable {operand.variable!r} is not bound", hint
            )
        self.outputs.append(operand.variable)
        return side

    def _bound(self, operand: VariablePath) -> str:
        """Return the variable of an operand: its own, or a derived one for a path on it."""
        if operand.path == Path():
            return operand.variable
        if operand.path.text is not None:
            raise unsupported(self.source, operand.span, "text() in a join")
        self._derived += 1
        derived = f"${self._derived}"
        *inner, last = operand.path.steps
        steps = (*inner, replace(last, variable=derived))
        self.sides[derived] = self.sides[operand.variable]
        self._attach(operand.variable, Exists(Path(steps)))
        return derived

    def _condition(self, operand: VariablePath, condition: Compare | TextMatch) -> None:
        """Make a condition on one variable part of its block."""
        self._side(operand)
        path = Path(operand.path.steps, operand.path.text)
        match condition:
            case Compare(_, operator, value):
                self._attach(operand.variable, Compare(path, operator, value))
            case TextMatch(function, _, value):
                self._attach(operand.variable, TextMatch(function, path, value))

    def _attach(self, variable: str, condition: Condition) -> None:
        side = self.sides[variable]
        block = self.blocks[side]
        self.blocks[side] = replace(block, steps=_with(block.steps, variable, condition))


def _with(steps: tuple[Step, ...], variable: str, condition: Condition) -> tuple[Step, ...]:
    """Return steps with one more condition at the step that binds a variable."""
    return tuple(
        replace(
            step,
            conditions=(
                *(_within(c, variable, condition) for c in step.conditions),
                *((condition,) if step.variable == variable else ()),
            ),
        )
        for step in steps
    )


def _within(outer: Condition, variable: str, condition: Condition) -> Condition:
    match outer:
        case Exists(path):
            return Exists(replace(path, steps=_with(path.steps, variable, condition)))
        case And(parts):
            return And(tuple(_within(part, variable, condition) for part in parts))
        case _:
            return outer


def _steps(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps of a path and of the branches that may bind, in order."""
    for step in steps:
        yield step
        for condition in step.conditions:
            yield from _condition_steps(condition)


def _condition_steps(condition: Condition) -> Iterator[Step]:
    match condition:
        case Exists(path):
            yield from _steps(path.steps)
        case And(parts):
            for part in parts:
                yield from _condition_steps(part)
        case _:
            return


def _check_select(select: Element | None, variables: list[str], source: str) -> None:
    """Raise for a variable in the constructor that no block binds."""
    for embedded in _embedded(select) if select is not None else ():
        if embedded.variable not in variables:
            raise fault(
                source,
                embedded.span,
                f"the variable {embedded.variable!r} is not bound",
                near_miss(embedded.variable, variables),
            )


def _embedded(element: Element) -> Iterator[Embedded]:
    parts = [*(part for _, value in element.attributes for part in value), *element.children]
    for part in parts:
        if isinstance(part, Embedded):
            yield part
        elif isinstance(part, Element):
            yield from _embedded(part)
