"""Partitions of a pattern: the attributes in which the events of each match agree.

An *equivalence test* asks for equal values of one attribute of every component (Wu, Diao and Rizvi
2006, section 2.2.1), whether it is written [id] or as a chain of equalities.  Its value is the
partition of an event.  The conditions that the partitions answer are not tested again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, assert_never

from cep_core.algebra import PatternMatch
from cep_core.algebra.expressions import Column, Compare
from cep_core.algebra.pattern_tree import Absent, Chain, Choice, Loop, One, PatternTree, Unordered
from cep_core.algebra.patterns import Conjunct

Keys: TypeAlias = Mapping[int, tuple[int, ...]]  # by component: key columns, as many for each


class Partitions(NamedTuple):
    """The columns of each component whose values are the partition, and the answered conditions.

    Events of a component without columns meet the matches of all partitions.
    """

    keys: Keys
    answered: frozenset[Conjunct]


NO_PARTITIONS = Partitions({}, frozenset())


def partitions_of(
    pattern: PatternMatch,
    conjuncts: Sequence[Conjunct],
    absent: Collection[int],
    stops: Collection[int],
    *,
    plain: bool,
    instant: bool,
) -> Partitions:
    """Return the partitions of a pattern; no match has an event of ``absent`` or of ``stops``.

    A ``plain`` pattern is a sequence without marks.  In an ``instant`` one a run may take several
    events of one epoch, whatever their partition.
    """
    equalities, aside = (
        [conjunct for conjunct in conjuncts if _is_equality(conjunct)],
        (*absent, *stops),
    )
    occurring = [place for place in range(len(pattern.components)) if place not in aside]
    certain = _certain(pattern.tree)
    declared = {c: pattern.rules.partition[pattern.components[c].input] for c in occurring}
    keys = {c: columns for c, columns in declared.items() if columns}
    if len(keys) < len(occurring):
        if certain != set(occurring):
            return NO_PARTITIONS
        among = [equality for equality in equalities if equality.components <= certain]
        keys = _tested(among, occurring, plain)
    sizes = {len(columns) for columns in keys.values()}
    if len(occurring) < 2 and not any(one.repeated for one in pattern.components):
        return NO_PARTITIONS  # a match has a single event: nothing has to agree
    if not keys or len(sizes) != 1:
        return NO_PARTITIONS
    places: dict[tuple[int, int | None], int] = {
        (component, column): place
        for component, columns in keys.items()
        if component in certain
        for place, column in enumerate(columns)
    }
    found = [
        (equality, [places.get((p.component, p.index)) for p in equality.parts])
        for equality in equalities
    ]
    answered = [] if instant else [one for one, at in found if _is_answered(one, at)]
    for component in aside:
        columns: dict[int, int] = {}
        tests: list[Conjunct] = []
        for one, at in found:
            place = next((place for place in at if place is not None), None)
            own = [part.index for part in one.parts if part.component == component]
            if place is not None and len(own) == 1 and own[0] is not None and place not in columns:
                columns[place] = own[0]
                tests.append(one)
        if len(columns) in sizes:
            keys[component] = tuple([columns[place] for place in range(len(columns))])
            # An absent event of another key ends no run: the partition has tested the equalities.
            answered += tests if component in absent else []
    met = [component for component in keys if component not in absent]
    if not plain and not (keys.keys() >= {*stops} and _are_of_inputs(pattern, keys, met)):
        return NO_PARTITIONS
    return Partitions(keys, frozenset(answered))


def _are_of_inputs(pattern: PatternMatch, keys: Keys, components: Iterable[int]) -> bool:
    """Return True if the components that read one input have the same columns in ``keys``.

    Then a row is in one partition, whichever component it is for.
    """
    columns: dict[int, tuple[int, ...]] = {}
    return all(
        columns.setdefault(pattern.components[component].input, keys[component]) == keys[component]
        for component in components
    )


def _is_answered(conjunct: Conjunct, places: Sequence[int | None]) -> bool:
    """Return True if the partition answers an equality: both components have it at one place.

    ``places`` has for each side its index in the columns of the partition, None if it is no column.
    An equality within a repeated component is not answered: its first event may be a match alone.
    """
    return None not in places and len(set(places)) == 1 and len(conjunct.components) == 2


def _tested(
    equalities: Iterable[Conjunct], occurring: Sequence[int], plain: bool
) -> dict[int, tuple[int, ...]]:
    """Return by component its columns in the tests that make an attribute equal in all components.

    The components are those ``occurring``; the columns of all are in the order of the tests.
    Unless the pattern is ``plain`` a component counts only as equal to an earlier one: an event
    that a later one refuses would still end a step with the mark next or nearest.
    """
    first, *others = occurring
    ways = [way for equality in equalities for way in (equality.parts, equality.parts[::-1])]
    tests: list[dict[int, int]] = []
    for column in dict.fromkeys(one.index for one, _ in ways if one.component == first):
        known = {first: column or 0}
        for _ in others:
            for one, other in ways:
                grows = known.get(one.component) == one.index and other.component not in known
                if grows and other.role != "first" and (plain or one.component < other.component):
                    known[other.component] = other.index or 0
        if len(known) == len(occurring):
            tests.append(known)
    return {one: tuple([test[one] for test in tests]) for one in occurring} if tests else {}


def _certain(tree: PatternTree) -> set[int]:
    """Return the components of which each match has an event."""
    match tree:
        case One(component):
            return {component}
        case Chain(parts):
            return set().union(*map(_certain, parts))
        case Unordered(components):
            return set(components)
        case Loop(inner, least):
            return _certain(inner) if least else set()
        case Choice() | Absent():
            return set()
        case _:
            assert_never(tree)


def _is_equality(conjunct: Conjunct) -> bool:
    """Return True if a condition is an equality of two attributes that every event has to satisfy.

    False for one between two repeated components: it holds of the latest event of each only.
    """
    match conjunct.node:
        case Compare("=", Column(), Column()):
            one, other = conjunct.parts
            roles = {one.role, other.role}
            if one.component == other.component:
                return roles == {"current", "first"} and one.index == other.index
            several = one.role == other.role == "current"
            plain = roles <= {"value", "current", "first"} and not (one.offset or other.offset)
            return plain and not several
        case _:
            return False
