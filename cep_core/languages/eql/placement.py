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
from typing import assert_never

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


def lifted(pattern: Pattern) -> Pattern:
    """Return a pattern whose exceptions stand above the `;` whose right operand they were."""
    match pattern:
        case Source():
            return pattern
        case Next(left, right):
            return _over(lifted(left), lifted(right), pattern)
        case Either(left, right):
            return replace(pattern, left=lifted(left), right=lifted(right))
        case Except(inner, other):
            return replace(pattern, inner=lifted(inner), other=lifted(other))
        case Plus(inner) | After(inner):
            return replace(pattern, inner=lifted(inner))
        case _:
            assert_never(pattern)


def _over(left: Pattern, right: Pattern, sequence: Next) -> Pattern:
    if isinstance(right, Except):
        return replace(right, inner=_over(left, right.inner, sequence))
    return replace(sequence, left=left, right=right)


def placed(pattern: Pattern, filters: Conditions, tests: Conditions) -> Pattern:
    """Return a pattern with conditions at the operators that evaluate them."""
    match pattern:
        case Source():
            return replace(pattern, filters=(*pattern.filters, *filters, *tests))
        case After(inner):
            return replace(pattern, inner=placed(inner, filters, tests))
        case Next():
            return _placed_next(pattern, filters, tests)
        case Either():
            return _placed_either(pattern, filters, tests)
        case Plus():
            return _placed_plus(pattern, filters, tests)
        case Except(inner, other):
            down, rest = _parted((*filters, *tests), inner)
            across, own = _parted(rest, other)
            return replace(
                pattern,
                inner=placed(inner, *_kinds(down, filters)),
                other=placed(other, *_kinds(across, filters)),
                tests=(*pattern.tests, *own),
            )
        case _:
            assert_never(pattern)


def _placed_next(pattern: Next, filters: Conditions, tests: Conditions) -> Pattern:
    left, right = pattern.left, pattern.right
    left_filters, filters = _parted(filters, left)
    left_tests, tests = _parted(tests, left)
    right_filters, own_filters = _parted(filters, right)
    right_tests, own_tests = _parted(tests, right)
    if not _takes_tests(right):
        kept = [one for one in right_tests if not _belongs_below(one, right)]
        right_tests = tuple(one for one in right_tests if one not in kept)
        own_tests = (*own_tests, *kept)
    return replace(
        pattern,
        left=placed(left, left_filters, left_tests),
        right=placed(right, right_filters, right_tests),
        filters=(*pattern.filters, *own_filters),
        tests=(*pattern.tests, *own_tests),
    )


def _placed_either(pattern: Either, filters: Conditions, tests: Conditions) -> Pattern:
    """Return a union; what both alternatives call by one alias concerns both."""
    sides = pattern.left, pattern.right
    below: list[Conditions] = []
    for one, other in (sides, sides[::-1]):
        own, _ = _parted((*filters, *tests), one)
        known, beside = _all_aliases(one), _all_aliases(other)
        shared = known & beside
        below.append(tuple(c for c in own if not c.aliases & shared or c.aliases <= beside))
    rest = tuple(c for c in (*filters, *tests) if c not in below[0] and c not in below[1])
    return replace(
        pattern,
        left=placed(pattern.left, *_kinds(below[0], filters)),
        right=placed(pattern.right, *_kinds(below[1], filters)),
        tests=(*pattern.tests, *rest),
    )


def _placed_plus(pattern: Plus, filters: Conditions, tests: Conditions) -> Pattern:
    known = aliases_of(pattern.inner)
    own = [one for one in (*filters, *tests) if _looks_back(one) and one.aliases <= known]
    if not _takes_tests(pattern.inner):
        own += [one for one in tests if one not in own and not _belongs_below(one, pattern.inner)]
    down_filters = tuple(one for one in filters if one not in own)
    down_tests = tuple(one for one in tests if one not in own)
    return replace(
        pattern,
        inner=placed(pattern.inner, down_filters, down_tests),
        filters=(*pattern.filters, *(one for one in filters if one in own)),
        tests=(*pattern.tests, *(one for one in tests if one in own)),
    )


def _looks_back(condition: Condition) -> bool:
    """Return True if a condition reads earlier events of a run: PREV, ALL or its duration."""
    read = condition.read
    times = {ref.alias for ref in read if ref.kind in ("begin", "end")}
    return any(ref.kind in ("prev", "all") for ref in read) or (
        len(times) == 1 and times == condition.aliases
    )


def _takes_tests(pattern: Pattern) -> bool:
    """Return True if a right operand has an operator that can fail by itself."""
    return isinstance(pattern, Next | Plus | Except)


def _belongs_below(condition: Condition, pattern: Pattern) -> bool:
    """Return True if a condition belongs to an alternative of a union, or below an @."""
    match pattern:
        case Either(left, right):
            return any(condition.aliases <= _all_aliases(one) for one in (left, right))
        case After():
            return True
        case _:
            return False


def _parted(conditions: Sequence[Condition], pattern: Pattern) -> tuple[Conditions, Conditions]:
    """Return the conditions that read nothing but a pattern, and the others."""
    known = _all_aliases(pattern)
    own = tuple(one for one in conditions if one.aliases <= known)
    return own, tuple(one for one in conditions if one not in own)


def _kinds(conditions: Conditions, filters: Conditions) -> tuple[Conditions, Conditions]:
    """Return conditions as filters and tests again."""
    return (
        tuple(one for one in conditions if one in filters),
        tuple(one for one in conditions if one not in filters),
    )


def _all_aliases(pattern: Pattern) -> frozenset[str]:
    return frozenset(source.alias for source in sources_of(pattern))
