"""The nodes of the algebra: frozen, each with its output schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cep_core.algebra.expressions import TRUE, Expression
from cep_core.algebra.operands import operands
from cep_core.algebra.pattern_tree import PatternTree, Policy, StepMark
from cep_core.events import Schema

RunAggregate: TypeAlias = Literal["COUNT", "SUM", "AVG", "MIN", "MAX"]
Role: TypeAlias = (
    Literal["value", "current", "previous", "first", "last", "start", "first_end", "end"]
    | Literal["LIST", "current_end", "previous_end"]
    | RunAggregate
)
AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "ARGMIN", "ARGMAX")


@dataclass(frozen=True, slots=True)
class Stream:
    """The events of a stream, by name."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Select:
    """σ: rows of the source for which the predicate (over side 2) holds."""

    source: Node
    predicate: Expression
    schema: Schema


@dataclass(frozen=True, slots=True)
class Project:
    """π, ρ and α_g in one: the columns are expressions over side 2, the names are the schema's."""

    source: Node
    columns: tuple[Expression, ...]
    schema: Schema


@dataclass(frozen=True, slots=True)
class Union:
    """Bag union; the names are the left side's."""

    left: Node
    right: Node
    schema: Schema


@dataclass(frozen=True, slots=True)
class Sequence:
    """;θ: side 1 of the predicate is the left row, side 2 the right row.

    Of the right rows that end together those are taken whose column ``rank`` is least; None: all.
    """

    left: Node
    right: Node
    predicate: Expression
    schema: Schema
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Iterate:
    """μ: a left row, and right rows that are added to it one after the other, as an instance.

    An instance has the left row's values, the last right row's, and the aggregates'; its layout is
    the output schema.  ``filter`` (θ), ``rebind`` and ``aggregates`` (F = α_g ∘ σ) read the
    instance as side 1 and the right row as side 2.  ``initial`` has for each attribute after the
    left row's the index of the left row's value with which it starts, None for null.  With
    ``longest`` an instance with a right row is emitted, and ends, when right rows satisfy θ and
    none of them rebinds it.
    """

    left: Node
    right: Node
    filter: Expression
    rebind: Expression
    aggregates: tuple[Expression, ...]
    initial: tuple[int | None, ...]
    schema: Schema
    longest: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of AGGREGATES over ``argument``, which reads side 2; without one it counts rows.

    Nulls and NaN are passed over; without any other value the result is null (COUNT: 0).  ARGMIN
    and ARGMAX give ``argument`` of the row with the least or largest ``by``; among equals the least
    argument that is not null, so that the order of rows does not matter.
    """

    function: str
    argument: Expression | None
    by: Expression | None = None


@dataclass(frozen=True, slots=True)
class GroupAggregate:
    """α: for each row, after its epoch t, its group's aggregates over rows with t1 in (t - w, t].

    The result has t0 = t1 = t.  ``window`` is a constant expression, in ticks.  Without one it is
    β: for each epoch, and each combination of the grouped columns, one row at that instant.
    """

    source: Node
    group_by: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]
    window: Expression | None
    schema: Schema


@dataclass(frozen=True, slots=True)
class WindowJoin:
    """⋈: every pair of a left and a right row with abs(l.t1 - r.t1) <= w and the predicate.

    An event never pairs with itself.  The result spans both rows.
    """

    left: Node
    right: Node
    predicate: Expression
    window: Expression
    schema: Schema


@dataclass(frozen=True, slots=True)
class OuterJoin:
    """JOIN .. ELSE: pairs with lower <= b.t1 - a.t1 <= upper and the predicate, and rows without.

    A row without a partner comes alone where its side, left or right, is in ``alone``, with nulls
    for the other one: a spans [a.t0, a.t1 + max(upper, 0)], b [b.t0, b.t1 - min(lower, 0)].
    Without ``lower`` it is FOLLOWED BY .. ELSE: b begins after a has ended, a.t1 < b.t0, and only
    left rows come alone.  If it is not ``paired`` it is NOT FOLLOWED BY: only left rows without a
    partner, with their own values.  As a ``moment`` it is E@w of NEXT CEP: a row that comes alone
    has no duration, it is the moment a.t1 + upper (section 3.4).
    """

    left: Node
    right: Node
    predicate: Expression
    lower: Expression | None
    upper: Expression
    alone: tuple[bool, bool]
    paired: bool
    moment: bool
    schema: Schema


@dataclass(frozen=True, slots=True)
class Component:
    """A component of a pattern: one row of input number ``input``, or a run (``repeated``)."""

    input: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A value of a pattern, by component: what predicates read and results have.

    ``value`` is attribute ``index`` of a single row.  Of a run, ``current`` is that attribute of
    each row, ``previous`` of the row before it, ``first`` and ``last`` of the first and last row or
    of the one ``offset`` rows behind or before it.  ``start`` is the t0 of the first row,
    ``first_end`` its t1, ``end`` the t1 of the last row, ``current_end`` and ``previous_end`` those
    of the current and previous row.  An aggregate is over a whole run, with ``before`` over the
    rows before the current one; COUNT without ``index`` counts rows.  ``LIST`` has all values.
    """

    component: int
    role: Role
    index: int | None = None
    before: bool = False
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """The options of a pattern beside its tree and its conditions.

    ``window`` bounds last.t1 - first.t1, which is less than it or, if it is ``inclusive``, not
    more.  With ``simultaneous`` an event may begin when the one before it ends.  ``mark`` is the
    mark of steps that have none of their own.  ``partition`` has for each input the columns by
    which its rows are divided, None for an input outside of all partitions.  ``target`` is the
    component x of the policies that skip to first x or last x.  ``spans`` are the durations of
    unordered parts and absences; the tree names each by its index.  An event that satisfies the
    predicate, but fails ``tests``, is not taken, and blocks others as if it were taken.
    """

    window: Expression | None = None
    inclusive: bool = False
    simultaneous: bool = False
    mark: StepMark = "any"
    partition: tuple[tuple[int, ...] | None, ...] = ()
    policy: Policy = "none"
    target: int | None = None
    spans: tuple[Expression, ...] = ()
    tests: Expression = TRUE


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """The matches of a pattern (docs/internals/patterns.md) that the policy of ``rules`` keeps.

    The numbers in ``tree`` are indexes of ``components``.  ``parts`` are values computed from the
    events of a match.  The predicate reads ``parts[j]`` as column j of side 2.  The attributes of
    ``schema`` are the first parts.
    """

    inputs: tuple[Node, ...]
    components: tuple[Component, ...]
    tree: PatternTree
    parts: tuple[Part, ...]
    predicate: Expression
    rules: Rules
    schema: Schema


Node: TypeAlias = (
    Stream
    | Select
    | Project
    | Union
    | Sequence
    | Iterate
    | GroupAggregate
    | WindowJoin
    | OuterJoin
    | PatternMatch
)


def sources_of(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below a node, from left to right."""
    return tuple(operands(node, "Node"))


def expressions_of(node: Node) -> Iterator[Expression]:
    """Yield the expressions of a node, also those of its aggregates, or of its rules."""
    yield from operands(node, "Expression")
    for part in (*operands(node, "Aggregate"), *operands(node, "Rules")):
        yield from operands(part, "Expression")


def streams_of(node: Node) -> dict[str, Stream]:
    """Return the streams that an expression reads, by name, from left to right."""
    if isinstance(node, Stream):
        return {node.name: node}
    found: dict[str, Stream] = {}
    for source in sources_of(node):
        found |= streams_of(source)
    return found
