"""Subtrees: the equivalence classes of nodes under conditions on structure.

These conditions test existence below, not number or order.  Nodes of one name with the same kinds
of children agree in all of them (forward bisimulation, Kaushik and others 2002).  So documents of
different structure share most subtrees: an auction of a hundred nodes has four or five new ones.
"""

from __future__ import annotations

from collections.abc import Set
from typing import assert_never

from xscl.language.syntax import (
    And,
    Compare,
    Condition,
    Exists,
    Not,
    Or,
    Path,
    Residual,
    Step,
    TextMatch,
)
from xscl.shredding.conditions.atoms import QuestionKind
from xscl.shredding.nodes.names import Key, Symbol, key_of, keys_of


class Subtree:
    """A node's name and the subtrees of its children and attributes, each once."""

    __slots__ = ("_below", "_names", "children", "symbol")

    def __init__(self, symbol: Symbol, children: frozenset[Subtree]) -> None:
        self.symbol = symbol
        self.children = children
        self._names: frozenset[Key] | None = None
        self._below: frozenset[Key] | None = None

    @property
    def names(self) -> frozenset[Key]:
        """The name tests that some child or attribute passes."""
        if self._names is None:
            symbols = {child.symbol for child in self.children}
            self._names = frozenset(key for symbol in symbols for key in keys_of(symbol))
        return self._names

    @property
    def below(self) -> frozenset[Key]:
        """The name tests that some node below passes."""
        if self._below is None:
            self._below = self.names.union(*[child.below for child in self.children])
        return self._below

    def answer(self, kind: QuestionKind) -> frozenset[Key]:
        """Return the answer to a question about names."""
        return self.names if kind == "child" else self.below

    def holds(self, condition: Condition) -> bool:
        """Evaluate a condition on the structure (see `is_structural`)."""
        match condition:
            case Exists(path):
                return bool(self._select(path))
            case And(parts):
                return all(map(self.holds, parts))
            case Or(parts):
                return any(map(self.holds, parts))
            case Not(part):
                return not self.holds(part)
            case Compare() | TextMatch() | Residual():
                raise AssertionError("a condition on the structure asks for no values")
            case _:
                assert_never(condition)

    def _select(self, path: Path) -> Set[Subtree]:
        some: Set[Subtree] = {self}
        for step in path.steps:
            some = {found for one in some for found in one._step(step)}
        return some

    def _step(self, step: Step) -> Set[Subtree]:
        key = key_of(step.attribute, step.test)
        if key not in (self.below if step.descendant else self.names):
            return frozenset()
        found = {
            child
            for child in self.children
            if key in keys_of(child.symbol) and all(map(child.holds, step.conditions))
        }
        if step.descendant:
            found.update(*[child._step(step) for child in self.children])
        return found


class Subtrees(dict[tuple[Symbol, frozenset[Subtree]], Subtree]):
    """Subtrees by name and children: equal ones are one object."""

    def __missing__(self, key: tuple[Symbol, frozenset[Subtree]]) -> Subtree:
        made = self[key] = Subtree(*key)
        return made


def is_structural(condition: Condition) -> bool:
    """Return True if a condition tests the structure alone."""
    match condition:
        case Exists(path):
            return path.text is None and all(
                is_structural(inner) for step in path.steps for inner in step.conditions
            )
        case And(parts) | Or(parts):
            return all(map(is_structural, parts))
        case Not(part):
            return is_structural(part)
        case Compare() | TextMatch() | Residual():
            return False
        case _:
            assert_never(condition)
