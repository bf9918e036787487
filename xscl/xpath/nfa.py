"""One automaton for all tree patterns: common prefixes of all paths are one state.

YFilter's idea (Diao and Franklin 2003): every chain of steps is a path of
states, `//` keeps a state active for everything below.  The automaton is run
as a lazily built deterministic one: a *configuration* stands for the states
reached at a node, and the transition for a name is computed once.

States know structure only.  The conditions of patterns are kept beside them,
in `Place`s: chains that differ in their conditions share their states.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from xscl.language.syntax import Block, Compare, Condition, Exists, NameTest, Operand, Path, Step

_ROOT = Step(NameTest(None, None))  # of the document node, which no step leads to

Symbol: TypeAlias = str  # a name in Clark notation, that of an attribute behind an `@`

MEMO_LIMIT = 50_000  # configurations and transitions kept before the memory starts afresh


class State:
    """A state: where a chain of axes and name tests leads, and what is asked for there."""

    __slots__ = ("below", "children", "entries", "guarded", "places")

    def __init__(self) -> None:
        self.children: dict[tuple[bool, NameTest], State] = {}  # by attribute?, test
        self.below: dict[tuple[bool, NameTest], State] = {}  # the same behind `//`
        self.places: dict[tuple[Place, tuple[Condition, ...]], Place] = {}
        self.entries: dict[int, Entry] = {}
        self.guarded: Guarded | None = None  # made from `entries` when it is first needed


class Place:
    """One step of a pattern: a state, the conditions there, and the place of the step before."""

    __slots__ = ("parent", "plain", "state", "step", "uses")

    def __init__(self, state: State, parent: Place | None, step: Step) -> None:
        self.state = state
        self.parent = parent
        self.step = step
        self.plain: bool = not step.conditions and (parent is None or parent.plain)
        self.uses = 0

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return self.step.conditions

    def path_from(self, ancestor: Place) -> tuple[Place, ...]:
        """Return the places from this one up to, and without, an ancestor."""
        path: list[Place] = []
        place: Place | None = self
        while place is not ancestor:
            assert place is not None, "the first variable of a pair is above the second"
            path.append(place)
            place = place.parent
        return tuple(path)


@dataclass(frozen=True, slots=True)
class Entry:
    """A pair of variables whose bindings are wanted.

    `path` are the places between the two, lowest first; `distance` is its
    length where it has no `//`, so that the upper node is known at once.  With
    `derived` the second variable stands for the values of that operand at the
    node, and so does the first, if `alone`.
    """

    pair: int
    first: Place
    second: Place
    path: tuple[Place, ...]
    distance: int | None
    valued: bool
    derived: Operand | None = None
    alone: bool = False

    @property
    def plain(self) -> bool:
        """Whether a document's structure alone says what is bound."""
        return self.second.plain and self.derived is None


@dataclass(frozen=True, slots=True)
class Guarded:
    """The entries of a state that have conditions, so that few have to be tried.

    An entry whose pattern demands that a path has a constant value is found by
    that value: `by_value` maps the state where the path starts, and the path,
    to the entries of each constant.  The others have to be tried one by one.
    """

    by_value: dict[tuple[State, Path], dict[str, list[Entry]]]
    others: list[Entry]


def guard(state: State) -> Guarded:
    """Return the entries of a state that have conditions, by the values that they demand."""
    if state.guarded is None:
        by_value: dict[tuple[State, Path], dict[str, list[Entry]]] = {}
        others: list[Entry] = []
        for entry in state.entries.values():
            demanded = None if entry.second.plain else _demanded(entry.second)
            if demanded is not None:
                where, path, value = demanded
                by_value.setdefault((where, path), {}).setdefault(value, []).append(entry)
            elif not entry.plain:
                others.append(entry)
        state.guarded = Guarded(by_value, others)
    return state.guarded


def _demanded(place: Place) -> tuple[State, Path, str] | None:
    """Return a state, a path from there, and the value it must have for a place to match."""
    current: Place | None = place
    while current is not None:
        for condition in current.conditions:
            found = _equality(condition)
            if found is not None:
                return current.state, *found
        current = current.parent
    return None


def _equality(condition: Condition) -> tuple[Path, str] | None:
    """Return path and constant of a condition like `./a[./b = 'c']`, if it says no more."""
    match condition:
        case Compare(path, "=", str(value)):
            return path, value
        case Exists(Path((Step(conditions=(only,)) as step,), None)):
            inner = _equality(only)
            if inner is None:
                return None
            path, value = inner
            return replace(path, steps=(replace(step, conditions=()), *path.steps)), value
        case _:
            return None


@dataclass(slots=True, eq=False)
class Configuration:
    """The states reached at a node, and those that stay active below it."""

    reached: tuple[State, ...]
    active: tuple[State, ...]
    hits: tuple[State, ...]
    next: dict[Symbol, Configuration] = field(default_factory=dict)


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
        self._configurations: dict[tuple[frozenset[int], frozenset[int]], Configuration] = {}
        self._transitions = 0
        self.shapes: dict[object, object] = {}  # stage 1 remembers here what a change outdates
        self._changes = 0
        self._token = secrets.token_hex(8)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def version(self) -> str:
        """The name of what the automaton is now: no other one, of any process, has it."""
        return f"{self._token}-{self._changes}"

    # -- Building --------------------------------------------------------------------------

    def add(self, pair: int, first: Block, second: Block, valued: bool) -> None:
        """Ask for the bindings of a pair of variables; asking again replaces the entry."""
        self.remove(pair)
        derived = second.steps[-1].derived
        alone = first.steps[-1].derived is not None
        first, second = _nodes(first), _nodes(second)
        lower = self._place(second)
        upper = lower
        for _ in range(len(second.steps) - len(first.steps)):
            assert upper.parent is not None
            upper = upper.parent
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
        distance = None if any(place.step.descendant for place in path) else len(path)
        entry = Entry(pair, upper, lower, path, distance, valued, derived, alone)
        self._entries[pair] = lower.state.entries[pair] = entry
        lower.state.guarded = None
        self._count(lower, 1)
        self._forget()

    def remove(self, pair: int) -> None:
        """Stop asking for a pair; states that nothing needs any more disappear."""
        entry = self._entries.pop(pair, None)
        if entry is not None:
            del entry.second.state.entries[pair]
            entry.second.state.guarded = None
            self._count(entry.second, -1)
            self._forget()

    def _forget(self) -> None:
        """Forget what was computed from the entries: they have changed."""
        self._changes += 1
        self._clear()

    def _clear(self) -> None:
        self._configurations.clear()
        self.shapes.clear()
        self._transitions = 0

    def _place(self, block: Block) -> Place:
        place = self._root(block.stream)
        for step in block.steps:
            place = self._below(place, step)
        return place

    def _root(self, stream: str) -> Place:
        place = self._roots.get(stream)
        if place is None:
            place = self._roots[stream] = Place(State(), None, _ROOT)
        return place

    def _below(self, place: Place, step: Step) -> Place:
        edges = place.state.below if step.descendant else place.state.children
        state = edges.setdefault((step.attribute, step.test), State())
        key = (place, step.conditions)
        found = state.places.get(key)
        if found is None:
            found = state.places[key] = Place(state, place, step)
        return found

    def _count(self, place: Place, by: int) -> None:
        """Count the uses of a place and those above; unlink what has none left."""
        current: Place | None = place
        while current is not None and current.parent is not None:
            current.uses += by
            if not current.uses:
                del current.state.places[current.parent, current.conditions]
                if not current.state.places:
                    _unlink(current.parent.state, current.state)
            current = current.parent

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
                places.append((numbers[id(one.parent)], one.step))
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
        roots = tuple(self._roots[s] for s in streams if s in self._roots)
        roots = tuple(root for root in roots if root.state.children or root.state.below)
        if not roots:
            return None
        states = [root.state for root in roots]
        return self._configuration(states, [s for s in states if s.below]), roots

    def step(self, here: Configuration, symbol: Symbol) -> Configuration:
        """Return the configuration at a child or attribute of a node."""
        there = here.next.get(symbol)
        if there is None:
            self._transitions += 1
            if self._transitions > MEMO_LIMIT:
                self._clear()
                here.next.clear()
            there = here.next[symbol] = self._move(here, symbol)
        return there

    def _move(self, here: Configuration, symbol: Symbol) -> Configuration:
        reached: dict[int, State] = {}
        for state in here.reached:
            for target in _targets(state.children, symbol):
                reached[id(target)] = target
        for state in here.active:
            for target in _targets(state.below, symbol):
                reached[id(target)] = target
        active = {id(state): state for state in here.active}
        active.update({key: state for key, state in reached.items() if state.below})
        return self._configuration(list(reached.values()), list(active.values()))

    def _configuration(self, reached: list[State], active: list[State]) -> Configuration:
        key = frozenset(map(id, reached)), frozenset(map(id, active))
        found = self._configurations.get(key)
        if found is None:
            hits = tuple(state for state in reached if state.places)
            found = Configuration(tuple(reached), tuple(active), hits)
            self._configurations[key] = found
        return found


def _nodes(block: Block) -> Block:
    """Return a block without a derived step at its end."""
    if block.steps[-1].derived is None:
        return block
    return replace(block, steps=block.steps[:-1])


def _unlink(parent: State, child: State) -> None:
    for edges in (parent.children, parent.below):
        for edge in [edge for edge, target in edges.items() if target is child]:
            del edges[edge]


def _targets(edges: dict[tuple[bool, NameTest], State], symbol: Symbol) -> Iterator[State]:
    """Yield the states that a name leads to, by its four possible tests."""
    if not edges:
        return
    attribute = symbol.startswith("@")
    name = symbol[1:] if attribute else symbol
    uri, _, local = name[1:].rpartition("}") if name.startswith("{") else ("", "", name)
    for test in (
        NameTest(local, uri),
        NameTest(local, None),
        NameTest(None, uri),
        NameTest(None, None),
    ):
        target = edges.get((attribute, test))
        if target is not None:
            yield target
