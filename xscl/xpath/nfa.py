"""One automaton for all tree patterns: common prefixes of all paths are one state.

YFilter's idea (Diao and Franklin 2003): every chain of steps is a path of
states, `//` keeps a state active for everything below.  The automaton is run
as a lazily built deterministic one: a *configuration* stands for the states
reached at a node, and the transition for a name is computed once.

States know structure only.  Chains that differ in their conditions share their
states, and are different `Place`s there; which of the places of a state match
a node is found by an index of their conditions (`xscl.xpath.index`).

A change costs what it touches.  A new edge takes away only the transitions that
it may lead out of; and what else has been computed for a structure of
documents (`xscl.xpath.shape`) is brought up to date by the `log` of changes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from xscl.language.syntax import Block, Condition, NameTest, Operand, Step
from xscl.xpath.constants import Questions
from xscl.xpath.index import Index
from xscl.xpath.names import Key, Symbol, key_of, keys_of
from xscl.xpath.structure import is_structural

_ROOT = Step(NameTest(None, None))  # of the document node, which no step leads to

MEMO_LIMIT = 50_000  # transitions kept before the memory starts afresh
MEMBERS_LIMIT = 5_000_000  # states in all configurations, likewise
SEVERAL = 8  # children that are kept without a dictionary
LOG_LIMIT = 1_000  # changes after which a structure is rather worked out again


class State:
    """A state: where a chain of axes and name tests leads, and what is asked for there.

    `plain` is the place without conditions there and above, `spot` the places
    that have conditions of their own, but none above.
    """

    __slots__ = (
        *("below", "children", "configurations", "entries", "parent", "places"),
        *("plain", "spot", "step"),
    )

    def __init__(self, parent: State | None, step: Step) -> None:
        self.parent = parent
        self.step = step
        self.children: dict[Key, State] | None = None
        self.below: dict[Key, State] | None = None  # the same behind `//`
        self.plain: Place | None = None
        self.spot: Spot | None = None
        self.places = 0
        self.entries = 0
        self.configurations: list[Configuration] | None = None  # that it is in


class Place:
    """One step of a pattern: a state, the conditions there, and the place of the step before.

    `plain` says that there are no conditions from here up, `structural` that
    those which there are ask for the document's structure only.  The places
    below a plain one are found by their states; those below another are here.
    """

    __slots__ = (
        *("bundle", "children", "conditions", "deeper", "entries", "parent", "plain", "spots"),
        *("state", "structural", "uses"),
    )

    def __init__(
        self, state: State, parent: Place | None, conditions: tuple[Condition, ...]
    ) -> None:
        self.state = state
        self.parent = parent
        self.conditions = conditions
        self.plain: bool = not conditions and (parent is None or parent.plain)
        self.structural: bool = (parent is None or parent.structural) and all(
            map(is_structural, conditions)
        )
        self.entries: tuple[Entry, ...] = ()
        self.children: tuple[Place, ...] | dict[State, Place] = ()  # without own conditions
        self.spots: tuple[Spot, ...] = ()
        self.deeper = 0  # spots here and below
        self.bundle: Bundle | None = None  # made when it is first asked for
        self.uses = 0

    def child(self, state: State) -> Place | None:
        """Return the place of a state that is a child."""
        if isinstance(self.children, dict):
            return self.children.get(state)
        return next((child for child in self.children if child.state is state), None)

    def attach(self, child: Place) -> None:
        """Take a place as a child."""
        if not isinstance(self.children, dict):
            self.children += (child,)
            if len(self.children) <= SEVERAL:
                return
            self.children = {child.state: child for child in self.children}
        self.children[child.state] = child

    def detach(self, child: Place) -> None:
        """Let a child go."""
        if isinstance(self.children, dict):
            del self.children[child.state]
        else:
            self.children = tuple(other for other in self.children if other is not child)

    def deepen(self, by: int) -> None:
        """Count a spot here, and so below all places above."""
        place: Place | None = self
        while place is not None:
            place.deeper += by
            place = place.parent

    def children_at(self, states: Mapping[State, object]) -> Iterable[Place]:
        """Return the children, without most of those whose state is none of these."""
        children = self.children
        if isinstance(children, dict):
            return [children[state] for state in children.keys() & states.keys()]
        return children

    def bundled(self) -> Bundle:
        """Return what is asked for wherever the place matches."""
        if self.bundle is None:
            places = [self]
            for place in places:
                places.extend(
                    place.children.values() if isinstance(place.children, dict) else place.children
                )
            entries = [entry for place in places for entry in place.entries]
            self.bundle = Bundle(
                tuple(entry for entry in entries if entry.derived is None),
                tuple(entry for entry in entries if entry.derived is not None),
            )
        return self.bundle

    def path_from(self, ancestor: Place) -> tuple[Place, ...]:
        """Return the places from this one up to, and without, an ancestor."""
        path: list[Place] = []
        place: Place | None = self
        while place is not ancestor:
            assert place is not None, "the first variable of a pair is above the second"
            path.append(place)
            place = place.parent
        return tuple(path)


class Spot:
    """The places with conditions of one state below one place, by what they demand."""

    __slots__ = ("parent", "places", "state", "structural", "valued")

    def __init__(self, parent: Place, state: State) -> None:
        self.parent = parent
        self.state = state
        self.places: dict[tuple[int, ...], Place] = {}  # by what conditions they have
        self.structural: Index[Place] | None = None
        self.valued: Index[Place] | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A pair of variables whose bindings are wanted.

    `distance` is the number of steps between the two where none is `//`, so
    that the upper node is known at once.  With `derived` the second variable
    stands for the values of that operand at the node, and so does the first,
    if `alone`.
    """

    pair: int
    first: Place
    second: Place
    distance: int | None
    valued: bool
    derived: Operand | None = None
    alone: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """What is asked for at a place and below it, where nothing more is demanded of values."""

    entries: tuple[Entry, ...]
    derived: tuple[Entry, ...]


@dataclass(slots=True, eq=False)
class Configuration:
    """The states reached at a node, and those that stay active below it."""

    reached: tuple[State, ...]
    active: tuple[State, ...]
    next: dict[Symbol, Configuration] = field(default_factory=dict)


Change: TypeAlias = "State | Entry | Spot | int"
"""What a known structure has to learn: what is new, or a pair that is not asked for any more."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What an automaton is made of: places by their numbers, those of the streams first.

    A place is the number of the one above and its step; an entry the pair, its
    lower and its upper place, and the last three parts of `Entry`.
    """

    streams: list[str]
    places: list[tuple[int, Step]]
    entries: list[tuple[int, int, int, bool, Operand | None, bool]]


class Automaton:
    """The shared automaton of all streams; each stream has its own initial state."""

    def __init__(self) -> None:
        self._roots: dict[str, Place] = {}
        self._entries: dict[int, Entry] = {}
        self._questions = Questions()
        self._conditions: dict[Condition, Condition] = {}  # equal ones are one object
        self._kept_conditions = 0
        self._transitions = Transitions()
        self.shapes: object = None  # what documents had in common: see `xscl.xpath.shape`
        self._log: list[Change] = []
        self._logged = 0
        self._changes = 0
        self._token = secrets.token_hex(8)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        """Yield the pairs of variables that are asked for."""
        return iter(self._entries)

    @property
    def version(self) -> str:
        """The name of what the automaton is now: no other one, of any process, has it."""
        return f"{self._token}-{self._changes}"

    @property
    def now(self) -> int:
        """The number of changes that known structures have had to learn so far."""
        return self._logged

    def since(self, then: int) -> Sequence[Change] | None:
        """Return the changes since a number of them; None if they are forgotten."""
        missing = self._logged - then
        if missing > len(self._log):
            return None
        return self._log[len(self._log) - missing :]

    # -- Building --------------------------------------------------------------------------

    def add(self, pair: int, first: Block, second: Block, valued: bool) -> None:
        """Ask for the bindings of a pair of variables; asking again replaces the entry.

        Conditions had better be in their shortest form: equal ones are looked up together.
        """
        self.remove(pair)
        alone = first.steps[-1].derived is not None
        first = _nodes(first)
        self.add_below(pair, self.place(first), second.steps[len(first.steps) :], valued, alone)

    def place(self, block: Block) -> Place:
        """Return the place where a block's path ends; it is kept as long as a pair uses it."""
        return self._along(self._root(block.stream), block.steps)

    def add_below(
        self, pair: int, upper: Place, steps: Sequence[Step], valued: bool, alone: bool = False
    ) -> None:
        """Ask for the bindings of a pair that is not asked for: from a place on, some steps more.

        A derived step at the end stands for no place; `alone` says that the first variable is as
        derived as the second.
        """
        self._tidy()
        derived = steps[-1].derived if steps else None
        lower = self._along(upper, steps if derived is None else steps[:-1])
        self._enter(pair, upper, lower, valued, derived, alone)

    def _enter(
        self,
        pair: int,
        upper: Place,
        lower: Place,
        valued: bool,
        derived: Operand | None,
        alone: bool,
    ) -> None:
        path = lower.path_from(upper)
        distance = None if any(place.state.step.descendant for place in path) else len(path)
        entry = Entry(pair, upper, lower, distance, valued, derived, alone)
        self._entries[pair] = entry
        lower.entries += (entry,)
        lower.state.entries += 1
        self._changes += 1
        current: Place | None = lower
        while current is not None:
            current.uses += 1
            current.bundle = None
            current = current.parent
        if lower.structural:
            self._learn(entry)

    def remove(self, pair: int) -> None:
        """Stop asking for a pair; states that nothing needs any more disappear."""
        entry = self._entries.pop(pair, None)
        if entry is None:
            return
        lower = entry.second
        lower.entries = tuple(other for other in lower.entries if other is not entry)
        lower.state.entries -= 1
        self._changes += 1
        if lower.structural:
            self._learn(pair)
        current: Place | None = lower
        while current is not None:
            current.uses -= 1
            current.bundle = None
            if not current.uses and current.parent is not None:
                self._leave(current, current.parent)
            current = current.parent

    def _learn(self, change: Change) -> None:
        """Note what known structures have to learn."""
        if len(self._log) >= LOG_LIMIT:
            self._log.clear()
        self._log.append(change)
        self._logged += 1

    def _along(self, place: Place, steps: Iterable[Step]) -> Place:
        for step in steps:
            place = self._below(place, step)
        return place

    def _root(self, stream: str) -> Place:
        place = self._roots.get(stream)
        if place is None:
            place = self._roots[stream] = Place(State(None, _ROOT), None, ())
        return place

    def _below(self, place: Place, step: Step) -> Place:
        """Return the place that a step leads to."""
        state, new = self._transitions.edge(place.state, step)
        if new:
            self._learn(state)
        if step.conditions:
            return self._conditional(place, state, step.conditions)
        if place.plain:
            if state.plain is None:
                state.plain = Place(state, place, ())
                state.places += 1
            return state.plain
        found = place.child(state)
        if found is None:
            found = Place(state, place, ())
            state.places += 1
            place.attach(found)
        return found

    def _conditional(self, parent: Place, state: State, conditions: tuple[Condition, ...]) -> Place:
        spot = state.spot if parent.plain else _spot_of(parent, state)
        if spot is None:
            spot = Spot(parent, state)
            if parent.plain:
                state.spot = spot
            else:
                parent.spots += (spot,)
                parent.deepen(1)
        conditions = tuple([self._conditions.setdefault(one, one) for one in conditions])
        which = tuple(map(id, conditions))
        place = spot.places.get(which)
        if place is None:
            place = spot.places[which] = Place(state, parent, conditions)
            state.places += 1
            self._index(spot, place).add(self._questions, place)
        return place

    def _index(self, spot: Spot, place: Place) -> Index[Place]:
        """Return the index of a spot that a place belongs to."""
        if place.structural:
            if spot.structural is None:
                spot.structural = Index()
            return spot.structural
        if spot.valued is None:
            spot.valued = Index()
            if spot.parent.structural:
                self._learn(spot)
        return spot.valued

    def _tidy(self) -> None:
        """Forget the conditions that no place has, if there may be many."""
        if len(self._conditions) <= 2 * self._kept_conditions + LOG_LIMIT:
            return
        used = {
            id(condition)
            for entry in self._entries.values()
            for place in entry.second.path_from(self._roots_of(entry.second))
            for condition in place.conditions
        }
        self._conditions = {c: c for c in self._conditions.values() if id(c) in used}
        self._kept_conditions = len(self._conditions)

    def _roots_of(self, place: Place) -> Place:
        while place.parent is not None:
            place = place.parent
        return place

    def _leave(self, place: Place, parent: Place) -> None:
        """Unlink a place that nothing uses, and its state with the last of its places."""
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
            self._transitions.unlink(state)

    # -- Elsewhere -------------------------------------------------------------------------

    def parts(self) -> Parts:
        """Return what the automaton is made of, for another process."""
        numbers: dict[int, int] = {}
        streams: list[str] = []
        places: list[tuple[int, Step]] = []
        for stream, root in self._roots.items():
            numbers[id(root)] = len(streams)
            streams.append(stream)

        def number(place: Place) -> int:
            above = [place]
            while id(above[-1]) not in numbers:
                assert above[-1].parent is not None, "the places of all streams are numbered"
                above.append(above[-1].parent)
            for one in reversed(above[:-1]):
                assert one.parent is not None
                step = replace(one.state.step, conditions=one.conditions)
                places.append((numbers[id(one.parent)], step))
                numbers[id(one)] = len(streams) + len(places) - 1
            return numbers[id(place)]

        entries = [
            (e.pair, number(e.second), number(e.first), e.valued, e.derived, e.alone)
            for e in self._entries.values()
        ]
        return Parts(streams, places, entries)

    @classmethod
    def of(cls, parts: Parts) -> Automaton:
        """Return the automaton that has these parts."""
        automaton = cls()
        places = [automaton._root(stream) for stream in parts.streams]
        for above, step in parts.places:
            places.append(automaton._below(places[above], step))
        for pair, lower, upper, valued, derived, alone in parts.entries:
            automaton._enter(pair, places[upper], places[lower], valued, derived, alone)
        return automaton

    # -- Running ---------------------------------------------------------------------------

    def start(self, streams: tuple[str, ...]) -> tuple[Configuration, tuple[Place, ...]] | None:
        """Return where a document of these streams starts, None if nothing reads them."""
        roots = tuple(root for root in self.roots(streams) if root.uses)
        if not roots:
            return None
        return self._transitions.start([root.state for root in roots]), roots

    def roots(self, streams: tuple[str, ...]) -> list[Place]:
        """Return the places of streams, as far as some pattern has read them."""
        return [self._roots[stream] for stream in streams if stream in self._roots]

    def step(self, here: Configuration, symbol: Symbol) -> Configuration:
        """Return the configuration at a child or attribute of a node."""
        return here.next.get(symbol) or self._transitions.step(here, symbol)


class Transitions:
    """The edges between states, and the configurations that documents have met so far."""

    def __init__(self) -> None:
        self._configurations: dict[tuple[frozenset[int], frozenset[int]], Configuration] = {}
        self._count = 0
        self._members = 0
        self._states = 0
        self._dead = 0  # states that are unlinked, and may be in configurations

    def edge(self, state: State, step: Step) -> tuple[State, bool]:
        """Return the state that a step leads to, and whether there was none so far."""
        edges = state.below if step.descendant else state.children
        key = key_of(step.attribute, step.test)
        known = None if edges is None else edges.get(key)
        if known is not None:
            return known, False
        self._outdate(state, step.descendant, key)
        target = State(state, replace(step, conditions=(), variable=None, derived=None))
        if edges is None:
            edges = {}
            if step.descendant:
                state.below = edges
            else:
                state.children = edges
        edges[key] = target
        self._states += 1
        return target, True

    def unlink(self, state: State) -> None:
        """Take a state away; configurations may keep it, but nothing is asked for there."""
        assert state.parent is not None, "no place of a stream's own state is ever left"
        edges = state.parent.below if state.step.descendant else state.parent.children
        assert edges is not None
        del edges[key_of(state.step.attribute, state.step.test)]
        if not edges and not state.step.descendant:
            state.parent.children = None
        self._states -= 1
        self._dead += 1
        if self._dead > self._states + LOG_LIMIT:
            self._clear()

    def _outdate(self, state: State, descendant: bool, key: Key) -> None:
        """Forget the transitions that a new edge may change."""
        for configuration in state.configurations or ():
            if descendant and state.below is None:  # it was not active so far
                configuration.active += (state,)
                configuration.next.clear()
                continue
            for symbol in [s for s in configuration.next if key in keys_of(s)]:
                del configuration.next[symbol]

    def start(self, states: list[State]) -> Configuration:
        return self._configuration(states, [s for s in states if s.below is not None])

    def step(self, here: Configuration, symbol: Symbol) -> Configuration:
        self._count += 1
        if self._count > MEMO_LIMIT or self._members > MEMBERS_LIMIT:
            self._clear()
            here.next.clear()
        there = here.next[symbol] = self._move(here, symbol)
        return there

    def _clear(self) -> None:
        for configuration in self._configurations.values():
            for state in (*configuration.reached, *configuration.active):
                state.configurations = None
        self._configurations.clear()
        self._count = self._members = self._dead = 0

    def _move(self, here: Configuration, symbol: Symbol) -> Configuration:
        reached: dict[int, State] = {}
        keys = keys_of(symbol)
        for state in here.reached:
            if state.children is not None:
                for key in keys:
                    if (target := state.children.get(key)) is not None:
                        reached[id(target)] = target
        for state in here.active:
            assert state.below is not None, "an active state has edges behind `//`"
            for key in keys:
                if (target := state.below.get(key)) is not None:
                    reached[id(target)] = target
        active = {id(state): state for state in here.active}
        active.update({key: state for key, state in reached.items() if state.below is not None})
        return self._configuration(list(reached.values()), list(active.values()))

    def _configuration(self, reached: list[State], active: list[State]) -> Configuration:
        key = frozenset(map(id, reached)), frozenset(map(id, active))
        found = self._configurations.get(key)
        if found is None:
            found = Configuration(tuple(reached), tuple(active))
            self._configurations[key] = found
            self._members += len(reached) + len(active)
            for state in {*reached, *active}:
                if state.configurations is None:
                    state.configurations = []
                state.configurations.append(found)
        return found


def _spot_of(place: Place, state: State) -> Spot | None:
    return next((spot for spot in place.spots if spot.state is state), None)


def _nodes(block: Block) -> Block:
    """Return a block without a derived step at its end."""
    if block.steps[-1].derived is None:
        return block
    return replace(block, steps=block.steps[:-1])
