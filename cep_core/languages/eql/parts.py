"""Patterns of EQL while they become algebra: where each value stands, and when an event was.

A `LoweredPart` is a pattern's expression with the place of every value that is read above it.
A row's own t0 and t1 are times that need no column; what would get lost when rows are joined is
kept as a column.  The *history* of a row is its vector of timestamps from the last to the first
(Schultz-Møller, Migliavacca and Pietzuch 2009, section 3.2): by it the first of several
simultaneous successors is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple, TypeAlias

from cep_core.algebra import Node
from cep_core.algebra.expressions import (
    FALSE,
    TRUE,
    And,
    Arithmetic,
    Column,
    Compare,
    Constant,
    Every,
    Expression,
    Item,
    Items,
    Latest,
    Leaf,
    Missing,
    Not,
    Or,
    Time,
    rewrite,
    walk,
)
from cep_core.algebra.patterns import handles_null
from cep_core.dataflow.clock import END
from cep_core.errors import AlgebraError, Span
from cep_core.rewrite.pattern import Condition, Kind, Ref

OWN_BEGIN, OWN_END = Time(2, "begin"), Time(2, "end")
Place: TypeAlias = Callable[[Ref], "Resolved | None"]


class Piece(NamedTuple):
    """Some timestamps of a history: one, or a tuple of them."""

    expression: Expression
    many: bool = False


@dataclass(frozen=True, slots=True)
class LoweredPart:
    """A pattern as algebra; ``values`` and ``history`` are over side 2.

    ``labels`` are names for the columns.  Events of the ``iterated`` aliases are many; those of the
    ``optional`` ones need not be there, and ``mixed`` ones are iterated among others.
    """

    node: Node
    values: Mapping[Ref, Expression]
    history: tuple[Piece, ...]
    labels: tuple[str, ...]
    aliases: frozenset[str]
    iterated: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    mixed: frozenset[str] = frozenset()


class Resolved(NamedTuple):
    """A resolved reference: a value, or each item of a tuple; void unless it is ``present``.

    Without what is to be present, a comparison is vacuously true.
    """

    expression: Expression
    many: bool = False
    present: Expression | None = None


def older(expression: Expression) -> Expression:
    """Return an expression over side 2 as one over side 1."""

    def change(part: Expression) -> Expression:
        if isinstance(part, Column | Time) and part.side == 2:
            return replace(part, side=1)
        return part

    return rewrite(expression, change)


def shifted(expression: Expression, by: int) -> Expression:
    """Return an expression whose columns of side 2 stand further to the right."""

    def change(part: Expression) -> Expression:
        if isinstance(part, Column) and part.side == 2:
            return replace(part, index=part.index + by)
        return part

    return rewrite(expression, change)


def rank_of(history: tuple[Piece, ...]) -> Expression | None:
    """Return the rank of rows that end together: their timestamps before the last.

    Of two histories that agree as far as the shorter one goes, the longer is the first.
    """
    earlier = history[1:] if history[0].expression == OWN_END else history
    if not any(piece.many for piece in earlier):
        found = [piece.expression for piece in earlier]
        return found[0] if len(found) == 1 else Items(tuple(found))
    return joined((*earlier, Piece(Constant(END))))


def joined(history: tuple[Piece, ...]) -> Expression:
    """Return a history as one tuple."""
    made: Expression | None = None
    single: list[Expression] = []
    for piece in (*history, Piece(Items(()), True)):
        if not piece.many:
            single.append(piece.expression)
            continue
        for one in ([Items(tuple(single))] if single else []) + [piece.expression]:
            if one != Items(()):
                made = one if made is None else Arithmetic("+", made, one)
        single = []
    return Items(()) if made is None else made


def stored(ref: Ref, part: LoweredPart) -> frozenset[Ref]:
    """Return the references that a part has to keep so that one can be read above it."""
    match ref.kind:
        case "prev" | "field" if ref.alias in part.mixed:
            return frozenset((_as(ref, "all"),))
        case "all" if ref.alias in part.iterated:
            return frozenset((ref,))
        case "prev" | "all" if ref.alias in part.optional:
            return frozenset((_as(ref, "field"), Ref("begin", ref.alias)))
        case "prev" | "all":
            return frozenset((_as(ref, "field"),))
        case _:
            return frozenset((ref,))


def all_stored(refs: Iterable[Ref], part: LoweredPart) -> frozenset[Ref]:
    """Return the references that a part has to keep so that some can be read above it."""
    own = [ref for ref in refs if ref.alias in part.aliases]
    return frozenset().union(*(stored(ref, part) for ref in own))


def read_before(ref: Ref, part: LoweredPart, get: Callable[[Ref], Expression]) -> Resolved:
    """Resolve a reference to events that were detected before; ``get`` finds their values."""
    match ref.kind:
        case "prev" if ref.alias in part.mixed:
            run = get(_as(ref, "all"))
            return Resolved(Latest(run, ref.of), False, run)
        case "field" if ref.alias in part.mixed:
            return Resolved(Latest(get(_as(ref, "all")), ref.of))
        case "all" if ref.alias in part.iterated:
            return Resolved(get(_as(ref, "all")), True)
        case "prev" | "all":
            optional = ref.alias in part.optional
            present = get(Ref("begin", ref.alias)) if optional else None
            return Resolved(get(_as(ref, "field")), False, present)
        case _:
            return Resolved(get(ref))


def read_now(ref: Ref, part: LoweredPart, values: Mapping[Ref, Expression]) -> Resolved | None:
    """Resolve a reference to the current event; None if it reads earlier events.

    Raises KeyError if the part has no event of the alias.
    """
    if ref.alias not in part.aliases:
        raise KeyError(ref.alias)
    if ref.kind in ("prev", "all") and ref.alias not in part.iterated:
        return None
    return read_before(ref, part, values.__getitem__)


def now(part: LoweredPart) -> Place:
    """Resolve references where the events of one part occur."""
    return lambda ref: read_now(ref, part, part.values)


def across(left: LoweredPart, right: LoweredPart) -> Place:
    """Resolve references in a pair: the left part is side 1, the right part side 2."""

    def place(ref: Ref) -> Resolved | None:
        if ref.alias in left.aliases:
            return read_before(ref, left, lambda one: older(left.values[one]))
        return read_now(ref, right, right.values)

    return place


def within(left: LoweredPart, right: LoweredPart, made: LoweredPart) -> Place:
    """Resolve references in the row that was made of a pair."""

    def place(ref: Ref) -> Resolved | None:
        if ref.alias in left.aliases:
            return read_before(ref, left, made.values.__getitem__)
        return read_now(ref, right, made.values)

    return place


def bound(conditions: Sequence[Condition], place: Place) -> tuple[Expression, ...]:
    """Return conditions with their references resolved."""
    return tuple(_Binding(one, place).bound(one.expression) for one in conditions)


class _Binding:
    """Resolves the references of one condition."""

    def __init__(self, condition: Condition, place: Place) -> None:
        self._refs = condition.refs
        self._place = place
        self._names = count()
        known = condition.refs
        self._handles_null = handles_null(condition.expression, lambda at: known[at].kind == "prev")

    def bound(self, node: Expression) -> Expression:
        match node:
            case And(items):
                return And(tuple(map(self.bound, items)), span=node.span)
            case Or(items):
                return Or(tuple(map(self.bound, items)), span=node.span)
            case Not(item):
                return Not(self.bound(item), span=node.span)
            case _:
                return self._atom(node)

    def _atom(self, node: Expression) -> Expression:
        """Return an atom over columns; over tuples it holds for every item."""
        found: dict[int, Resolved] = {}
        for part in walk(node):
            if isinstance(part, Column) and part.index not in found:
                place = self._place_of(part)
                null = self._handles_null and self._refs[part.index].kind == "prev"
                if place is None and not null:
                    return TRUE
                if place is None or null:
                    place = Resolved(Missing() if place is None else place.expression)
                found[part.index] = place
        groups: dict[str, list[tuple[int, int, Expression]]] = {}
        put: dict[int, Expression] = {}
        for index, place in found.items():
            put[index] = place.expression
            if place.many:
                name = next(self._names)
                put[index] = Item(name, self._refs[index].of)
                alias = self._refs[index].alias
                groups.setdefault(alias, []).append((index, name, place.expression))
        made = rewrite(node, lambda part: _put(part, put))
        for parts in groups.values():
            names = tuple(name for _, name, _ in parts)
            made = Every(names, tuple(one for _, _, one in parts), made, span=node.span)
        absent = [_is_absent(one, next(self._names)) for one in found.values() if one.present]
        return Or((*absent, made), span=node.span) if absent else made

    def _place_of(self, part: Column) -> Resolved | None:
        try:
            return self._place(self._refs[part.index])
        except KeyError:
            raise unseen(self._refs[part.index].alias, part.span) from None


def unseen(alias: str, span: Span | None) -> AlgebraError:
    """Return the error for an alias that is not part of what is detected."""
    return AlgebraError(
        f"{alias} is not part of what is detected here",
        hint=f"what ends a detection can be compared inside its \\ only: ( ... \\ {alias} )",
        span=span,
    )


def _put(part: Expression, put: Mapping[int, Expression]) -> Expression:
    if not isinstance(part, Column):
        return part
    found = put[part.index]
    return replace(found, span=part.span) if isinstance(found, Leaf) else found


def _is_absent(found: Resolved, name: int) -> Expression:
    """Return the condition that there is nothing to compare."""
    assert found.present is not None
    if isinstance(found.expression, Latest):
        return Every((name,), (found.present,), FALSE)
    return Not(Compare("=", found.present, found.present))


def _as(ref: Ref, kind: Kind) -> Ref:
    return ref._replace(kind=kind)
