"""The mismatch of documents and a block: the longest matching prefix, and the failing step.

The steps of the main path are tested one after the other, each first without its conditions and
then with each of them; a condition that is a path is followed in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cep_core.algebra.function_bounds import BeyondBounds
from xscl.inspection.reasons import SeenName
from xscl.inspection.vocabulary import (
    name_written,
    nearest_names,
    qualified_name,
    step_written,
)
from xscl.inspection.why.values import nearest_to
from xscl.language.functions import values_through
from xscl.language.names import PREFIXES
from xscl.language.syntax import Block, Condition, Exists, Step, ValueTest
from xscl.language.unparse import unparse
from xscl.shredding.automaton.pattern import pattern
from xscl.shredding.batch.bind import bind
from xscl.shredding.conditions.navigate import select
from xscl.shredding.nodes import AttributeNode, DocumentTree, Item, string_value

_ROOTS = 5  # the most names of roots that a mismatch lists


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The part of a block that no document passes, and the names there nearest to a missing one."""

    text: str
    nearest: tuple[SeenName, ...] = ()


def with_names(found: Mismatch) -> str:
    """Return a mismatch as text, with the nearest names."""
    near = ", ".join(one.name for one in found.nearest)
    return f"{found.text}; near: {near}" if near else found.text


def mismatch(block: Block, trees: Sequence[DocumentTree]) -> Mismatch:
    """Return the part of a block that none of some documents passes."""
    return _Reading(block.stream, trees).along((), block.steps)


class _Reading:
    def __init__(self, stream: str, trees: Sequence[DocumentTree]) -> None:
        self._stream = stream
        self._trees = trees

    def along(self, done: tuple[Step, ...], steps: Sequence[Step]) -> Mismatch:
        """Return the part of `steps` that fails below the steps `done`, which match."""
        for step in steps:
            bare = replace(step, conditions=())
            if not self._found((*done, bare)):
                return self._none(done, bare)
            if not self._found((*done, step)):
                return self._condition((*done, bare), step.conditions)
            done = (*done, step)
        return Mismatch("each path matches somewhere, but not all below the same node")

    def _found(self, steps: tuple[Step, ...]) -> list[Item]:
        """Return the nodes that a path from the root selects in any of the documents."""
        return [tree.items[number] for tree, found in self._numbers(steps) for number in found]

    def _numbers(self, steps: tuple[Step, ...]) -> Iterator[tuple[DocumentTree, list[int]]]:
        """Yield each document with the numbers of the nodes that a path from the root selects."""
        found = pattern(Block(self._stream, steps))
        for tree in self._trees:
            yield tree, bind(found, tree, {})[found.main]

    def _none(self, done: tuple[Step, ...], step: Step) -> Mismatch:
        near = nearest_names(step_written(step), self._names_below(done, step))
        elsewhere = self._other_namespace(done, step)
        if done:
            return Mismatch(
                f"{self._text(done)} matches, but there is no {_path((step,))} in it{elsewhere}",
                near,
            )
        roots = Counter(name_written(tree.items[0]) for tree in self._trees)
        names = ", ".join(name for name, _ in roots.most_common(_ROOTS))
        are = "the root is" if len(roots) == 1 else "the roots are"
        return Mismatch(f"there is no {_path((step,))}; {are} {names}{elsewhere}", near)

    def _other_namespace(self, done: tuple[Step, ...], step: Step) -> str:
        """Return a remark on the namespace that documents have a step's name in; "" without one."""
        name = step.test.local
        uris = Counter(
            qualified_name(item).namespace or ""
            for items in self._below(done, step)
            for item in items
            if isinstance(item, AttributeNode) == step.attribute
            and qualified_name(item).localname == name
        )
        if step.test.uri is None or not uris:
            return ""
        ((uri, _),) = uris.most_common(1)
        if uri in PREFIXES:
            return ""  # the nearest names show the prefix of `uri`
        at = "@" if step.attribute else ""
        if not uri:
            return f"; {at}{name} is there without a namespace"
        return f'; it is {at}p:{name} with NAMESPACE p = "{uri}" before the query'

    def _names_below(self, done: tuple[Step, ...], step: Step) -> Counter[str]:
        """Count the documents that have a name where a step looks for one."""
        counted = Counter[str]()
        for items in self._below(done, step):
            counted.update({name_written(item) for item in items})
        return counted

    def _below(self, done: tuple[Step, ...], step: Step) -> Iterator[list[Item]]:
        """Yield, for each document, the nodes among which `step` looks for a name below `done`."""
        above = self._numbers(done) if done else ((tree, [-1]) for tree in self._trees)
        for tree, numbers in above:
            tops = set(numbers)
            found = list[Item]()
            for number, parent in enumerate(tree.parents):
                if parent in tops:
                    found.append(tree.items[number])
                    if step.descendant:
                        tops.add(number)
            yield found

    def _condition(self, steps: tuple[Step, ...], conditions: Sequence[Condition]) -> Mismatch:
        """Return the mismatch at the first condition that no node of the last step meets.

        If each is met by some node, all of them are the mismatch.
        """
        *before, last = steps
        for condition in conditions:
            if not self._found((*before, replace(last, conditions=(condition,)))):
                return self._fails(steps, condition)
        return Mismatch(f"no node of {self._text(steps)} meets all conditions at once")

    def _fails(self, steps: tuple[Step, ...], condition: Condition) -> Mismatch:
        match condition:
            case Exists(path) if path.steps and path.text is None:
                return self.along(steps, path.steps)
            case ValueTest(path, _, value):
                selected = [list(select(path, item)) for item in self._found(steps)]
                if path.steps and path.text is None and not any(selected):
                    return self.along(steps, path.steps)
                through = condition.through
                values = list if through is None else values_through(through)
                try:
                    texts = [
                        text
                        for items in selected
                        for text in values([string_value(one) for one in items])
                    ]
                except BeyondBounds as error:
                    return Mismatch(f"{self._without(steps, condition)}: {error}")
                near = nearest_to(texts, value)
                return Mismatch(f"{self._without(steps, condition)}: {near}")
            case _:
                return Mismatch(self._without(steps, condition))

    def _without(self, steps: tuple[Step, ...], condition: Condition) -> str:
        return f"{self._text(steps)} matches, but not with [{unparse(condition)}]"

    def _text(self, steps: tuple[Step, ...]) -> str:
        return self._stream + _path(steps)


def _path(steps: tuple[Step, ...]) -> str:
    return unparse(Block("", tuple(replace(step, variable=None) for step in steps)))
