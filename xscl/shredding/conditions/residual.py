"""Residual predicates: the parts beside equalities, tested on each candidate.

Predicates and operands are lowered to the algebra of the event core (`xscl.language.lowering`) and
compiled once for each shape, as functions of the values of their leaves: the text of a variable,
None where it is bound to nothing, and the texts of the nodes of a path.

A predicate whose functions or choices are over their bounds does not hold, and an operand has no
value; it is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from cep_core.algebra import expressions as ex
from cep_core.algebra import text_of
from cep_core.algebra.function_bounds import BeyondBounds, current_budget, report, spending
from cep_core.plan import evaluator
from xscl.language import syntax
from xscl.language.functions import TESTS
from xscl.language.lowering import (
    LOWERED,
    NUMBER,
    OPERAND,
    ColumnKind,
    Lowering,
    NamedLeaf,
    OneSidedNumbers,
)
from xscl.language.scope import has_path, walk
from xscl.language.unparse import unparse
from xscl.shredding.conditions.navigate import select
from xscl.shredding.nodes import Item, string_value, time_of

NodeOfVariable: TypeAlias = "Mapping[str, Item | None]"
"""The node of each variable; None for one that is bound to nothing, as after ELSE."""
LeafName: TypeAlias = "tuple[str, syntax.Path | None]"
"""A variable and a path from its node; None for the path is the time of its document."""
EvaluateLeaves: TypeAlias = "Callable[[Sequence[Any]], Any]"


class CompiledOperand(NamedTuple):
    """An operand or a predicate, compiled to a function of the values of its `leaves`.

    `evaluate` takes the values in the order of `leaves`; `light` is True if it runs without a
    budget.
    """

    leaves: tuple[LeafName, ...]
    evaluate: EvaluateLeaves
    light: bool

    def holds(self, nodes: NodeOfVariable) -> bool:
        """Return True if the predicate holds, given the node of each variable."""
        return bool(self.evaluate(values_in(self.leaves, nodes)))


def compiled(
    predicate: syntax.Predicate, one_sided: OneSidedNumbers | None = None
) -> CompiledOperand:
    """Return the test of a predicate; its functions and their arguments must have been checked.

    Comparisons of a number with a text are counted in `one_sided`.

    An operand such as `$1.x` is a leaf, whose node is found under this text.
    """
    columns = _LeafColumns()
    counted = OneSidedNumbers() if one_sided is None else one_sided
    lowering = Lowering(columns.column, nullable=True, one_sided=lambda: counted)
    light = _is_light(predicate)
    evaluate = _evaluator(lowering.condition(predicate), lowering.literals)
    test = evaluate if light else _within_bounds(evaluate, predicate, False)
    return CompiledOperand(tuple(columns.leaves), test, light)


def values_in(leaves: Sequence[LeafName], row: NodeOfVariable) -> list[Any]:
    """Return the values of leaves, in their order, given the node of each variable.

    The value of a variable is a text, that of a path a tuple of texts, a time is in seconds.
    """
    found: list[Any] = []
    for name, path in leaves:
        item = row[name]
        if path is None:
            found.append(None if item is None else time_of(item))
        elif path == syntax.Path():
            found.append(None if item is None else string_value(item))
        else:
            found.append(() if item is None else tuple(map(string_value, select(path, item))))
    return found


@lru_cache(maxsize=4096)
def texts_of(operand: syntax.Operand) -> Callable[[Item], list[str]]:
    """Return a function from one node, `.` in the operand, to the operand's string values."""
    texts = texts_over(operand)
    return lambda item: texts({"": item})


@lru_cache(maxsize=4096)
def texts_over(operand: syntax.Operand) -> Callable[[NodeOfVariable], list[str]]:
    """Return a function from the nodes of variables to an operand's string values."""
    columns = _LeafColumns()
    lowering = Lowering(columns.column, nullable=True)
    values = lowering.values(operand)
    evaluate, leaves = _evaluator(values, lowering.literals), tuple(columns.leaves)
    several = isinstance(values, ex.Each)

    def texts(row: Sequence[Any]) -> list[str]:
        found = evaluate(row) if several else (evaluate(row),)
        return [text for value in found if (text := text_of(value)) is not None]

    bounded = texts if _is_one_value(operand) else _within_bounds(texts, operand, [])
    return lambda row: bounded(values_in(leaves, row))


class _LeafColumns:
    """Numbers the distinct leaves of an operand or a predicate: each one is a column."""

    def __init__(self) -> None:
        self.leaves: dict[LeafName, int] = {}

    def column(self, leaf: NamedLeaf, kind: ColumnKind) -> ex.Expression:
        """Return the column of a leaf as `kind`: its time, its text, or its number.

        The number is that of its text as in arithmetic (`decimal`), or as in comparisons.
        """
        name: LeafName = (
            (leaf.variable, leaf.path)
            if isinstance(leaf, syntax.VariablePath)
            else (unparse(leaf), syntax.Path())
        )
        name = (name[0], None) if kind == "time" else name
        column = ex.Column(2, self.leaves.setdefault(name, len(self.leaves)))
        if kind == "text":
            return column
        return ex.Call(OPERAND if kind == "decimal" else NUMBER, (column,))


def _evaluator(expression: ex.Expression, literals: Sequence[Any]) -> EvaluateLeaves:
    function, values = _function(expression), tuple(literals)
    return lambda row: function(row, values)


@lru_cache(maxsize=4096)
def _function(expression: ex.Expression) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    return evaluator(expression, LOWERED)


def _within_bounds(
    evaluate: EvaluateLeaves, whole: syntax.Predicate | syntax.Operand, otherwise: Any
) -> EvaluateLeaves:
    """Return `evaluate` with bounds: beyond these it returns `otherwise`, and `whole` is logged."""

    def bounded(row: Sequence[Any]) -> Any:
        try:
            with spending(current_budget()):
                return evaluate(row)
        except BeyondBounds as error:
            report(unparse(whole), error)
            return otherwise

    return bounded


def _is_light(predicate: syntax.Predicate) -> bool:
    """Return True if a predicate compares single values of nodes, and no computed ones."""
    return not any(
        isinstance(node, syntax.Arithmetic)
        or (isinstance(node, syntax.Call) and node.function not in TESTS)
        or has_path(node)
        for node in walk(predicate)
    )


def _is_one_value(operand: syntax.Operand) -> bool:
    return isinstance(
        operand, syntax.Constant | syntax.DecoratedName | syntax.VariablePath
    ) and not has_path(operand)
