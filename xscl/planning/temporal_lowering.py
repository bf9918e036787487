"""Operators over time: from XSCL's predicates to the algebra of the event core.

The core's rows have a composite as their first value and, behind it, the
columns that predicates read: the text of a variable, or its number where it is
compared as a number (m-op `attributes`).  Literals become parameters, so that
queries that differ in constants share everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from cep_core import Schema
from cep_core.algebra import Iterate, Node, OuterJoin, Select, Stream
from cep_core.algebra import Sequence as SequenceNode
from cep_core.algebra import expressions as ex
from cep_core.algebra.expressions import Column, Expression, Function, RowSide
from templates.model.join_graph import Measure, TemporalRelation
from xscl.documents.composite_events import Composite
from xscl.language.lowering import LOWERED, ColumnKind, Lowering
from xscl.language.normalform import AbsenceForm, FoldForm, NextForm, OverTime
from xscl.language.scope import conjuncts
from xscl.language.syntax import DecoratedName, Predicate, VariablePath
from xscl.language.valuejoin import is_untyped

LEFT, RIGHT = "left", "right"
"""The names of the two inputs in the algebra that is made here."""
_MEASURES: Mapping[Measure, tuple[ex.Time, ex.Time]] = {
    "gap": (ex.Time(2, "end"), ex.Time(1, "end")),
    "lead": (ex.Time(2, "begin"), ex.Time(1, "end")),
}
"""Measures of two sides as differences of their times."""
BEGINNING = -1
"""The position that stands for a constant, which an aggregate begins with: 0 or the empty text."""


@dataclass(slots=True)
class InputColumns:
    """The columns that predicates read of one input, whose variables are `names`.

    `wanted` has their indexes in a row by the position of the variable and the kind.
    """

    names: tuple[str, ...]
    wanted: dict[tuple[int, ColumnKind], int] = field(default_factory=dict)

    def at(self, name: str, kind: ColumnKind) -> int:
        """Return the index, in a row's values, of a variable's column; adds it if need be."""
        return self.place(self.names.index(name), kind)

    def place(self, position: int, kind: ColumnKind) -> int:
        """Return the index, in a row's values, of a column by its variable's position."""
        return self.wanted.setdefault((position, kind), len(self.wanted) + 1)

    def __len__(self) -> int:
        """Return the number of columns of a row: the composite, then the others."""
        return 1 + len(self.wanted)

    @property
    def schema(self) -> Schema:
        """The schema of the rows of the input: the composite, then the columns."""
        kinds = [str if kind == "text" else float for _, kind in self.wanted]
        names = [f"c{i}" for i in range(len(kinds))]
        return Schema(("composite", *names), (object, *kinds))


@dataclass(frozen=True, slots=True)
class Timing:
    """An operator over time in the core's algebra, and what its rows look like.

    `literals` are the values of its parameters; `left` and `right` are the columns
    of its inputs: positions of variables, and kinds.  `parts` are the indexes of the
    composites in its rows (left, then right), `aggregates` those of aggregates.
    """

    node: Node
    literals: tuple[Any, ...]
    left: tuple[tuple[int, ColumnKind], ...]
    right: tuple[tuple[int, ColumnKind], ...]
    parts: tuple[int, ...]
    aggregates: tuple[int, ...]


def timing(
    form: OverTime,
    left: tuple[str, ...],
    right: tuple[str, ...],
    *,
    versions: bool = False,
) -> Timing:
    """Return an operator over time in the core's algebra.

    `left` and `right` are the names of the variables of its inputs, in the order of their rows.
    With `versions` a document may come again in a later version; the two are not paired.
    """
    writer = _Writer(InputColumns(left), InputColumns(right), versions)
    match form:
        case NextForm(predicate=predicate):
            return writer.following(predicate)
        case AbsenceForm():
            return writer.absent(form)
        case FoldForm():
            return writer.folded(form)
        case _:
            assert_never(form)


class _Writer:
    """Lowers one operator over time, its predicates over the columns of both inputs."""

    def __init__(self, left: InputColumns, right: InputColumns, versions: bool) -> None:
        self._versions = versions
        self._left = left
        self._right = right
        self._kinds: dict[str, ColumnKind] = {}  # of computed aggregates, by name
        self._lowering = Lowering(self._column, self._kinds, nullable=False)
        self._aggregates: dict[str, int] = {}

    # -- Operators -------------------------------------------------------------------------

    def following(self, predicate: Predicate | None) -> Timing:
        """Lower NEXT to the core's algebra.

        Conditions on the left row alone are tested before the row waits.
        """
        whole = [*self._conjuncts(predicate), *self._apart(0)]
        own = [one for one in whole if _reads(one) == {1}]
        rest = [one for one in whole if _reads(one) != {1}]
        left: Node = self._stream(LEFT, self._left)
        if own:
            left = Select(left, _all(_as_right(one) for one in own), self._left.schema)
        right = self._stream(RIGHT, self._right)
        node = SequenceNode(left, right, _all(rest), self._paired())
        return self._made(node, (0, len(self._left)), ())

    def absent(self, form: AbsenceForm) -> Timing:
        """Lower NOT FOLLOWED BY, or FOLLOWED BY or JOIN with ELSE, to the core's algebra."""
        relation, number = form.relation, self._lowering.literal
        conditions = list(self._conjuncts(form.predicate))
        if relation.operator.follows:
            conditions = [*self._in_time(relation), *conditions, *self._apart(0)]
            lower, upper = None, number(form.window, int)
        else:  # without an order between them both rows may be of one document
            conditions.append(self._differ(0))
            lower, upper = number(relation.lower, int), number(relation.upper, int)
        left, right = self._stream(LEFT, self._left), self._stream(RIGHT, self._right)
        paired = form.otherwise
        schema = self._paired() if paired else self._left.schema
        times = lower, upper, form.alone
        node = OuterJoin(left, right, _all(conditions), *times, paired, False, schema)
        return self._made(node, (0, len(self._left)) if paired else (0,), ())

    def folded(self, form: FoldForm) -> Timing:
        """Lower FOLD to the core's algebra.

        Its predicates are lowered twice, as the first time adds the columns.
        """
        for _ in range(2):
            self._lowering.literals.clear()
            node = self._iterate(form)
        first = len(self._left)
        aggregates = range(first + len(self._right), len(node.schema))
        return self._made(node, (0, first), tuple(aggregates))

    def _iterate(self, form: FoldForm) -> Iterate:
        begins = dict(form.begins)
        for name, operand in form.aggregates:
            if self._lowering.is_number(operand):
                self._kinds[name] = "number"
            elif not is_untyped(operand):
                self._kinds[name] = "text"
        numeric = {name for name, kind in self._kinds.items() if kind == "number"}
        self._aggregates = {name: i for i, (name, _) in enumerate(form.aggregates)}
        predicate, again = self._conjuncts(form.predicate), self._conjuncts(form.again)
        made = [
            self._lowering.number(operand) if name in numeric else self._lowering.text(operand)
            for name, operand in form.aggregates
        ]
        initial: list[int | None] = [None]
        for position, kind in self._right.wanted:
            first = begins.get(self._right.names[position])
            initial.append(None if first is None else self._left.at(first, kind))
        for name, _ in form.aggregates:
            own: ColumnKind = "number" if name in numeric else "text"
            at = self._left.names.index(begins[name]) if name in begins else BEGINNING
            initial.append(self._left.place(at, own))
        kinds = [float if name in numeric else str for name, _ in form.aggregates]
        paired = self._paired()
        names = [f"a{i}" for i in range(len(kinds))]
        schema = Schema((*paired.names, *names), (*paired.types, *kinds))
        return Iterate(
            self._stream(LEFT, self._left),
            self._stream(RIGHT, self._right),
            _all([*predicate, *self._apart(0, len(self._left))]),
            _all(again),
            tuple(made),
            tuple(initial),
            schema,
            form.longest,
        )

    def _stream(self, name: str, columns: InputColumns) -> Stream:
        return Stream(name, columns.schema)

    def _paired(self) -> Schema:
        left, right = self._left.schema, self._right.schema
        names = [*(f"l{i}" for i in range(len(left))), *(f"r{i}" for i in range(len(right)))]
        return Schema(tuple(names), (*left.types, *right.types))

    def _made(self, node: Node, parts: tuple[int, ...], aggregates: tuple[int, ...]) -> Timing:
        left, right = tuple(self._left.wanted), tuple(self._right.wanted)
        return Timing(node, tuple(self._lowering.literals), left, right, parts, aggregates)

    # -- Predicates ------------------------------------------------------------------------

    def _conjuncts(self, predicate: Predicate | None) -> list[Expression]:
        return list(map(self._lowering.condition, conjuncts(predicate)))

    def _in_time(self, relation: TemporalRelation) -> Iterator[Expression]:
        """Yield the lower bound of a relation as a condition; the operator tests the upper one."""
        for bound in relation.bounds:
            if bound.is_least and relation.least is not None:
                measured = ex.Arithmetic("-", *_MEASURES[bound.measure])
                yield ex.Compare(">=", measured, self._lowering.literal(bound.ticks, int))

    def _apart(self, *places: int) -> list[Expression]:
        """Return conditions by which the right composite shares no document with left ones.

        The left ones are in the columns `places`.  Without `versions` no condition is needed,
        because the order of rows implies them.
        """
        return [self._differ(place) for place in places] if self._versions else []

    def _differ(self, place: int) -> Expression:
        return ex.Not(ex.Call(SHARED, (Column(1, place), Column(2, 0))))

    def _column(self, operand: VariablePath | DecoratedName, kind: ColumnKind) -> Expression:
        first, last = len(self._left), len(self._left) + len(self._right)
        match operand:
            case VariablePath(name):
                side: RowSide = 1 if name in self._left.names else 2
                return Column(side, (self._left if side == 1 else self._right).at(name, kind))
            case DecoratedName(1, name):
                return Column(1, self._left.at(name, kind))
            case DecoratedName(2, name):
                return Column(2, self._right.at(name, kind))
            case DecoratedName(_, name) if name in self._aggregates:
                return Column(1, last + self._aggregates[name])
            case DecoratedName(_, name):
                return Column(1, first + self._right.at(name, kind))
            case _:
                assert_never(operand)


def _all(conditions: Iterable[Expression]) -> Expression:
    items = tuple(conditions)
    if not items:
        return ex.TRUE
    return items[0] if len(items) == 1 else ex.And(items)


def _reads(expression: Expression) -> set[int]:
    return {part.side for part in ex.walk(expression) if isinstance(part, Column)}


def _as_right(expression: Expression) -> Expression:
    """Return a condition on the left row as one of a selection, which calls its row number 2."""
    return ex.rewrite(
        expression, lambda part: Column(2, part.index) if isinstance(part, Column) else part
    )


def _share(one: Composite, other: Composite) -> bool:
    """Return True if two composites have a document in common, or versions of one."""
    return not set(one.bases).isdisjoint(other.bases)


SHARED = "xpath_shared"
FUNCTIONS_OVER_TIME: Mapping[str, Function] = {
    **LOWERED,
    SHARED: Function(_share, (object, object), bool),
}
"""The functions that expressions of the core may call for XSCL."""
