"""Disjunctive normal form: a predicate as a union of conjunctions.

A join with OR is the union of the joins of its disjuncts, each of which has
equalities of its own to be found by.  NOT is moved inwards to the atoms by De
Morgan's laws and stays there: the complement of `x1/a = x4/a` is not
`x1/a != x4/a`, because a path may select several nodes or none.  Only of two
plain variables, each of which is one node, is NOT = the same as !=.

A conjunction is a bit mask: atom i, numbered by its first appearance, is bit
2i, and its complement is bit 2i + 1.  One conjunction absorbs another if its
mask is contained in the other's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeAlias, TypeGuard, assert_never

from xscl.errors import QueryError
from xscl.language.faults import fault
from xscl.language.syntax import And, Call, Comparison, Not, Or, Path, Predicate, VariablePath

MAX_DISJUNCTS = 64

Atom: TypeAlias = "Comparison | Call"
_MIRRORED = {">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Literal:
    """An atom, or (not `positive`) its complement."""

    atom: Atom
    positive: bool = True


def disjuncts(
    predicate: Predicate, source: str = "", unbound: frozenset[str] = frozenset()
) -> tuple[tuple[Literal, ...], ...]:
    """Return the predicate as OR of ANDs of literals, both in the order of the text.

    `unbound` are variables that may be bound to nothing, as after ELSE: for
    them NOT = is not the same as !=.

    No disjunct implies another by its literals alone or contradicts itself, so
    the result is empty for a predicate that never holds (`p AND NOT p`), and
    one empty disjunct for one that is `true`.  Raises QueryError where there
    are more than 64, for the whole or for a part of it.
    """
    atoms = _Atoms(source, unbound)
    return tuple(atoms.literals(mask) for mask in sorted(atoms.masks(predicate), key=_bits))


@dataclass(slots=True)
class _Atoms:
    """The atoms of a predicate, numbered; two spellings of one comparison are one atom."""

    source: str
    unbound: frozenset[str]
    _numbers: dict[object, int] = field(default_factory=dict)
    _atoms: list[Atom] = field(default_factory=list)

    def masks(self, predicate: Predicate, *, positive: bool = True) -> tuple[int, ...]:
        """Return the conjunctions of a predicate or of its complement."""
        match predicate:
            case Not(part):
                return self.masks(part, positive=not positive)
            case And(parts) | Or(parts):
                found = [self.masks(part, positive=positive) for part in parts]
                if isinstance(predicate, And) is positive:
                    return reduce(lambda a, b: self._both(a, b, predicate), found, (0,))
                return self._least((mask for masks in found for mask in masks), predicate)
            case Comparison() | Call():
                return (self._mask(predicate, positive),)
            case _:
                assert_never(predicate)

    def literals(self, mask: int) -> tuple[Literal, ...]:
        """Return the literals of a conjunction."""
        return tuple(self._literal(bit) for bit in _bits(mask))

    def _both(self, left: Iterable[int], right: Iterable[int], where: Predicate) -> tuple[int, ...]:
        rights = tuple(right)
        return self._least((one | two for one in left for two in rights), where)

    def _least(self, masks: Iterable[int], where: Predicate) -> tuple[int, ...]:
        """Return the masks that no other absorbs and that do not contradict themselves.

        What is contained in a mask is a smaller number and looked at before, so that those kept
        are never dropped again.
        """
        positives = ((1 << 2 * len(self._atoms)) - 1) // 3
        kept: list[int] = []
        for mask in sorted(set(masks)):
            if mask & mask >> 1 & positives or any(mask & one == one for one in kept):
                continue
            if len(kept) == MAX_DISJUNCTS:
                raise self._too_many(where)
            kept.append(mask)
        return tuple(kept)

    def _mask(self, atom: Atom, positive: bool) -> int:
        """Return the mask of one literal; that of `x != y` is the complement of `x = y`."""
        if self._is_plain(atom) and atom.operator == "!=":
            atom, positive = replace(atom, operator="="), not positive
        number = self._numbers.setdefault(_key(atom), len(self._atoms))
        if number == len(self._atoms):
            self._atoms.append(atom)
        return 1 << (2 * number + (not positive))

    def _literal(self, bit: int) -> Literal:
        atom = self._atoms[bit // 2]
        if bit % 2 and self._is_plain(atom) and atom.operator == "=":
            return Literal(replace(atom, operator="!="))
        return Literal(atom, not bit % 2)

    def _is_plain(self, atom: Atom) -> TypeGuard[Comparison]:
        """Whether this is = or != between two variables that are bound to one node each."""
        return (
            isinstance(atom, Comparison)
            and atom.operator in ("=", "!=")
            and all(
                isinstance(side, VariablePath)
                and side.path == Path()
                and side.variable not in self.unbound
                for side in (atom.left, atom.right)
            )
        )

    def _too_many(self, where: Predicate) -> QueryError:
        return fault(
            self.source,
            where.span,
            f"the predicate has more than {MAX_DISJUNCTS} alternatives once its ORs are "
            "multiplied out",
            "subscribe to the alternatives one by one, or move conditions on one document "
            "into its block",
        )


def _key(atom: Atom) -> object:
    """Return what is equal for all spellings of a comparison: `x = y` and `y = x`."""
    match atom:
        case Comparison("=" | "!=" as operator, left, right):
            return operator, frozenset((left, right))
        case Comparison(">" | ">=" as operator, left, right):
            return _MIRRORED[operator], right, left
        case Comparison(operator, left, right):
            return operator, left, right
        case Call():
            return atom


def _bits(mask: int) -> tuple[int, ...]:
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)
