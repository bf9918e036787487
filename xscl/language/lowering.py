"""Predicates and operands between documents as expressions of the event core's algebra.

All of XSCL's predicates are lowered here: those over time, those tested on the candidates of a
join, and the operands of constructors and derived nodes.  Literals become parameters, so that
queries that differ in constants share what is compiled.

An operand is a sequence of values.  A variable has one, a path one for each selected node (perhaps
none), and functions and arithmetic have the results for every choice of their arguments.  A
comparison holds if it holds for some choice (XPath 1.0, section 3.4), so for an operand without
nodes it is false.  NOT is the complement of the truth value.  The functions contains(),
starts-with(), ends-with() and matches() take the first value, "" if there is none, as in
conditions.  Sequences are `Each` in the algebra; an operand with exactly one value has none.

Values of documents have no type.  `<` and the like compare two of them as numbers or instants if
both are (`cep_core.algebra.untyped`), else as texts, and do not hold if exactly one is a number.

The operands of arithmetic are decimals if their texts are in decimal form, else doubles
(`cep_core.decimals`).

A function without a value gives null, a number that is none NaN.  Both compare like NaN: = < <= >
>= are false and != is true.  No expression made here raises anything but BeyondBounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, assert_never

from cep_core.algebra import (
    BoundedDecimal,
    DecimalOrDouble,
    comparands,
    decimal_value,
    operand_of,
    operand_value,
    remainder,
    text_of,
)
from cep_core.algebra import expressions as ex
from cep_core.algebra.expressions import Expression, Function
from xscl.language import syntax
from xscl.language.functions import DEFINING, NUMERIC, TESTS, TIME, compared
from xscl.language.scope import has_path
from xscl.language.valuejoin import is_numeric, is_untyped

ColumnKind: TypeAlias = Literal["text", "number", "decimal", "time"]
"""A text, the number that it is compared as, the number that it is in arithmetic, or a time."""
NamedLeaf: TypeAlias = "syntax.VariablePath | syntax.DecoratedName"


@dataclass(eq=False, slots=True)
class OneSidedNumbers:
    """The number of comparisons that did not hold because exactly one side was a number.

    A predicate contains counters as parameters.  All are equal, so equal predicates remain equal.
    """

    count: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneSidedNumbers)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "one-sided"


class Lowering:
    """Lowers predicates and operands over the columns that `column` returns for their leaves.

    The column of a path is a tuple of texts.  `kinds` has the kinds of aggregates; all other leaves
    are values of documents.  With `nullable` a variable may have no node, and its text is null.
    `one_sided` returns a counter for each comparison of two values of documents.
    """

    def __init__(
        self,
        column: Callable[[NamedLeaf, ColumnKind], Expression],
        kinds: Mapping[str, ColumnKind] = MappingProxyType({}),
        *,
        nullable: bool,
        one_sided: Callable[[], OneSidedNumbers] = OneSidedNumbers,
    ) -> None:
        self.literals: list[Any] = []
        self._one_sided = one_sided
        self._column = column
        self._kinds = kinds
        self._nullable = nullable
        self._items = 0
        # By level, the sequences in the expression being lowered, each with its item's number.
        # A sequence reads only items of earlier levels.  One `Each` chooses the items of a level.
        self._levels: list[list[tuple[int, Expression]]] = []

    def condition(self, predicate: syntax.Predicate) -> Expression:
        """Return the expression of a predicate's truth value."""
        match predicate:
            case syntax.And(parts):
                return ex.And(tuple(map(self.condition, parts)))
            case syntax.Or(parts):
                return ex.Or(tuple(map(self.condition, parts)))
            case syntax.Not(part):
                return ex.Not(self.condition(part))
            case syntax.Comparison(operator, left, right):
                found = self._each(lambda: self._compare(operator, left, right))
                return ex.Call(SOME, (found,)) if isinstance(found, ex.Each) else found
            case syntax.Call(function, arguments):
                return ex.Call(name_of(function), tuple(map(self._first, arguments)))
            case _:
                assert_never(predicate)

    def values(self, operand: syntax.Operand) -> Expression:
        """Return the expression of an operand's text, an `Each` if it may have several or none."""
        return self._each(lambda: self.text(operand))

    def is_number(self, operand: syntax.Operand) -> bool:
        """Return True if an operand is compared as a number."""
        if isinstance(operand, syntax.DecoratedName) and operand.input == 0:
            return self._kinds.get(operand.name) == "number"
        return is_numeric(operand)

    def text(self, operand: syntax.Operand) -> Expression:
        """Return the expression of an operand's text."""
        value = self._value(operand)
        return ex.Call(TEXT, (value,)) if self.is_number(operand) else value

    def number(self, operand: syntax.Operand) -> Expression:
        """Return the expression of the number as which an operand is compared."""
        if isinstance(operand, syntax.VariablePath | syntax.DecoratedName) and not has_path(
            operand
        ):
            return self._column(operand, "number")
        value = self._value(operand)
        return value if self.is_number(operand) else ex.Call(NUMBER, (value,))

    def literal(self, value: Any, kind: type) -> Expression:
        """Add a value to `literals`; return the parameter that stands for it."""
        self.literals.append(value)
        return ex.Parameter(len(self.literals) - 1, kind)

    def _value(self, operand: syntax.Operand) -> Expression:
        match operand:
            case syntax.Constant(str() as value):
                return self.literal(value, str)
            case syntax.Constant(value):
                return self.literal(float(value), float)
            case syntax.Call(
                function, (syntax.VariablePath() | syntax.DecoratedName() as leaf,)
            ) if function == TIME:
                return self._column(leaf, "time")
            case syntax.Call(function, arguments):
                called = ex.Call(name_of(function), tuple(map(self._value, arguments)))
                several = DEFINING[function].result is tuple
                return self._item(called) if several else called
            case syntax.Arithmetic("+" | "-" | "*" as sign, left, right):
                return ex.Arithmetic(sign, self._operand(left), self._operand(right))
            case syntax.Arithmetic(sign, left, right):
                return ex.Call(name_of(sign), (self._operand(left), self._operand(right)))
            case syntax.VariablePath() | syntax.DecoratedName():
                if self.is_number(operand):
                    return self._column(operand, "number")
                column = self._column(operand, "text")
                return self._item(column) if has_path(operand) else column
            case _:
                assert_never(operand)

    def _operand(self, operand: syntax.Operand) -> Expression:
        """Return the expression of the number that an operand is in arithmetic."""
        match operand:
            case syntax.Constant(float() | int() as value):
                return self.literal(operand_of(text_of(value) or ""), float)
            case syntax.Arithmetic():
                return self._value(operand)
            case syntax.VariablePath() | syntax.DecoratedName() if not has_path(operand):
                return self._column(operand, "number" if self.is_number(operand) else "decimal")
            case _:
                return ex.Call(OPERAND, (self._value(operand),))

    def _compare(
        self, operator: syntax.ComparisonSign, left: syntax.Operand, right: syntax.Operand
    ) -> Expression:
        numeric = self.is_number(left) or self.is_number(right)
        lowered = self.number if numeric else self._value
        ends = lowered(left), lowered(right)
        if operator == "=":
            return ex.Compare(operator, *ends)
        if operator == "!=":
            unequal = ex.Not(ex.Compare("=", *ends))
            nodes = dict.fromkeys(
                part for end in ends for part in ex.walk(end) if isinstance(part, ex.Column)
            )
            if not self._nullable or not nodes:
                return unequal
            return ex.And((*(ex.Not(ex.IsNull(node)) for node in nodes), unequal))
        if numeric:
            return ex.Compare(operator, *ends)
        name, _ = _ORDERS[operator]
        if not (self._is_untyped(left) and self._is_untyped(right)):
            return ex.Call(f"{name}{OF_TEXTS}", ends)
        # The counter is never null: in the core a call with a null argument is null.
        return ex.Call(name, (*ends, self.literal(self._one_sided(), OneSidedNumbers)))

    def _is_untyped(self, operand: syntax.Operand) -> bool:
        if (
            isinstance(operand, syntax.DecoratedName)
            and operand.input == 0
            and operand.name in self._kinds
        ):
            return False
        return is_untyped(operand)

    # -- Sequences -------------------------------------------------------------------------

    def _each(self, lower: Callable[[], Expression]) -> Expression:
        """Return the expression that `lower` makes, in an `Each` for each level that it adds."""
        outer, self._levels = self._levels, []
        made = lower()
        for level in reversed(self._levels):
            made = ex.Each(tuple(n for n, _ in level), tuple(over for _, over in level), made)
        self._levels = outer
        return made

    def _item(self, over: Expression) -> Expression:
        """Return the item that an `Each` chooses from the sequence `over`.

        The sequence gets a level, above the levels of the items that it reads.  One `Each`
        chooses from all sequences of a level.
        """
        read = {part.name for part in ex.walk(over) if isinstance(part, ex.TupleItem)}
        below = [at for at, level in enumerate(self._levels) if read & {name for name, _ in level}]
        at = max(below, default=-1) + 1
        if at == len(self._levels):
            self._levels.append([])
        self._items += 1
        self._levels[at].append((self._items, over))
        return ex.TupleItem(self._items, str)

    def _first(self, operand: syntax.Operand) -> Expression:
        value = self._each(lambda: self._value(operand))
        return ex.Call(FIRST, (value,)) if isinstance(value, ex.Each) else value


def name_of(function: str) -> str:
    """Return the name that an XPath function or operator has in the core: `xpath_` before it."""
    return f"xpath_{function.replace('-', '_').replace(':', '_')}"


# -- Functions without nulls and errors ------------------------------------------------------


def _number_of(value: Any) -> DecimalOrDouble:
    """Return the number as which a value is compared, NaN if it has none."""
    if isinstance(value, str):
        return compared(value)
    return math.nan if value is None else value


def _operand_of(value: Any) -> DecimalOrDouble:
    """Return the number that a value is in arithmetic, NaN if it is none."""
    if isinstance(value, int):
        return decimal_value(value) or float(value)
    found = operand_value(value)
    return math.nan if found is None else found


def _total(function: Function) -> Callable[..., Any]:
    """Return a function of XSCL as one that takes values of any type.

    Its numbers are decimals or doubles, NaN in place of a missing one.
    """
    apply = function.apply
    if function.arguments == (float,):  # a double makes a double, else the result is a decimal
        return lambda value: (
            math.nan
            if (argument := operand_value(value)) is None
            else float(function.call(argument))
            if isinstance(argument, float)
            else _operand_of(function.call(argument))
        )
    if function.result in NUMERIC:
        return lambda *values: _number_of(apply(*values))
    return apply


def _lowered(kind: type) -> type:
    """Return float for a type of numbers, which are decimals or doubles; else the type itself."""
    return float if kind in NUMERIC else kind


def divided(dividend: DecimalOrDouble, divisor: DecimalOrDouble) -> DecimalOrDouble:
    """Return a quotient; of a division by zero an infinity, or NaN if 0 or NaN is divided."""
    if divisor:
        return dividend / divisor
    if not dividend or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1, divisor)


def modulo(dividend: DecimalOrDouble, divisor: DecimalOrDouble) -> DecimalOrDouble:
    """Return the remainder of a division that truncates: it has the sign of the dividend."""
    if math.isinf(dividend) or not divisor:
        return math.nan
    if isinstance(dividend, BoundedDecimal) and isinstance(divisor, BoundedDecimal):
        return remainder(dividend, divisor)
    return math.fmod(dividend, divisor)


def _ordered(holds: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    """Return a comparison of two untyped values by order, where `holds` compares numbers or texts.

    If exactly one of them is a number it does not hold, and the given counter rises.
    """

    def ordered(one: str | None, other: str | None, counted: OneSidedNumbers) -> bool:
        if one is None or other is None:
            return False
        found = comparands(one, other)
        if found is None:
            counted.count += 1
            return False
        return holds(*found)

    return ordered


def _ordered_texts(holds: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    """Return a comparison of two texts by order; it does not hold if one is null."""
    return lambda one, other: one is not None and other is not None and holds(one, other)


def _tested(test: Callable[..., bool]) -> Callable[..., bool]:
    """Return `test` as a predicate on values of any type: it gets their texts, "" for a null."""
    return lambda *values: test(*[text_of(value) or "" for value in values])


def _first_of(values: Iterable[Any]) -> Any:
    return next(iter(values), None)


SOME, FIRST, TEXT, NUMBER, OPERAND = map(name_of, ("some", "first", "text", "value", "operand"))
_ORDERS: Mapping[syntax.ComparisonSign, tuple[str, Callable[[Any, Any], bool]]] = {
    **{"<": (name_of("less"), lt), "<=": (name_of("at_most"), le)},
    **{">": (name_of("greater"), gt), ">=": (name_of("at_least"), ge)},
}
OF_TEXTS = "_of_texts"
"""The suffix of an order's name for the order of two texts."""
LOWERED: Mapping[str, Function] = MappingProxyType(
    {
        **{
            name_of(name): Function(_total(one), one.arguments, _lowered(one.result), one.optional)
            for name, one in DEFINING.items()
        },
        **{
            name_of(name): Function(_tested(one.call), one.arguments, bool, one.optional)
            for name, one in TESTS.items()
        },
        SOME: Function(any, (tuple,), bool),
        FIRST: Function(_first_of, (tuple,), str),
        TEXT: Function(text_of, (float,), str),
        NUMBER: Function(_number_of, (str,), float),
        OPERAND: Function(_operand_of, (object,), float),
        name_of("div"): Function(divided, (float, float), float),
        name_of("mod"): Function(modulo, (float, float), float),
        **{
            name: Function(_ordered(holds), (str, str, OneSidedNumbers), bool)
            for name, holds in _ORDERS.values()
        },
        **{
            f"{name}{OF_TEXTS}": Function(_ordered_texts(holds), (str, str), bool)
            for name, holds in _ORDERS.values()
        },
    }
)
"""The functions that lowered expressions call."""
