"""The automaton of a pattern: what may be taken next, derived from the tree.

A state is the rest of the tree.  A *move* takes one event of a component and leads to another
state.  Marks and paces say which moves end when an event comes in between, and which move is
preferred to which.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import count, islice
from typing import NamedTuple, TypeAlias, TypeVar, assert_never

from cep_core.algebra import pattern_tree
from cep_core.algebra.operands import with_operands
from cep_core.errors import AlgebraError

MOST_STATES = 1_000
MOST_WAYS = 500  # the most ways out of one state, or through a tree without taking an event
Absences: TypeAlias = tuple[pattern_tree.Absent, ...]
_EMPTY = pattern_tree.Chain(())
T = TypeVar("T")


class Look(NamedTuple):
    """A component whose next event a state can take: alone, or ``among`` an unordered part.

    In that part it is the first event or a ``later`` one; ``span`` is the number of the part's
    bound in `Rules.spans`.  Where EVERY begins again, ``forgets`` has its components: their earlier
    events leave the match.
    """

    component: int
    among: bool = False
    later: bool = False
    span: int | None = None
    forgets: frozenset[int] = frozenset()


class _Way(NamedTuple):
    """A way to take one event: the loops that it stays in or leaves, and the absences before it."""

    look: Look
    mark: pattern_tree.StepMark | None
    stays: frozenset[int] = frozenset()
    leaves: frozenset[int] = frozenset()
    until: tuple[tuple[int, bool], ...] = ()  # (component in `until`, loop has begun)
    passes: Absences = ()
    own: int | None = None  # the number of last `passes` that are of the match; None: all


class Move(NamedTuple):
    """A move of a run out of a state, by taking one event.

    ``look`` is the index, in the state's looks, of the component that takes the event; ``target``
    is the number of the next state.  ``before`` are the indexes of the moves that are preferred if
    they can take the event, too; ``stops`` the components of UNTIL that end the move's loops;
    ``passes`` the absences before the event.  It ``waits`` if one of these has a time of its own.
    The first ``forgotten`` of ``passes`` are no part of the match.
    """

    look: int
    target: int
    before: tuple[int, ...]
    stops: tuple[int, ...]
    passes: Absences
    waits: bool
    forgotten: int


class PatternState(NamedTuple):
    """A state: what is left of a pattern, as the moves that a run in it can make.

    ``looks`` are the components that can take the next event.  Sets of moves are masks, with bit i
    for ``moves[i]``.  ``ended_by`` has for each move those that end when it could have taken an
    event that the run did not take.  ``strict`` are the moves that any event in between ends,
    ``partition`` those that one of the same partition ends; ``stopped_by`` are (component, the
    moves that its events end).  ``ends`` has for each way to the end of the pattern that takes no
    event the absences on it.  The end is not reached while a move of ``longest`` may be made.
    """

    looks: tuple[Look, ...]
    moves: tuple[Move, ...]
    ended_by: tuple[int, ...]
    strict: int
    partition: int
    stopped_by: tuple[tuple[int, int], ...]
    ends: tuple[Absences, ...]
    longest: int

    @property
    def grown(self) -> int:
        """The bit of `Run.dead`, behind two for each move, that says that a longest run grew."""
        return 1 << 2 * len(self.moves)


@lru_cache(64)
def automaton_of(
    tree: pattern_tree.PatternTree, mark: pattern_tree.StepMark
) -> tuple[PatternState, ...]:
    """Return the states of a pattern, the start first; raises AlgebraError above `MOST_STATES`.

    ``mark`` is the mark of steps that have none of their own.
    """
    numbered = _numbered(tree, count())
    paces = {
        one.number: one.pace
        for one in pattern_tree.trees_in(numbered)
        if isinstance(one, pattern_tree.Loop)
    }
    places: dict[pattern_tree.PatternTree, int] = {numbered: 0}
    states: list[PatternState] = []
    order = [numbered]
    for left in order:  # the loop appends to it
        ways = _few(dict.fromkeys(islice(_ways(left), MOST_WAYS + 1)))
        for _, rest in ways:
            if rest not in places:
                places[rest] = len(order)
                order.append(rest)
        if len(order) > MOST_STATES:
            raise AlgebraError(
                f"the pattern has more than {MOST_STATES} states",
                hint="use smaller numbers of repetitions",
            )
        ends = tuple(empties(left)) if states else ()  # the empty word is no match
        states.append(_state(ways, places, paces, mark, ends))
    return tuple(states)


def _numbered(tree: pattern_tree.PatternTree, numbers: Iterator[int]) -> pattern_tree.PatternTree:
    """Return a tree in which each loop has the next of ``numbers``, inner loops first."""
    tree = with_operands(tree, "PatternTree", lambda part: _numbered(part, numbers))
    if isinstance(tree, pattern_tree.Loop):
        return replace(tree, number=next(numbers), begun=False)
    return tree


def _state(
    ways: list[tuple[_Way, pattern_tree.PatternTree]],
    places: dict[pattern_tree.PatternTree, int],
    paces: dict[int, pattern_tree.LoopPace],
    mark: pattern_tree.StepMark,
    ends: tuple[Absences, ...],
) -> PatternState:
    """Return the state that has ``ways`` out, each with the rest of the tree behind it.

    ``places`` has the numbers of states by their trees, ``paces`` those of loops by number.
    ``mark`` is that of the pattern; ``ends`` has the last absences of each way to end here.
    """
    looks = list(dict.fromkeys(way.look for way, _ in ways))
    ended_by, moves = [0] * len(ways), []
    strict = partition = longest = 0
    stopped_by: dict[int, int] = {}
    for number, (way, rest) in enumerate(ways):
        bit, own = 1 << number, way.mark or mark
        before = [at for at, (other, _) in enumerate(ways) if _rather(way, other, paces)]
        between = set(before)
        if own == "next":
            between.add(number)
        elif own == "nearest":
            between.update(range(len(ways)))
        for at in between:
            ended_by[at] |= bit
        strict |= bit * (own == "strict")
        partition |= bit * (own == "partition")
        for component, begun in way.until:
            if begun:
                stopped_by[component] = stopped_by.get(component, 0) | bit
        if ends and any(paces[loop] == "reluctant" for loop in way.stays):
            before.append(number)  # a reluctant run takes nothing where the pattern is complete
        if ends and any(paces[loop] == "longest" for loop in way.stays):
            longest |= bit
        stops = tuple(dict.fromkeys(component for component, _ in way.until))
        waits = any(one.time is not None for one in way.passes)
        look, target = looks.index(way.look), places[rest]
        forgotten = 0 if way.own is None else len(way.passes) - way.own
        moves.append(Move(look, target, tuple(before), stops, way.passes, waits, forgotten))
    return PatternState(
        *(tuple(looks), tuple(moves), tuple(ended_by), strict, partition),
        *(tuple(stopped_by.items()), ends, longest),
    )


def _rather(way: _Way, other: _Way, paces: dict[int, pattern_tree.LoopPace]) -> bool:
    """Return True if a loop that one way stays in and the other leaves prefers ``other``.

    ``paces`` has the pace of each loop by its number.
    """
    return any(paces[loop] in ("greedy", "longest") for loop in way.leaves & other.stays) or any(
        paces[loop] == "reluctant" for loop in way.stays & other.leaves
    )


def _few(found: Collection[T]) -> list[T]:
    """Return ways as a list; raises AlgebraError if they are more than `MOST_WAYS`."""
    if len(found) > MOST_WAYS:
        raise AlgebraError(
            f"the pattern may go on in more than {MOST_WAYS} ways",
            hint="use fewer optional parts and alternatives",
        )
    return list(found)


# -- derivation ------------------------------------------------------------------------------


def empties(tree: pattern_tree.PatternTree) -> list[Absences]:
    """Return the absences on each way through a tree that takes no event; [] without such a way."""
    match tree:
        case pattern_tree.One():
            return []
        case pattern_tree.Loop(inner, least):
            return [()] if least <= 0 else empties(inner)
        case pattern_tree.Chain(parts):
            found: list[Absences] = [()]
            for part in parts:
                more = empties(part)
                found = _few(dict.fromkeys((*one, *other) for one in found for other in more))
            return found
        case pattern_tree.Choice(parts):
            return _few(dict.fromkeys(way for part in parts for way in empties(part)))
        case pattern_tree.Unordered(components):
            return [] if components else [()]
        case pattern_tree.Absent():
            return [(tree,)]
        case _:
            assert_never(tree)


def _ways(tree: pattern_tree.PatternTree) -> Iterator[tuple[_Way, pattern_tree.PatternTree]]:
    """Yield each way to take the next event of a tree, with the rest of the tree."""
    match tree:
        case pattern_tree.One(component, mark, until):
            stops = tuple([(one, True) for one in until])
            yield _Way(Look(component), mark, until=stops), _EMPTY
        case pattern_tree.Loop(inner, least, most):
            if most == 0:
                return
            less = None if most is None else most - 1
            more = replace(tree, least=max(least - 1, 0), most=less, begun=True)
            for way, rest in _ways(inner):
                yield _in_loop(way, tree), _chained(rest, more)
        case pattern_tree.Chain(parts):
            if not parts:
                return
            first, others = parts[0], parts[1:]
            for way, rest in _ways(first):
                yield way, _chained(rest, *others)
            passes = empties(first)
            if not passes:
                return
            for way, rest in _ways(_chained(*others)):
                leaves = way.leaves | _loops(first)
                for passed in passes:
                    yield way._replace(leaves=leaves, passes=(*passed, *way.passes)), rest
        case pattern_tree.Choice(parts):
            for part in parts:
                yield from _ways(part)
        case pattern_tree.Unordered(components, span, begun):
            for component in components:
                left = tuple(one for one in components if one != component)
                look = Look(component, True, begun, span)
                yield _Way(look, "any"), replace(tree, components=left, begun=True)
        case pattern_tree.Absent():
            return
        case _:
            assert_never(tree)


def _in_loop(way: _Way, loop: pattern_tree.Loop) -> _Way:
    mark = loop.mark if loop.begun and loop.mark is not None else way.mark
    until = () if loop.until is None else ((loop.until, loop.begun),)
    if loop.begun and loop.pace == "every":
        look = way.look._replace(forgets=frozenset(pattern_tree.components_in(loop.inner)))
        way = way._replace(look=look, own=len(way.passes))
    return way._replace(mark=mark, stays=way.stays | {loop.number}, until=(*way.until, *until))


def _chained(*parts: pattern_tree.PatternTree) -> pattern_tree.PatternTree:
    """Return a chain of those ``parts`` that may still take or need an event (see `_over`).

    A part that is a chain itself is replaced by its parts.  A single part is returned as it is.
    """
    made: list[pattern_tree.PatternTree] = []
    for part in parts:
        made += part.parts if isinstance(part, pattern_tree.Chain) else [part]
    kept = [one for one in made if not _over(one)]
    return kept[0] if len(kept) == 1 else pattern_tree.Chain(tuple(kept))


def _over(tree: pattern_tree.PatternTree) -> bool:
    """Return True if a tree neither takes nor needs any more events."""
    match tree:
        case pattern_tree.Loop(most=0) | pattern_tree.Unordered(components=()):
            return True
        case _:
            return False


def _loops(tree: pattern_tree.PatternTree) -> frozenset[int]:
    """Return the numbers of the loops that a match leaves when it goes on behind a tree."""
    match tree:
        case pattern_tree.Loop(inner, _, most):
            return frozenset() if most == 0 else _loops(inner) | {tree.number}
        case pattern_tree.Chain(parts):
            return frozenset().union(*map(_loops, parts))
        case _:
            return frozenset()
