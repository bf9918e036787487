"""The mismatch of a document and a block: the longest matching prefix, and the failing step.

The steps of the main path are tested one after the other, each first without its conditions and
then with each of them; a condition that is a path is followed in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lxml import etree

from xscl.inspection.why.nearest import nearest_to
from xscl.language.syntax import Block, Compare, Condition, Exists, Step, TextMatch
from xscl.language.unparse import unparse
from xscl.shredding.automaton.pattern import pattern
from xscl.shredding.batch.bind import bind
from xscl.shredding.conditions.navigate import select
from xscl.shredding.nodes.tree import DocumentTree, Item, string_value


def mismatch(block: Block, tree: DocumentTree) -> str:
    """Return the part of a block that a non-matching document fails."""
    return _Reading(block.stream, tree).along((), block.steps)


class _Reading:
    def __init__(self, stream: str, tree: DocumentTree) -> None:
        self._stream = stream
        self._tree = tree

    def along(self, done: tuple[Step, ...], steps: Sequence[Step]) -> str:
        """Return the failing part of some steps below matching ones."""
        for step in steps:
            bare = replace(step, conditions=())
            if not self._found((*done, bare)):
                return self._none(done, bare)
            if not self._found((*done, step)):
                return self._condition((*done, bare), step.conditions)
            done = (*done, step)
        return "each path matches somewhere, but not all below the same node"

    def _found(self, steps: tuple[Step, ...]) -> list[Item]:
        """Return the items that a path from the root selects."""
        found = pattern(Block(self._stream, steps))
        numbers = bind(found, self._tree, {})[found.main]
        return [self._tree.items[number] for number in numbers]

    def _none(self, done: tuple[Step, ...], step: Step) -> str:
        if done:
            return f"{self._text(done)} matches, but there is no {_path((step,))} in it"
        root = self._tree.items[0]
        assert isinstance(root, etree._Element)
        return f"there is no {_path((step,))}; the root is {etree.QName(root).localname}"

    def _condition(self, steps: tuple[Step, ...], conditions: Sequence[Condition]) -> str:
        """Return the failing condition of the last of some steps, or their combination."""
        *before, last = steps
        for condition in conditions:
            if not self._found((*before, replace(last, conditions=(condition,)))):
                return self._fails(steps, condition)
        return f"no node of {self._text(steps)} meets all conditions at once"

    def _fails(self, steps: tuple[Step, ...], condition: Condition) -> str:
        match condition:
            case Exists(path) if path.steps and path.text is None:
                return self.along(steps, path.steps)
            case Compare(path, _, value) | TextMatch(_, path, value):
                texts = [
                    string_value(found)
                    for item in self._found(steps)
                    for found in select(path, item)
                ]
                near = nearest_to(texts, value)
                return f"{self._text(steps)} matches, but not with [{unparse(condition)}]: {near}"
            case _:
                return f"{self._text(steps)} matches, but not with [{unparse(condition)}]"

    def _text(self, steps: tuple[Step, ...]) -> str:
        return self._stream + _path(steps)


def _path(steps: tuple[Step, ...]) -> str:
    return unparse(Block("", tuple(replace(step, variable=None) for step in steps)))
