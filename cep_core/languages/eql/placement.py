"""The placement of EQL's conditions and exceptions at the operators of a pattern.

WHERE says nothing of operators: a condition belongs to the lowest one whose pattern has all of its
aliases (Schultz-Møller, Migliavacca and Pietzuch 2009, section 3.5).  There FILTER(p) skips what
does not satisfy p, and p alone ends the detection; where nothing is detected yet, both skip.

``X;(Y\\Z)`` means ``(X;Y)\\Z`` (section 4.3): Z ends what waits for Y, which is X.  So exceptions
are moved above the `;` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from cep_core.algebra.operands import with_operands
from cep_core.rewrite.pattern import (
    After,
    Condition,
    Conditions,
    Either,
    Except,
    Next,
    Pattern,
    Plus,
    Source,
    aliases_of,
    sources_of,
)


class Qualification(NamedTuple):
    """A condition of WHERE: a filter, or a test that ends the detection."""

    condition: Condition
    is_filter: bool


Qualifications: TypeAlias = tuple[Qualification, ...]


def lifted(pattern: Pattern) -> Pattern:
    """Return a pattern whose exceptions stand above the `;` whose right operand they were."""
    whole = with_operands(pattern, "Pattern", lifted)
    return _over(whole.right, whole) if isinstance(whole, Next) else whole


def _over(right: Pattern, sequence: Next) -> Pattern:
    """Return a `;` with another right operand, below the exceptions of that operand."""
    if isinstance(right, Except):
        return replace(right, inner=_over(right.inner, sequence))
    return replace(sequence, right=right)


def placed(pattern: Pattern, given: Sequence[Qualification]) -> Pattern:
    """Return a pattern with conditions at the operators that evaluate them."""
    match pattern:
        case Source():
            return replace(pattern, filters=(*pattern.filters, *_conditions(given)))
        case After(inner):
            return replace(pattern, inner=placed(inner, given))
        case Next():
            return _placed_next(pattern, given)
        case Either():
            return _placed_either(pattern, given)
        case Plus():
            return _placed_plus(pattern, given)
        case Except(inner, other):
            down, rest = _parted(given, inner)
            across, own = _parted(rest, other)
            return replace(
                pattern,
                inner=placed(inner, down),
                other=placed(other, across),
                tests=(*pattern.tests, *_conditions(own)),
            )


def _placed_next(pattern: Next, given: Sequence[Qualification]) -> Pattern:
    left, right = pattern.left, pattern.right
    below_left, rest = _parted(given, left)
    below_right, own = _parted(rest, right)
    kept = [one for one in below_right if _is_kept_above(one, right)]
    below_right = _without(below_right, kept)
    whole = replace(pattern, left=placed(left, below_left), right=placed(right, below_right))
    return _evaluating(whole, (*own, *kept))


def _placed_either(pattern: Either, given: Sequence[Qualification]) -> Pattern:
    """Return a union; what both alternatives call by one alias concerns both."""
    sides = pattern.left, pattern.right
    below: list[Qualifications] = []
    for one, other in (sides, sides[::-1]):
        own, _ = _parted(given, one)
        beside = _all_aliases(other)
        shared = _all_aliases(one) & beside
        read = [(each, each.condition.aliases) for each in own]
        below.append(tuple([c for c, aliases in read if not aliases & shared or aliases <= beside]))
    rest = _without(given, (*below[0], *below[1]))
    return replace(
        pattern,
        left=placed(pattern.left, below[0]),
        right=placed(pattern.right, below[1]),
        tests=(*pattern.tests, *_conditions(rest)),
    )


def _placed_plus(pattern: Plus, given: Sequence[Qualification]) -> Pattern:
    inner = pattern.inner
    known = aliases_of(inner)
    own = [
        one
        for one in given
        if (_looks_back(one.condition) and one.condition.aliases <= known)
        or _is_kept_above(one, inner)
    ]
    whole = replace(pattern, inner=placed(inner, _without(given, own)))
    return _evaluating(whole, own)


def _evaluating(pattern: Next | Plus, own: Sequence[Qualification]) -> Pattern:
    """Return an operator with more filters and tests of its own."""
    return replace(
        pattern,
        filters=(*pattern.filters, *[one.condition for one in own if one.is_filter]),
        tests=(*pattern.tests, *[one.condition for one in own if not one.is_filter]),
    )


def _looks_back(condition: Condition) -> bool:
    """Return True if a condition reads earlier events of a run: PREV, ALL or its duration."""
    read = condition.read
    times = {ref.alias for ref in read if ref.kind in ("begin", "end")}
    return any(ref.kind in ("prev", "all") for ref in read) or (
        len(times) == 1 and times == condition.aliases
    )


def _is_kept_above(one: Qualification, operand: Pattern) -> bool:
    """Return True for a test of an operand that has no operator which can fail by itself.

    A condition of an alternative of a union, or of what is below an @, belongs to the operand.
    """
    if one.is_filter:
        return False
    match operand:
        case Next() | Plus() | Except() | After():
            return False
        case Either(left, right):
            aliases = one.condition.aliases
            return not any(aliases <= _all_aliases(side) for side in (left, right))
        case Source():
            return True


def _parted(
    given: Sequence[Qualification], pattern: Pattern
) -> tuple[Qualifications, Qualifications]:
    """Return the conditions that read nothing but a pattern, and the others."""
    known = _all_aliases(pattern)
    own = tuple([one for one in given if one.condition.aliases <= known])
    return own, _without(given, own)


def _without(given: Sequence[Qualification], some: Sequence[Qualification]) -> Qualifications:
    return tuple([one for one in given if one not in some])


def _conditions(given: Sequence[Qualification]) -> Conditions:
    return tuple([one.condition for one in given])


def _all_aliases(pattern: Pattern) -> frozenset[str]:
    return frozenset(source.alias for source in sources_of(pattern))
