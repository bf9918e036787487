"""Python functions from expressions: compiled once for each shape, constants passed in.

Each function is written twice.  The quick one has no tests for nulls and errors: `None < 5` raises.
Then the careful one is called (`either`), which evaluates atom by atom and value by value with the
rules of `cep_core.algebra.expressions`.  Without an exception both agree, so the usual row pays
nothing for nulls.
Compiled functions take the place of Cayuga's bytecode (Hong 2009, section 4.4.3).

In the functions ``a`` is the row of side 1, ``b`` that of side 2, ``k`` a tuple of constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import prod
from textwrap import indent
from typing import Any, TypeAlias, assert_never, cast

from cep_core.algebra import expressions as ex
from cep_core.algebra.expressions import Functions
from cep_core.algebra.function_bounds import Budget, added, current_budget, spending, within_bounds
from cep_core.algebra.operands import operands
from cep_core.decimals import BoundedDecimal
from cep_core.events import VALUES, Row

CompiledCondition: TypeAlias = Callable[[Row | None, Row, Sequence[Any]], bool]
EntryScan: TypeAlias = Callable[[Sequence[Any], Row | None, Row], list[Any]]
InstanceScan: TypeAlias = Callable[[Sequence[Any], Row, Sequence[Any]], list[Any]]
RowMaker: TypeAlias = Callable[[Row | None, Row, Sequence[Any]], Row]

_ARGUMENTS, _BODY = "a, b, k", "    "
CHOICES = 8
"""The choices of items of sequences that count as one step of a budget."""
ATOM_ERRORS = (Exception,)  # whatever a user's function raises makes its atom false


def _of_query(slot: int) -> str:
    """Return the Python source of the constant number ``slot`` of a query."""
    return f"k[{slot}]"


def _of_pair(column: ex.Column) -> str:
    """Return the Python source of a column of the rows `a` (side 1) and `b` (side 2)."""
    return f"{'a' if column.side == 1 else 'b'}[{column.index + VALUES}]"


class Writer:
    """Writes expressions as Python source.

    ``slots`` returns the source of a constant by its number, ``columns`` that of a column.  A
    ``binary`` expression reads a pair of rows.
    """

    def __init__(
        self,
        functions: Functions,
        binary: bool,
        slots: Callable[[int], str] = _of_query,
        columns: Callable[[ex.Column], str] = _of_pair,
    ) -> None:
        self._slots = slots
        self._columns = columns
        self._binary = binary
        self.names: dict[str, Any] = {
            **{"_eq": _equal, "_ne": _unequal, "_first": _first, "_errors": ATOM_ERRORS},
            **{"_added": added, "_bounded": within_bounds, "_choices": _choices},
        }
        self._functions = functions
        self.calls = False  # whether the written source calls functions

    def write(self, node: ex.Expression) -> str:
        """Return the source of an expression, which may be a condition."""
        match node:
            case ex.Column():
                return self._columns(node)
            case ex.Constant(value):
                return self._constant(value)
            case ex.Parameter(index):
                return self._slots(index)
            case ex.Duration():
                return "(b[1] - a[0])" if self._binary else "(b[1] - b[0])"
            case ex.Time(side, edge):
                return f"{'a' if side == 1 else 'b'}[{0 if edge == 'begin' else 1}]"
            case ex.Missing():
                return "None"
            case ex.TupleItem(name):
                return f"x{name}"
            case ex.Every():
                return self._every(node)
            case ex.Each():
                return self._each(node)
            case ex.Case(items):
                return self._case(items)
            case ex.Coalesce(items):
                return f"_first({', '.join(f'lambda: {self.value(item)}' for item in items)})"
            case ex.IsNull(ex.Column() as operand):
                return f"({self.write(operand)} is None)"
            case ex.IsNull(operand):
                return f"({_attempted(self.value(operand))} is None)"
            case ex.Negative(operand):
                return f"(-{self.write(operand)})"
            case ex.Arithmetic("+", left, right) if not (_is_number(left) or _is_number(right)):
                return f"_added({self.write(left)}, {self.write(right)})"
            case ex.Arithmetic(operator, left, right):
                return f"({self.write(left)} {operator} {self.write(right)})"
            case ex.Call(name, arguments):
                self.calls = True
                self.names[f"f_{name}"] = self._functions[name].call
                return f"f_{name}({', '.join(map(self.write, arguments))})"
            case ex.Compare():
                return self._compare(node)
            case ex.And(items):
                return f"({' and '.join(map(self.condition, items)) or True})"
            case ex.Or(items):
                return f"({' or '.join(map(self.condition, items)) or False})"
            case ex.Not(item):
                return f"(not {self.condition(item)})"
            case _:
                assert_never(node)

    def _every(self, node: ex.Every) -> str:
        names = [f"x{name}" for name in node.names]
        over = [self.write(one) for one in node.over]
        items = over[0] if len(over) == 1 else f"zip({', '.join(over)})"
        return f"all({self.condition(node.condition)} for {', '.join(names)} in {items})"

    def _each(self, node: ex.Each) -> str:
        item: ex.Expression = node
        loops = ""
        while isinstance(item, ex.Each):
            names = ", ".join(f"x{name}" for name in item.names)
            loops += f" for {names}, in _choices({', '.join(map(self.write, item.over))})"
            item = item.item
        return f"({self.value(item)}{loops})"

    def _case(self, items: Sequence[ex.Expression]) -> str:
        """Return the source of CASE over (condition, value, .., value of ELSE).

        The conditions are evaluated atom by atom.
        """
        pairs = zip(items[:-1:2], items[1::2], strict=True)
        made = [f"{self.value(value)} if {self.by_atoms(test)} else" for test, value in pairs]
        return f"({' '.join(made)} {self.value(items[-1])})"

    def by_atoms(self, node: ex.Expression) -> str:
        """Return the source of a condition in which an atom that raises is false."""
        match node:
            case ex.And(items):
                return f"({' and '.join(map(self.by_atoms, items)) or True})"
            case ex.Or(items):
                return f"({' or '.join(map(self.by_atoms, items)) or False})"
            case ex.Not(item):
                return f"(not {self.by_atoms(item)})"
            case _:
                return f"({_attempted(self.condition(node))} is True)"

    def condition(self, node: ex.Expression) -> str:
        """Return the source of a condition; another expression holds if its value is True."""
        if isinstance(node, ex.And | ex.Or | ex.Not):
            return self.write(node)
        if _misses(node):
            return "False"
        if isinstance(node, ex.ConditionExpression):
            return self.write(node)
        return f"({self.write(node)} is True)"

    def value(self, node: ex.Expression) -> str:
        """Return the source of an expression's value; that of a condition is True or False."""
        if isinstance(node, ex.ConditionExpression):
            return self.condition(node)
        written = "None" if _misses(node) else self.write(node)
        return f"_bounded({written})" if isinstance(node, _MAKING) else written

    def _constant(self, value: Any) -> str:
        """Return the source of a constant: a literal if Python has one, else a name in `names`."""
        plain = value is None or type(value) in (bool, str)
        if plain or (type(value) is int and value.bit_length() < 64):
            return repr(value)
        name = f"v_{len(self.names)}"
        self.names[name] = value
        return name

    def _compare(self, node: ex.Compare) -> str:
        left, right = self.write(node.left), self.write(node.right)
        if node.operator == "!=":
            return f"_ne({left}, {right})"
        if node.operator != "=":
            return f"({left} {node.operator} {right})"
        if isinstance(node.left, ex.Column) and isinstance(node.right, ex.Column | ex.Parameter):
            return f"({left} == {right} is not None)"
        return f"_eq({left}, {right})"


_MAKING = ex.Arithmetic | ex.Negative | ex.Call | ex.Case | ex.Coalesce


def _is_number(node: ex.Expression) -> bool:
    """Return True for an expression that is a number whatever the row: a constant or a time."""
    match node:
        case ex.Parameter(_, kind):
            return kind in (int, float, BoundedDecimal)
        case ex.Constant(value):
            return type(value) in (int, float, BoundedDecimal)
        case _:
            return isinstance(node, ex.Duration | ex.Time)


def either(quick: str, careful: str, writer: Writer, arguments: str = _ARGUMENTS) -> Any:
    """Return a function with the body `quick` (source); if that raises it runs `careful`."""
    return function_of(
        f"def made({arguments}):\n    try:\n{indent(quick, _BODY * 2)}\n"
        f"    except _errors:\n        return careful({arguments})\n"
        f"def careful({arguments}):\n{indent(careful, _BODY)}",
        writer.names,
    )


def guarded(
    node: ex.Expression, writer: Writer, body: str = "return {}", arguments: str = _ARGUMENTS
) -> Any:
    """Return a compiled function that tests a condition.

    `body` is its source, with `{}` in place of that of the condition.  The function never raises:
    where evaluation fails, the atom that fails is false.
    """
    quick, careful = writer.condition(node), writer.by_atoms(node)
    return either(body.format(quick), body.format(careful), writer, arguments)


def condition(node: ex.Expression, functions: Functions, binary: bool) -> CompiledCondition:
    """Return a condition as a function of (a, b, k) that never raises: an atom that fails is false.

    ``a`` is the row of side 1, None unless ``binary``; ``b`` that of side 2; ``k`` the constants.
    """
    writer = Writer(functions, binary)
    holds: CompiledCondition = guarded(node, writer)
    return _with_budget(holds) if writer.calls else holds


def _with_budget(evaluate: Any) -> Any:
    """Return a function that calls ``evaluate``, each time within a budget of its own."""

    def evaluated(*given: Any) -> Any:
        with spending(Budget()):
            return evaluate(*given)

    return evaluated


def entry_scan(
    literals: Sequence[ex.Expression], functions: Functions, binary: bool, slots: Sequence[int]
) -> EntryScan:
    """Return a function of (entries, a, b) to the targets of the entries whose literals all hold.

    An entry is (constants of ``slots`` in order..., target).  ``a`` is the row of side 1, None
    unless ``binary``; ``b`` is that of side 2.
    """
    position = {slot: place for place, slot in enumerate(slots)}
    writer = Writer(functions, binary, lambda slot: f"e[{position[slot]}]")
    body = "return [e[-1] for e in entries if {}]"
    scan: EntryScan = guarded(ex.And(tuple(literals)), writer, body, "entries, a, b")
    return scan


def instance_scan(literals: Sequence[ex.Expression], functions: Functions) -> InstanceScan:
    """Return a function of (instances, b, k) to the list of the instances that a right row b meets.

    They end before b begins and satisfy ``literals`` with the constants k.  An instance is a pair;
    its first item is the row of side 1, and b is that of side 2.
    """
    body = "start = b[0]\nreturn [i for i in instances if (a := i[0])[1] < start and {}]"
    whole = ex.And(tuple(literals))
    scan: InstanceScan = guarded(whole, Writer(functions, True), body, "instances, b, k")
    return scan


def row_maker(columns: Sequence[ex.Expression], binary: bool, functions: Functions) -> RowMaker:
    """Return a function of (row a, row b, constants k) to the row of the columns.

    A column that fails is null.  The row has the times of b, or spans a and b if it is ``binary``.
    """
    times = "a[0], b[1], a[2] if a[2] < b[2] else b[2]" if binary else "b[0], b[1], b[2]"
    writer = Writer(functions, binary)
    values = list(map(writer.value, columns))
    quick, careful = (times, *values), (times, *map(_attempted, values))
    make: RowMaker = either(f"return {', '.join(quick)}", f"return {', '.join(careful)}", writer)
    return _with_budget(make) if writer.calls else make


def evaluator(
    node: ex.Expression, functions: Functions
) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    """Return an expression as a function of (values of its columns, constants).

    The function raises what the expression does; the result of `Each` is an iterator.
    """
    writer = Writer(functions, False, columns=lambda column: f"b[{column.index}]")
    evaluate: Callable[[Sequence[Any], Sequence[Any]], Any]
    evaluate = returning(writer.value(node), writer, "b, k")
    return evaluate


def constants(
    nodes: Sequence[ex.Expression], functions: Functions
) -> Callable[[Sequence[Any]], Row]:
    """Return a function from a query's literals to the values of constant expressions.

    The value of an expression that fails is null.
    """
    indexes = [node.index for node in nodes if isinstance(node, ex.Parameter)]
    if len(indexes) == len(nodes):
        start, stop = (indexes[0], indexes[-1] + 1) if indexes else (0, 0)
        if indexes == list(range(start, stop)):
            return lambda p: tuple(p[start:stop])
        return lambda p: tuple([p[index] for index in indexes])
    writer = Writer(functions, False)
    values = "".join(f"{_attempted(writer.value(node))}, " for node in nodes)
    evaluate = returning(f"({values})", writer)
    return lambda p: cast(Row, evaluate(None, (), p))


def returning(source: str, writer: Writer, arguments: str = _ARGUMENTS) -> Any:
    """Return a compiled function of `arguments` that returns the value of `source`."""
    return function_of(f"def made({arguments}):\n    return {source}", writer.names)


def _attempted(value: str) -> str:
    """Return the source of a call that yields the value of a source; null if that raises."""
    return f"_first(lambda: {value})"


def _misses(node: ex.Expression) -> bool:
    """Return True if an expression is null because it reads what the stream lacks."""
    if isinstance(node, ex.IsNull | ex.Case | ex.Coalesce):
        return False
    return isinstance(node, ex.Missing) or any(map(_misses, operands(node, "Expression")))


def _first(*values: Callable[[], Any]) -> Any:
    """Return the first value that is not null; one that fails is null."""
    for value in values:
        with suppress(*ATOM_ERRORS):
            if (made := value()) is not None:
                return made
    return None


def _choices(*sequences: Iterable[Any] | None) -> Iterable[tuple[Any, ...]]:
    """Return every choice of items, one of each sequence; many choices spend steps of a budget.

    A sequence that is null has no items.
    """
    each = [tuple(sequence or ()) for sequence in sequences]
    count = prod(map(len, each))
    if count > CHOICES:
        current_budget().spend(count // CHOICES)
    return product(*each)


def _equal(left: Any, right: Any) -> bool:
    return left is not None and right is not None and bool(left == right)


def _unequal(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return False
    return bool(left != right and left == left and right == right)


def function_of(source: str, names: Mapping[str, Any]) -> Any:
    """Return the function `made` that a source defines; ``names`` are the globals of the source."""
    scope: dict[str, Any] = dict(names)
    exec(compile(source, "<expression>", "exec"), scope)
    return scope["made"]
