"""Normal form: components, joins in value-join normal form, and the operators over time.

The blocks of a query are its *components*, numbered from left to right; every
operator covers a range of them.  The predicate of a JOIN or FOLLOWED BY is a
union of disjuncts, each in value-join normal form (`valuejoin`).  Every variable
has a name of its own (`scope`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, assert_never

from templates.model.join_graph import SYMMETRIC_JOIN, TemporalRelation
from xscl.errors import QueryError
from xscl.language import syntax
from xscl.language.faults import fault, unbound, unsupported
from xscl.language.functions import TIME
from xscl.language.scope import (
    JoinScope,
    bound_steps,
    conjuncts,
    distinct_names,
    leaves,
    rewritten,
    variables,
    walk,
)
from xscl.language.unparse import unparse
from xscl.language.valuejoin import Disjunct, JoinInput, value_joins

LONGEST = 1 << 60
"""The longest window, in ticks, of an operator that waits for its end."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A block: its component, and its number among `NormalQuery.joins`; None in a join's input."""

    component: int
    join: int | None


@dataclass(frozen=True, slots=True)
class CalendarForm:
    """A calendar: its component, and the variable of the instant, "" without one.

    A component without a document: the instant is a value, like an aggregate.
    """

    component: int
    variable: str


@dataclass(frozen=True, slots=True)
class JoinForm:
    """A JOIN or FOLLOWED BY; `joins` are the numbers of its disjuncts (`NormalQuery.joins`)."""

    left: NormalForm
    right: NormalForm
    predicate: syntax.Predicate | None
    relation: TemporalRelation
    joins: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NextForm:
    """The normal form of `A NEXT{predicate} B`."""

    left: NormalForm
    right: NormalForm
    predicate: syntax.Predicate | None


@dataclass(frozen=True, slots=True)
class FoldForm:
    """The normal form of `A FOLD{...} B` (Cayuga's μ); all names are decorated.

    An instance has the first row (the left input's variables, `$1.x`), the last row (those of the
    right input's row that it took last, `$.x`), and aggregates (`$.n`); `$2.x` is the new right
    row.  Before the first one the last row is the left row: `$.x` is its variable of that name,
    and an aggregate that no left variable is called begins with 0.

    `Decorated(1, x)` is the first row's x, `(2, x)` the new row's, `(0, x)` the last row's, or the
    aggregate x.  `begins` names, for a variable of the last row or an aggregate, the variable of
    the first row that it begins with.
    """

    left: NormalForm
    right: NormalForm
    predicate: syntax.Predicate | None
    again: syntax.Predicate | None
    aggregates: tuple[tuple[str, syntax.Operand], ...]
    begins: tuple[tuple[str, str], ...]
    longest: bool


@dataclass(frozen=True, slots=True)
class AbsenceForm:
    """NOT FOLLOWED BY; with `otherwise` FOLLOWED BY or JOIN ... ELSE, whose pairs are results, too.

    A right row answers a left row if both satisfy the predicate and the `relation` of their times.
    `alone` is True for a side (left, right) whose rows are results without an answer.
    """

    left: NormalForm
    right: NormalForm
    predicate: syntax.Predicate | None
    relation: TemporalRelation
    otherwise: bool
    alone: tuple[bool, bool] = (True, False)

    @property
    def waits(self) -> tuple[int, int]:
        """The ticks after a left and after a right row within which its answer must come."""
        return self.relation.waits

    @property
    def window(self) -> int:
        """The larger of those `waits`, in ticks, whose side is `alone`."""
        return max(time for time, one in zip(self.waits, self.alone, strict=True) if one)


OverTime: TypeAlias = "NextForm | FoldForm | AbsenceForm"
"""An operator over time."""
NormalForm: TypeAlias = "Scan | CalendarForm | JoinForm | OverTime"
"""An expression; its joins have numbers, in the order of `forms`."""


@dataclass(frozen=True, slots=True)
class NormalQuery:
    """A query in normal form.

    `blocks` are the components as the user wrote them; `places` says in which
    one each variable is bound, in order of appearance.  `variables` are those of a
    match; `outputs` are the variables that occur in a predicate.
    `made` are the constructors of sub-queries, each with its first and last component.
    `joins` has, by number, the disjuncts of joins, and the components of blocks outside of joins.
    """

    form: NormalForm
    joins: tuple[Disjunct | int, ...]
    blocks: tuple[syntax.Block, ...]
    places: Mapping[str, int]
    variables: tuple[str, ...]
    outputs: tuple[str, ...]
    select: syntax.Element | None
    distinct: bool
    publish: str | None
    made: tuple[tuple[int, int, syntax.Element], ...]


def normalise(query: syntax.Query, source: str) -> NormalQuery:
    """Return a query in normal form; raises QueryError, NotSupported for what cannot be run yet."""
    reader = _Reader(source)
    form = reader.form(distinct_names(query.expression))
    if query.select is not None:
        reader.check(query.select, names_of(form, reader.places))
    for block in reader.blocks:
        if block.stream == query.publish:
            message = f"the query publishes {query.publish!r}, the stream that it reads: a cycle"
            raise fault(source, block.span, message, "publish under another name")
    if query.distinct:
        _expect_one_end(query.expression, source)
    covered = components(form)
    return NormalQuery(
        form,
        tuple(reader.joins),
        tuple(reader.blocks),
        reader.places,
        tuple(name for name, place in reader.places.items() if place in covered),
        tuple(name for name in dict.fromkeys(reader.mentioned) if name in reader.places),
        query.select,
        query.distinct,
        query.publish,
        tuple(reader.made),
    )


def forms(form: NormalForm) -> Iterator[NormalForm]:
    """Yield a form and all forms below it, the inner ones first."""
    if not isinstance(form, Scan | CalendarForm):
        yield from forms(form.left)
        yield from forms(form.right)
    yield form


def read_components(form: NormalForm) -> tuple[int, ...]:
    """Return the components that a form reads, from left to right."""
    return tuple(one.component for one in forms(form) if isinstance(one, Scan | CalendarForm))


def _expect_one_end(expression: syntax.StreamExpression, source: str) -> None:
    """Raise NotSupported if the runs of a LONGEST FOLD are inputs of another operator.

    Runs of the same documents may end at several times.  What is made of them has one match with
    DISTINCT, but would have its parts at several times.
    """
    while isinstance(expression, syntax.Query):
        expression = expression.expression
    for node in walk(expression):
        if isinstance(node, syntax.Fold) and node.longest and node is not expression:
            what = "SELECT DISTINCT of an operator that reads a LONGEST FOLD"
            hint = "leave DISTINCT out; or PUBLISH the runs, and read their stream"
            raise unsupported(source, node.span, what, hint)


def results_of(form: NormalForm) -> Iterator[NormalForm]:
    """Yield a form and the forms below it whose rows its results contain, the inner ones first.

    The results of NOT FOLLOWED BY contain those of its left input only.
    """
    if not isinstance(form, Scan | CalendarForm):
        yield from results_of(form.left)
        if not isinstance(form, AbsenceForm) or form.otherwise:
            yield from results_of(form.right)
    yield form


def has_longest(form: NormalForm) -> bool:
    """Return True for a form with a LONGEST FOLD: its runs are ended by a later document only."""
    return any(isinstance(one, FoldForm) and one.longest for one in forms(form))


def components(form: NormalForm) -> tuple[int, ...]:
    """Return the components of a form's results; NOT FOLLOWED BY has those of its left input."""
    return tuple(
        result.component for result in results_of(form) if isinstance(result, Scan | CalendarForm)
    )


def aggregates(form: NormalForm) -> tuple[str, ...]:
    """Return the names of the instants and of the aggregates (of FOLD) in a form's results."""
    return tuple(name for name, _ in _values(form))


def instants(form: NormalForm) -> tuple[int, ...]:
    """Return the indexes of the instants among the names that `aggregates` returns for a form."""
    return tuple(at for at, (_, of) in enumerate(_values(form)) if isinstance(of, CalendarForm))


def calendars(form: NormalForm) -> tuple[int, ...]:
    """Return the components of the instants, in the order of `instants`."""
    return tuple(of.component for _, of in _values(form) if isinstance(of, CalendarForm))


def _values(form: NormalForm) -> Iterator[tuple[str, NormalForm]]:
    """Yield the names of instants and aggregates in a form's results, each with its own form."""
    for result in results_of(form):
        match result:
            case CalendarForm(_, variable):
                yield variable, result
            case FoldForm(aggregates=made):
                yield from ((name, result) for name, _ in made)
            case _:
                pass


def names_of(form: NormalForm, places: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of the variables, then of the values, in a form's results.

    `places` has the component that binds each variable of the query.
    """
    covered = components(form)
    return (*(name for name, place in places.items() if place in covered), *aggregates(form))


class _Reader:
    """Numbers the blocks of an expression and makes forms of its operators, inner ones first."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.blocks: list[syntax.Block] = []
        self.joins: list[Disjunct | int] = []
        self.places: dict[str, int] = {}
        self.bound: set[str] = set()  # also names of instants and aggregates
        self.mentioned: list[str] = []
        self.made: list[tuple[int, int, syntax.Element]] = []

    def form(self, expression: syntax.StreamExpression, *, is_input: bool = False) -> NormalForm:
        """Return the normal form of an expression; `is_input` says that it is a join's input."""
        match expression:
            case syntax.Block():
                component = len(self.blocks)
                self.blocks.append(expression)
                names = [self._bound(step) for step in bound_steps(expression.steps)]
                if expression.is_calendar:
                    return CalendarForm(component, "".join(names))
                self.places.update(dict.fromkeys(names, component))
                return Scan(component, None if is_input else self._numbered(component))
            case syntax.Query():
                return self._subquery(expression, is_input)
            case syntax.Join(alone=(False, False)):
                return self._joined(expression)
            case syntax.Join():
                return self._absent(expression)
            case syntax.Next():
                left, right, scope = self._inputs(expression)
                predicate = self._resolved(expression.predicate, scope)
                return NextForm(left, right, predicate)
            case syntax.Fold():
                return self._folded(expression)
            case _:
                assert_never(expression)

    def _bound(self, step: syntax.Step) -> str:
        """Return the variable of a step; raises QueryError if it is bound twice."""
        name = step.variable or ""
        if name in self.bound:
            raise self._repeated(name, step.variable_span)
        self.bound.add(name)
        return name

    def _repeated(self, name: str, span: syntax.Span) -> QueryError:
        message = f"the variable {name!r} is bound twice"
        return fault(self.source, span, message, "use two names")

    def check(self, select: syntax.Element, known: tuple[str, ...]) -> None:
        """Raise for a variable in a constructor that is not among the `known` ones."""
        for embedded in walk(select):
            match embedded:
                case syntax.EmbeddedPath(variable):
                    names = [variable]
                case syntax.EmbeddedOperand(operand):
                    names = variables(operand)
                case _:
                    continue
            for name in names:
                if name not in known:
                    raise unbound(self.source, embedded.span, name, known)

    def _numbered(self, join: Disjunct | int) -> int:
        self.joins.append(join)
        return len(self.joins) - 1

    def _subquery(self, query: syntax.Query, is_input: bool) -> NormalForm:
        if query.distinct:
            hint = "write it outside"
            raise unsupported(self.source, query.span, "SELECT DISTINCT in a sub-query", hint)
        if query.publish is not None:
            hint = "subscribe the sub-query by itself, and read the stream that it publishes"
            raise unsupported(self.source, query.span, "PUBLISH in a sub-query", hint)
        form = self.form(query.expression, is_input=is_input)
        if query.select is not None:
            self.check(query.select, names_of(form, self.places))
            covered = components(form)
            self.made.append((covered[0], covered[-1], query.select))
        return form

    def _inputs(
        self, expression: syntax.Join | syntax.Next | syntax.Fold, *, are_joined: bool = False
    ) -> tuple[NormalForm, NormalForm, JoinScope]:
        left = self.form(expression.left, is_input=are_joined)
        right = self.form(expression.right, is_input=are_joined)
        return (
            left,
            right,
            JoinScope(self.source, names_of(left, self.places), names_of(right, self.places)),
        )

    def _resolved(
        self, predicate: syntax.Predicate | None, scope: JoinScope, *, paths: bool = False
    ) -> syntax.Predicate | None:
        if predicate is None:
            return None
        found = scope.resolved(predicate, paths=paths)
        self.mentioned.extend(variables(found))
        return found

    def _folded(self, fold: syntax.Fold) -> NormalForm:
        before = self.bound.copy()
        left, right, scope = self._inputs(fold)
        names = [name for name, _ in fold.aggregates]
        scope = replace(scope, aggregates=tuple(names))
        for name in names:
            if name in scope.right or names.count(name) > 1:
                raise fault(self.source, fold.span, f"the name {name!r} is used twice", "use two")
        parts = predicate, again, aggregates = rewritten(
            (fold.predicate, fold.again, fold.aggregates), scope.decorated
        )
        used = [leaf for leaf in leaves(parts) if isinstance(leaf, syntax.DecoratedName)]
        read = {leaf.name for leaf in used if leaf.input == 0}.union(names)
        begins = {name: first for name in read if (first := scope.first(name)) is not None}
        for leaf in used:
            if leaf.input == 0 and leaf.name in scope.right and leaf.name not in begins:
                message = f"'$.{leaf.name}' has no value in the first row"
                hint = f"bind {leaf.name} on the left side, too"
                raise fault(self.source, leaf.span, message, hint)
        for node in walk(parts):
            match node:
                case syntax.Call(function, (syntax.DecoratedName(0, name) as leaf,)) if (
                    function == TIME and name in names
                ):
                    message = f"the aggregate {name!r} is of no document, and has no time"
                    hint = "time($2.x) is that of the new row"
                    raise fault(self.source, leaf.span, message, hint)
                case _:
                    pass
        for name in names:
            if name in before:
                raise self._repeated(name, fold.span)
            self.bound.add(name)
        self.mentioned.extend(leaf.name for leaf in used if leaf.name not in names)
        self.mentioned.extend(sorted(begins.values()))
        beginnings = tuple(sorted(begins.items()))
        return FoldForm(left, right, predicate, again, aggregates, beginnings, fold.longest)

    def _joined(self, expression: syntax.Join) -> NormalForm:
        left, right, scope = self._inputs(expression, are_joined=True)
        predicate = self._resolved(expression.predicate, scope, paths=True)
        if expression.operator is SYMMETRIC_JOIN:
            _expect_symmetry(expression, predicate, self.source)
        sides = self._side(left, scope.left), self._side(right, scope.right)
        relation = expression.relation
        found = value_joins(predicate, sides, relation, self.source, expression.span)
        return JoinForm(left, right, predicate, relation, tuple(map(self._numbered, found)))

    def _side(self, form: NormalForm, names: tuple[str, ...]) -> JoinInput:
        block = self.blocks[form.component] if isinstance(form, Scan) else None
        unbound = (
            name
            for result in results_of(form)
            if isinstance(result, AbsenceForm) and result.otherwise
            for other, is_alone in zip((result.right, result.left), result.alone, strict=True)
            if is_alone
            for name in names_of(other, self.places)
        )
        return JoinInput(block, frozenset(names), frozenset(unbound))

    def _absent(self, expression: syntax.Join) -> NormalForm:
        left, right, scope = self._inputs(expression)
        predicate = self._resolved(expression.predicate, scope)
        window = expression.window.ticks
        if max(window or 0, -(expression.window.least or 0)) > LONGEST:
            raise fault(self.source, expression.window.span, "this window is too long")
        if window is None:
            name = expression.name if expression.negated else f"{expression.name} ... ELSE"
            message = f"{name} needs a window: without one it is never certain that nothing comes"
            hint = "write it last in the braces, for example {..., 1 w}"
            raise fault(self.source, expression.span, message, hint)
        relation, pairs = expression.relation, not expression.negated
        return AbsenceForm(left, right, predicate, relation, pairs, expression.alone)


# -- Symmetric joins -------------------------------------------------------------------------

# A symmetric join has one block on both sides.  Its predicate must say the same of either order.
# Then a pair and the exchanged pair are results together, and one of them is enough.

_COMMUTATIVE = ("+", "*", "jaccard")


def _expect_symmetry(join: syntax.Join, predicate: syntax.Predicate | None, source: str) -> None:
    """Raise QueryError for a symmetric join whose sides cannot be exchanged.

    `predicate` is that of the join, its variables by their own names.
    """
    sides = join.left, join.right
    left, right = rewritten(sides, _without_variable)
    blocks = all(isinstance(side, syntax.Block) and not side.is_calendar for side in sides)
    if not blocks or left != right:
        message = "the sides of SYMMETRIC JOIN are not one block"
        hint = "write the same block on both sides, with other variables; or JOIN"
        raise fault(source, join.span, message, hint)
    names: dict[str, str] = {}
    for one, other in zip(*map(_variables, sides), strict=True):
        names |= {one: other, other: one}

    def exchanged(leaf: Any) -> Any:
        if isinstance(leaf, syntax.VariablePath):
            return replace(leaf, variable=names[leaf.variable])
        return leaf

    parts = conjuncts(predicate)
    known = set(map(_canonical, parts))
    for part in parts:
        if _canonical(rewritten(part, exchanged)) not in known:
            message = f"{unparse(part)} is not the same when the sides are exchanged"
            hint = "compare both sides alike, as in t1 = t2; or write JOIN"
            raise fault(source, join.span, f"in SYMMETRIC JOIN {message}", hint)


def _variables(side: object) -> list[str]:
    """Return the variable of each step of a side, "" where it has none."""
    return [step.variable or "" for step in walk(side) if isinstance(step, syntax.Step)]


def _without_variable(node: Any) -> Any:
    return replace(node, variable=None) if isinstance(node, syntax.Step) else node


def _canonical(node: syntax.Predicate | syntax.Operand) -> str:
    """Return the text of a predicate or operand, the same for all orders of equal meaning."""
    match node:
        case syntax.And(parts) | syntax.Or(parts):
            return f"{type(node).__name__}({sorted(map(_canonical, parts))})"
        case syntax.Not(part):
            return f"not({_canonical(part)})"
        case syntax.Comparison(operator, left, right):
            one, other = _canonical(left), _canonical(right)
            return min(f"{one} {operator} {other}", f"{other} {syntax.MIRRORED[operator]} {one}")
        case syntax.Call("abs", (syntax.Arithmetic("-", left, right),)):
            return f"distance({sorted([_canonical(left), _canonical(right)])})"
        case syntax.Call(function, operands):
            return _applied(function, [_canonical(operand) for operand in operands])
        case syntax.Arithmetic(operator, left, right):
            return _applied(operator, [_canonical(left), _canonical(right)])
        case _:
            return unparse(node)


def _applied(function: str, operands: list[str]) -> str:
    return f"{function}({sorted(operands) if function in _COMMUTATIVE else operands})"
