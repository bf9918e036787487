"""Choices of nodes for variables: one for each, consistent within each document's tree pattern.

A predicate over some documents is decided by enumerating the choices of nodes for its variables.
Every node that a pattern can bind at all (`bind`) is part of a binding of the whole pattern, so
only the nodes between a variable and the pattern's root are chosen, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from xscl.language.scope import variables
from xscl.language.syntax import Predicate, Step
from xscl.shredding.automaton.pattern import Pattern
from xscl.shredding.batch.bind import bind
from xscl.shredding.conditions.residual import Row, Test, compiled
from xscl.shredding.nodes.tree import DocumentTree, Item

Place: TypeAlias = tuple[int, int]
"""A component, and the number of a node of its pattern."""
Choice: TypeAlias = Mapping[Place, int]
"""The numbers of nodes of the documents."""


@dataclass(frozen=True)
class Conjunct:
    """A part of a conjunction: a predicate, and the variables that occur in it."""

    predicate: Predicate

    @cached_property
    def test(self) -> Test:
        return compiled(self.predicate)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return tuple(variables(self.predicate))


class Choices:
    """The choices of nodes in one document for each component; one without is bound to nothing."""

    def __init__(self, patterns: Sequence[Pattern], trees: Mapping[int, DocumentTree]) -> None:
        self._patterns = patterns
        self._trees = trees
        self._bound = {place: bind(patterns[place], tree, {}) for place, tree in trees.items()}
        self._places: dict[str, Place] = {
            node.variable: (component, number)
            for component, pattern in enumerate(patterns)
            for number, node in enumerate(pattern.nodes)
            if node.variable is not None
        }

    def matched(self, component: int) -> bool:
        """Return True if the document of a component matches its pattern."""
        return bool(self._bound[component][self._patterns[component].main])

    def items(self, variable: str) -> list[Item]:
        """Return all possible bindings of a variable."""
        component, number = self._places[variable]
        if component not in self._trees:
            return []
        return [self._trees[component].items[n] for n in self._bound[component][number]]

    def item(self, choice: Choice, variable: str) -> Item | None:
        """Return the binding of a variable in a choice."""
        place = self._places[variable]
        return None if place not in choice else self._trees[place[0]].items[choice[place]]

    def of(
        self,
        conjuncts: Sequence[Conjunct],
        chosen: Choice | None = None,
        names: Sequence[str] = (),
    ) -> Iterator[Choice]:
        """Yield the choices for the variables of conjuncts that satisfy all of them.

        Choices in `chosen` stay; the variables in `names` are chosen, too.
        """
        order, tests = self._order(conjuncts, chosen or {}, names)
        yield from self._complete(dict(chosen or {}), order, tests, 0)

    def _order(
        self, conjuncts: Sequence[Conjunct], chosen: Choice, names: Sequence[str]
    ) -> tuple[list[Place], list[list[Conjunct]]]:
        """Return the nodes to choose, in order, and the conjuncts to test after so many of them."""
        order: list[Place] = []
        tests: dict[int, list[Conjunct]] = {}
        for conjunct in conjuncts:
            order.extend(self._needed(conjunct.variables, {*chosen, *order}))
            tests.setdefault(len(order), []).append(conjunct)
        order.extend(self._needed(names, {*chosen, *order}))
        return order, [tests.get(done, []) for done in range(len(order) + 1)]

    def _needed(self, names: Sequence[str], known: set[Place]) -> Iterator[Place]:
        """Yield the nodes that variables need to be chosen, the upper ones first."""
        for name in names:
            component, number = self._places[name]
            if component in self._trees:
                for node in self._patterns[component].chain(number):
                    if (component, node) not in known:
                        known.add((component, node))
                        yield component, node

    def _complete(
        self,
        choice: dict[Place, int],
        order: Sequence[Place],
        tests: Sequence[Sequence[Conjunct]],
        done: int,
    ) -> Iterator[Choice]:
        for conjunct in tests[done]:
            row: Row = {name: self.item(choice, name) for name in conjunct.variables}
            if not conjunct.test(row):
                return
        if done == len(order):
            yield dict(choice)
            return
        for node in self._below(choice, order[done]):
            choice[order[done]] = node
            yield from self._complete(choice, order, tests, done + 1)
        choice.pop(order[done], None)

    def _below(self, choice: Choice, place: Place) -> Iterator[int]:
        """Yield the nodes for a place that lie below what was chosen for its parent."""
        component, number = place
        tree, node = self._trees[component], self._patterns[component].nodes[number]
        for found in self._bound[component][number]:
            if node.parent is None or _leads(
                tree, node.step, choice[component, node.parent], found
            ):
                yield found


def _leads(tree: DocumentTree, step: Step, upper: int, number: int) -> bool:
    """Return True if the axis of a step leads from one node to another."""
    above = tree.parents[number]
    while step.descendant and above > upper:
        above = tree.parents[above]
    return above == upper
