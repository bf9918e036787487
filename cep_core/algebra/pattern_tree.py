"""The tree of a pattern: steps, loops, chains, choices, unordered parts and absences.

docs/internals/patterns.md defines the matches.  Components are numbers; what they read and the
conditions on them belong to the node `PatternMatch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from cep_core.algebra.operands import operands, with_operands

StepMark: TypeAlias = Literal["any", "next", "nearest", "strict", "partition"]
LoopPace: TypeAlias = Literal["all", "greedy", "reluctant", "longest", "every"]
Policy: TypeAlias = Literal[
    "none", "to next", "to first", "to last", "past last", "first only", "restart", "newest"
]


@dataclass(frozen=True, slots=True)
class One:
    """One event of a component; without a mark, the mark of the pattern (`Rules`) holds.

    No event of the components ``until`` may be between this event and the one taken before.
    """

    component: int
    mark: StepMark | None = None
    until: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A pattern, ``least`` to ``most`` times; ``mark`` is that of all but the first time.

    An event of the component ``until`` ends it.  ``number`` tells loops of one pattern apart;
    ``begun`` says that some events of it have been taken.  At the end of a pattern a match with the
    pace ``longest`` waits until the loop can take no more; with ``every`` only the last time is
    part of the match.
    """

    inner: PatternTree
    least: int
    most: int | None = None
    pace: LoopPace = "all"
    mark: StepMark | None = None
    until: int | None = None
    number: int = 0
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """A pattern whose parts follow one another."""

    parts: tuple[PatternTree, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A pattern that matches what one of its parts, the alternatives, matches."""

    parts: tuple[PatternTree, ...]


@dataclass(frozen=True, slots=True)
class Unordered:
    """One event of each component, in any order; ``span`` is None or the number of its bound.

    The bound is ``Rules.spans[span]``.
    """

    components: tuple[int, ...]
    span: int | None = None
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Absent:
    """No event of a component between what comes before and after.

    A ``spanning`` absence stands behind an unordered part and covers that part, too.  ``time`` is
    the place of its own duration in the spans of `Rules`; None: it covers the gap between the
    events around it.  One that is ``beside`` the absence before it begins together with that.
    """

    component: int
    spanning: bool = False
    time: int | None = None
    beside: bool = False


PatternTree: TypeAlias = One | Loop | Chain | Choice | Unordered | Absent


def stops_of(tree: PatternTree) -> tuple[int, ...]:
    """Return the components in the `until` of the root of a tree, () if it has none."""
    match tree:
        case One(until=stops):
            return stops
        case Loop(until=stop) if stop is not None:
            return (stop,)
        case _:
            return ()


def components_aside(tree: PatternTree) -> set[int]:
    """Return the components of a tree that are in no match: absent ones, and those in `until`."""
    absent = {one.component for one in trees_in(tree) if isinstance(one, Absent)}
    return absent.union(*map(stops_of, trees_in(tree)))


def renumbered(tree: PatternTree, places: Mapping[int, int]) -> PatternTree:
    """Return a tree with other numbers of components; ``places`` maps old numbers to new ones."""
    tree = with_operands(tree, "PatternTree", lambda part: renumbered(part, places))
    match tree:
        case Absent(component):
            return replace(tree, component=places[component])
        case One(component, until=stops):
            until = tuple([places[one] for one in stops])
            return replace(tree, component=places[component], until=until)
        case Unordered(components):
            return replace(tree, components=tuple([places[one] for one in components]))
        case Loop(until=stop) if stop is not None:
            return replace(tree, until=places[stop])
        case _:
            return tree


def components_in(tree: PatternTree) -> set[int]:
    """Return the components of a tree, absent ones included, without those in `until`."""
    found: set[int] = set()
    for one in trees_in(tree):
        match one:
            case One(component) | Absent(component):
                found.add(component)
            case Unordered(components):
                found.update(components)
            case _:
                pass
    return found


def trees_in(tree: PatternTree) -> Iterator[PatternTree]:
    """Yield a tree and all below it, the upper first."""
    yield tree
    for part in operands(tree, "PatternTree"):
        yield from trees_in(part)
