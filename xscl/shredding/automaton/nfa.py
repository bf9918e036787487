"""One automaton for all tree patterns: common prefixes of all paths are one state.

YFilter's idea (Diao and Franklin 2003): every chain of steps is a path of
states (`xscl.shredding.automaton.automaton_states`), `//` keeps a state active for everything
below.  Its configurations at the nodes of documents are computed lazily
(`xscl.shredding.automaton.lineage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from xscl.language.syntax import Block, Condition, NameTest, Step
from xscl.shredding.automaton.automaton_states import (
    AutomatonState,
    IndexedPlaces,
    PairEntry,
    PatternPlace,
)
from xscl.shredding.automaton.lineage import Lineage, Lineages
from xscl.shredding.automaton.structure import Structure
from xscl.shredding.automaton.subtree import Subtrees
from xscl.shredding.conditions.constants import QuestionRegistry
from xscl.shredding.conditions.index import ConditionIndex
from xscl.shredding.conditions.unevaluated import ExpressionTallies

_ROOT = Step(NameTest(None, None))  # of the document node, which no step leads to

TIDY = 1_000  # conditions beyond twice those of last time, after which unused ones are forgotten


class Automaton:
    """The shared automaton of all streams; each stream has its own initial state."""

    def __init__(self) -> None:
        self._roots: dict[str, PatternPlace] = {}
        self._entries: dict[int, PairEntry] = {}
        self._questions = QuestionRegistry()
        self._conditions: dict[Condition, Condition] = {}  # equal ones are one object
        self._kept_conditions = 0
        self._lineages = Lineages()
        self.shapes: object = None  # what documents had in common: see `xscl.shredding.batch.shape`
        self.unevaluated = ExpressionTallies()
        self.one_sided = ExpressionTallies()  # expressions that have compared a number with a text
        self.changes = 0  # so far, of whatever kind

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        """Yield the installed pairs of variables."""
        return iter(self._entries)

    # -- Building --------------------------------------------------------------------------

    def add(self, pair: int, first: Block, second: Block, valued: bool) -> None:
        """Install a pair of variables; a second installation replaces the entry.

        Conditions should be in their shortest form: equal ones share one look-up.
        """
        self.remove(pair)
        alone = first.steps[-1].derived is not None
        first = _nodes(first)
        self.add_below(pair, self.place(first), second.steps[len(first.steps) :], valued, alone)

    def place(self, block: Block) -> PatternPlace:
        """Return the place at the end of a block's path; it stays while a pair uses it."""
        return self._along(self._root(block.stream), block.steps)

    def add_below(
        self,
        pair: int,
        upper: PatternPlace,
        steps: Sequence[Step],
        valued: bool,
        alone: bool = False,
    ) -> None:
        """Install a new pair: from a place on, by some further steps.

        A derived step at the end has no place; with `alone` the first variable is derived, too.
        """
        if len(self._conditions) > 2 * self._kept_conditions + TIDY:
            self._tidy()
        derived = steps[-1].derived if steps else None
        steps = steps if derived is None else steps[:-1]
        lower = self._along(upper, steps)
        distance = None if any(step.descendant for step in steps) else len(steps)
        self._enter(PairEntry(pair, upper, lower, distance, valued, derived, alone))

    def _enter(self, entry: PairEntry) -> None:
        """Add an entry at the place of its second variable, and count the use from there up."""
        lower = entry.second
        self._entries[entry.pair] = entry
        lower.entries += (entry,)
        self.changes += 1
        place: PatternPlace | None = lower
        while place is not None:
            place.uses += 1
            place.bundle = None
            place = place.parent
        if lower.structural:
            lower.change()

    def remove(self, pair: int) -> None:
        """Remove a pair, and the states that no pair needs any more."""
        entry = self._entries.pop(pair, None)
        if entry is None:
            return
        lower = entry.second
        lower.entries = tuple(other for other in lower.entries if other is not entry)
        self.changes += 1
        if lower.structural:
            lower.change()
        for place in lower.upward():
            place.uses -= 1
            place.bundle = None
            if not place.uses and place.parent is not None:
                self._leave(place, place.parent)

    def _along(self, place: PatternPlace, steps: Iterable[Step]) -> PatternPlace:
        for step in steps:
            place = self._below(place, step)
        return place

    def _root(self, stream: str) -> PatternPlace:
        place = self._roots.get(stream)
        if place is None:
            place = self._roots[stream] = PatternPlace(AutomatonState(None, _ROOT), None, ())
        return place

    def _below(self, place: PatternPlace, step: Step) -> PatternPlace:
        """Return the place that a step leads to."""
        state, new = place.state.edge(step)
        if new:
            place.change()
        if step.conditions:
            return self._conditional(place, state, step.conditions)
        if place.plain:
            if state.plain is None:
                state.plain = PatternPlace(state, place, ())
                state.places += 1
            return state.plain
        found = place.child(state)
        if found is None:
            found = PatternPlace(state, place, ())
            state.places += 1
            place.attach(found)
        return found

    def _conditional(
        self, parent: PatternPlace, state: AutomatonState, conditions: tuple[Condition, ...]
    ) -> PatternPlace:
        spot = state.spot if parent.plain else _spot_of(parent, state)
        if spot is None:
            spot = IndexedPlaces(parent, state)
            if parent.plain:
                state.spot = spot
            else:
                parent.spots += (spot,)
                parent.deepen(1)
        conditions = tuple([self._conditions.setdefault(one, one) for one in conditions])
        which = tuple(map(id, conditions))
        place = spot.places.get(which)
        if place is None:
            place = spot.places[which] = PatternPlace(state, parent, conditions)
            state.places += 1
            self._index(spot, place).add(self._questions, place)
        return place

    def _index(self, spot: IndexedPlaces, place: PatternPlace) -> ConditionIndex[PatternPlace]:
        """Return the index of a spot that a place belongs to."""
        if place.structural:
            if spot.structural is None:
                spot.structural = ConditionIndex()
            return spot.structural
        if spot.valued is None:
            spot.valued = ConditionIndex()
            if spot.parent.structural:
                spot.parent.change()
        return spot.valued

    def _tidy(self) -> None:
        """Drop the conditions of no place."""
        used = {
            id(condition)
            for entry in self._entries.values()
            for place in entry.second.upward()
            for condition in place.conditions
        }
        self._conditions = {c: c for c in self._conditions.values() if id(c) in used}
        self._kept_conditions = len(self._conditions)

    def _leave(self, place: PatternPlace, parent: PatternPlace) -> None:
        """Unlink an unused place, and its state with the last of its places."""
        state = place.state
        if place is state.plain:
            state.plain = None
        elif not place.conditions:
            parent.detach(place)
        else:
            spot = state.spot if parent.plain else _spot_of(parent, state)
            assert spot is not None, "a place with conditions has a spot"
            del spot.places[tuple(map(id, place.conditions))]
            self._index(spot, place).remove(self._questions, place)
            if not spot.places:
                if parent.plain:
                    state.spot = None
                else:
                    parent.spots = tuple(other for other in parent.spots if other is not spot)
                    parent.deepen(-1)
        state.places -= 1
        if not state.places:
            state.unlink()

    # -- Running ---------------------------------------------------------------------------

    def reads(self, streams: tuple[str, ...]) -> bool:
        """Return True if some pattern reads documents of these streams."""
        return any(root.uses for root in self._read(streams))

    def lineages(self, streams: tuple[str, ...], structure: Structure) -> list[Lineage]:
        """Return the lineage of a document, and that of each of its nodes."""
        return self._lineages.follow(self._read(streams), structure)

    def now(self, streams: tuple[str, ...]) -> int:
        """Return the number of structural changes so far in some streams."""
        roots = self._roots
        return sum([roots[stream].changes for stream in streams if stream in roots])

    @property
    def cleared(self) -> int:
        """The number of times that all lineages were dropped, as they were too many."""
        return self._lineages.cleared

    @property
    def subtrees(self) -> Subtrees:
        """The subtrees of the documents so far."""
        return self._lineages.subtrees

    def _read(self, streams: tuple[str, ...]) -> list[PatternPlace]:
        """Return the places of the streams that some pattern reads."""
        return [self._roots[stream] for stream in streams if stream in self._roots]


def _spot_of(place: PatternPlace, state: AutomatonState) -> IndexedPlaces | None:
    return next((spot for spot in place.spots if spot.state is state), None)


def _nodes(block: Block) -> Block:
    """Return a block without a derived step at its end."""
    if block.steps[-1].derived is None:
        return block
    return replace(block, steps=block.steps[:-1])
