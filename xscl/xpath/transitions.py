"""The edges between states, run as a deterministic automaton that is built as documents come.

A *configuration* stands for the states reached at a node; the transition for a
name is computed once.  A new edge takes away only the transitions that it may
lead out of.
"""

from __future__ import annotations

from dataclasses import replace

from xscl.language.syntax import Step
from xscl.xpath.names import Key, Symbol, key_of, keys_of
from xscl.xpath.places import Configuration, State

MEMO_LIMIT = 50_000  # transitions kept before the memory starts afresh
MEMBERS_LIMIT = 5_000_000  # states in all configurations, likewise
DEAD_LIMIT = 1_000  # states that are unlinked, beyond as many as live, likewise


class Transitions:
    """The edges between states, and the configurations that documents have met so far."""

    def __init__(self) -> None:
        self._configurations: dict[tuple[frozenset[int], frozenset[int]], Configuration] = {}
        self._count = 0
        self._members = 0
        self.states = 0  # that are linked
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
        self.states += 1
        return target, True

    def unlink(self, state: State) -> None:
        """Take a state away; configurations may keep it, but nothing is asked for there."""
        assert state.parent is not None, "no place of a stream's own state is ever left"
        edges = state.parent.below if state.step.descendant else state.parent.children
        assert edges is not None
        del edges[key_of(state.step.attribute, state.step.test)]
        if not edges and not state.step.descendant:
            state.parent.children = None
        self.states -= 1
        self._dead += 1
        if self._dead > self.states + DEAD_LIMIT:
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
