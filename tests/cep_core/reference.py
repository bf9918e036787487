"""The second opinion: each operator of the algebra straight from its set definition.

Hong 2009, section 3.2, and the docstrings of `cep_core.algebra`: no index, no plan, no clever
order, and nothing of the engine's; quadratic on purpose.  Streams are bags of rows
(t0, t1, first, *values).

`evaluate` takes streams as they are.  `results` says what a query sees of a run: events in order of
arrival, a clock M (the largest time that arrived before), a lateness L.

- A base event n counts as arrived when the clock was M(n).  A row of an ordered operator (sequence,
  iterate, aggregates, absence) arrives when its epoch is closed: when the clock passes t1 + L.
- An ordered operator never gets a row that arrives with t1 < M(n) - L.
- A window join pairs a newcomer n with an earlier arrival o iff, besides its predicate and window,
  M(n) <= o.t1 + window + L.
- A query sees rows whose first part arrived since its registration.  Operators that forget parts,
  and ordered ones above a window join, read such rows only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import inf, isfinite
from typing import Any, NamedTuple, TypeAlias, assert_never

from cep_core import algebra
from cep_core.algebra import expressions
from cep_core.algebra.expressions import FUNCTIONS, And, Column, Expression, walk
from cep_core.algebra.patterns import is_plain
from cep_core.decimals import BoundedDecimal
from cep_core.events import VALUES, Event, Row

Moment: TypeAlias = tuple[float, int, float]  # position in the input, 1 if at a close, the epoch
Input: TypeAlias = Event | int  # an event, or what the clock is set to

_START: Moment = (-1, 0, 0)
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Seen(NamedTuple):
    """A row, the moment when it arrives, and the clock then."""

    row: Row
    moment: Moment = _START
    clock: float = -inf


class World(NamedTuple):
    """The input of an evaluation: streams, a query's constants, and its place in time."""

    streams: Mapping[str, Sequence[Seen]]
    latenesses: Mapping[str, int] | None = None  # of the streams
    lateness: int = 0  # of the query's ordered operators
    registered: int = 0
    clocks: Sequence[float] = ()  # after each input
    items: Mapping[int, Any] = {}  # of the tuples that an `Every` goes through


def results(
    node: algebra.Node,
    inputs: Sequence[Input],
    registered: int = 0,
    latenesses: Mapping[str, int] | None = None,
) -> list[Seen]:
    """Return the results of a query that is registered before arrival number ``registered``.

    Rows come with the moment of their emission; its first item is the position in ``inputs``.
    """
    streams: dict[str, list[Seen]] = {}
    clocks: list[float] = []
    clock, number = -inf, 0
    for position, one in enumerate(inputs):
        if isinstance(one, int):
            clock = max(clock, one)
        else:
            t1 = one.t0 if one.t1 is None else one.t1
            seen = Seen((one.t0, t1, number, *one.values), (position, 0, 0), clock)
            for name in (one.stream,) if isinstance(one.stream, str) else one.stream:
                streams.setdefault(name, []).append(seen)
            clock, number = max(clock, t1), number + 1
        clocks.append(clock)
    late = latenesses or {}
    lateness = max((late.get(name, 0) for name in streams_of(node)), default=0)
    world = World(streams, late, lateness, registered, clocks)
    return _since(_rows(node, world), registered)


def streams_of(node: algebra.Node) -> set[str]:
    """Return the names of the base streams that an expression reads."""
    if isinstance(node, algebra.Stream):
        return {node.name}
    return set().union(*map(streams_of, sources(node)))


def sources(node: algebra.Node) -> tuple[algebra.Node, ...]:
    """Return the expressions directly below one."""
    match node:
        case algebra.Stream():
            return ()
        case algebra.Select() | algebra.Project() | algebra.GroupAggregate():
            return (node.source,)
        case algebra.Union() | algebra.Sequence() | algebra.Iterate() | algebra.WindowJoin():
            return (node.left, node.right)
        case algebra.OuterJoin():
            return (node.left, node.right)
        case algebra.PatternMatch():
            return node.inputs
        case _:
            assert_never(node)


# -- operators -------------------------------------------------------------------------------


def _rows(node: algebra.Node, world: World) -> list[Seen]:
    match node:
        case algebra.Stream(name):
            return list(world.streams.get(name, ()))
        case algebra.Select(source, predicate):
            rows = _rows(source, world)
            return [seen for seen in rows if holds(predicate, None, seen.row, world)]
        case algebra.Project(source, columns):
            return [_projected(seen, columns, world) for seen in _rows(source, world)]
        case algebra.Union(left, right):
            return _rows(left, world) + _rows(right, world)
        case algebra.Sequence():
            return _timed(_sequence(node, world), world)
        case algebra.Iterate():
            later = [row for rows in _iterations(node, world)[1:] for row in rows]
            return _timed(_ended(node, later, world) if node.longest else later, world)
        case algebra.GroupAggregate(window=None):
            return _timed(_instance_aggregate(node, world), world)
        case algebra.GroupAggregate():
            return _timed(_window_aggregate(node, world), world)
        case algebra.WindowJoin():
            return _window_join(node, world)
        case algebra.OuterJoin(lower=None):
            return _timed(_absence(node, world), world)
        case algebra.OuterJoin():
            return _timed(_outer_join(node, world), world)
        case algebra.PatternMatch():
            return _timed(_plain_sequence(node, world), world)
        case _:
            assert_never(node)


def _projected(seen: Seen, columns: Sequence[Expression], world: World) -> Seen:
    values = [value(column, None, seen.row, world) for column in columns]
    return seen._replace(row=(*seen.row[:VALUES], *values))


def _sequence(node: algebra.Sequence, world: World) -> list[Row]:
    """S1 ;θ S2 (section 3.2.2): each left row with all of its earliest right rows."""
    lefts, rights = _in_order(node, world)
    pairs = _earliest(node.predicate, lefts, rights, world)
    if node.rank is not None:
        rank = VALUES + node.rank
        pairs = [
            (a, b) for a, b in pairs if b[rank] == min(c[rank] for one, c in pairs if one is a)
        ]
    return [(*_span(a, b), *a[VALUES:], *b[VALUES:]) for a, b in pairs]


def _iterations(node: algebra.Iterate, world: World) -> list[list[Row]]:
    """The sets of formula (3.1)."""
    lefts, rights = _in_order(node, world)
    width = len(node.left.schema)
    sets = [[_begun(row, node.initial) for row in lefts]]
    while sets[-1]:
        pairs = _earliest(node.filter, sets[-1], rights, world)
        sets.append(
            [
                _followed(node, instance, row, width, world)
                for instance, row in pairs
                if holds(node.rebind, instance, row, world)
            ]
        )
    return sets[:-1]


def _ended(node: algebra.Iterate, instances: Sequence[Row], world: World) -> list[Row]:
    """The instances that the earliest right rows meet and none of them rebinds, at their time."""
    rights = _in_order(node, world)[1]
    ends = []
    for one in instances:
        met = [row for _, row in _earliest(node.filter, [one], rights, world)]
        if met and not any(holds(node.rebind, one, row, world) for row in met):
            ends.append((one[0], met[0][1], *one[2:]))
    return ends


def _begun(row: Row, initial: Sequence[int | None]) -> Row:
    return (*row, *[None if i is None else row[VALUES + i] for i in initial])


def _followed(node: algebra.Iterate, instance: Row, row: Row, width: int, world: World) -> Row:
    first = instance[VALUES : VALUES + width]
    aggregates = [value(one, instance, row, world) for one in node.aggregates]
    return (*_span(instance, row), *first, *row[VALUES:], *aggregates)


def _earliest(
    predicate: Expression, lefts: Sequence[Row], rights: Sequence[Row], world: World
) -> list[tuple[Row, Row]]:
    """Return each left row with those right rows after it that end first, given the predicate."""
    pairs = []
    for a in lefts:
        later = [b for b in rights if a[1] < b[0] and holds(predicate, a, b, world)]
        pairs += [(a, b) for b in later if b[1] == min(c[1] for c in later)]
    return pairs


def _instance_aggregate(node: algebra.GroupAggregate, world: World) -> list[Row]:
    """β (section 3.2.4): one row for each epoch and group."""
    (rows,) = _in_order(node, world)
    found = {}
    for row in rows:
        group = _group(row, node.group_by)
        together = [r for r in rows if r[1] == row[1] and _group(r, node.group_by) == group]
        found[row[1], group] = _aggregated(row, together, node.group_by, node.aggregates, world)
    return list(found.values())


def _window_aggregate(node: algebra.GroupAggregate, world: World) -> list[Row]:
    """α: for each row that ends at t its group's rows that end in (t - w, t]."""
    (rows,) = _in_order(node, world)
    assert node.window is not None
    window = value(node.window, None, (0, 0, 0), world)
    found = []
    for row in rows:
        group = _group(row, node.group_by)
        near = [r for r in rows if row[1] - window < r[1] <= row[1]]
        together = [r for r in near if _group(r, node.group_by) == group]
        found.append(_aggregated(row, together, node.group_by, node.aggregates, world))
    return found


def _aggregated(
    row: Row,
    rows: Sequence[Row],
    group_by: Sequence[int],
    aggregates: Sequence[algebra.Aggregate],
    world: World,
) -> Row:
    results = [_aggregate(one, rows, world) for one in aggregates]
    groups = [row[VALUES + i] for i in group_by]
    return (row[1], row[1], min(r[2] for r in rows), *groups, *results)


def _group(row: Row, group_by: Sequence[int]) -> tuple[Any, ...]:
    """Return the key of a group: null equals null, and NaN equals NaN."""
    return tuple(["NaN" if _is_nan(row[VALUES + i]) else (row[VALUES + i],) for i in group_by])


def _aggregate(node: algebra.Aggregate, rows: Sequence[Row], world: World) -> Any:
    if node.argument is None:
        return len(rows)
    found = [value(node.argument, None, row, world) for row in rows]
    values = [one for one in found if _is_proper(one)]
    match node.function:
        case "COUNT":
            return len(values)
        case "SUM":
            return _sum(values)
        case "AVG":
            return _average(values)
        case "MIN" | "MAX":
            return _extreme(node.function, list(zip(values, values, strict=True)))
        case _:
            by = node.by if node.by is not None else node.argument
            keys = [value(by, None, row, world) for row in rows]
            pairs = [(k, v) for k, v in zip(keys, found, strict=True) if _is_proper(k)]
            return _extreme(node.function, pairs)


def _sum(values: Sequence[Any]) -> Any:
    """Return the sum, computed exactly and rounded once; null of nothing."""
    if not values or not all(map(isfinite, values)):
        return sum(values) if values else None
    total = sum(map(Fraction, values), Fraction())
    if any(isinstance(one, Decimal) for one in values):
        return _rounded(total)
    return float(total) if any(isinstance(one, float) for one in values) else int(total)


def _average(values: Sequence[Any]) -> Any:
    if not values or not all(map(isfinite, values)):
        return sum(values) / len(values) if values else None
    average = Fraction(sum(map(Fraction, values))) / len(values)
    return _rounded(average) if isinstance(values[0], Decimal) else float(average)


def _extreme(function: str, pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Return the least argument (that is not null) among those with the least or largest key."""
    if not pairs:
        return None
    choose = min if function in ("MIN", "ARGMIN") else max
    best = choose(key for key, _ in pairs)
    return min((one for key, one in pairs if key == best and _is_proper(one)), default=None)


def _window_join(node: algebra.WindowJoin, world: World) -> list[Seen]:
    window = value(node.window, None, (0, 0, 0), world)
    reach = window + max(_lateness(node.left, world), _lateness(node.right, world))
    single = _is_single(node.left) and _is_single(node.right)
    found = []
    for left in _rows(node.left, world):
        for right in _rows(node.right, world):
            a, b = left.row, right.row
            older, newer = sorted((left, right), key=lambda seen: (seen.moment, seen.row[1]))
            near = abs(a[1] - b[1]) <= window and newer.clock <= older.row[1] + reach
            itself = single and a[:VALUES] == b[:VALUES]
            if near and not itself and holds(node.predicate, a, b, world):
                times = (min(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]))
                found.append(newer._replace(row=(*times, *a[VALUES:], *b[VALUES:])))
    return found


def _absence(node: algebra.OuterJoin, world: World) -> list[Row]:
    """NOT FOLLOWED BY: each left row without an answer, over the time in which it had none.

    Otherwise all pairs of a left row and an answer, and those left rows with nulls.
    """
    lefts, rights = _in_order(node, world)
    window = value(node.upper, None, (0, 0, 0), world)
    nulls = (None,) * len(node.right.schema) if node.paired else ()
    found: list[Row] = []
    for a in lefts:
        soon = [b for b in rights if a[1] < b[0] and b[1] - a[1] <= window]
        answers = [b for b in soon if holds(node.predicate, a, b, world)]
        if not answers:
            end = a[1] + window
            found.append((end if node.moment else a[0], end, a[2], *a[VALUES:], *nulls))
        elif node.paired:
            found += [(*_span(a, b), *a[VALUES:], *b[VALUES:]) for b in answers]
    return found


def _outer_join(node: algebra.OuterJoin, world: World) -> list[Row]:
    """JOIN .. ELSE: the pairs within the bounds, and rows of a side that are in none of them."""
    lefts, rights = _in_order(node, world)
    assert node.lower is not None
    lower, upper = (value(one, None, (0, 0, 0), world) for one in (node.lower, node.upper))
    pairs = [
        (a, b)
        for a in lefts
        for b in rights
        if lower <= b[1] - a[1] <= upper and holds(node.predicate, a, b, world)
    ]
    found: list[Row] = [
        (min(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), *a[VALUES:], *b[VALUES:])
        for a, b in pairs
    ]
    if node.alone[0]:
        nulls = (None,) * len(node.right.schema)
        alone = [a for a in lefts if not any(a is one for one, _ in pairs)]
        found += [(a[0], a[1] + max(upper, 0), a[2], *a[VALUES:], *nulls) for a in alone]
    if node.alone[1]:
        nulls = (None,) * len(node.left.schema)
        alone = [b for b in rights if not any(b is one for _, one in pairs)]
        found += [(b[0], b[1] - min(lower, 0), b[2], *nulls, *b[VALUES:]) for b in alone]
    return found


def _plain_sequence(node: algebra.PatternMatch, world: World) -> list[Row]:
    """SEQ of single events; `pattern_reference` defines the rest."""
    assert is_plain(node)
    inputs = _in_order(node, world)
    window = inf if node.rules.window is None else value(node.rules.window, None, (0, 0, 0), world)
    found: list[tuple[Row, ...]] = [()]
    for component in node.components:
        longer = []
        for path in found:
            longer += [
                (*path, row)
                for row in inputs[component.input]
                if (not path or path[-1][1] < row[0]) and _goes_on((*path, row), node, world)
            ]
        found = [path for path in longer if path[-1][1] - path[0][1] < window]
    outputs = len(node.schema)
    return [
        (path[0][0], path[-1][1], min(row[2] for row in path), *_parts(path, node)[:outputs])
        for path in found
    ]


def _parts(path: Sequence[Row], node: algebra.PatternMatch) -> list[Any]:
    """Return the parts of a sequence, null for those of components that it has not come to."""
    times = {"start": 0, "end": 1, "first_end": 1}
    found = []
    for part in node.parts:
        index = times[part.role] if part.index is None else VALUES + part.index
        found.append(path[part.component][index] if part.component < len(path) else None)
    return found


def _goes_on(path: Sequence[Row], node: algebra.PatternMatch, world: World) -> bool:
    """Evaluate the conditions that a sequence decides."""
    row = (0, 0, 0, *_parts(path, node))
    return all(
        holds(item, None, row, world)
        for item in _conjuncts(node.predicate)
        if all(
            node.parts[part.index].component < len(path)
            for part in walk(item)
            if isinstance(part, Column)
        )
    )


def _conjuncts(predicate: Expression) -> list[Expression]:
    if not isinstance(predicate, And):
        return [predicate]
    return [part for item in predicate.items for part in _conjuncts(item)]


def _span(a: Row, b: Row) -> tuple[int, int, int]:
    return (a[0], b[1], min(a[2], b[2]))


# -- time ------------------------------------------------------------------------------------

_ORDERED = (
    algebra.Sequence,
    algebra.Iterate,
    algebra.GroupAggregate,
    algebra.OuterJoin,
    algebra.PatternMatch,
)
_FORGETTING = (
    algebra.GroupAggregate,
    algebra.OuterJoin,
)


def _in_order(node: algebra.Node, world: World) -> list[list[Row]]:
    """Return the input rows of an ordered operator, by input."""
    found = []
    for source in sources(node):
        rows = _rows(source, world)
        if isinstance(node, _FORGETTING) or _has(node, algebra.WindowJoin):
            rows = _since(rows, world.registered)
        found.append([row for row, _, clock in rows if row[1] >= clock - world.lateness])
    return found


def _timed(rows: Sequence[Row], world: World) -> list[Seen]:
    """Return rows of an ordered operator with the moment when their epoch is closed."""
    found = []
    for row in rows:
        end = row[1] + world.lateness
        after = [position for position, clock in enumerate(world.clocks) if clock > end]
        moment = (min(after, default=inf), 1, row[1]) if world.clocks else _START
        found.append(Seen(row, moment, end))
    return found


def _since(rows: Sequence[Seen], registered: int) -> list[Seen]:
    return [seen for seen in rows if seen.row[2] >= registered]


def _lateness(node: algebra.Node, world: World) -> int:
    """Return the lateness of a stream: the query's, if its rows have been put in order."""
    if _has(node, *_ORDERED):
        return world.lateness
    return max((world.latenesses or {}).get(name, 0) for name in streams_of(node))


def _is_single(node: algebra.Node) -> bool:
    """Return True if the rows of an expression are single events."""
    return not _has(node, algebra.WindowJoin, *_ORDERED)


def _has(node: algebra.Node, *kinds: type) -> bool:
    return isinstance(node, kinds) or any(_has(source, *kinds) for source in sources(node))


# -- expressions -----------------------------------------------------------------------------


def holds(node: Expression, first: Row | None, second: Row, world: World) -> bool:
    """Evaluate a condition; an atom that is null, NaN or fails is false."""
    match node:
        case expressions.And(items):
            return all(holds(item, first, second, world) for item in items)
        case expressions.Or(items):
            return any(holds(item, first, second, world) for item in items)
        case expressions.Not(item):
            return not holds(item, first, second, world)
        case expressions.Every(names, over, condition):
            return _every(names, over, condition, first, second, world)
        case expressions.Compare(comparison, left, right):
            a, b = value(left, first, second, world), value(right, first, second, world)
            return _is_proper(a) and _is_proper(b) and _compared(comparison, a, b)
        case _:
            return value(node, first, second, world) is True


def value(node: Expression, first: Row | None, second: Row, world: World) -> Any:
    """Return the value of an expression; one that fails or misses an operand is null."""
    match node:
        case expressions.Column(side, index):
            row = first if side == 1 else second
            assert row is not None
            return row[VALUES + index]
        case expressions.Constant(constant):
            return constant
        case expressions.Duration():
            return second[1] - (second if first is None else first)[0]
        case expressions.Time(side, edge):
            row = first if side == 1 else second
            assert row is not None
            return row[0 if edge == "begin" else 1]
        case expressions.Missing():
            return None
        case expressions.TupleItem(name):
            return world.items[name]
        case expressions.IsNull(operand):
            return value(operand, first, second, world) is None
        case expressions.Coalesce(items):
            values = [value(one, first, second, world) for one in items]
            return next((one for one in values if one is not None), None)
        case expressions.Case((test, then, *others)):
            if holds(test, first, second, world):
                return value(then, first, second, world)
            rest = others[0] if len(others) == 1 else expressions.Case(tuple(others))
            return value(rest, first, second, world)
        case expressions.Negative(operand):
            return _applied(operator.neg, [value(operand, first, second, world)])
        case expressions.Arithmetic(symbol, left, right):
            operands = [value(left, first, second, world), value(right, first, second, world)]
            return _applied(lambda a, b: _computed(symbol, a, b), operands)
        case expressions.Call(name, arguments):
            operands = [value(one, first, second, world) for one in arguments]
            return _applied(FUNCTIONS[name].call, operands)
        case (
            expressions.Compare()
            | expressions.And()
            | expressions.Or()
            | expressions.Not()
            | expressions.Every()
        ):
            return holds(node, first, second, world)
        case _:
            raise AssertionError(node)


def _every(
    names: Sequence[int],
    over: Sequence[Expression],
    condition: Expression,
    first: Row | None,
    second: Row,
    world: World,
) -> bool:
    """Return True if an atom holds for all items."""
    tuples = [value(one, first, second, world) for one in over]
    if any(one is None for one in tuples):
        return False
    return all(
        holds(condition, first, second, world._replace(items=dict(zip(names, items, strict=True))))
        for items in zip(*tuples, strict=False)
    )


def _applied(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    if any(one is None for one in operands):
        return None
    try:
        return function(*operands)
    except Exception:  # whatever a user's function raises makes its result null
        return None


def _computed(symbol: str, one: Any, other: Any) -> Any:
    """Return the result of arithmetic: of decimals it is exact, then rounded to 18 digits."""
    function = _ARITHMETIC[symbol]
    if not isinstance(one, Decimal) and not isinstance(other, Decimal):
        return function(one, other)
    if isinstance(one, float) or isinstance(other, float):
        return function(float(one), float(other))
    return _rounded(function(Fraction(one), Fraction(other)))


def _rounded(exact: Fraction) -> BoundedDecimal:
    """Return a decimal of 18 digits after the point, rounded half to even."""
    return BoundedDecimal(f"{round(exact * 10**18)}e-18")


def _compared(comparison: str, one: Any, other: Any) -> bool:
    """Compare two values; beside a decimal a double is the decimal that it prints as."""
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        one, other = (
            Fraction(repr(value)) if isinstance(value, float) and isfinite(value) else value
            for value in (one, other)
        )
        one, other = (
            Fraction(value) if isinstance(value, Decimal) else value for value in (one, other)
        )
    return bool(_COMPARISONS[comparison](one, other))


def _is_nan(one: Any) -> bool:
    return bool(one != one)


def _is_proper(one: Any) -> bool:
    return one is not None and not _is_nan(one)
