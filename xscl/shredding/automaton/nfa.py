"""One automaton for all tree patterns: common prefixes of all paths are one state.

YFilter's idea (Diao and Franklin 2003): every chain of steps is a path of
states (`xscl.shredding.automaton.automaton_states`), `//` keeps a state active for everything
below.  Its configurations at the nodes of documents are computed lazily
(`xscl.shredding.automaton.lineage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from templates.model.relations import Pair
from xscl.language.constants import Constant
from xscl.language.syntax import NameTest, Operand, Step
from xscl.shredding.automaton.automaton_states import (
    AutomatonState,
    IndexedPlaces,
    PairEntry,
    PatternPlace,
)
from xscl.shredding.automaton.lineage import Lineage, Lineages
from xscl.shredding.automaton.pattern import FORMS, StepForm, steps_of, stream_of
from xscl.shredding.automaton.structure import Structure
from xscl.shredding.conditions.constants import QuestionRegistry
from xscl.shredding.conditions.unevaluated import ExpressionTallies

_ROOT = Step(NameTest(None, None))  # stands for the document node, to which no step leads


class Automaton:
    """The shared automaton of all streams; each stream has its own initial state."""

    def __init__(self) -> None:
        self._roots: dict[str, PatternPlace] = {}
        self._entries: dict[int, PairEntry] = {}
        self._questions = QuestionRegistry()
        self._places: dict[str, PatternPlace] = {}  # by definition: the places with conditions
        self.known = Lineages()  # lineages and subtrees of the documents so far
        self.shapes: Any = None  # the cache of shapes, see `xscl.shredding.batch.shape`
        self.unevaluated = ExpressionTallies()
        self.one_sided = ExpressionTallies()  # expressions that have compared a number with a text
        self.changes = 0  # entries (pairs of variables) added and removed so far

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers of the installed pairs of variables."""
        return iter(self._entries)

    # -- Building --------------------------------------------------------------------------

    def install(self, pairs: Iterable[Pair]) -> None:
        """Install pairs of variables, in place of those that have the same numbers.

        Of several pairs with one number the last is installed.
        """
        distinct: dict[int, Pair] = {}
        for pair in pairs:  # all of them first: the last pair of a place unlinks it
            self.remove(pair.number)
            distinct[pair.number] = pair
        for number, first, second, valued in distinct.values():
            stream = stream_of(first)
            root = self._roots.get(stream)
            if root is None:
                root = self._roots[stream] = PatternPlace(AutomatonState(None, _ROOT), None)
            upper, alone = self._places.get(first), None
            if upper is None:
                upper, _, alone = self._along(root, first, len(stream))
            # The second definition is the first with more steps, or equal to it, and derived.
            lower, distance, derived = self._along(upper, second, len(first))
            derived, is_alone = derived or alone, alone is not None
            self._enter(PairEntry(number, upper, lower, distance, valued, derived, is_alone))

    def _enter(self, entry: PairEntry) -> None:
        """Add an entry at the place of its second variable; count a use there and above."""
        lower = entry.second
        self._entries[entry.pair] = entry
        lower.entries += (entry,)
        self.changes += 1
        for place in lower.upward():
            place.uses += 1
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
            if not place.uses and place.parent is not None:
                self._leave(place, place.parent)

    def _along(
        self, place: PatternPlace, definition: str, at: int
    ) -> tuple[PatternPlace, int | None, Operand | None]:
        """Follow a definition from the offset `at`, up to which it leads to `place`.

        Return the place at its end, the number of steps from `place` (None if one is `//`), and the
        operand whose values the variable stands for (None if it stands for nodes).  A place that is
        made here stays while a pair uses it.
        """
        distance: int | None = 0
        for step in steps_of(definition, at):
            at += len(step)
            form, constants = FORMS.find(step)
            if form.derived is not None:
                return place, distance, form.derived(constants)
            state, new = place.state.edge(form.step)
            if new:
                place.change()
            if form.count:
                text = definition[:at]
                known = self._places.get(text)
                place = known or self._conditional(place, state, form, constants, text)
            else:
                place = self._unconditional(place, state)
            distance = None if distance is None or form.step.descendant else distance + 1
        return place, distance, None

    def _unconditional(self, parent: PatternPlace, state: AutomatonState) -> PatternPlace:
        """Return the place of `state` below the place `parent`, without own conditions."""
        if parent.plain:
            if state.plain is None:
                state.plain = PatternPlace(state, parent)
                state.places += 1
            return state.plain
        found = parent.children.get(state)
        if found is None:
            found = PatternPlace(state, parent)
            state.places += 1
            parent.children = parent.children or {}  # `_NONE` is shared: not changed
            parent.children[state] = found
        return found

    def _conditional(
        self,
        parent: PatternPlace,
        state: AutomatonState,
        form: StepForm,
        constants: Sequence[Constant],
        text: str,
    ) -> PatternPlace:
        """Return a new place of `state` below the place `parent`, with the conditions of a form.

        `constants` are those of the conditions.  `text` is the definition up to these conditions,
        by which the place is found again.
        """
        spot = state.spot if parent.plain else _spot_of(parent, state)
        if spot is None:
            spot = IndexedPlaces(parent, state)
            if parent.plain:
                state.spot = spot
            else:
                parent.spots += (spot,)
                parent.deepen(1)
        place = self._places[text] = PatternPlace(state, parent, form, constants, text)
        state.places += 1
        if parent.structural and not place.structural and not spot.valued:
            parent.change()
        spot.index_of(place).add(self._questions, place)
        return place

    def _leave(self, place: PatternPlace, parent: PatternPlace) -> None:
        """Unlink an unused place from `parent`, and its state with the last of its places."""
        state = place.state
        if place is state.plain:
            state.plain = None
        elif place.form is None:
            del parent.children[state]
        else:
            spot = state.spot if parent.plain else _spot_of(parent, state)
            assert spot is not None, "a place with conditions has a spot"
            del self._places[place.text]
            spot.index_of(place).remove(self._questions, place)
            if not spot.structural and not spot.valued:
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
        """Return the lineage of a document, then those of its nodes in ascending order."""
        return self.known.follow(self._read(streams), structure)

    def now(self, streams: tuple[str, ...]) -> int:
        """Return the number of structural changes so far in some streams."""
        roots = self._roots
        return sum([roots[stream].changes for stream in streams if stream in roots])

    def _read(self, streams: tuple[str, ...]) -> list[PatternPlace]:
        """Return the root places of those of the streams that some pattern reads."""
        return [self._roots[stream] for stream in streams if stream in self._roots]


def _spot_of(place: PatternPlace, state: AutomatonState) -> IndexedPlaces | None:
    return next((spot for spot in place.spots if spot.state is state), None)
