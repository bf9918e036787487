"""Operators over time: from XSCL's predicates to the algebra of the event core.

The core's rows have a composite as their first value and, behind it, the
columns that predicates read: the text of a variable, or its number where it is
compared as a number (spec: `attributes`).  Literals become parameters, so that
queries that differ in constants share everything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, assert_never

from cep_core import Schema
from cep_core.algebra import Absence, Iterate, Node, Select, Stream, text_of
from cep_core.algebra import Sequence as SequenceNode
from cep_core.algebra.expressions import (
    TRUE,
    Arithmetic,
    Column,
    Compare,
    Expression,
    Function,
    Parameter,
    Side,
    rewrite,
    walk,
)
from cep_core.algebra.expressions import And as Both
from cep_core.algebra.expressions import Call as Apply
from cep_core.algebra.expressions import Not as Negated
from cep_core.algebra.expressions import Or as Either
from xscl.documents.composite_events import Composite
from xscl.language import syntax
from xscl.language.functions import OPERANDS, matches
from xscl.language.normalform import Absent, Folded, Following, J, OverTime
from xscl.language.syntax import Decorated, Operand, Predicate, VariablePath
from xscl.language.valuejoin import is_numeric, is_untyped
from xscl.planning.operators.events import Kind
from xscl.shredding.conditions.residual import ARITHMETIC, ORDERS, OneSidedNumbers

LEFT, RIGHT = "left", "right"
"""The names of the two inputs in the algebra that is made here."""
BEGINNING = -1
"""The position of the column with what an aggregate begins with: 0."""


@dataclass(slots=True)
class Columns:
    """The columns that are read of one input, by the name of the variable and the kind."""

    names: tuple[str, ...]
    wanted: dict[tuple[int, Kind], int] = field(default_factory=dict)

    def at(self, name: str, kind: Kind) -> int:
        """Return the place of a variable's column among a row's values."""
        return self.place(self.names.index(name), kind)

    def place(self, position: int, kind: Kind) -> int:
        """Return the place of a column by its position."""
        return self.wanted.setdefault((position, kind), len(self.wanted) + 1)

    @property
    def schema(self) -> Schema:
        """The schema of the rows: the composite, then the columns."""
        kinds = [str if kind == "text" else float for _, kind in self.wanted]
        names = [f"c{i}" for i in range(len(kinds))]
        return Schema(("composite", *names), (object, *kinds))


@dataclass(frozen=True, slots=True)
class Timing:
    """An operator over time in the core's algebra, and what its rows look like.

    `literals` are the values of its parameters; `parts` are the places of the
    composites in its rows (left, then right), `aggregates` those of aggregates.
    """

    node: Node
    literals: tuple[Any, ...]
    left: tuple[tuple[int, Kind], ...]
    right: tuple[tuple[int, Kind], ...]
    parts: tuple[int, ...]
    aggregates: tuple[int, ...]


def timing(
    form: OverTime[J],
    left: tuple[str, ...],
    right: tuple[str, ...],
    *,
    versions: bool = False,
) -> Timing:
    """Return the algebra of an operator whose inputs have variables of these names.

    With `versions` a document may come again, as a new version, which it is not paired with.
    """
    writer = _Writer(Columns(left), Columns(right), versions)
    match form:
        case Following(predicate=predicate):
            return writer.following(predicate)
        case Absent():
            return writer.absent(form)
        case Folded():
            return writer.folded(form)
        case _:
            assert_never(form)


class _Writer:
    """Writes predicates as expressions over the columns of both inputs."""

    def __init__(self, left: Columns, right: Columns, versions: bool) -> None:
        self._versions = versions
        self._left = left
        self._right = right
        self._literals: list[Any] = []
        self._aggregates: dict[str, int] = {}
        self._numeric: set[str] = set()
        self._texts: set[str] = set()  # aggregates that functions of texts compute

    # -- Operators -------------------------------------------------------------------------

    def following(self, predicate: Predicate | None) -> Timing:
        """Return NEXT; what concerns the left row alone is tested before it waits."""
        whole = [*self._conjuncts(predicate), *self._apart(0)]
        own = [one for one in whole if _reads(one) == {1}]
        rest = [one for one in whole if _reads(one) != {1}]
        left: Node = self._stream(LEFT, self._left)
        if own:
            left = Select(left, _all(_as_right(one) for one in own), self._left.schema)
        right = self._stream(RIGHT, self._right)
        node = SequenceNode(left, right, _all(rest), self._paired())
        return self._made(node, (0, len(self._left.schema)), ())

    def absent(self, form: Absent[J]) -> Timing:
        """Return NOT FOLLOWED BY, or FOLLOWED BY ... ELSE."""
        holds = _all([*self._conjuncts(form.predicate), *self._apart(0)])
        otherwise, length = form.otherwise, self._literal(form.window, int)
        left, right = self._stream(LEFT, self._left), self._stream(RIGHT, self._right)
        schema = self._paired() if otherwise else self._left.schema
        node = Absence(left, right, holds, length, otherwise, schema)
        return self._made(node, (0, len(self._left.schema)) if otherwise else (0,), ())

    def folded(self, form: Folded[J]) -> Timing:
        """Return FOLD.  It is written twice: first to learn which columns there are."""
        for _ in range(2):
            self._literals.clear()
            node = self._iterate(form)
        first = len(self._left.schema)
        aggregates = range(first + len(self._right.schema), len(node.schema))
        return self._made(node, (0, first), tuple(aggregates))

    def _iterate(self, form: Folded[J]) -> Iterate:
        folding = form.folding
        begins = dict(folding.begins)
        self._numeric = {name for name, operand in folding.aggregates if self._is_number(operand)}
        self._texts = {name for name, operand in folding.aggregates if not is_untyped(operand)}
        self._aggregates = {name: i for i, (name, _) in enumerate(folding.aggregates)}
        predicate, again = self._conjuncts(folding.predicate), self._conjuncts(folding.again)
        made = [
            self._number(operand) if name in self._numeric else self._text(operand)
            for name, operand in folding.aggregates
        ]
        initial: list[int | None] = [None]
        for position, kind in self._right.wanted:
            first = begins.get(self._right.names[position])
            initial.append(None if first is None else self._left.at(first, kind))
        for name, _ in folding.aggregates:
            own: Kind = "number" if name in self._numeric else "text"
            at = self._left.names.index(begins[name]) if name in begins else BEGINNING
            initial.append(self._left.place(at, own))
        kinds = [float if name in self._numeric else str for name, _ in folding.aggregates]
        paired = self._paired()
        names = [f"a{i}" for i in range(len(kinds))]
        schema = Schema((*paired.names, *names), (*paired.types, *kinds))
        return Iterate(
            self._stream(LEFT, self._left),
            self._stream(RIGHT, self._right),
            _all([*predicate, *self._apart(0, len(self._left.schema))]),
            _all(again),
            tuple(made),
            tuple(initial),
            schema,
        )

    def _stream(self, name: str, columns: Columns) -> Stream:
        return Stream(name, columns.schema)

    def _paired(self) -> Schema:
        left, right = self._left.schema, self._right.schema
        names = [*(f"l{i}" for i in range(len(left))), *(f"r{i}" for i in range(len(right)))]
        return Schema(tuple(names), (*left.types, *right.types))

    def _made(self, node: Node, parts: tuple[int, ...], aggregates: tuple[int, ...]) -> Timing:
        left, right = tuple(self._left.wanted), tuple(self._right.wanted)
        return Timing(node, tuple(self._literals), left, right, parts, aggregates)

    # -- Predicates ------------------------------------------------------------------------

    def _conjuncts(self, predicate: Predicate | None) -> list[Expression]:
        match predicate:
            case None:
                return []
            case syntax.And(parts):
                return [one for part in parts for one in self._conjuncts(part)]
            case _:
                return [self._condition(predicate)]

    def _apart(self, *places: int) -> list[Expression]:
        """Return that the right composite has no document of those at these places on the left."""
        if not self._versions:
            return []
        new = Column(2, 0)
        return [Negated(Apply(_name("shared"), (Column(1, place), new))) for place in places]

    def _condition(self, predicate: Predicate) -> Expression:
        match predicate:
            case syntax.And(parts):
                return Both(tuple(map(self._condition, parts)))
            case syntax.Or(parts):
                return Either(tuple(map(self._condition, parts)))
            case syntax.Not(part):
                return Negated(self._condition(part))
            case syntax.Comparison(operator, left, right):
                return self._compare(operator, left, right)
            case syntax.Call(function, arguments):
                name = _name(function) if function == "matches" else function.replace("-", "_")
                return Apply(name, tuple(map(self._text, arguments)))
            case _:
                assert_never(predicate)

    def _compare(self, operator: syntax.Operator, left: Operand, right: Operand) -> Expression:
        """Return a comparison; `!=` holds where = does not, also for what is no number."""
        if operator in ORDERS and self._is_untyped(left) and self._is_untyped(right):
            counted = self._literal(OneSidedNumbers(), OneSidedNumbers)
            return Apply(_ORDER_NAMES[operator], (self._text(left), self._text(right), counted))
        numeric = self._is_number(left) or self._is_number(right)
        made = self._number if numeric else self._text
        if operator == "!=":
            return Negated(Compare("=", made(left), made(right)))
        return Compare(operator, made(left), made(right))

    # -- Operands --------------------------------------------------------------------------

    def _is_number(self, operand: Operand) -> bool:
        if isinstance(operand, Decorated) and operand.input == 0:
            return operand.name in self._numeric
        return is_numeric(operand)

    def _is_untyped(self, operand: Operand) -> bool:
        if isinstance(operand, Decorated) and operand.input == 0 and operand.name in self._texts:
            return False
        return is_untyped(operand) and not self._is_number(operand)

    def _text(self, operand: Operand) -> Expression:
        if self._is_number(operand):
            return Apply(_name("text"), (self._number(operand),))
        match operand:
            case syntax.Constant(value):
                return self._literal(value, str)
            case syntax.Call(function, arguments):
                return Apply(_name(function), tuple(map(self._text, arguments)))
            case VariablePath() | Decorated():
                return self._column(operand, "text")
            case _:
                raise AssertionError(f"{operand} is no text")

    def _number(self, operand: Operand) -> Expression:
        match operand:
            case syntax.Constant(int() | float() as value):
                return self._literal(float(value), float)
            case syntax.Arithmetic("+" | "-" | "*" as sign, left, right):
                return Arithmetic(sign, self._number(left), self._number(right))
            case syntax.Arithmetic(sign, left, right):
                return Apply(_name(sign), (self._number(left), self._number(right)))
            case syntax.Call(function, arguments) if self._is_number(operand):
                return Apply(_name(function), tuple(map(self._text, arguments)))
            case VariablePath() | Decorated():
                return self._column(operand, "number")
            case _:
                return Apply(_name("number"), (self._text(operand),))

    def _column(self, operand: VariablePath | Decorated, kind: Kind) -> Expression:
        first, last = len(self._left.schema), len(self._left.schema) + len(self._right.schema)
        match operand:
            case VariablePath(name):
                side: Side = 1 if name in self._left.names else 2
                return Column(side, (self._left if side == 1 else self._right).at(name, kind))
            case Decorated(1, name):
                return Column(1, self._left.at(name, kind))
            case Decorated(2, name):
                return Column(2, self._right.at(name, kind))
            case Decorated(_, name) if name in self._aggregates:
                return Column(1, last + self._aggregates[name])
            case Decorated(_, name):
                return Column(1, first + self._right.at(name, kind))
            case _:
                assert_never(operand)

    def _literal(self, value: Any, kind: type) -> Expression:
        self._literals.append(value)
        return Parameter(len(self._literals) - 1, kind)


def _all(conditions: Iterable[Expression]) -> Expression:
    items = tuple(conditions)
    if not items:
        return TRUE
    return items[0] if len(items) == 1 else Both(items)


def _reads(expression: Expression) -> set[int]:
    return {part.side for part in walk(expression) if isinstance(part, Column)}


def _as_right(expression: Expression) -> Expression:
    """Return a condition on the left row as one on the only row."""
    return rewrite(
        expression, lambda part: Column(2, part.index) if isinstance(part, Column) else part
    )


def _name(function: str) -> str:
    """Return the name of an XPath function in the core, which has functions of its own."""
    return f"xpath_{function.replace('-', '_').replace(':', '_')}"


def _share(one: Composite, other: Composite) -> bool:
    """Return True if two composites have a document in common, or versions of one."""
    return not set(one.bases).isdisjoint(other.bases)


_ORDER_NAMES: dict[syntax.Operator, str] = {
    "<": _name("less"),
    "<=": _name("at_most"),
    ">": _name("greater"),
    ">=": _name("at_least"),
}

FUNCTIONS_OVER_TIME: dict[str, Function] = {
    **{
        _name(name): Function(one.apply, (str,) * len(one.arguments), one.result, one.optional)
        for name, one in OPERANDS.items()
        if one.result is not tuple
    },
    _name("matches"): Function(matches, (str, str, str), bool),
    _name("text"): Function(text_of, (float,), str),
    _name("shared"): Function(_share, (object, object), bool),
    _name("div"): Function(ARITHMETIC["div"], (float, float), float),
    _name("mod"): Function(ARITHMETIC["mod"], (float, float), float),
    **{
        name: Function(ORDERS[sign], (str, str, OneSidedNumbers), bool)
        for sign, name in _ORDER_NAMES.items()
    },
}
"""What the core's expressions may call for XSCL."""
