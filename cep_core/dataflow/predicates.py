"""Predicates as shapes with constants: normal form, and what an index can use of them.

A predicate is split into its shape and its constants, so that a hundred thousand queries that
differ in literals share one normal form and one compiled function.  The shape is put into
disjunctive normal form (above 64 disjuncts it stays opaque).  Literals of a disjunct are *static*
(they compare the newcomer with constants) or *dynamic* (they read the earlier row, too).  An index
can answer static equalities and ranges, and dynamic equalities (Hong 2009, sections 4.4.3 and
4.5.1).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from operator import itemgetter
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from cep_core.algebra.expressions import (
    And,
    Arithmetic,
    Column,
    Compare,
    Comparison,
    Constant,
    Duration,
    Expression,
    Function,
    Negative,
    Not,
    Or,
    Parameter,
    Time,
    is_same,
    rewrite,
    walk,
    with_children,
)
from cep_core.dataflow import code
from cep_core.dataflow.code import Condition, EntryScan, InstanceScan, RowMaker
from cep_core.events import VALUES, Row

MOST_DISJUNCTS = 64
Made = TypeVar("Made")
_MOST_SEEN = 10_000
_SPANNED = "a[0], b[1], a[2] if a[2] < b[2] else b[2]"
_MIRROR: dict[str, Comparison] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class BoundPredicate(NamedTuple):
    """A predicate: equal definitions mean the same."""

    shape: Shape
    constants: tuple[Any, ...]

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundPredicate) and are_same(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


class Columns(NamedTuple):
    """Computed columns: equal ones make equal rows of equal rows."""

    shape: ColumnsShape
    constants: tuple[Any, ...]

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and are_same(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


class ColumnsShape:
    """Columns without their constants; one object for equal columns (`Shapes`)."""

    def __init__(self, nodes: tuple[Expression, ...], make: RowMaker) -> None:
        self.nodes = nodes
        self.make = make


class Constants(Protocol):
    """A shape with its constants."""

    @property
    def shape(self) -> object:
        """The shape: one object for equal shapes."""

    @property
    def constants(self) -> tuple[Any, ...]:
        """The constants."""


def are_same(one: Constants, other: Constants) -> bool:
    """Return True if shape and constants are identical; 1, 1.0 and True are three values."""
    return one.shape is other.shape and all(map(is_same, one.constants, other.constants))


class Range(NamedTuple):
    """column operator constant: a static literal that a sorted list can index."""

    column: int
    operator: Literal["<", "<=", ">", ">="]
    slot: int
    literal: int


@dataclass(frozen=True)
class Disjunct:
    """A conjunction of literals, and which of them what index can use (by their numbers)."""

    literals: tuple[Expression, ...]
    binary: bool
    functions: Mapping[str, Function]

    @cached_property
    def equalities(self) -> tuple[tuple[int, int, int], ...]:
        """(column of side 2, slot, literal), one for each column, by column."""
        found: dict[int, tuple[int, int, int]] = {}
        for number, literal in enumerate(self.literals):
            match literal:
                case Compare("=", Column(2, column), Parameter(slot)):
                    found.setdefault(column, (column, slot, number))
                case _:
                    pass
        return tuple(found[column] for column in sorted(found))

    @cached_property
    def ranges(self) -> tuple[Range, ...]:
        """Static inequalities of one column with a constant."""
        found = []
        for number, literal in enumerate(self.literals):
            match literal:
                case Compare(
                    ("<" | "<=" | ">" | ">=") as operator, Column(2, column), Parameter(slot)
                ):
                    found.append(Range(column, operator, slot, number))
                case _:
                    pass
        return tuple(found)

    @cached_property
    def joins(self) -> tuple[tuple[int, int, int], ...]:
        """Dynamic equalities: (column of side 1, column of side 2, literal)."""
        found = []
        for number, literal in enumerate(self.literals):
            match literal:
                case Compare("=", Column(1, left), Column(2, right)) | Compare(
                    "=", Column(2, right), Column(1, left)
                ):
                    found.append((left, right, number))
                case _:
                    pass
        return tuple(found)

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """(place, slot) of upper bounds of the time since an instance's item at a place.

        Of DUR that is the instance's t0; else a column of side 1.  An instance whose time has
        passed can never match any more.
        """
        found = []
        for literal in self.literals:
            match literal:
                case Compare("<" | "<=", Duration(), Parameter(slot)):
                    found.append((0, slot))
                case Compare(
                    "<" | "<=",
                    Arithmetic("-", Time(2, "end"), Column(1, column)),
                    Parameter(slot),
                ):
                    found.append((VALUES + column, slot))
                case _:
                    pass
        return tuple(found)

    @cached_property
    def reads(self) -> tuple[frozenset[int], ...]:
        """The sides that each literal reads; DUR of a pair reads both."""
        found = []
        for literal in self.literals:
            sides: set[int] = set()
            for part in walk(literal):
                if isinstance(part, Column | Time):
                    sides.add(part.side)
                elif isinstance(part, Duration):
                    sides |= {1, 2} if self.binary else {2}
            found.append(frozenset(sides))
        return tuple(found)

    def slots(self, without: Iterable[int] = ()) -> tuple[int, ...]:
        """Return the slots that the literals read, without those of some literals."""
        left_out = set(without)
        found = {
            part.index
            for number, literal in enumerate(self.literals)
            if number not in left_out
            for part in walk(literal)
            if isinstance(part, Parameter)
        }
        return tuple(sorted(found))

    def rest(self, without: Iterable[int]) -> tuple[Expression, ...]:
        """Return the literals without some."""
        left_out = set(without)
        return tuple(lit for number, lit in enumerate(self.literals) if number not in left_out)


class EntryLayout(NamedTuple):
    """The layout of index entries: the slots of their constants, and the scan over them.

    Parts are compared by identity; one exists for each disjunct and set of literals left out.
    """

    slots: tuple[int, ...]
    scan: EntryScan


class Shape:
    """A predicate without its constants; one object for equal predicates (`Shapes`)."""

    def __init__(self, node: Expression, binary: bool, functions: Mapping[str, Function]) -> None:
        self.node = node
        self.binary = binary
        self.functions = functions
        self.disjuncts = tuple(
            Disjunct(literals, binary, functions) for literals in normal_form(node)
        )
        self._parts: dict[tuple[int, frozenset[int]], EntryLayout] = {}
        self._scans: dict[frozenset[int], InstanceScan] = {}
        self._some: dict[frozenset[int], Condition] = {}

    @property
    def always(self) -> bool:
        """True if the predicate holds for every row."""
        return any(not disjunct.literals for disjunct in self.disjuncts)

    @cached_property
    def holds(self) -> Condition:
        """The predicate as a function of (a, b, constants)."""
        return code.condition(self.node, self.functions, self.binary)

    def instances(self, without: frozenset[int] = frozenset()) -> InstanceScan:
        """Return the scan for instances that end before a row begins and for which it holds.

        ``without`` are literals of the only disjunct that an index has answered.
        """
        if without not in self._scans:
            whole = len(self.disjuncts) != 1
            literals = (self.node,) if whole else self.disjuncts[0].rest(without)
            self._scans[without] = code.instance_scan(literals, self.functions)
        return self._scans[without]

    def some(self, literals: frozenset[int]) -> Condition | None:
        """Return the conjunction of some literals of the only disjunct, None for none."""
        if not literals:
            return None
        if literals not in self._some:
            chosen = tuple(self.disjuncts[0].literals[number] for number in sorted(literals))
            self._some[literals] = code.condition(And(chosen), self.functions, self.binary)
        return self._some[literals]

    def part(self, disjunct: int, without: frozenset[int]) -> EntryLayout:
        """Return the entries of a disjunct, some of its literals being answered by an index."""
        key = (disjunct, without)
        if key not in self._parts:
            chosen = self.disjuncts[disjunct]
            slots = chosen.slots(without)
            scan = code.entry_scan(chosen.rest(without), self.functions, self.binary, slots)
            self._parts[key] = EntryLayout(slots, scan)
        return self._parts[key]


class Shapes:
    """The shapes of an engine's predicates, each once."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self._others: dict[Hashable, Any] = {}
        self._known: dict[tuple[Expression, bool], Shape] = {}
        self._seen: dict[tuple[Expression, bool], tuple[Shape, Callable[[Sequence[Any]], Row]]] = {}
        self._seen_columns: dict[
            tuple[tuple[Expression, ...], bool],
            tuple[ColumnsShape, Callable[[Sequence[Any]], Row]],
        ] = {}
        self._split: dict[tuple[Shape, int], Shape] = {}
        self._columns: dict[tuple[tuple[Expression, ...], bool], ColumnsShape] = {}

    def of(self, node: Expression, binary: bool) -> tuple[Shape, Callable[[Sequence[Any]], Row]]:
        """Return a predicate's shape, and how to get its constants from a query's literals."""
        key = (node, binary)
        if key not in self._seen:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()  # predicates with their constants inside are without number
            bare, found = without_constants(node)
            constants = code.constants(found, self._functions)
            self._seen[key] = (self._shape(bare, binary), constants)
        return self._seen[key]

    def columns(
        self, nodes: Sequence[Expression], binary: bool
    ) -> tuple[ColumnsShape, Callable[[Sequence[Any]], Row]]:
        """Return the shape of computed columns, and how to get their constants.

        The rows that they make have the times of their row, or span their pair if ``binary``.
        """
        key = (tuple(nodes), binary)
        if key not in self._seen_columns:
            if len(self._seen_columns) >= _MOST_SEEN:
                self._seen_columns.clear()
            found: list[Expression] = []
            bare = tuple([_lifted(node, found) for node in nodes])
            if (bare, binary) not in self._columns:
                times = _SPANNED if binary else "b[0], b[1], b[2]"
                make = code.row_maker(bare, self._functions, times, binary)
                self._columns[bare, binary] = ColumnsShape(bare, make)
            constants = code.constants(found, self._functions)
            self._seen_columns[key] = (self._columns[bare, binary], constants)
        return self._seen_columns[key]

    def once(self, key: Hashable, make: Callable[[Mapping[str, Function]], Made]) -> Made:
        """Return the memoised object of a key; ``make`` builds it from the functions."""
        if key not in self._others:
            self._others[key] = make(self._functions)
        made: Made = self._others[key]
        return made

    def constants(self, nodes: Sequence[Expression]) -> Callable[[Sequence[Any]], Row]:
        """Return a function from a query's literals to the values of constant expressions."""
        return code.constants(nodes, self._functions)

    def constant(self, node: Expression) -> Callable[[Sequence[Any]], Any]:
        """Return a function from a query's literals to the value of a constant expression."""
        values = code.constants((node,), self._functions)
        return lambda literals: values(literals)[0]

    def over_pairs(self, shape: Shape, width: int) -> Shape:
        """Return a shape over concatenated rows as one over pairs; the left has ``width`` values.

        It reads the newcomer's part directly, before the concatenation is built.
        """
        key = (shape, width)
        if key not in self._split:

            def place(part: Expression) -> Expression:
                if isinstance(part, Time) and part.edge == "begin":
                    return Time(1, "begin")
                if not isinstance(part, Column):
                    return part
                index = part.index
                return Column(1, index) if index < width else Column(2, index - width)

            self._split[key] = self._shape(rewrite(shape.node, place), True)
        return self._split[key]

    def _shape(self, node: Expression, binary: bool) -> Shape:
        key = (node, binary)
        if key not in self._known:
            self._known[key] = Shape(node, binary, self._functions)
        return self._known[key]


def without_constants(node: Expression) -> tuple[Expression, list[Expression]]:
    """Return the expression with its constants numbered as parameters, and the constants.

    The largest parts that read no row become one constant each; TRUE and FALSE stay.
    """
    found: list[Expression] = []
    return _lifted(node, found), found


def _lifted(node: Expression, found: list[Expression]) -> Expression:
    if isinstance(node, Constant) and isinstance(node.value, bool):
        return node
    if not _is_constant(node):
        return with_children(node, lambda part: _lifted(part, found))
    found.append(node)
    return Parameter(len(found) - 1, object)


def _is_constant(node: Expression) -> bool:
    match node:
        case Constant() | Parameter():
            return True
        case Arithmetic(_, left, right):
            return _is_constant(left) and _is_constant(right)
        case Negative(operand):
            return _is_constant(operand)
        case _:
            return False


def normal_form(node: Expression) -> list[tuple[Expression, ...]]:
    """Return the disjunctive normal form: literals by disjunct, or the whole as one literal."""
    try:
        return _disjuncts(node, True)
    except OverflowError:
        return [(node,)]


def _disjuncts(node: Expression, positive: bool) -> list[tuple[Expression, ...]]:
    match node:
        case Constant(bool() as value):
            return [()] if value is positive else []
        case Not(item):
            return _disjuncts(item, not positive)
        case And(items) | Or(items):
            parts = [_disjuncts(item, positive) for item in items]
            if isinstance(node, And) is positive:
                return _crossed(parts)
            return _checked([disjunct for part in parts for disjunct in part])
        case Compare(operator, left, Column(2) as right) if positive and _constant_side(left):
            return [(Compare(_MIRROR[operator], right, left),)]
        case Compare(operator, left, Duration() as right) if positive and _constant_side(left):
            return [(Compare(_MIRROR[operator], right, left),)]
        case _:
            return [(node if positive else Not(node),)]


def _crossed(parts: Sequence[list[tuple[Expression, ...]]]) -> list[tuple[Expression, ...]]:
    """Return the conjunction of normal forms: one disjunct of each, in all ways."""
    sole = [literal for part in parts if len(part) == 1 for literal in part[0]]
    result: list[tuple[Expression, ...]] = [tuple(dict.fromkeys(sole))]
    for part in (part for part in parts if len(part) != 1):
        result = _checked(
            [
                tuple(dict.fromkeys((*one, *other)))
                for one, other in product(result, part[: MOST_DISJUNCTS + 1])
            ]
        )
    return result


def _checked(disjuncts: list[tuple[Expression, ...]]) -> list[tuple[Expression, ...]]:
    distinct = list(dict.fromkeys(disjuncts))
    if len(distinct) > MOST_DISJUNCTS:
        raise OverflowError
    return distinct


def _constant_side(node: Expression) -> bool:
    return isinstance(node, Parameter)


def values_of(columns: Sequence[int]) -> Callable[[Row], Any]:
    """Return a function from a row to the value of a column, or the tuple of several."""
    return itemgetter(*(column + VALUES for column in columns))


def is_proper(key: Any, several: bool) -> bool:
    """Return True if a key may enter an index: it has no null and no NaN."""
    return all(v is not None and v == v for v in (key if several else (key,)))
