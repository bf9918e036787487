"""Predicates as shapes with constants: normal form, and what an index can use of them.

A predicate is split into its shape and its constants, so that a hundred thousand queries that
differ in literals share one normal form and one compiled function.  The shape is put into
disjunctive normal form (above 64 disjuncts it stays opaque).  Literals of a disjunct are *static*
(they compare the newcomer with constants) or *dynamic* (they read the earlier row, too).  An index
can answer static equalities and ranges, and dynamic equalities (Hong 2009, sections 4.4.3 and
4.5.1).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, partial
from itertools import chain
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from cep_core.algebra import expressions as ex
from cep_core.algebra.normal_form import Junction, NumberedAtom, TooManyDisjuncts, disjuncts
from cep_core.algebra.operands import operands, with_operands
from cep_core.dataflow import code
from cep_core.dataflow.code import CompiledCondition, EntryScan, InstanceScan, RowMaker
from cep_core.events import VALUES, Row

Bare = TypeVar("Bare")
Made = TypeVar("Made")
_MOST_SEEN = 10_000
_MIRROR: dict[str, ex.ComparisonOperator] = {
    "=": "=",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


class BoundShape(NamedTuple, Generic[Bare]):
    """A shape with the constants of one query: equal ones have the same meaning.

    They are equal if the shape is the same object and the constants are identical; 1, 1.0 and True
    are three values.
    """

    shape: Bare
    constants: tuple[Any, ...]

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundShape)
            and self.shape is other.shape
            and all(map(ex.is_same, self.constants, other.constants))
        )

    def __ne__(self, other: object) -> bool:
        return not self == other


class ConstantRange(NamedTuple):
    """A static literal `column operator constant`, which a sorted list can index.

    ``slot`` is the number of the constant, ``literal`` that of the literal in its disjunct.
    """

    column: int
    operator: ex.ComparisonOperator
    slot: int
    literal: int


class IndexedDisjunct:
    """A conjunction of literals, with the numbers of those that each kind of index can answer.

    equalities  (column of side 2, number of the constant, number of the literal), by column
    ranges      static inequalities of one column with a constant
    joins       literals of dynamic equalities by (column of side 1, column of side 2)
    bounds      (place, number of the constant): the time since an instance's item at a place is
                at most the constant.  For DUR the item is the instance's t0, else a column of
                side 1.  Beyond the bound an instance can never match.
    reads       the sides that each literal reads; DUR of a pair reads both
    """

    def __init__(self, literals: tuple[ex.Expression, ...], binary: bool) -> None:
        self.literals = literals
        equalities: dict[int, tuple[int, int, int]] = {}
        self.ranges: list[ConstantRange] = []
        self.joins: dict[tuple[int, int], int] = {}
        self.bounds: list[tuple[int, int]] = []
        self.reads: list[set[int]] = []
        for number, literal in enumerate(literals):
            match literal:
                case ex.Compare("=", ex.Column(2, column), ex.Parameter(slot)):
                    equalities.setdefault(column, (column, slot, number))
                case ex.Compare(operator, ex.Column(2, column), ex.Parameter(slot)) if (
                    operator != "!="
                ):
                    self.ranges.append(ConstantRange(column, operator, slot, number))
                case ex.Compare("=", ex.Column(1, left), ex.Column(2, right)) | ex.Compare(
                    "=", ex.Column(2, right), ex.Column(1, left)
                ):
                    self.joins[left, right] = number
                case ex.Compare("<" | "<=", ex.Duration(), ex.Parameter(slot)):
                    self.bounds.append((0, slot))
                case ex.Compare(
                    "<" | "<=",
                    ex.Arithmetic("-", ex.Time(2, "end"), ex.Column(1, column)),
                    ex.Parameter(slot),
                ):
                    self.bounds.append((VALUES + column, slot))
                case _:
                    pass
            sides: set[int] = set()
            for part in ex.walk(literal):
                if isinstance(part, ex.Column | ex.Time):
                    sides.add(part.side)
                elif isinstance(part, ex.Duration):
                    sides |= {1, 2} if binary else {2}
            self.reads.append(sides)
        self.equalities = tuple(equalities[column] for column in sorted(equalities))

    def slots(self, without: Iterable[int] = ()) -> tuple[int, ...]:
        """Return the numbers of the constants that literals read, ascending.

        The literals with the numbers ``without`` are left out.
        """
        parts = chain.from_iterable(map(ex.walk, self.rest(without)))
        return tuple(sorted({part.index for part in parts if isinstance(part, ex.Parameter)}))

    def rest(self, without: Iterable[int]) -> tuple[ex.Expression, ...]:
        """Return the literals whose numbers are not in `without`."""
        left_out = set(without)
        return tuple(lit for number, lit in enumerate(self.literals) if number not in left_out)


class EntryLayout(NamedTuple):
    """The layout of index entries of a disjunct: the slots of their constants, and the scan over
    them.

    The scan tests the literals that the index has not answered.  There is one object for each
    disjunct and set of answered literals, so layouts are compared by identity.
    """

    slots: tuple[int, ...]
    scan: EntryScan


class PredicateShape:
    """A predicate without its constants; one object for equal predicates (`PredicateShapes`)."""

    def __init__(
        self, nodes: tuple[ex.Expression, ...], binary: bool, functions: ex.Functions
    ) -> None:
        (node,) = nodes
        self.node = node
        self.binary = binary
        self.functions = functions
        self.disjuncts = tuple(IndexedDisjunct(literals, binary) for literals in normal_form(node))
        self._parts: dict[tuple[int, frozenset[int]], EntryLayout] = {}
        self._scans: dict[frozenset[int], InstanceScan] = {}
        self._some: dict[frozenset[int], CompiledCondition] = {}

    @property
    def always(self) -> bool:
        """True if the predicate holds for every row."""
        return any(not disjunct.literals for disjunct in self.disjuncts)

    @cached_property
    def keys(self) -> tuple[Callable[[Row], Any], ...]:
        """For each side the function from a row to its values in `joins`; () without joins."""
        return tuple(map(key_function, zip(*self.joins, strict=True)))

    @cached_property
    def joins(self) -> list[tuple[int, int]]:
        """The dynamic equalities (column of side 1, column of side 2) that all disjuncts have."""
        first, *others = [disjunct.joins for disjunct in self.disjuncts] or [{}]
        return [pair for pair in first if all(pair in other for other in others)]

    @cached_property
    def holds(self) -> CompiledCondition:
        """The predicate as a function of (row of side 1, row of side 2, constants of a query)."""
        return code.condition(self.node, self.functions, self.binary)

    def instances(self, without: frozenset[int] = frozenset()) -> InstanceScan:
        """Return the scan that yields instances that end before a row begins and satisfy the
        predicate.

        ``without`` has the numbers of literals of the only disjunct that an index has answered.
        """
        if without not in self._scans:
            whole = len(self.disjuncts) != 1
            literals = (self.node,) if whole else self.disjuncts[0].rest(without)
            self._scans[without] = code.instance_scan(literals, self.functions)
        return self._scans[without]

    def some(self, literals: frozenset[int]) -> CompiledCondition | None:
        """Return a function that tests the literals, given by number, of the only disjunct.

        It is None if ``literals`` is empty.
        """
        if not literals:
            return None
        if literals not in self._some:
            chosen = tuple(self.disjuncts[0].literals[number] for number in sorted(literals))
            self._some[literals] = code.condition(ex.And(chosen), self.functions, self.binary)
        return self._some[literals]

    def part(self, disjunct: int, without: frozenset[int]) -> EntryLayout:
        """Return the layout of an index's entries for a disjunct, which is given by its number.

        The index answers the literals with the numbers ``without``; an entry has the constants of
        the others.
        """
        key = (disjunct, without)
        if key not in self._parts:
            chosen = self.disjuncts[disjunct]
            slots = chosen.slots(without)
            scan = code.entry_scan(chosen.rest(without), self.functions, self.binary, slots)
            self._parts[key] = EntryLayout(slots, scan)
        return self._parts[key]


BoundPredicate: TypeAlias = BoundShape[PredicateShape]
"""A predicate of one query."""
BoundColumns: TypeAlias = BoundShape[RowMaker]
"""Computed columns of one query; equal objects compute equal rows from equal rows."""


class PredicateShapes:
    """Makes the shapes of an engine's predicates: equal predicates get one compiled object."""

    def __init__(self, functions: ex.Functions) -> None:
        self._functions = functions
        self._made: dict[Hashable, Any] = {}
        self._seen: dict[Hashable, Any] = {}  # (shape, function to constants) by expressions

    def of(
        self, node: ex.Expression, binary: bool
    ) -> tuple[PredicateShape, Callable[[Sequence[Any]], Row]]:
        """Return a predicate's shape, and a function from a query's literals to its constants.

        A ``binary`` predicate reads a pair of rows.
        """
        return self._shaped(PredicateShape, (node,), binary)

    def columns(
        self, nodes: Sequence[ex.Expression], binary: bool
    ) -> tuple[RowMaker, Callable[[Sequence[Any]], Row]]:
        """Return the shape of computed columns, and a function from a query's literals to their
        constants.

        The rows that they make have the times of their row, or span their pair if ``binary``.
        """
        return self._shaped(code.row_maker, tuple(nodes), binary)

    def _shaped(
        self, make: Callable[..., Made], nodes: tuple[ex.Expression, ...], binary: bool
    ) -> tuple[Made, Callable[[Sequence[Any]], Row]]:
        """Return the object that `make` builds for the shape of some nodes, one for equal shapes.

        The second result is a function from a query's literals to the constants of the shape.
        """
        key = (make, nodes, binary)
        if key not in self._seen:
            if len(self._seen) >= _MOST_SEEN:  # expressions differ in constants without end
                self._seen.clear()
            found: list[ex.Expression] = []
            bare = tuple([_lifted(node, found) for node in nodes])
            shape = self.once((make, bare, binary), partial(make, bare, binary))
            self._seen[key] = (shape, self.constants(found))
        made: tuple[Made, Callable[[Sequence[Any]], Row]] = self._seen[key]
        return made

    def once(self, key: Hashable, make: Callable[[ex.Functions], Made]) -> Made:
        """Return the memoised object of a key; ``make`` builds it from the functions of queries."""
        if key not in self._made:
            self._made[key] = make(self._functions)
        made: Made = self._made[key]
        return made

    def constants(self, nodes: Sequence[ex.Expression]) -> Callable[[Sequence[Any]], Row]:
        """Return a function from a query's literals to the values of constant expressions."""
        return code.constants(nodes, self._functions)

    def constant(self, node: ex.Expression) -> Callable[[Sequence[Any]], Any]:
        """Return a function from a query's literals to the value of a constant expression."""
        values = self.constants((node,))
        return lambda literals: values(literals)[0]


def without_constants(node: ex.Expression) -> tuple[ex.Expression, list[ex.Expression]]:
    """Return the expression with its constants numbered as parameters, and the constants.

    The largest parts that read no row become one constant each; TRUE and FALSE stay.
    """
    found: list[ex.Expression] = []
    return _lifted(node, found), found


def _lifted(node: ex.Expression, found: list[ex.Expression]) -> ex.Expression:
    if isinstance(node, ex.Constant) and isinstance(node.value, bool):
        return node
    if not _is_constant(node):
        return with_operands(node, "Expression", lambda part: _lifted(part, found))
    found.append(node)
    return ex.Parameter(len(found) - 1, object)


def _is_constant(node: ex.Expression) -> bool:
    if isinstance(node, ex.Arithmetic | ex.Negative):
        return all(map(_is_constant, operands(node, "Expression")))
    return isinstance(node, ex.Constant | ex.Parameter)


def normal_form(node: ex.Expression) -> list[tuple[ex.Expression, ...]]:
    """Return the disjuncts of an expression, each as its literals, which all have to hold.

    With too many disjuncts the expression is the one literal of one disjunct.
    """
    if isinstance(node, ex.Compare):  # as most predicates are
        return [(_atom(node, True).node,)]
    if node == ex.TRUE:
        return [()]
    try:
        found = disjuncts(node, _junction, _atom)
    except TooManyDisjuncts:
        return [(node,)]
    return [tuple([one if positive else ex.Not(one) for one, positive in part]) for part in found]


def _junction(node: ex.Expression) -> Junction | None:
    match node:
        case ex.Constant(bool() as value):
            return ("and" if value else "or"), ()
        case ex.Not(item):
            return "not", (item,)
        case ex.And(items):
            return "and", items
        case ex.Or(items):
            return "or", items
        case _:
            return None


def _atom(node: ex.Expression, positive: bool) -> NumberedAtom:
    match node:
        case ex.Compare(
            operator, ex.Parameter() as left, ex.Column(2) | ex.Duration() as right
        ) if positive:
            node = ex.Compare(_MIRROR[operator], right, left)
    return NumberedAtom(node, node, positive)


def values_of(columns: Sequence[int]) -> Callable[[Row], Any]:
    """Return a function from a row to its value in the only column, or to the tuple of several.

    Of no columns it is the empty tuple.
    """
    places = [column + VALUES for column in columns]
    return itemgetter(*places) if places else itemgetter(slice(0))


def is_proper(key: Any, several: bool) -> bool:
    """Return True if a key, a tuple if `several`, may enter an index: it has no null and no NaN."""
    return all(v is not None and v == v for v in (key if several else (key,)))


def key_function(columns: tuple[int, ...]) -> Callable[[Row], Any]:
    """Return a function from a row to its partition, the values of columns.

    It returns None for a row with a null or NaN there, which belongs to no partition.
    """
    value_of, place = values_of(columns), columns[0] + VALUES

    def key(row: Row) -> Any:
        found = value_of(row)
        return found if is_proper(found, True) else None

    def single(row: Row) -> Any:
        value = row[place]
        return value if value == value else None

    return key if len(columns) > 1 else single
