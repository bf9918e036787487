"""Patterns of EQL as algebra.

=================  ==============================================================================
core operator      algebra
=================  ==============================================================================
E with a filter    Select
E1|E2              Union of projections to what is read of either
E1;E2 with φ, θ    Successor with φ, below a Select with θ: what fails θ has been consumed
E+ with φ, θ       Union of the first events with Repeat, which filters by φ and goes on by θ
(E1;E2) \\ E3       guards of the Successor; of the Repeat for (E+) \\ E3
E \\ E3             Unless, if E is detected in one moment
E@time             Absence of what ends it, as a moment
=================  ==============================================================================

A time constraint (a, z) OCCURS WITHIN t, where z is the last event, can be a filter as well as a
test: once it fails it fails for whatever comes later.  So it bounds the life of instances (the time
operator of section 3.5, which cancels them), also of those below that wait for what comes before z.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from typing import TypeAlias

from cep_core import algebra
from cep_core.algebra import Guard, Node
from cep_core.algebra.expressions import (
    FALSE,
    TRUE,
    Arithmetic,
    Column,
    Compare,
    Constant,
    Duration,
    Expression,
    Function,
    Or,
    Time,
)
from cep_core.algebra.patterns import conjunction
from cep_core.errors import AlgebraError
from cep_core.events import Schema
from cep_core.languages.eql import runs, unions
from cep_core.languages.eql.parts import (
    OWN_BEGIN,
    OWN_END,
    LoweredPart,
    Piece,
    across,
    all_stored,
    bound,
    joined,
    now,
    older,
    rank_of,
    shifted,
    within,
)
from cep_core.rewrite.limits import Limit, Limits, limits_of
from cep_core.rewrite.pattern import (
    After,
    Condition,
    Either,
    Except,
    Next,
    Pattern,
    Plus,
    Ref,
    Source,
    aliases_of,
    iterated,
    sources_of,
)

Refs: TypeAlias = frozenset[Ref]


@dataclass(frozen=True, slots=True)
class Above:
    """The demand on a part: the references read above it, its history, its time limits."""

    reads: Refs
    history: bool = False
    limits: Limits = ()

    def also(self, reads: Iterable[Ref], history: bool | None = None) -> Above:
        """Return the same with more references, without limits."""
        return Above(self.reads.union(reads), self.history if history is None else history)


class PatternLowering:
    """Turns a pattern over known streams into algebra."""

    def __init__(self, schemas: Mapping[str, Schema], functions: Mapping[str, Function]) -> None:
        self._schemas = schemas
        self._functions = functions
        self._hidden = count()

    def part(self, pattern: Pattern, above: Above, others: tuple[Except, ...] = ()) -> LoweredPart:
        """Return a pattern under exceptions as algebra, with what is read above it."""
        match pattern:
            case Source():
                return self._unless(self._source(pattern), others)
            case Next(left):
                for other in others:
                    _require_past(other, left, pattern)
                return self._next(pattern, above, others)
            case Either(left, right):
                split = replace(pattern, left=_under(left, others), right=_under(right, others))
                return self._either(split, above)
            case Plus():
                return self._plus(pattern, above, others)
            case Except(inner):
                return self.part(inner, above, (pattern, *others))
            case After():
                return self._after(pattern, above, others)

    # -- one event, one moment -------------------------------------------------------------

    def _source(self, pattern: Source) -> LoweredPart:
        schema = self._schemas[pattern.stream]
        alias = pattern.alias
        node: Node = algebra.stream(pattern.stream, schema)
        values: dict[Ref, Expression] = {
            Ref("field", alias, name, kind): Column(2, place)
            for place, (name, kind) in enumerate(zip(schema.names, schema.types, strict=True))
        }
        values |= {Ref("begin", alias): OWN_BEGIN, Ref("end", alias): OWN_END}
        labels = tuple(f"{alias}.{name}" for name in schema.names)
        history = (Piece(OWN_END), Piece(OWN_BEGIN))
        part = LoweredPart(node, values, history, labels, frozenset((alias,)))
        return self._tested(part, pattern.filters)

    def _tested(self, part: LoweredPart, conditions: Sequence[Condition]) -> LoweredPart:
        """Return the rows of a part that satisfy conditions over its own events."""
        return replace(part, node=self._where(part.node, bound(conditions, now(part))))

    def _where(self, node: Node, conditions: Iterable[Expression]) -> Node:
        """Return the rows of a node that satisfy conditions."""
        found = conjunction(conditions)
        return node if found == TRUE else algebra.select(node, found, self._functions)

    def _after(self, pattern: After, above: Above, others: tuple[Except, ...]) -> LoweredPart:
        """Return the moment so long after a pattern; a guard keeps it from coming."""
        part = self.part(pattern.inner, above.also(_reads((), others), False))
        guard = self._one_of([self._guard(part, other) for other in others])
        if guard is None:
            # Of a stream, not of the part, which would then be there twice at each @ of a chain.
            first = next(sources_of(pattern.inner)).stream
            never = algebra.stream(first, self._schemas[first])
            guard = Guard(algebra.select(never, FALSE, self._functions), FALSE)
        part = self._with_times(part, above)
        ends = guard.source, guard.predicate
        node = algebra.timer(part.node, *ends, pattern.time, self._functions)
        return replace(part, node=node, history=(Piece(OWN_END), Piece(OWN_BEGIN)))

    def _with_times(self, part: LoweredPart, above: Above) -> LoweredPart:
        """Return a part whose own times are columns if they are read, for a row of other times."""
        read = {part.values[ref] for ref in all_stored(above.reads, part) if ref in part.values}
        times = [own for own in (OWN_BEGIN, OWN_END) if own in read]
        width = len(part.node.schema)
        put: dict[Expression, Expression] = {
            own: Column(2, width + place) for place, own in enumerate(times)
        }
        values = {
            ref: put.get(value, value)
            for ref, value in part.values.items()
            if value in put or value not in (OWN_BEGIN, OWN_END)
        }
        if not times:
            return replace(part, values=values)
        columns: list[Expression] = [*(Column(2, place) for place in range(width)), *times]
        labels = [*part.labels, *(self._label() for _ in times)]
        named = list(zip(labels, columns, strict=True))
        node = algebra.project(part.node, named, self._functions)
        return replace(part, node=node, values=values, labels=node.schema.names)

    def _one_of(self, guards: Sequence[Guard]) -> Guard | None:
        """Return guards as one, over the union of their rows with the number of the guard."""
        if len(guards) < 2:
            return guards[0] if guards else None
        kinds = [kind for guard in guards for kind in guard.source.schema.types]
        labels = [self._label() for _ in range(len(kinds) + 1)]
        nodes: list[Node] = []
        holding: list[Expression] = []
        offset = 0
        for number, guard in enumerate(guards):
            width = len(guard.source.schema)
            values: list[Expression] = [Constant(None)] * len(kinds)
            values[offset : offset + width] = [Column(2, place) for place in range(width)]
            columns = list(zip(labels, [*values, Constant(number)], strict=True))
            nulls = [*kinds, int]
            nodes.append(algebra.project(guard.source, columns, self._functions, nulls=nulls))
            is_own = Compare("=", Column(2, len(kinds)), Constant(number))
            holding.append(conjunction((is_own, shifted(guard.predicate, offset))))
            offset += width
        return Guard(reduce(algebra.union, nodes), Or(tuple(holding)))

    # -- union -----------------------------------------------------------------------------

    def _either(self, pattern: Either, above: Above) -> LoweredPart:
        """Return a union: its alternatives are projected to one schema, once each."""
        leaves = list(_leaves(pattern))
        single = is_single(pattern)
        reads = above.reads | _reads_of_either(pattern)
        present = {Ref("begin", ref.alias) for ref in reads if ref.kind in ("prev", "all")}
        partly = unions.partly_iterated((aliases_of(leaf), iterated(leaf)) for leaf in leaves)
        asked = above.also(reads | present, above.history and not single)
        below = asked.also(unions.collected(reads, partly))
        parts = [self.part(leaf, below) for leaf in leaves]
        history = asked.history
        if not history and unions.are_alike(parts, asked.reads):
            by_alike = dict(zip(map(id, leaves), [part.node for part in parts], strict=True))
            return self._united(pattern, by_alike, parts[0])
        layout = unions.layout_of(asked.reads, parts)
        aliases: frozenset[str] = frozenset().union(*(part.aliases for part in parts))
        labels = list(map(unions.label_of, layout))
        if history:
            labels.append(unions.history_label(aliases))
        nodes = [self._aligned(part, layout, labels, history) for part in parts]
        pieces = (Piece(OWN_END), Piece(OWN_BEGIN))
        values: dict[Ref, Expression] = {ref: Column(2, i) for i, ref in enumerate(layout)}
        made = LoweredPart(
            *(nodes[0], values, pieces, tuple(labels), aliases),
            iterated=frozenset().union(*(one.iterated for one in parts)),
            optional=unions.optional_of(parts),
            mixed=partly.union(*(one.mixed for one in parts)),
        )
        if history:
            made = replace(made, history=(Piece(Column(2, len(layout)), True),))
        by_leaf = dict(zip(map(id, leaves), nodes, strict=True))
        return self._united(pattern, by_leaf, made)

    def _united(
        self, pattern: Pattern, nodes: Mapping[int, Node], part: LoweredPart
    ) -> LoweredPart:
        """Return the unions of a tree, each with its tests."""
        if not isinstance(pattern, Either):
            return replace(part, node=nodes[id(pattern)])
        left = self._united(pattern.left, nodes, part)
        right = self._united(pattern.right, nodes, part)
        node = algebra.union(left.node, right.node, pattern.span)
        return self._tested(replace(part, node=node), pattern.tests)

    def _aligned(
        self, part: LoweredPart, layout: list[Ref], labels: list[str], history: bool
    ) -> Node:
        """Return an alternative under the schema of all."""
        values = [unions.value_of(ref, part) for ref in layout]
        kinds: list[type] = [unions.kind_of(ref) for ref in layout]
        if history:
            values.append(joined(part.history))
            kinds.append(tuple)
        columns = list(zip(labels, values, strict=True))
        return algebra.project(part.node, columns, self._functions, nulls=kinds)

    # -- next ------------------------------------------------------------------------------

    def _next(self, pattern: Next, above: Above, others: tuple[Except, ...]) -> LoweredPart:
        own, filters, tests = limits_of(pattern)
        limits = (*own, *above.limits)
        reads = _reads((*filters, *tests), others)
        begins = {Ref("begin", limit.alias) for limit in limits if limit.alias}
        below = above.also(reads | begins)
        left = self.part(pattern.left, replace(below, limits=limits))
        inside = [one for one in limits if _is_known(one, left)]
        composite = not is_single(pattern.right)
        asked = replace(below, history=below.history or composite)
        within_it = tuple(Limit(None, limit.times) for limit in inside)
        right = self.part(pattern.right, replace(asked, limits=within_it))
        predicate = bound(filters, across(left, right))
        predicate += tuple(_lasting(left, limit) for limit in inside)
        made, kept = self._paired(left, right, above.also(_reads(tests)))
        node: Node = algebra.successor(
            *(left.node, right.node, conjunction(predicate), rank_of(right.history), kept),
            [self._guard(left, other) for other in others],
            functions=self._functions,
            span=pattern.span,
            names=made.labels,
        )
        return replace(made, node=self._where(node, bound(tests, within(left, right, made))))

    def _paired(
        self, left: LoweredPart, right: LoweredPart, above: Above
    ) -> tuple[LoweredPart, list[tuple[str, Expression]]]:
        """Return where values stand in pairs, and the times that have to be kept for that."""
        kept: list[tuple[str, Expression]] = []
        by = len(left.node.schema)
        width = by + len(right.node.schema)
        values: dict[Ref, Expression] = {}
        history: tuple[Piece, ...] = ()
        sides = ((left, OWN_END, Time(1, "end"), 0), (right, OWN_BEGIN, Time(2, "begin"), by))
        for part, own, time, offset in sides:
            place = None
            if _needs(part, above, own):
                place = Column(2, width + len(kept))
                kept.append((self._label(), time))
            own_values, own_history = _in_pair(part, own, place, offset)
            values |= own_values
            history = (*own_history, *history)
        labels = (*left.labels, *right.labels, *(label for label, _ in kept))
        made = LoweredPart(
            *(left.node, values, history if above.history else (), labels),
            aliases=left.aliases | right.aliases,
            iterated=left.iterated | right.iterated,
            optional=left.optional | right.optional,
            mixed=left.mixed | right.mixed,
        )
        return made, kept

    # -- exception -------------------------------------------------------------------------

    def _unless(self, part: LoweredPart, others: Sequence[Except]) -> LoweredPart:
        """Return the rows that no row of an exception ends together with."""
        for other in others:
            guard = self._guard(part, other)
            node = algebra.unless(part.node, guard.source, guard.predicate, self._functions)
            part = replace(part, node=node)
        return part

    def _guard(self, part: LoweredPart, other: Except) -> Guard:
        """Return the guard that ends the detection of a waiting part."""
        ending = self.part(other.other, Above(_reads(other.tests)))
        predicate = conjunction(bound(other.tests, across(part, ending)))
        return Guard(ending.node, predicate)

    # -- iteration -------------------------------------------------------------------------

    def _plus(self, pattern: Plus, above: Above, others: tuple[Except, ...]) -> LoweredPart:
        inner = pattern.inner
        conditions = (*pattern.filters, *pattern.tests)
        reads = _reads(conditions, others)
        begins = {Ref("begin", limit.alias) for limit in above.limits if limit.alias}
        asked = above.reads | reads | begins
        composite = not is_single(inner)
        nested = tuple(limit for limit in above.limits if limit.alias is None)
        items = {unions.items_of(ref) for ref in asked if ref.kind != "items"}
        part = self.part(inner, Above(asked | items, above.history or composite, nested))
        layout = runs.layout_of_run(asked, part)
        run = runs.run_of(part, layout, above.history)
        events = self._where(part.node, bound(conditions, runs.at_first(part)))
        begun: Node = algebra.project(
            events,
            list(zip(run.labels, runs.beginning(part, layout, above.history), strict=True)),
            self._functions,
            nulls=[
                *(tuple if runs.is_collected(ref, part) else ref.of for ref in layout),
                *([tuple] if above.history else []),
            ],
        )
        limits = [_lasting(run, one) for one in above.limits if _is_known(one, part)]
        filters = (*bound(pattern.filters, runs.at_step(run, part)), *limits)
        run = replace(run, node=begun)
        going: Node = algebra.repeat(
            *(self._unless(run, others).node, part.node, conjunction(filters)),
            conjunction(bound(pattern.tests, runs.at_step(run, part))),
            runs.following(part, layout, above.history),
            rank_of(part.history),
            [self._guard(run, other) for other in others],
            self._functions,
            pattern.span,
        )
        return replace(run, node=algebra.union(self._unless(run, others).node, going))

    def _label(self) -> str:
        return f"#{next(self._hidden)}"


# -- patterns ------------------------------------------------------------------------------


def is_single(pattern: Pattern) -> bool:
    """Return True if each row of a pattern is one event, with two timestamps."""
    match pattern:
        case Either(left, right):
            return is_single(left) and is_single(right)
        case Except(inner):
            return is_single(inner)
        case Source() | After():
            return True  # a moment has two timestamps, too
        case Next() | Plus():
            return False


def _leaves(pattern: Pattern) -> Iterator[Pattern]:
    """Yield the alternatives of a tree of unions."""
    if isinstance(pattern, Either):
        yield from _leaves(pattern.left)
        yield from _leaves(pattern.right)
    else:
        yield pattern


def _reads(conditions: Iterable[Condition], others: Sequence[Except] = ()) -> Refs:
    """Return the references of conditions, and of the tests of exceptions."""
    tests = [test for other in others for test in other.tests]
    return frozenset().union(*(one.read for one in (*conditions, *tests)))


def _reads_of_either(pattern: Pattern) -> Refs:
    if not isinstance(pattern, Either):
        return frozenset()
    below = _reads_of_either(pattern.left) | _reads_of_either(pattern.right)
    return _reads(pattern.tests) | below


def _under(pattern: Pattern, others: Sequence[Except]) -> Pattern:
    """Return an alternative under the exceptions that concern it, the first the innermost."""
    for other in others:
        known = aliases_of(pattern) | aliases_of(other.other)
        if all(test.aliases <= known for test in other.tests):
            pattern = replace(other, inner=pattern)
    return pattern


def _require_past(other: Except, left: Pattern, inner: Next) -> None:
    """Raise AlgebraError if what ends a detection is compared with what has not occurred yet."""
    later = aliases_of(inner) - aliases_of(left)
    for test in other.tests:
        for alias in sorted(test.aliases & later):
            raise AlgebraError(
                f"{alias} has not occurred yet when this ends the detection",
                hint="compare with what stands before the last ;",
                span=test.expression.span or other.span,
            )


def _in_pair(
    part: LoweredPart, own: Time, kept: Column | None, by: int
) -> tuple[dict[Ref, Expression], list[Piece]]:
    """Return a part's values and history in pairs, its columns further to the right.

    Its ``own`` time is that of the pair no more: it is there only if it is kept.
    """

    def put(value: Expression) -> Expression | None:
        return kept if value == own else shifted(value, by)

    placed = [(ref, put(value)) for ref, value in part.values.items()]
    history = [(put(one), many) for one, many in part.history]
    return (
        {ref: value for ref, value in placed if value is not None},
        [Piece(one, many) for one, many in history if one is not None],
    )


def _needs(part: LoweredPart, above: Above, own: Time) -> bool:
    """Return True if a part's own time has to be kept when it is joined."""
    stored = all_stored(above.reads, part)
    if any(ref.kind == own.edge and part.values.get(ref) == own for ref in stored):
        return True
    return above.history and any(piece.expression == own for piece in part.history)


def _is_known(limit: Limit, part: LoweredPart) -> bool:
    return limit.alias is None or limit.alias in part.aliases


def _lasting(part: LoweredPart, limit: Limit) -> Expression:
    """Return the condition that what waits as a part has not waited too long."""
    passed: Expression = Duration()
    if limit.alias is not None:
        begin = part.values[Ref("begin", limit.alias)]
        if begin != OWN_BEGIN:
            passed = Arithmetic("-", Time(2, "end"), older(begin))
    found = tuple([Compare("<=", passed, time) for time in limit.times])
    return found[0] if len(found) == 1 else Or(found)
