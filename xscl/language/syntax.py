"""The syntax tree of XSCL: what the parser makes and everything later reads.

A query is a stream expression (blocks joined by operators) with an optional
output constructor and an optional name under which its output is published
(Hong 2009, section 6.2).  Nodes are frozen; positions do not take part in
equality, so that two spellings of one query are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from templates.model.join_graph import TemporalOperator, TemporalRelation

ComparisonSign: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
MIRRORED: dict[ComparisonSign, ComparisonSign] = {
    **{"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
}
"""For each operator the one that says the same of exchanged operands."""


class Span(NamedTuple):
    """A half-open range of character offsets in the text of a query."""

    start: int = 0
    end: int = 0


NOWHERE = Span()
CALENDAR = "AT '"
"""The prefix of the names of calendars' streams, as in `cep_core.is_calendar`."""


# -- Formulas: the connectives that conditions and join predicates share ------------------

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class And(Generic[F]):
    parts: tuple[F, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or(Generic[F]):
    parts: tuple[F, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not(Generic[F]):
    part: F
    span: Span = field(default=NOWHERE, compare=False, repr=False)


# -- Paths inside one document -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NameTest:
    """A test of a node's name; `None` stands for "any" in either place.

    `NameTest("b", "")` is the name b in no namespace, `NameTest("b", None)`
    is `*:b`, and `NameTest(None, None)` is `*`.
    """

    local: str | None
    uri: str | None = ""

    @property
    def clark(self) -> str | None:
        """The only name that passes the test, in Clark notation; None if several names pass."""
        if self.local is None or self.uri is None:
            return None
        return f"{{{self.uri}}}{self.local}" if self.uri else self.local

    @property
    def key(self) -> str:
        """The key of this test: `{uri}local`, `*:local`, `{uri}` or `*`."""
        if self.uri is not None:
            return f"{{{self.uri}}}{self.local or ''}"
        return "*" if self.local is None else f"*:{self.local}"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: an axis, a name test, conditions and perhaps a variable.

    `descendant` is `//` in front of the step, `attribute` an `@`.  A step with
    `derived` stands for no node of the document but for the values of an
    operand at the node above it, which is called `.` (a variable without a name).
    """

    test: NameTest
    descendant: bool = False
    attribute: bool = False
    conditions: tuple[Condition, ...] = ()
    variable: str | None = None
    derived: Operand | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    variable_span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def key(self) -> str:
        """The key of the name test, behind an `@` for an attribute."""
        return f"@{self.test.key}" if self.attribute else self.test.key


@dataclass(frozen=True, slots=True)
class Path:
    """A path relative to a node; without steps it is `.`, the node itself.

    `text` says that the path ends in `/text()` or `//text()`.
    """

    steps: tuple[Step, ...] = ()
    text: Literal["child", "descendant"] | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Exists:
    """The condition that a path selects at least one node; its steps may bind variables."""

    path: Path


@dataclass(frozen=True, slots=True)
class Through:
    """The values that a condition tests in place of those of a path's nodes.

    `operand` is over `.`.  In the mode `first` it is applied to the text of the first node, "" if
    there is none, in `each` to the text of each node.  In `count` the value is the number of nodes,
    and `operand` is `.` itself.
    """

    mode: Literal["first", "each", "count"]
    operand: Operand


TextFunction: TypeAlias = Literal["contains", "starts-with", "ends-with", "matches"]


@dataclass(frozen=True, slots=True)
class ValueTest:
    """A test of the values of a path with the constant `value`, by comparison or function.

    A comparison holds if some value of the path satisfies it; it is numeric if the constant is a
    number.  A function holds if it does for the first text.  The constant of `matches` is a regular
    expression of XPath, with its `flags`.  No string holds both kinds of quotes: literals have no
    escapes.
    """

    path: Path
    operator: ComparisonSign | TextFunction
    value: str | float
    through: Through | None = None
    flags: str = ""

    @property
    def is_comparison(self) -> bool:
        """True for a comparison, False for a function of the first node's string value."""
        return self.operator in MIRRORED


@dataclass(frozen=True, slots=True)
class Residual:
    """A condition in XPath that no index evaluates: the truth value of an expression at a node.

    The text is in normal form (`xscl.language.xpath`).  With `selects` the text is a path that
    begins at the document or at `..`, and the condition is that the path selects the node.
    """

    text: str
    selects: bool = False


Condition: TypeAlias = (
    "Exists | ValueTest | Residual | And[Condition] | Or[Condition] | Not[Condition]"
)


# -- Predicates between documents ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VariablePath:
    """A variable, or a path that starts at one: `x1`, `x1/author`, `x1//a/@b`."""

    variable: str
    path: Path = Path()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DecoratedName:
    """`$1.x`, `$2.x`: a variable of the left or right input.  `$.x` (0): the last row's in FOLD."""

    input: int
    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Constant:
    value: str | float
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Operand, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    operator: Literal["+", "-", "*", "div", "mod"]
    left: Operand
    right: Operand
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Operand: TypeAlias = "VariablePath | DecoratedName | Constant | Call | Arithmetic"


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: ComparisonSign
    left: Operand
    right: Operand
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Predicate: TypeAlias = "Comparison | Call | And[Predicate] | Or[Predicate] | Not[Predicate]"


# -- Stream expressions --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Window:
    """A bound of the time between two documents, in ticks; None is INF.

    `unit` is the unit as written, None for a bare number.  Of a window with two bounds (`S TO T`)
    this is T, and `lower` is S, which is finite and may be negative.
    """

    ticks: int | None = None
    unit: str | None = None
    lower: Window | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def least(self) -> int | None:
        """The lower bound in ticks; None of a window with one bound."""
        return None if self.lower is None else self.lower.ticks


@dataclass(frozen=True, slots=True)
class Block:
    """A tree pattern on a stream; the last step's variable is the block's variable.

    A block without a path (`blog`) is the document's root element: `blog/*`.  Of a calendar the
    stream is that of its instants, and the only step stands for an instant.
    """

    stream: str
    steps: tuple[Step, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def is_calendar(self) -> bool:
        """True for the instants of a calendar: no other stream has a name that begins so."""
        return self.stream.startswith(CALENDAR)


@dataclass(frozen=True, slots=True)
class Join:
    """`A JOIN{p, S TO T} B`, SYMMETRIC JOIN or FOLLOWED BY, as its `operator` says.

    `alone` is True for a side (left, right) whose documents are results without a partner, too, as
    a trailing ELSE says.  If the join is `negated`, as NOT FOLLOWED BY, it has no other results.
    """

    left: StreamExpression
    right: StreamExpression
    predicate: Predicate | None
    window: Window
    operator: TemporalOperator
    alone: tuple[bool, bool] = (False, False)
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The words of the operator, such as `NOT FOLLOWED BY`."""
        return f"NOT {self.operator.name}" if self.negated else self.operator.name

    @property
    def relation(self) -> TemporalRelation:
        """The order and the window that the join demands of the times of its sides."""
        return self.operator.within(self.window.ticks, self.window.least)


@dataclass(frozen=True, slots=True)
class Next:
    left: StreamExpression
    right: StreamExpression
    predicate: Predicate | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Fold:
    """`A FOLD{next, again, aggregates...} B`: Cayuga's iteration.

    Of a `longest` one (LONGEST FOLD) a run is a result only when no document continues it.
    """

    left: StreamExpression
    right: StreamExpression
    predicate: Predicate | None
    again: Predicate | None
    aggregates: tuple[tuple[str, Operand], ...] = ()
    longest: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


StreamExpression: TypeAlias = "Block | Join | Next | Fold | Query"


# -- Output --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EmbeddedPath:
    """`{x}`, `{x/title}` in a constructor: copies of nodes; `{string(x)}`: the first one's text."""

    variable: str
    path: Path = Path()
    as_string: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EmbeddedOperand:
    """`{lower-case(x)}` in a constructor: the values of an operand over variables, as text."""

    operand: Operand
    span: Span = field(default=NOWHERE, compare=False, repr=False)


ConstructorPart: TypeAlias = "str | EmbeddedPath | EmbeddedOperand"


@dataclass(frozen=True, slots=True)
class Element:
    """A direct element constructor; names are in Clark notation (`{uri}local`).

    `prefixes` are the namespaces that this element declares or uses a prefix
    of, sorted; a default namespace shows in the names only.
    """

    name: str
    attributes: tuple[tuple[str, tuple[ConstructorPart, ...]], ...] = ()
    children: tuple[ConstructorPart | Element, ...] = ()
    prefixes: tuple[tuple[str, str], ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query; `select` is its constructor, None for `SELECT *` and without SELECT."""

    expression: StreamExpression
    select: Element | None = None
    distinct: bool = False
    publish: str | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    prefixes: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """The declared namespaces by prefix; names in the tree contain the namespaces themselves."""
