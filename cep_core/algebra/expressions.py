"""Expressions over one row or a pair of rows, and their types.

Names have been resolved to `Column`s.  Side 2 is the row of a unary operator, or the newcomer of a
binary one ("$2" in CEL).  Side 1 is the earlier row or the instance ("$1").  Columns are positions,
so equal predicates are equal whatever the names of their streams' attributes.

A null, NaN or failing atom is false, and NOT complements it (a negated literal): `NOT x < 5` holds
for a null x, `x >= 5` does not.  A value expression that fails is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from math import copysign
from operator import attrgetter
from typing import Literal, TypeAlias, cast, get_args

from cep_core.algebra.functions import FUNCTIONS as FUNCTIONS
from cep_core.algebra.functions import Function as Function
from cep_core.algebra.functions import Functions as Functions
from cep_core.algebra.operands import operands, with_operands
from cep_core.decimals import BoundedDecimal
from cep_core.errors import AlgebraError, Extent, TypeFault, UnknownName, near_miss
from cep_core.events import is_hashable, shown

RowSide: TypeAlias = Literal[1, 2]
ComparisonOperator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
ArithmeticOperator: TypeAlias = Literal["+", "-", "*", "/", "%"]


def is_same(one: object, other: object) -> bool:
    """Return True if values are identical: of one type, equal, of one sign."""
    if one is other:
        return True
    if type(one) is not type(other) or one != other:
        return False
    return not isinstance(one, float) or copysign(1, one) == copysign(1, cast(float, other))


@dataclass(frozen=True, slots=True)
class SpannedNode:
    """A node with its place in the query's text, which does not count for equality."""

    span: Extent | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Column(SpannedNode):
    """An attribute: item ``index`` of the values of the row of ``side``."""

    side: RowSide
    index: int


@dataclass(frozen=True, slots=True)
class Constant(SpannedNode):
    """A fixed value, part of the query's shape, unlike a `Parameter`; 1, 1.0 and True differ."""

    value: str | int | float | bool | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and is_same(self.value, other.value)


@dataclass(frozen=True, slots=True)
class Parameter(SpannedNode):
    """A literal of the query's text, by its number and type; queries of one shape share it."""

    index: int
    kind: type


@dataclass(frozen=True, slots=True)
class Duration(SpannedNode):
    """DUR: t1 - t0 of a row, or from the first row's t0 to the newcomer's t1; in ticks."""


@dataclass(frozen=True, slots=True)
class Time(SpannedNode):
    """The time at which the row of a side begins or ends, in ticks."""

    side: RowSide
    edge: Literal["begin", "end"]


@dataclass(frozen=True, slots=True)
class Missing(SpannedNode):
    """An attribute that the stream lacks: its atom is false (Hong 2009, section 3.2.1)."""


@dataclass(frozen=True, slots=True)
class Arithmetic(SpannedNode):
    """left op right on numbers; + also joins strings and tuples; / yields a float."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negative(SpannedNode):
    """The operand with the other sign: `- operand`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Call(SpannedNode):
    """A call: the name of a function, and its arguments."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class TupleItem(SpannedNode):
    """One item of a tuple, inside the `Every` or `Each` that names it (``names``)."""

    name: int
    kind: type


@dataclass(frozen=True, slots=True)
class Case(SpannedNode):
    """CASE WHEN .. THEN .. ELSE: condition and value in turns, then the value without condition."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Coalesce(SpannedNode):
    """The first of the items that is not null."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class IsNull(SpannedNode):
    """The operand is null, missing or fails."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Compare(SpannedNode):
    """An atom: left op right."""

    operator: ComparisonOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class And(SpannedNode):
    """A condition that holds if all of its items hold."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or(SpannedNode):
    """A condition that holds if at least one of its items holds."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not(SpannedNode):
    """The complement of the item."""

    item: Expression


@dataclass(frozen=True, slots=True)
class Every(SpannedNode):
    """A condition that holds for all items of some tuples, the j-th items of all tuples together.

    ``over`` are the tuples; ``names`` has for each the name of the `TupleItem` that stands for its
    items in ``condition``.  The whole is an atom: if it fails or misses an operand for one item, it
    is false.  Without items it is true.
    """

    names: tuple[int, ...]
    over: tuple[Expression, ...]
    condition: Expression


@dataclass(frozen=True, slots=True)
class Each(SpannedNode):
    """The values of ``item`` for every choice of one element of each sequence in ``over``.

    ``names`` are those of the `TupleItem`s that stand for the elements.  A sequence may read items
    of an `Each` around it; an `Each` directly inside adds its values to the same sequence.
    """

    names: tuple[int, ...]
    over: tuple[Expression, ...]
    item: Expression


LeafExpression: TypeAlias = Column | Constant | Parameter | Duration | Time | Missing | TupleItem
ValueExpression: TypeAlias = LeafExpression | Arithmetic | Negative | Call | Case | Coalesce | Each
Expression: TypeAlias = ValueExpression | Compare | And | Or | Not | Every | IsNull
ConditionExpression: TypeAlias = Compare | And | Or | Not | Every | IsNull
TRUE = Constant(True)
FALSE = Constant(False)
COMPARISONS = get_args(ComparisonOperator)
OPERATORS = get_args(ArithmeticOperator)
MOST_NESTED = 120  # levels of an expression: it becomes Python, which reads 200 parentheses
_LEVELS = 3  # levels of nesting that CASE, COALESCE and IS NULL count as: each becomes a function
MOST_PARTS = 100_000  # of an expression; a part that occurs twice counts twice


SideTypes: TypeAlias = Mapping[int, Sequence[type | None]]  # by side: types of columns


def type_of(node: Expression, types: SideTypes, functions: Functions = FUNCTIONS) -> type | None:
    """Return the type of an expression, None if it is always null; raise AlgebraError if wrong.

    ``types`` holds the types of the columns of each side that may be read.
    """
    parts = operands(node, "Expression")
    kinds = [type_of(part, types, functions) for part in parts]
    match node:
        case Column(side, index):
            if side not in types or not 0 <= index < len(types[side]):
                raise _mistyped(node, f"side {side} has no column {index} here")
            return types[side][index]
        case Constant(value):
            return None if value is None else type(value)
        case Parameter(_, kind) | TupleItem(_, kind):
            return kind
        case Duration() | Time():
            return int
        case Missing():
            return None
        case Every():
            _require_each(parts, kinds, (*[(tuple,)] * len(node.over), (bool,)))
        case Each():
            _require_each(parts, kinds, [(tuple,)] * len(node.over))
            return tuple
        case Case():
            _require_each(parts[:-1:2], kinds[:-1:2], repeat((bool,)))
            return _common(node, (*kinds[1::2], kinds[-1]))
        case Coalesce():
            return _common(node, kinds)
        case Negative(operand):
            return _require(operand, kinds[0], _NUMBERS)
        case Arithmetic():
            return _arithmetic(node, kinds[0], kinds[1])
        case Call():
            return _call(node, kinds, functions)
        case Compare():
            _require_comparable(node, kinds[0], kinds[1])
        case And() | Or() | Not():
            _require_each(parts, kinds, repeat((bool,)))
        case IsNull():
            pass
    return bool


def require_condition(node: Expression, types: SideTypes, functions: Functions = FUNCTIONS) -> None:
    """Raise AlgebraError unless the expression is true or false."""
    _require(node, type_of(node, types, functions), (bool,))


def require_compilable(node: Expression) -> bool:
    """Raise AlgebraError if an expression is malformed, nested too deeply, or too large.

    Return True if it has literals in decimal form (`with_literals`).
    """
    found, left, decimals = 0, [(node, 1)], False
    while left:
        part, depth = left.pop()
        found += 1
        fault = _malformed(part)
        if fault is not None:
            raise AlgebraError(fault, kind=TypeFault)
        if depth > MOST_NESTED:
            raise AlgebraError(
                f"the expression is nested too deeply: {MOST_NESTED} levels is the most",
                span=node.span,
            )
        if found > MOST_PARTS:
            raise AlgebraError(f"the expression has more than {MOST_PARTS} parts", span=node.span)
        decimals = decimals or (isinstance(part, Parameter) and part.kind is BoundedDecimal)
        below = depth + (_LEVELS if isinstance(part, Case | Coalesce | IsNull) else 1)
        left += [(child, below) for child in operands(part, "Expression")]
    return decimals


def walk(node: Expression) -> Iterator[Expression]:
    """Yield the expression and all expressions inside it, the outer first."""
    pending = [node]  # no nested generators: a new shape is walked dozens of times
    while pending:
        part = pending.pop()
        yield part
        pending += reversed(operands(part, "Expression"))


def rewrite(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return the expression with ``change`` applied to every part of it, the inner first."""
    return change(with_operands(node, "Expression", lambda part: rewrite(part, change)))


def moved(node: Expression, places: Mapping[tuple[int, int], Expression]) -> Expression:
    """Return the expression with columns replaced; other columns stay.

    ``places`` has the replacements by (side, index).  One that is a leaf gets the span of the
    column in whose place it stands.
    """

    def change(part: Expression) -> Expression:
        if not isinstance(part, Column):
            return part
        found = places.get((part.side, part.index), part)
        return replace(found, span=part.span) if isinstance(found, LeafExpression) else found

    return rewrite(node, change)


def _malformed(node: Expression) -> str | None:
    """Return the fault of an expression itself, apart from its operands, as text, or None."""
    match node:
        case Column(_, index) | Parameter(index) if type(index) is int:
            return None
        case Compare(operator):
            return None if operator in COMPARISONS else f"there is no comparison {shown(operator)}"
        case Arithmetic(operator):
            return None if operator in OPERATORS else f"there is no operator {shown(operator)}"
        case Column(_, index) | Parameter(index) | TupleItem(index) if type(index) is not int:
            return f"a position is an int, not {shown(index)}"
        case Time(side, edge) if side not in (1, 2) or edge not in ("begin", "end"):
            return f"there is no time {shown(edge)} of side {shown(side)}"
        case TupleItem(_, kind) if not isinstance(kind, type):
            return f"the type of an item is a class, not {shown(kind)}"
        case Every(names, over) if not (
            isinstance(names, tuple) and isinstance(over, tuple) and len(names) == len(over) > 0
        ):
            return "EVERY has a name for each of its tuples"
        case Every(_, _, And() | Or() | Not()):
            return "the condition of EVERY is an atom"
        case And(items) | Or(items) | Call(_, items) | Case(items) | Coalesce(items) if (
            not isinstance(items, tuple)
        ):
            return f"the parts of {type(node).__name__} are a tuple, not {type(items).__name__}"
        case Case(items) if len(items) < 3 or len(items) % 2 == 0:
            return "CASE has conditions with their values, and a value without a condition"
        case Coalesce(items) if not items:
            return "COALESCE has at least one item"
        case Constant(value) if value is not None and not is_hashable(value):
            return f"a constant is a value that can be hashed, not {type(value).__name__}"
        case _ if not isinstance(node, Expression):
            return f"{type(node).__name__} is no expression"
        case _:
            return None


def with_literals(node: Expression, types: SideTypes, functions: Functions) -> Expression:
    """Return an expression in which each literal in decimal form is a decimal or a double.

    `0.10` is a decimal in arithmetic, unless it stands beside a double; in a comparison or among
    the values of CASE it is one beside a decimal.  Elsewhere it is a double.  Raises AlgebraError
    for an expression that cannot be compiled.
    """
    if not require_compilable(node):
        return node
    return _Literals(lambda part: type_of(part, types, functions)).settled(node)


class _Literals:
    def __init__(self, kind: Callable[[Expression], type | None]) -> None:
        self._kind = kind

    def settled(self, node: Expression, *, exact: bool = False) -> Expression:
        """Return an expression whose decimal literals have types.

        One that stands alone is a decimal if ``exact``, else a double; beside other operands their
        types decide.
        """
        match node:
            case Column():
                return node
            case Parameter(index, kind):
                is_double = kind is BoundedDecimal and not exact
                return Parameter(index, float, span=node.span) if is_double else node
            case Negative(operand):
                return replace(node, operand=self.settled(operand, exact=exact))
            case Arithmetic(operator, left, right):
                left, right = self._beside((left, right), exact=True)
                return Arithmetic(operator, left, right, span=node.span)
            case Compare(operator, left, right):
                left, right = self._beside((left, right), exact=False)
                return Compare(operator, left, right, span=node.span)
            case Coalesce(items):
                return replace(node, items=tuple(self._beside(items, exact=False)))
            case Case(items):
                values = iter(self._beside((*items[1::2], items[-1]), exact=False))
                tests = (self.settled(item) for item in items[:-1:2])
                pairs = (part for test in tests for part in (test, next(values)))
                return replace(node, items=(*pairs, next(values)))
            case _:
                return with_operands(node, "Expression", self.settled)

    def _beside(self, parts: Sequence[Expression], *, exact: bool) -> list[Expression]:
        """Return operands with types; literals are doubles if another operand is one.

        Else they are decimals if ``exact``, if another operand is one, or if all are literals.
        """
        others = [self.settled(part) for part in parts if not _is_literal(part)]
        if len(others) == len(parts):
            return others  # no literal takes its type from the others, as in most comparisons
        kinds = [*map(self._kind, others)]
        wanted = not kinds or (float not in kinds and (exact or BoundedDecimal in kinds))
        settled = iter(others)
        return [
            self.settled(part, exact=wanted) if _is_literal(part) else next(settled)
            for part in parts
        ]


def _is_literal(node: Expression) -> bool:
    """Return True for a literal in decimal form, also behind signs."""
    while isinstance(node, Negative):
        node = node.operand
    return isinstance(node, Parameter) and node.kind is BoundedDecimal


_NUMBERS = (int, float, BoundedDecimal)
_NARROWER: Mapping[type, tuple[type, ...]] = {float: (int, BoundedDecimal), BoundedDecimal: (int,)}


def is_narrower(kind: type | None, wanted: type) -> bool:
    """Return True if values of another type ``kind`` are accepted where ``wanted`` is declared."""
    return kind in _NARROWER.get(wanted, ())


_EXPECTED: Mapping[tuple[type, ...], str] = {
    _NUMBERS: "a number",
    (tuple,): "a tuple",
    (bool,): "a condition",
}
_order_of = attrgetter("__lt__")
_WITHOUT_ORDER = (_order_of(object), _order_of(complex))


def is_ordered(kind: type | None) -> bool:
    """Return True if values of a type have an order."""
    return kind is None or _order_of(kind) not in _WITHOUT_ORDER


def _require(node: Expression, kind: type | None, wanted: tuple[type, ...]) -> type | None:
    """Return ``kind``, the type of an operand; raise AlgebraError if it is not among ``wanted``.

    None, the type of a null, is always allowed.
    """
    if kind not in (*wanted, None):
        expected = f"{_EXPECTED[wanted]} is expected here"
        raise _mistyped(node, f"{expected}, not a value of type {_word(kind)}")
    return kind


def _require_each(
    nodes: Iterable[Expression],
    kinds: Iterable[type | None],
    wanted: Iterable[tuple[type, ...]],
) -> None:
    for node, kind, one in zip(nodes, kinds, wanted, strict=False):
        _require(node, kind, one)


def _arithmetic(node: Arithmetic, left: type | None, right: type | None) -> type | None:
    for kind in (str, tuple):
        if node.operator == "+" and kind in (left, right):
            if {left, right} - {None, kind}:
                raise _mistyped(node, f"cannot add {_word(left)} and {_word(right)}")
            return kind
    _require(node.left, left, _NUMBERS)
    _require(node.right, right, _NUMBERS)
    if float in (left, right):
        return float
    if BoundedDecimal in (left, right):
        return BoundedDecimal
    if node.operator == "/":
        return float
    return None if None in (left, right) else int


def _common(node: Expression, values: Sequence[type | None]) -> type | None:
    """Return the common type of alternative values; raise AlgebraError if there is none."""
    kinds = [kind for kind in dict.fromkeys(values) if kind is not None]
    if len(kinds) > 1 and {*kinds} <= {*_NUMBERS}:
        return float if float in kinds else BoundedDecimal
    if len(kinds) > 1:
        name = type(node).__name__.upper()
        raise _mistyped(node, f"the values of {name} are {' and '.join(map(_word, kinds))}")
    return kinds[0] if kinds else None


def _call(node: Call, kinds: list[type | None], functions: Functions) -> type:
    name = node.function
    function = functions.get(name)
    if function is None:
        raise AlgebraError(
            f"there is no function {name}",
            hint=near_miss(name, functions),
            span=node.span,
            kind=UnknownName,
        )
    if not function.takes(len(kinds)):
        raise _mistyped(node, f"{name} takes {function.arity}, not {len(kinds)}")
    for argument, kind, wanted in zip(node.arguments, kinds, function.arguments, strict=False):
        if wanted is not object and kind not in (wanted, None, *_NARROWER.get(wanted, ())):
            raise _mistyped(
                argument, f"{name} takes a value of type {_word(wanted)} here, not {_word(kind)}"
            )
    return BoundedDecimal if function.exact and kinds == [BoundedDecimal] else function.result


def _require_comparable(node: Compare, left: type | None, right: type | None) -> None:
    if node.operator not in ("=", "!="):
        for kind in (left, right):
            if not is_ordered(kind):
                raise _mistyped(node, f"values of type {_word(kind)} have no order")
    if None not in (left, right) and left != right and not {left, right} <= {*_NUMBERS}:
        raise _mistyped(node, f"cannot compare {_word(left)} with {_word(right)}")


def _mistyped(node: Expression, message: str) -> AlgebraError:
    return AlgebraError(message, span=node.span, kind=TypeFault)


def _word(kind: type | None) -> str:
    return "null" if kind is None else kind.__name__
