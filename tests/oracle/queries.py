"""Queries of XSCL as frozen values, and what happens to an engine.

A query is described once, as a tree of frozen values, and read twice: the engine gets its text
(`Query.text`), the oracle gets the tree.  So the two share no parser and no normal form.

The variables of a query have different names.  A FOLD may read the last row (`Decorated(0, "k")`)
only if the left side binds "k_1" or "k" for it to begin with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

from tests.oracle.steps import (
    NAMESPACES,
    Block,
    Comparator,
    Condition,
    Exists,
    Path,
    Step,
    TextEnd,
    TextFunction,
    literal,
)
from tests.oracle.steps import And as AllOf

Otherwise: TypeAlias = Literal["", "both", "left", "right"]
Unit: TypeAlias = Literal["", "ms", "omitted"]
Function: TypeAlias = Literal[
    "string",
    "lower-case",
    "upper-case",
    "normalize-space",
    "substring-before",
    "substring-after",
    "string-length",
    "number",
    "time",
    "xs:decimal",
]
Sign: TypeAlias = Literal["+", "-", "*", "div", "mod"]

# -- Operands ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Var:
    """A variable, or the nodes of a path that starts at one (`x1/author`, `x1//text()`)."""

    name: str
    step: Step | None = None
    texts: TextEnd = ""

    def text(self) -> str:
        return Path(self.step, self.texts).text(self.name)


@dataclass(frozen=True, slots=True)
class Decorated:
    """`$1.x` (left or first row), `$2.x` (right or new row), `$.x` (last row or aggregate)."""

    side: Literal[0, 1, 2]
    name: str

    def text(self) -> str:
        return f"${self.side or ''}.{self.name}"


@dataclass(frozen=True, slots=True)
class Constant:
    value: str | int | float

    def text(self) -> str:
        return literal(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    function: Function
    arguments: tuple[Operand, ...]

    def text(self) -> str:
        return f"{self.function}({', '.join(argument.text() for argument in self.arguments)})"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    sign: Sign
    left: Operand
    right: Operand

    def text(self) -> str:
        return f"({self.left.text()} {self.sign} {self.right.text()})"


Operand: TypeAlias = Var | Decorated | Constant | Call | Arithmetic

# -- Formulas ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: Comparator
    left: Operand
    right: Operand

    def text(self) -> str:
        return f"{self.left.text()} {self.operator} {self.right.text()}"


@dataclass(frozen=True, slots=True)
class TextTest:
    function: TextFunction
    left: Operand
    right: Operand

    def text(self) -> str:
        return f"{self.function}({self.left.text()}, {self.right.text()})"


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Formula, ...]

    def text(self) -> str:
        return " AND ".join(_grouped(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Formula, ...]

    def text(self) -> str:
        return " OR ".join(_grouped(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    part: Formula

    def text(self) -> str:
        return f"not({self.part.text()})"


Formula: TypeAlias = Comparison | TextTest | And | Or | Not


def _grouped(part: Formula) -> str:
    return f"({part.text()})" if isinstance(part, And | Or) else part.text()


def leaves(node: Formula | Operand) -> Iterator[Var | Decorated | Constant]:
    """Return the names and constants of a formula or an operand, from left to right."""
    match node:
        case Var() | Decorated() | Constant():
            yield node
        case Call(_, parts) | And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)
        case Not(part):
            yield from leaves(part)
        case Arithmetic(_, left, right) | Comparison(_, left, right) | TextTest(_, left, right):
            yield from leaves(left)
            yield from leaves(right)
        case _:
            assert_never(node)


# -- Expressions ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Join:
    """`A JOIN{p, S TO T} B`; bounds are in ticks, `window` None is INF, `lower` None is -T.

    `otherwise` are the sides that are results without a partner, too: a trailing ELSE.  A
    `symmetric` one has each pair of documents once.
    """

    left: Expression
    right: Expression
    predicate: Formula | None = None
    window: int | None = None
    unit: Unit = ""
    lower: int | None = None
    otherwise: Otherwise = ""
    symmetric: bool = False

    def text(self) -> str:
        constraint = _constraint(self.predicate, self.window, self.unit, self.lower)
        end = {"": "", "both": " ELSE"}.get(self.otherwise, f" ELSE {self.otherwise.upper()}")
        name = "SYMMETRIC JOIN" if self.symmetric else "JOIN"
        return f"{_first(self.left)} {name}{constraint} {_second(self.right)}{end}"


@dataclass(frozen=True, slots=True)
class FollowedBy:
    """`A FOLLOWED BY{p, S TO T} B`; `negated` is a leading NOT, `otherwise` a trailing ELSE."""

    left: Expression
    right: Expression
    predicate: Formula | None = None
    window: int | None = None
    negated: bool = False
    otherwise: bool = False
    unit: Unit = ""
    lower: int | None = None

    def text(self) -> str:
        constraint = _constraint(self.predicate, self.window, self.unit, self.lower)
        operator = "NOT FOLLOWED BY" if self.negated else "FOLLOWED BY"
        end = " ELSE" if self.otherwise else ""
        return f"{_first(self.left)} {operator}{constraint} {_second(self.right)}{end}"


@dataclass(frozen=True, slots=True)
class Next:
    """`A NEXT{p} B`."""

    left: Expression
    right: Expression
    predicate: Formula | None = None

    def text(self) -> str:
        braces = "" if self.predicate is None else f"{{{self.predicate.text()}}}"
        return f"{_first(self.left)} NEXT{braces} {_second(self.right)}"


@dataclass(frozen=True, slots=True)
class Fold:
    """`A FOLD{p, q, e AS name, ...} B`; of a `longest` one the runs that end."""

    left: Expression
    right: Expression
    predicate: Formula
    again: Formula
    aggregates: tuple[tuple[str, Operand], ...] = ()
    longest: bool = False

    def text(self) -> str:
        named = [f"{operand.text()} AS {name}" for name, operand in self.aggregates]
        items = ", ".join([self.predicate.text(), self.again.text(), *named])
        name = "LONGEST FOLD" if self.longest else "FOLD"
        return f"{_first(self.left)} {name}{{{items}}} {_second(self.right)}"


Expression: TypeAlias = "Block | Join | FollowedBy | Next | Fold | Query"


def _first(left: Expression) -> str:
    bare = not (isinstance(left, Query) or (isinstance(left, Join | FollowedBy) and left.otherwise))
    return left.text() if bare else f"({_inner(left)})"


def _second(right: Expression) -> str:
    return right.text() if isinstance(right, Block) else f"({_inner(right)})"


def _inner(expression: Expression) -> str:
    return expression.text(within=True) if isinstance(expression, Query) else expression.text()


def _constraint(
    predicate: Formula | None, window: int | None, unit: Unit, lower: int | None = None
) -> str:
    parts = [] if predicate is None else [predicate.text()]
    if lower is not None:
        parts.append(f"{_length(lower, unit)} TO {_length(window, unit)}")
    elif window is not None:
        parts.append(_length(window, unit))
    elif unit != "omitted":
        parts.append("INF")
    if predicate is None and window is not None and unit != "ms":
        return f"{{, {', '.join(parts)}}}"
    return f"{{{', '.join(parts)}}}" if parts else ""


def _length(ticks: int | None, unit: Unit) -> str:
    if ticks is None:
        return "INF"
    return f"{ticks // 1000} ms" if unit == "ms" else str(ticks)


def blocks(expression: Expression) -> tuple[Block, ...]:
    """Return the blocks of an expression, from left to right: its components."""
    match expression:
        case Block():
            return (expression,)
        case Query(inner):
            return blocks(inner)
        case Join(left, right) | FollowedBy(left, right) | Next(left, right) | Fold(left, right):
            return (*blocks(left), *blocks(right))
        case _:
            assert_never(expression)


def bound(step: Step) -> Iterator[str]:
    """Return the variables that a pattern binds, in order of appearance."""
    if step.variable is not None:
        yield step.variable
    for condition in step.conditions:
        yield from _bound_in(condition)
    if step.then is not None:
        yield from bound(step.then)


def _bound_in(condition: Condition) -> Iterator[str]:
    match condition:
        case Exists(step):
            yield from bound(step)
        case AllOf(parts):
            for part in parts:
                yield from _bound_in(part)
        case _:
            return


# -- Queries -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copy:
    """`{x}`, or `{string(x)}` in a constructor."""

    variable: str
    as_string: bool = False

    def text(self) -> str:
        return f"{{string({self.variable})}}" if self.as_string else f"{{{self.variable}}}"


@dataclass(frozen=True, slots=True)
class Element:
    """`<name>...</name>` in a constructor; its literal texts hold no sign of markup."""

    name: str
    children: tuple[str | Copy | Element, ...] = ()

    def text(self) -> str:
        inner = "".join(part if isinstance(part, str) else part.text() for part in self.children)
        return f"<{self.name}>{inner}</{self.name}>"


@dataclass(frozen=True, slots=True)
class Query:
    """A query, or within another a sub-query in parentheses; `select` None is `*`."""

    expression: Expression
    publish: str | None = None
    distinct: bool = False
    select: Element | None = None

    def text(self, *, within: bool = False) -> str:
        """Return the query as XSCL; within another it always says SELECT."""
        select = ""
        if self.select is not None or self.distinct or within:
            made = "*" if self.select is None else self.select.text()
            select = f"SELECT {'DISTINCT ' if self.distinct else ''}{made} FROM "
        end = "" if self.publish is None else f" PUBLISH {self.publish}"
        inner = self.expression
        body = f"({_inner(inner)})" if isinstance(inner, Query) else inner.text()
        prefixes = f'NAMESPACE p = "{NAMESPACES["p"]}" ' if "p:" in body and not within else ""
        return f"{prefixes}{select}{body}{end}"


# -- What happens to an engine -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Doc:
    streams: tuple[str, ...]
    id: str
    timestamp: int
    xml: bytes


@dataclass(frozen=True, slots=True)
class Push:
    document: Doc


@dataclass(frozen=True, slots=True)
class Subscription:
    name: str
    query: Query
    updates: bool = False


@dataclass(frozen=True, slots=True)
class Subscribe:
    subscription: Subscription


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    name: str


Event: TypeAlias = Push | Subscribe | Unsubscribe


@dataclass(frozen=True, slots=True)
class Case:
    """A history of an engine that ends with a flush, and the lateness of its streams in ticks."""

    events: tuple[Event, ...]
    lateness: dict[str, int] = field(default_factory=dict)

    @property
    def documents(self) -> tuple[Doc, ...]:
        """The documents, in order of arrival."""
        return tuple(event.document for event in self.events if isinstance(event, Push))

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The subscriptions, in order of registration."""
        return tuple(e.subscription for e in self.events if isinstance(e, Subscribe))


def subscribed_first(
    subscriptions: Sequence[Subscription], documents: Sequence[Doc]
) -> tuple[Event, ...]:
    """Return the history in which everyone subscribes before the first document."""
    return (*map(Subscribe, subscriptions), *map(Push, documents))
